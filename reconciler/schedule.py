"""
When sweeps run by themselves, and that each of them runs once.

`due` decides, and is a pure function of the time and of how the slots stand. However many processes look, a run begins
only with a slot that its process has claimed; one process at a time, the leader, looks at all.
"""

from __future__ import annotations

import hashlib
import threading
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import partial
from time import monotonic
from typing import TYPE_CHECKING, Protocol

import structlog
from apscheduler.events import EVENT_JOB_ERROR
from apscheduler.schedulers.background import BackgroundScheduler

from reconciler import times
from reconciler.errors import DatabaseUnavailable, ReconcilerError
from reconciler.store import retention, runs, slots, sources, statements, story
from reconciler.store.runs import RunHeld
from reconciler.store.slots import Job, Slot, State
from reconciler.sweep import Asked

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping
    from datetime import date, time
    from zoneinfo import ZoneInfo

    from apscheduler.events import JobExecutionEvent
    from sqlalchemy import Connection

    from reconciler.config import ScheduleSettings
    from reconciler.store.database import Database
    from reconciler.store.slots import Claim, Standing
    from reconciler.sweep import Progress

ROLE = "schedule"
"""What the leader holds in `holders`."""

NIGHTLY, CATCH_UP, LIGHT = "nightly", "catch_up", "light"

SPREAD = timedelta(minutes=30)
"""Over so long after the nightly time the sources are spread."""

LATE = timedelta(hours=1)
"""A night's run that begins later than this catches up."""

TRIES: Mapping[Job, int] = {Job.NIGHTLY: 4, Job.LIGHT: 2}
"""So often a slot is tried; what is still wrong then waits for the next one."""

_EPOCH = datetime(2020, 1, 1, tzinfo=UTC)
_REST = timedelta(minutes=10)
_HELD_REST = timedelta(minutes=5)
_NIGHTS_AROUND = range(-2, 3)
_OF_NO_SOURCE = ""
STOPPING = "the process is stopping"


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """
    When the sweeps of one source run.

    Attributes:
        nightly: Local to `timezone`.
        light_every: None: no light passes.
        spread: How long after the nightly time this source has its turn, the same every night.
    """

    source: str
    nightly: time
    timezone: ZoneInfo
    light_every: timedelta | None
    spread: timedelta


@dataclass(frozen=True, slots=True)
class Due:
    """A slot whose run should begin now, and what brought it."""

    slot: Slot
    trigger: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Pace:
    """
    How often the schedule does what.

    Attributes:
        look: Between two looks at all slots.
        lead: How long a leader is one without a sign of life.
        claim: How long a slot stays claimed without a sign of life.
    """

    look: timedelta = timedelta(minutes=1)
    lead: timedelta = timedelta(seconds=30)
    claim: timedelta = timedelta(minutes=2)


class Sweeping(Protocol):
    """What begins a run and works on it (`sweep.Sweep`)."""

    def begin(self, asked: Asked) -> int:
        """Begin a run and return its number; raises `RunHeld`."""

    def execute(self, run_id: int, *, progress: Callable[[Progress], None]) -> str:
        """Work on a run until it has ended, and return the state it ended in."""


class Stopped(ReconcilerError):
    """The process is stopping: what runs is to end at its next step."""


def plan(source: str, settings: ScheduleSettings) -> Plan:
    """Return when the sweeps of *source* run."""
    number = int.from_bytes(hashlib.sha256(source.encode()).digest()[:8])
    return Plan(
        source=source,
        nightly=settings.nightly,
        timezone=settings.timezone,
        light_every=settings.light_every,
        spread=timedelta(seconds=number % int(SPREAD.total_seconds())),
    )


def night(plan: Plan, day: date) -> datetime:
    """
    Return the instant of the nightly run of a local date.

    A time that a clock change skips is meant as if it had not been skipped; one that comes twice is meant the first
    time.
    """
    return datetime.combine(day, plan.nightly, plan.timezone).astimezone(UTC) + plan.spread


def next_night(plan: Plan, now: datetime) -> datetime:
    """Return the instant of the first nightly run after *now*."""
    return min(moment for _, moment in _nights(plan, now) if moment > now)


