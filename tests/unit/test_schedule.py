"""When a run is due: one for each local date whatever the clock does, and light passes between nights."""

from __future__ import annotations

from datetime import UTC, date, datetime, time, timedelta
from zoneinfo import ZoneInfo

import pytest

from reconciler import times
from reconciler.config import ScheduleSettings
from reconciler.schedule import (
    CATCH_UP,
    LIGHT,
    NIGHTLY,
    SPREAD,
    TRIES,
    Plan,
    due,
    next_night,
    next_run,
    night,
    plan,
    rest,
)
from reconciler.store.slots import Job, Slot, Standing, State

SOURCE = "stripe-eu"
STEP = timedelta(minutes=1)


def planned(
    at: str = "03:10",
    timezone: str = "UTC",
    *,
    light_every: timedelta | None = None,
    spread: timedelta = timedelta(0),
) -> Plan:
    """Return a plan with these times."""
    return Plan(
        source=SOURCE,
        nightly=time.fromisoformat(at),
        timezone=ZoneInfo(timezone),
        light_every=light_every,
        spread=spread,
    )


def simulate(
    plan: Plan, start: datetime, days: float, *, standing: dict[Slot, Standing] | None = None
) -> list[tuple[datetime, str, str]]:
    """Look every minute, let every run succeed at once, and return when which slot ran, and by what."""
    slots = {} if standing is None else standing
    found = []
    for minute in range(int(days * 24 * 60)):
        now = start + minute * STEP
        if chosen := due(plan, now, slots):
            slots[chosen.slot] = Standing(State.USED, 1, now)
            found.append((now, chosen.slot.name, chosen.trigger))
    return found


def used(day: date) -> dict[Slot, Standing]:
    """Return slots among which the night of *day* had its run."""
    return {Slot(SOURCE, Job.NIGHTLY, day.isoformat()): Standing(State.USED, 1, datetime(2020, 1, 1, tzinfo=UTC))}


@pytest.mark.parametrize(
    ("timezone", "at", "eve", "expected"),
    [
        # Berlin 2027-03-28: 02:00 becomes 03:00; 2026-10-25: 03:00 becomes 02:00.
        ("Europe/Berlin", "02:30", date(2027, 3, 27), ["2027-03-28T01:30:00Z", "2027-03-29T00:30:00Z"]),
        ("Europe/Berlin", "02:30", date(2026, 10, 24), ["2026-10-25T00:30:00Z", "2026-10-26T01:30:00Z"]),
        # New York 2027-03-14: 02:00 becomes 03:00; 2026-11-01: 02:00 becomes 01:00.
        ("America/New_York", "02:30", date(2027, 3, 13), ["2027-03-14T07:30:00Z", "2027-03-15T06:30:00Z"]),
        ("America/New_York", "01:30", date(2026, 10, 31), ["2026-11-01T05:30:00Z", "2026-11-02T06:30:00Z"]),
    ],
)
def test_clock_changes(timezone: str, at: str, eve: date, expected: list[str]) -> None:
    """K54: an hour that is skipped loses no night, an hour that comes twice doubles none."""
    one = planned(at, timezone)
    start = night(one, eve) + timedelta(hours=1)

    ran = simulate(one, start, 2.1, standing=used(eve))

    assert [moment for moment, _, _ in ran] == [datetime.fromisoformat(text) for text in expected]
    assert {trigger for _, _, trigger in ran} == {NIGHTLY}


@pytest.mark.parametrize(
    "timezone", ["Europe/Berlin", "America/New_York", "Australia/Lord_Howe", "Pacific/Apia", "UTC"]
)
@pytest.mark.parametrize("at", ["00:00", "01:30", "02:15", "02:30", "23:59"])
def test_every_date_once(timezone: str, at: str) -> None:
    """Through a whole year every local date has exactly one night, in order."""
    one = planned(at, timezone, spread=timedelta(minutes=17))
    start = datetime(2026, 7, 1, 12, tzinfo=UTC)
    moments = [start]

    while moments[-1] < datetime(2027, 7, 1, 12, tzinfo=UTC):
        moments.append(next_night(one, moments[-1]))
    days = []
    for moment in moments[1:]:
        chosen = due(one, moment, {})
        assert chosen is not None
        days.append(date.fromisoformat(chosen.slot.name))

    assert days == [days[0] + timedelta(days=step) for step in range(len(days))]
    assert len(days) >= 365


def test_first_start() -> None:
    """A source that never had a night is caught up at once: its first load does not wait for the night."""
    chosen = due(planned(), datetime(2026, 11, 30, 15, 0, tzinfo=UTC), {})

    assert chosen is not None
    assert (chosen.slot.name, chosen.trigger) == ("2026-11-30", CATCH_UP)