def due(plan: Plan, now: datetime, standing: Mapping[Slot, Standing]) -> Due | None:
    """
    Return the slot whose run should begin *now*; None: nothing is to be done.

    Of missed nights only the latest is caught up. Light passes begin once there has been a night, and none begins while
    one is at work.
    """
    day, moment = max((each for each in _nights(plan, now) if each[1] <= now), key=lambda each: each[1])
    nightly = Slot(plan.source, Job.NIGHTLY, day.isoformat())
    if _is_free(standing.get(nightly), Job.NIGHTLY, now):
        return Due(nightly, CATCH_UP if now - moment > LATE else NIGHTLY)
    nights = [each for slot, each in standing.items() if slot.job is Job.NIGHTLY]
    if plan.light_every is None or any(_is_at_work(each, now) for each in nights):
        return None
    light = Slot(plan.source, Job.LIGHT, times.iso(_period(now, plan.light_every, plan.spread)))
    if any(each.state is State.USED for each in nights) and _is_free(standing.get(light), Job.LIGHT, now):
        return Due(light, LIGHT)
    return None


def next_run(plan: Plan, now: datetime, standing: Mapping[Slot, Standing]) -> tuple[str, datetime]:
    """Return what will bring the next run of the source, and when; *now* where one is due."""
    if chosen := due(plan, now, standing):
        return chosen.trigger, now
    coming = [(next_night(plan, now), NIGHTLY)]
    resting = [
        (each.held_until, CATCH_UP)
        for slot, each in standing.items()
        if slot.job is Job.NIGHTLY and each.state is State.FAILED and each.tries < TRIES[Job.NIGHTLY]
    ]
    coming += [max(resting)] if resting and max(resting)[0] > now else []
    if plan.light_every is not None:
        coming.append((_period(now, plan.light_every, plan.spread) + plan.light_every, LIGHT))
    moment, trigger = min(coming)
    return trigger, moment


def rest(tries: int) -> timedelta:
    """Return how long a slot rests after so many tries."""
    return _REST * (1 << (tries - 1))


class Schedule:
    """
    Begins the runs of every plan, in this process as long as it leads.

    *leads* is set while it does: after a silence of the database it does not, for another may. Once a day what is
    settled for longer than *kept* says of its table is dropped.

    Attributes:
        failure: What ended a part of it that should have gone on; None: nothing did.
    """

    def __init__(
        self,
        database: Database,
        sweep: Sweeping,
        plans: Iterable[Plan],
        *,
        holder: str,
        leads: threading.Event,
        beat: Callable[[str], None] = lambda _: None,
        pace: Pace | None = None,
        kept: Mapping[str, timedelta | None] | None = None,
    ) -> None:
        self.failure: BaseException | None = None
        self._database = database
        self._sweep = sweep
        self._plans = tuple(plans)
        self._kept = dict(kept or {})
        self._holder = holder
        self._beat = beat
        self._pace = pace or Pace()
        self._log = structlog.get_logger()
        self._leads = leads
        self._leads_until = 0.0
        self._stopping = threading.Event()
        self._lock = threading.Lock()
        self._looking = threading.Lock()
        self._at_work: dict[str, tuple[Claim, threading.Thread]] = {}
        self._scheduler = BackgroundScheduler(
            timezone=UTC,
            job_defaults={"coalesce": True, "max_instances": 1, "misfire_grace_time": 3600},
        )
        self._scheduler.add_listener(self._failed, EVENT_JOB_ERROR)

    def start(self) -> None:
        """Take part: lead if nobody does, look at once and every minute, and at each source's time of night."""
        seconds = {"seconds": self._pace.lead.total_seconds() / 3}
        self._scheduler.add_job(self.lead, "interval", **seconds, id="lead", next_run_time=datetime.now(UTC))
        seconds = {"seconds": self._pace.claim.total_seconds() / 4}
        self._scheduler.add_job(self._keep, "interval", **seconds, id="keep")
        seconds = {"seconds": self._pace.look.total_seconds()}
        self._scheduler.add_job(self.look, "interval", **seconds, id="look")
        self._scheduler.add_job(self.prune, "interval", **seconds, id="prune")
        self._scheduler.start()

    def stop(self, grace: float) -> bool:
        """Begin nothing more, end what runs at its next step, and return whether it ended within *grace* seconds."""
        self._stopping.set()
        self._leads.clear()
        self._scheduler.shutdown(wait=False)
        deadline = monotonic() + grace
        with self._lock:
            threads = [thread for _, thread in self._at_work.values()]
        for thread in threads:
            thread.join(max(deadline - monotonic(), 0))
        try:
            self._let_go()
        except DatabaseUnavailable as error:
            self._log.warning("schedule.database_away", because=str(error))
        return not any(thread.is_alive() for thread in threads)

    def lead(self) -> None:
        """Become the leader if there is none, or stay it; a new leader looks at once."""
        self._beat("schedule")
        began, led = monotonic(), self._is_leading()
        try:
            leads = self._database.commit(
                lambda connection: slots.hold(connection, ROLE, holder=self._holder, hold=self._pace.lead)
            )
        except DatabaseUnavailable as error:
            self._log.warning("schedule.database_away", because=str(error))
            return
        self._leads_until = began + self._pace.lead.total_seconds() if leads else 0.0
        if self._is_leading() and not led:
            self._log.info("schedule.leads", holder=self._holder)
            self.look()

    def _is_leading(self) -> bool:
        """Say whether nobody else can be the leader now, and set the event that tells it."""
        leading = monotonic() < self._leads_until
        if leading and not self._stopping.is_set():
            self._leads.set()
        else:
            self._leads.clear()
        return leading

    def look(self, now: datetime | None = None) -> None:
        """Begin what is due, if this process leads; *now* is the database's clock where it is not given."""
        with self._looking:
            if not self._is_leading() or self._stopping.is_set():
                return
            try:
                self._tell_abandoned()
                held = self._database.commit(sources.held)
                for each in self._plans:
                    if each.source not in held:
                        self._look_at(each, now)
            except DatabaseUnavailable as error:
                self._log.warning("schedule.database_away", because=str(error))

    def prune(self, now: datetime | None = None) -> None:
        """Drop what has been kept long enough, if this process leads and nobody has done so today (UTC)."""
        if not self._kept or not self._is_leading() or self._stopping.is_set():
            return
        try:
            if claim := self._database.commit(partial(self._claim_pruning, now)):
                gone = retention.prune(self._database, self._kept, goes_on=partial(self._may_prune, claim), now=now)
                self._settle(claim, partial(self._end_pruning, claim))
                self._log.info("retention.pruned", **gone)
        except DatabaseUnavailable as error:
            self._log.warning("schedule.database_away", because=str(error))

    def _claim_pruning(self, given: datetime | None, connection: Connection) -> Claim | None:
        now = statements.one(connection, "clock", {"now": given}).now
        slots.forget(connection, _OF_NO_SOURCE, now=given)
        return slots.claim(connection, Slot(_OF_NO_SOURCE, Job.PRUNE, now.date().isoformat()), hold=self._pace.claim)

    def _may_prune(self, claim: Claim, connection: Connection) -> bool:
        return not self._stopping.is_set() and slots.keep(connection, claim, hold=self._pace.claim)

    def _end_pruning(self, claim: Claim, connection: Connection) -> None:
        if self._stopping.is_set():
            slots.give_back(connection, claim, rest=timedelta(0))
        else:
            slots.use(connection, claim)

    def _tell_abandoned(self) -> None:
        for run_id in self._database.commit(runs.abandon):
            self._log.warning("run.abandoned", run_id=run_id, because="the process that ran it is gone")

    def _look_at(self, plan: Plan, given: datetime | None) -> None:
        with self._lock:
            if plan.source in self._at_work:
                return
        with self._database.transaction() as connection:
            now = statements.one(connection, "clock", {"now": given}).now
            chosen = due(plan, now, slots.standing(connection, plan.source))
            claim = chosen and slots.claim(connection, chosen.slot, hold=self._pace.claim, now=given)
            if chosen and chosen.slot.job is Job.NIGHTLY:
                slots.forget(connection, plan.source, now=given)
        if self._scheduler.running:
            job = {"id": f"night-{plan.source}", "replace_existing": True}
            self._scheduler.add_job(self.look, "date", run_date=next_night(plan, now), **job)
        if chosen and claim:
            thread = threading.Thread(target=self._run, args=(chosen, claim), name=f"run-{plan.source}", daemon=True)
            with self._lock:
                self._at_work[plan.source] = claim, thread
            thread.start()

    def _run(self, due: Due, claim: Claim) -> None:
        try:
            self._begin(due, claim)
        except Stopped:
            self._settle(claim, lambda c: slots.give_back(c, claim, rest=timedelta(0)))
        except RunHeld as held:
            self._log.info("schedule.held", source=due.slot.source, trigger=due.trigger, because=str(held))
            self._settle(claim, lambda c: slots.give_back(c, claim, rest=_HELD_REST))
        except Exception as error:  # noqa: BLE001 - one source's run must not end the others'; it is told and tried again
            self._log.exception("schedule.run_failed", source=due.slot.source, trigger=due.trigger, because=str(error))
            self._settle(claim, lambda c: slots.fail(c, claim, rest=rest(claim.tries)))
        finally:
            with self._lock:
                self._at_work.pop(due.slot.source, None)

    def _begin(self, due: Due, claim: Claim) -> None:
        run_id = self._sweep.begin(_asked(due))
        self._database.commit(lambda c: slots.keep(c, claim, hold=self._pace.claim, run_id=run_id))
        self._log.info("schedule.run", source=due.slot.source, trigger=due.trigger, slot=due.slot.name, run_id=run_id)
        state = self._sweep.execute(run_id, progress=self._progress)
        if self._stopping.is_set() and state != "complete":
            raise Stopped(STOPPING)
        with self._database.transaction() as connection:
            waits = due.slot.source in {pause.source for pause in story.pauses(connection)}
            excused = waits or sources.excused(connection, run_id, due.slot.source)
        if state == "complete" or (state == "incomplete" and excused):
            # What a pause kept from it comes with the next run; trying again until then would only repeat the alarm.
            self._settle(claim, lambda c: slots.use(c, claim))
        else:
            self._settle(claim, lambda c: slots.fail(c, claim, rest=rest(claim.tries)))

    def _progress(self, _: Progress) -> None:
        if self._stopping.is_set():
            raise Stopped(STOPPING)

    def _settle(self, claim: Claim, how: Callable[..., object]) -> None:
        """Say what became of a claim; if that cannot be said now, the claim ends by itself."""
        try:
            self._database.commit(how)
        except DatabaseUnavailable as error:
            self._log.warning("schedule.database_away", because=str(error), source=claim.slot.source)

    def _keep(self) -> None:
        """Renew every claim whose run is at work here."""
        with self._lock:
            claims = [claim for claim, _ in self._at_work.values()]
        for claim in claims:
            self._settle(claim, lambda c, claim=claim: slots.keep(c, claim, hold=self._pace.claim))

    def _let_go(self) -> None:
        """Free the slots whose runs did not end, and the lead."""
        with self._lock:
            left = [claim for claim, _ in self._at_work.values()]
        with self._database.transaction() as connection:
            for claim in left:
                slots.give_back(connection, claim, rest=timedelta(0))
            slots.release(connection, ROLE, holder=self._holder)

    def _failed(self, event: JobExecutionEvent) -> None:
        self.failure = event.exception
        self._log.error("schedule.failed", loop=event.job_id, because=str(event.exception))


def _asked(due: Due) -> Asked:
    return Asked(
        trigger=due.trigger,
        since=times.Last.LAST,
        until=None,
        sources=(due.slot.source,),
        kinds=(),
        full=False,
        dry_run=False,
        light=due.trigger == LIGHT,
        in_turn=due.trigger != LIGHT,
    )


def _nights(plan: Plan, now: datetime) -> list[tuple[date, datetime]]:
    """Return the local dates around *now*, each with the instant of its nightly run."""
    today = now.astimezone(plan.timezone).date()
    days = [today + timedelta(days=step) for step in _NIGHTS_AROUND]
    return [(day, night(plan, day)) for day in days]


def _period(now: datetime, every: timedelta, spread: timedelta) -> datetime:
    """Return when the light period that *now* lies in began."""
    return now - (now - _EPOCH - spread) % every


def _is_free(standing: Standing | None, job: Job, now: datetime) -> bool:
    if standing is None:
        return True
    spent = standing.state is State.FAILED and standing.tries >= TRIES[job]
    return standing.state is not State.USED and not spent and standing.held_until <= now


def _is_at_work(standing: Standing, now: datetime) -> bool:
    return standing.state is State.CLAIMED and standing.held_until > now