def test_downtime() -> None:
    """After days without the program only the latest missed night is caught up, once."""
    ran = simulate(planned(), datetime(2026, 12, 5, 9, 0, tzinfo=UTC), 1.0, standing=used(date(2026, 11, 30)))

    assert [(name, trigger) for _, name, trigger in ran] == [("2026-12-05", CATCH_UP), ("2026-12-06", NIGHTLY)]


def test_night_across_midnight() -> None:
    """A source whose turn comes after midnight still runs for the date whose night it is."""
    one = planned("23:50", spread=timedelta(minutes=20))

    ran = simulate(one, datetime(2026, 12, 1, 12, tzinfo=UTC), 1.0, standing=used(date(2026, 11, 30)))

    assert ran == [(datetime(2026, 12, 2, 0, 10, tzinfo=UTC), "2026-12-01", NIGHTLY)]


def test_claimed_slot() -> None:
    """K55: a slot that somebody holds is left alone, and free again when its hold has run out."""
    now = datetime(2026, 12, 1, 3, 12, tzinfo=UTC)
    slot = Slot(SOURCE, Job.NIGHTLY, "2026-12-01")

    held = due(planned(), now, {slot: Standing(State.CLAIMED, 1, now + STEP)})
    free = due(planned(), now + STEP, {slot: Standing(State.CLAIMED, 1, now + STEP)})

    assert held is None
    assert free is not None
    assert free.slot == slot


def test_failed_slot() -> None:
    """A run that failed is tried again after a rest, longer each time, and not for ever."""
    now = datetime(2026, 12, 1, 3, 12, tzinfo=UTC)
    slot = Slot(SOURCE, Job.NIGHTLY, "2026-12-01")

    resting = due(planned(), now, {slot: Standing(State.FAILED, 1, now + rest(1))})
    rested = due(planned(), now + rest(1), {slot: Standing(State.FAILED, 1, now + rest(1))})
    spent = due(planned(), now, {slot: Standing(State.FAILED, TRIES[Job.NIGHTLY], now)})

    assert resting is None
    assert rested is not None
    assert spent is None
    assert rest(1) < rest(2) < rest(3)


def test_light_passes() -> None:
    """Between nights there is one light pass a period, in the same minute of each, and only after a first night."""
    one = planned(light_every=timedelta(hours=1), spread=timedelta(minutes=7))
    start = datetime(2026, 12, 1, 12, 30, tzinfo=UTC)

    before = due(one, start, {Slot(SOURCE, Job.NIGHTLY, "2026-12-01"): Standing(State.FAILED, 4, start)})
    ran = simulate(one, start, 0.25, standing=used(date(2026, 12, 1)))

    assert before is None
    assert {trigger for _, _, trigger in ran} == {LIGHT}
    assert [moment.minute for moment, _, _ in ran] == [30, 7, 7, 7, 7, 7, 7]
    assert [name for _, name, _ in ran] == [
        times.iso(datetime(2026, 12, 1, hour, 7, tzinfo=UTC)) for hour in range(12, 19)
    ]


def test_light_pass_beside_a_night() -> None:
    """No light pass begins while a night is at work: it would only find the kinds held."""
    one = planned(light_every=timedelta(hours=1))
    now = datetime(2026, 12, 1, 3, 30, tzinfo=UTC)
    standing = used(date(2026, 11, 30)) | {
        Slot(SOURCE, Job.NIGHTLY, "2026-12-01"): Standing(State.CLAIMED, 1, now + STEP)
    }

    chosen = due(one, now, standing)

    assert chosen is None


def test_next_run() -> None:
    """What comes next is told beforehand: what is due, what rests, the next light pass or the next night."""
    now = datetime(2026, 12, 1, 12, 30, tzinfo=UTC)
    slot = Slot(SOURCE, Job.NIGHTLY, "2026-12-01")
    resting = {slot: Standing(State.FAILED, 1, now + STEP)}

    night_only, with_light = planned(), planned(light_every=timedelta(hours=1))

    assert next_run(night_only, now, {}) == (CATCH_UP, now)
    assert next_run(night_only, now, resting) == (CATCH_UP, now + STEP)
    assert next_run(night_only, now, used(date(2026, 12, 1))) == (NIGHTLY, datetime(2026, 12, 2, 3, 10, tzinfo=UTC))
    light = {Slot(SOURCE, Job.LIGHT, "2026-12-01T12:00:00.000000Z"): Standing(State.USED, 1, now)}
    standing = used(date(2026, 12, 1)) | light
    assert next_run(with_light, now, standing) == (LIGHT, datetime(2026, 12, 1, 13, 0, tzinfo=UTC))


def test_plan_spreads_sources() -> None:
    """Each source has its own turn within the half hour, the same in every process and every night."""
    spreads = {plan(f"source-{number}", ScheduleSettings()).spread for number in range(50)}

    assert len(spreads) > 40
    assert all(timedelta(0) <= spread < SPREAD for spread in spreads)
    assert plan("stripe-eu", ScheduleSettings()) == plan("stripe-eu", ScheduleSettings())
