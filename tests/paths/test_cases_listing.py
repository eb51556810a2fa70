"""Failures met in the field, by their numbers: lists that move, end or lie, limits, and runs beside one another."""

from __future__ import annotations

import threading
import time
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any

import pytest

from reconciler import content
from reconciler.cli import main
from reconciler.store.runs import RunHeld
from reconciler.sweep import Asked
from tests.paths.cases import EVERY, FIRST, ago, at
from tests.paths.draining import until

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from reconciler.model import Page
    from tests.paths.cases import Case, MakeCase

    Pages = Callable[[Iterator[Page]], Iterator[Page]]

DAY = 24 * 3600
HOUR = 3600


def silently(case: Case, kind: str, count: int, **more: Any) -> list[str]:
    """Create objects that nobody tells us of, and return their ids."""
    return [case.act("create", kind, deliver=False, **more) for _ in range(count)]


def listed_as(case: Case, made: Pages) -> None:
    """Let a crawl be what *made* makes of it from now on."""
    behind: Any = vars(case.adapter)["_adapter"]
    crawl = behind.crawl
    behind.crawl = lambda kind, scope: made(crawl(kind, scope))


def rows(case: Case, kind: str) -> set[str]:
    """Return the ids of our living rows of a kind."""
    return {id_ for (id_,) in case.rows("SELECT id FROM objects WHERE kind = %s AND deleted_at IS NULL", kind)}


@pytest.fixture
def command(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Callable[..., tuple[int, str, str]]:
    """Return what runs a command line for a case, and returns its exit code, result and words."""

    def run(case: Case, *arguments: str) -> tuple[int, str, str]:
        for name, value in case.environment.items():
            monkeypatch.setenv(name, value)
        capsys.readouterr()
        code = main([*arguments, "--config", str(case.file), "--format", "json"])
        said = capsys.readouterr()
        return code, said.out, said.err

    return run


# --- E. Listing, windows, drift ---


FINISHED: Mapping[str, list[tuple[str, dict[str, Any]]]] = {
    "github": [
        ("issue", {"state": "closed"}),
        ("pull_request", {"state": "closed"}),
        ("pull_request", {"merged": True}),
        ("milestone", {"state": "closed"}),
        ("release", {"draft": True}),
        ("workflow_run", {"status": "completed", "conclusion": "failure"}),
        ("deployment", {"transient_environment": True}),
    ],
    "shopify": [
        ("order", {"closed": True}),
        ("order", {"cancelReason": "CUSTOMER"}),
        ("product", {"status": "ARCHIVED"}),
        ("product", {"status": "DRAFT"}),
        ("draft_order", {"status": "COMPLETED"}),
        ("fulfillment_order", {"status": "CLOSED"}),
        ("inventory_level", {"isActive": False}),
        ("location", {"isActive": False}),
    ],
    "stripe": [
        ("subscription", {"status": "canceled"}),
        ("price", {"active": False}),
        ("checkout_session", {"status": "expired"}),
        ("payment_link", {"active": False}),
        ("plan", {"active": False}),
        ("promotion_code", {"active": False}),
        ("quote", {"status": "canceled"}),
        ("subscription_schedule", {"status": "canceled"}),
        ("tax_rate", {"active": False}),
    ],
}


@pytest.mark.parametrize("provider", EVERY)
def test_k34_finished_objects(case_of: MakeCase, provider: str) -> None:
    """What was finished behind our back, or was finished before we came, is listed as all others are."""
    case = case_of(provider, more='kinds = "all"')
    for kind, body in FINISHED[provider]:
        [made] = silently(case, kind, 1)
        case.sweep(kind, full=True)
        case.act("change", kind, made, body=body, deliver=False)
        [old] = silently(case, kind, 1, body=body)

        told = case.sweep(kind, full=True)

        assert told.state == "complete"
        assert {made, old} <= rows(case, kind)
        assert case.wrong(kind) == []


@pytest.mark.parametrize(
    ("provider", "kind", "count"),
    [("stripe", "customer", 210), ("github", "issue", 210), ("shopify", "customer", 90), ("shopify", "order", 20)],
)
def test_k35_pages_that_shift(case_of: MakeCase, provider: str, kind: str, count: int) -> None:
    """While objects change, come and go between any two pages, what was there all the while is seen in that run."""
    case = case_of(provider)
    case.sweep(kind, full=True)
    for asked in ({"full": True}, {"since": at(ago(2 * HOUR))}):
        ids = silently(case, kind, count, at=ago(HOUR))
        case.faults(shift_pages=1, drop=1)

        told = case.sweep(kind, **asked)
        seen = rows(case, kind)
        case.faults(drop=1)

        assert told.state == "complete"
        assert alive(case, kind) & set(ids) <= seen

    case.sweep(kind, full=True)
    assert rows(case, kind) == alive(case, kind)


def alive(case: Case, kind: str) -> set[str]:
    """Return the ids of the objects of a kind that the provider has."""
    return {each["id"] for each in case.sandbox.truth(kind=kind) if not each["deleted"]}


@pytest.mark.parametrize(
    ("kind", "shift"),
    [("label", "delete"), ("pull_request", "touch"), ("milestone", "create"), ("milestone", "delete")],
)
def test_k35_lists_by_page_number(case_of: MakeCase, kind: str, shift: str) -> None:
    """A list that only page numbers lead through misses nothing in silence: what it cannot be sure of it says."""
    case = case_of("github", more=f'kinds = ["{kind}"]')
    case.control("PUT", "/habits", {"shifts": [shift]})
    ids = silently(case, kind, 101, at=ago(HOUR))
    case.faults(shift_pages=1, drop=1)

    told = case.sweep(kind, full=True)
    missing = alive(case, kind) & set(ids) - rows(case, kind)
    case.faults(drop=1)
    later = case.sweep(kind, full=True)

    assert told.state == "incomplete" or not missing
    assert later.state == "complete"
    assert rows(case, kind) == alive(case, kind)


@pytest.mark.parametrize("provider", EVERY)
def test_k36_the_edge_of_the_window(case_of: MakeCase, provider: str) -> None:
    """What has the stamp with which the window begins is in it, also what gets that stamp after a run."""
    case, kind = case_of(provider), FIRST[provider]
    case.sweep(kind, full=True)
    edge = ago(HOUR)
    [first] = silently(case, kind, 1, at=edge)
    case.sweep(kind, since=at(edge))
    seen = rows(case, kind)
    [second] = silently(case, kind, 1, at=edge)
    [older] = silently(case, kind, 1, at=edge - 1)

    case.sweep(kind, since=at(edge))

    assert seen == {first}
    assert rows(case, kind) == {first, second}
    assert older not in rows(case, kind)


@pytest.mark.parametrize(
    ("provider", "kind", "count"), [("stripe", "customer", 130), ("github", "issue", 230), ("shopify", "customer", 60)]
)
def test_k36_many_of_one_second(case_of: MakeCase, provider: str, kind: str, count: int) -> None:
    """Pages full of one stamp are walked to their end, and a run that finds nothing new writes nothing."""
    case = case_of(provider)
    case.sweep(kind, full=True)
    edge = ago(HOUR)
    silently(case, kind, count, at=edge)

    first, second = (case.sweep(kind, since=at(edge)) for _ in range(2))
    written = case.rows("SELECT count(*) FROM object_history")

    assert (first.state, second.state) == ("complete", "complete")
    assert len(rows(case, kind)) == count
    assert second.kinds[kind]["applied"] == 0
    assert written == [(count,)]


@pytest.mark.parametrize("provider", EVERY)
def test_k37_what_changes_during_a_run(case_of: MakeCase, provider: str) -> None:
    """An object that changes after its page was read is the next run's: that begins where this one began."""
    case, kind = case_of(provider), FIRST[provider]
    [made] = silently(case, kind, 1)
    changed = iter([True])

    def changing(pages: Iterator[Page]) -> Iterator[Page]:
        for page in pages:
            if next(changed, False):
                case.act("change", kind, made, deliver=False)
            yield page

    listed_as(case, changing)
    case.sweep(kind)
    late = case.wrong(kind)
    told = case.sweep(kind, light=True, trigger="light")

    assert late == [f"{kind} {made}"]
    assert told.state == "complete"
    assert case.wrong(kind) == []


@pytest.mark.parametrize("provider", EVERY)
def test_k37_a_night_that_failed(case_of: MakeCase, provider: str) -> None:
    """A run that failed moves nothing: the next window reaches back to the last that did not."""
    case, kind = case_of(provider), FIRST[provider]
    [made] = silently(case, kind, 1, at=ago(3 * DAY))
    case.sweep(kind, full=True)
    case.edit("UPDATE watermarks SET swept_until = clock_timestamp() - interval '40 hours'")
    before = case.watermark(kind)
    case.act("change", kind, made, at=ago(39 * HOUR), deliver=False)
    case.faults(status={"500": 1})
    failed = case.sweep(kind)
    kept = case.watermark(kind)
    case.faults()
    case.hasten()

    told = case.sweep(kind)

    assert (failed.state, kept) == ("incomplete", before)
    assert told.state == "complete"
    assert case.wrong(kind) == []


@pytest.mark.parametrize(("provider", "kind"), [("github", "issue"), ("github", "pull_request"), ("shopify", "order")])
def test_k38_a_list_that_is_late(case_of: MakeCase, provider: str, kind: str) -> None:
    """What a list shows only some time after its stamp is found by the next pass, however short that looks back."""
    case = case_of(provider)
    case.sweep(kind, full=True)
    case.sweep(kind, light=True, trigger="light")
    [late] = silently(case, kind, 1, at=ago(60))

    told = case.sweep(kind, light=True, trigger="light")

    assert told.state == "complete"
    assert rows(case, kind) == {late}


@pytest.mark.parametrize(
    ("provider", "kind"), [("stripe", "customer"), ("github", "issue"), ("github", "label"), ("shopify", "order")]
)
def test_k39_a_list_that_shows_the_dead(case_of: MakeCase, provider: str, kind: str) -> None:
    """A list or search that lags behind shows what is gone: the tombstone stays, for a read of the object decides."""
    case = case_of(provider)
    [made] = silently(case, kind, 1)
    case.sweep(kind, full=True)
    case.leap()
    case.act("delete", kind, made, deliver=False)
    case.want(kind, made)
    case.quiet()

    def stale(pages: Iterator[Page]) -> Iterator[Page]:
        case.faults(stale_reads=1, stale_for=50)
        found = list(pages)
        case.faults()
        yield from found

    listed_as(case, stale)
    told = case.sweep(kind, full=True)
    case.quiet()

    assert told.kinds[kind]["listed"] == 1
    assert case.stands(kind, made) is False
    assert "restored" not in case.history(kind, made)


PARTS = {
    "stripe": [
        ("invoice", "/lines/data", 13),
        ("subscription", "/items/data", 25),
        ("credit_note", "/lines/data", 13),
        ("transfer", "/reversals/data", 13),
        ("application_fee", "/refunds/data", 13),
    ],
    "shopify": [
        ("order", "/lineItems/nodes", 13),
        ("order", "/lineItems/nodes", 113),
        ("product", "/variants/nodes", 130),
        ("customer", "/addressesV2/nodes", 60),
        ("draft_order", "/lineItems/nodes", 13),
        ("fulfillment", "/fulfillmentLineItems/nodes", 13),
        ("fulfillment_order", "/lineItems/nodes", 13),
    ],
}


@pytest.mark.parametrize("provider", ["stripe", "shopify"])
def test_k41_lists_within_an_object(case_of: MakeCase, provider: str) -> None:
    """All parts of an object are stored, whichever way it came, and no later run finds fewer or others."""
    kinds = ", ".join(f'"{kind}"' for kind in dict.fromkeys(kind for kind, *_ in PARTS[provider]))
    case = case_of(provider, more=f"kinds = [{kinds}]")
    for kind, pointer, parts in PARTS[provider]:
        made = case.act("create", kind, parts=parts)
        case.quiet()

        runs = [case.sweep(kind, **asked) for asked in ({"full": True}, {}, {"full": True})]

        assert len(content.find(case.body(kind, made), pointer)) == parts
        assert [(each.state, each.drift) for each in runs] == [("complete", [])] * 3
        assert case.history(kind, made) == ["created"]


@pytest.mark.parametrize(
    ("habits", "complete"),
    [({"ceiling": 150}, True), ({"ceiling": 150, "cursors": True}, True), ({"ceiling": 99}, False)],
)
def test_k42_ceilings_of_paging(case_of: MakeCase, habits: Mapping[str, Any], *, complete: bool) -> None:
    """Beyond a ceiling of pages a list goes on by stamp or cursor; where it cannot, the run says so, incomplete."""
    case = case_of("github")
    silently(case, "issue", 230, at=ago(HOUR))
    for number in range(230):
        case.act("change", "issue", str(number + 1), at=ago(HOUR - number), deliver=False)
    case.control("PUT", "/habits", dict(habits))

    told = case.sweep("issue")

    assert told.state == ("complete" if complete else "incomplete")
    assert (len(rows(case, "issue")) == 230) is complete
    assert (case.watermark("issue") is not None) is complete
    assert complete or "422" in told.report["because"]


@pytest.mark.parametrize("kind", ["label", "pull_request"])
def test_k42_a_ceiling_leaves_what_there_is(case_of: MakeCase, kind: str) -> None:
    """A listing that is refused half way leaves rows and watermark as they were."""
    case = case_of("github")
    silently(case, kind, 130)
    case.sweep(kind)
    before = (rows(case, kind), case.watermark(kind))
    case.control("PUT", "/habits", {"ceiling": 100})

    told = case.sweep(kind, full=True)

    assert told.state == "incomplete"
    assert "422" in told.report["because"]
    assert (rows(case, kind), case.watermark(kind)) == before


@pytest.fixture
def elsewhere(monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> Iterator[None]:
    """Let this machine be somewhere else while the test runs."""
    with monkeypatch.context() as there:
        there.setenv("TZ", request.param)
        time.tzset()
        yield
    time.tzset()


@pytest.mark.parametrize(
    ("elsewhere", "provider", "since"),
    [
        ("Asia/Singapore", "shopify", "24h"),
        ("Asia/Singapore", "shopify", "local"),
        ("America/St_Johns", "shopify", "24h"),
        ("America/St_Johns", "github", "local"),
        ("Asia/Singapore", "stripe", "utc"),
    ],
    indirect=["elsewhere"],
)
@pytest.mark.usefixtures("elsewhere")
def test_k43_wherever_this_machine_is(
    case_of: MakeCase, command: Callable[..., tuple[int, str, str]], provider: str, since: str
) -> None:
    """Times go to providers in UTC, quoted where need be: a window shows what changed in it, and not all there is."""
    case, kind = case_of(provider), FIRST[provider]
    silently(case, kind, 1, at=ago(30 * HOUR))
    [new] = silently(case, kind, 1, at=ago(20 * HOUR))
    begins = at(ago(24 * HOUR))
    spelled = {"24h": "24h", "local": begins.astimezone().isoformat(), "utc": begins.isoformat()}[since]

    code, out, _ = command(case, "--since", spelled, "--kind", kind)

    assert code == 0
    assert rows(case, kind) == {new}
    [report] = content.parse(out)["kinds"]
    assert report["listed"] == 1
    assert abs(datetime.fromisoformat(report["since"]) - begins) < timedelta(seconds=60)


# --- H. Limits and schedule ---


@pytest.mark.parametrize("status", [403, 429])
def test_k52_a_limit_during_a_run(case_of: MakeCase, status: int) -> None:
    """A secondary limit, which is a 403, is waited for: the run completes, nothing is lost, nothing is paused."""
    case = case_of("github")
    silently(case, "issue", 150)
    silently(case, "pull_request", 12)
    case.control("PUT", "/habits", {"retry_after": 1, "limit_status": status})
    case.control("PUT", "/limits", {"every": 8})

    told = case.sweep("issue", "pull_request")

    assert told.report["because"] is None
    assert case.sandbox.machinery.calls.summary(0)["statuses"].get(str(status), 0) > 0
    case.control("PUT", "/limits", {"every": None})
    assert case.wrong("issue", "pull_request") == []
    assert case.pauses() == []


def test_k52_a_limit_without_a_word(case_of: MakeCase) -> None:
    """Where a 403 only says in words that it is a limit, everybody is silent for a minute, and then the run goes on."""
    case = case_of("github")
    [made] = silently(case, "issue", 1)
    case.control("PUT", "/habits", {"retry_after": None})
    case.faults(status={"429": 1})
    case.want("issue", made)
    case.program.drain.turn()
    [(held,)] = case.rows("SELECT max(extract(epoch FROM held_until - clock_timestamp())) FROM budgets")
    case.faults()
    case.hasten()

    told = case.sweep("issue")

    assert 50 < held <= 60
    assert told.state == "complete"
    assert case.wrong("issue") == []
    assert (case.pauses(), case.rows("SELECT attempts FROM refetches")) == ([], [(0,)])


@pytest.mark.parametrize("provider", ["stripe", "shopify"])
def test_k52_a_429_during_a_run(case_of: MakeCase, provider: str) -> None:
    """A limit slows a run down, and never fails it."""
    case, kind = case_of(provider), FIRST[provider]
    silently(case, kind, 10)
    case.faults(status={"429": 0.3})

    told = case.sweep(kind, full=True)

    assert told.report["because"] is None
    case.faults()
    assert case.wrong(kind) == []


def test_k53_throttled_with_200(case_of: MakeCase) -> None:
    """An empty bucket answers 200, null and an error: it is waited for, and null is neither an absence nor a list."""
    case = case_of("shopify")
    ids = silently(case, "order", 20)
    case.sweep("order", full=True)
    case.control("PUT", "/bucket", {"restore": 800, "maximum": 1000, "left": 0})
    for number, id_ in enumerate(ids[:6]):
        case.act("change", "order", id_, deliver=number < 3)

    assert case.sweep("order").report["because"] is None
    case.quiet()

    case.control("PUT", "/bucket", {"restore": 2000, "maximum": 20000, "left": 20000})
    assert case.wrong("order") == []
    assert len(rows(case, "order")) == 20
    assert "deleted" not in {what for (what,) in case.rows("SELECT what FROM object_history")}


def test_k53_other_errors_with_200(case_of: MakeCase) -> None:
    """Null beside any error is no empty list and no absence: every row stays, and the run is incomplete."""
    case = case_of("shopify")
    ids = silently(case, "order", 3)
    case.sweep("order", full=True)
    for code in ("INTERNAL_SERVER_ERROR", "ACCESS_DENIED", "MAX_COST_EXCEEDED", "SHOP_INACTIVE"):
        case.control("PUT", "/shop", {"errors": {code: 1}})
        case.want("order", *ids)
        for _ in range(3):
            case.hasten()
            case.program.drain.turn()

        told = case.sweep("order", full=True)

        assert (code, told.state) == (code, "incomplete")
        assert rows(case, "order") == set(ids)


def test_k54_a_run_beside_a_run(case_of: MakeCase, command: Callable[..., tuple[int, str, str]]) -> None:
    """While a run holds a kind, the next one of that kind ends with 1 and says which run that is."""
    case = case_of("github")
    asked = Asked(trigger="nightly", since=None, kinds=("issue",))
    run_id = case.program.sweep.begin(asked)
    with pytest.raises(RunHeld):
        case.program.sweep.begin(asked)

    code, out, err = command(case, "--since", "24h", "--kind", "issue")
    beside, _, _ = command(case, "--since", "24h", "--kind", "label")
    case.program.sweep.execute(run_id)
    after, _, _ = command(case, "--since", "24h", "--kind", "issue")

    assert (code, out, beside, after) == (1, "", 0, 0)
    assert str(run_id) in err


def test_k54_many_at_once(case_of: MakeCase) -> None:
    """Of four that begin the same run together, one does."""
    case = case_of("shopify")
    start = threading.Barrier(4)

    def begin(_: int) -> int | None:
        start.wait(10)
        try:
            return case.program.sweep.begin(Asked(trigger="nightly", since=None))
        except RunHeld:
            return None

    with ThreadPoolExecutor(4) as pool:
        begun = [each for each in pool.map(begin, range(4)) if each is not None]

    assert len(begun) == 1
    assert case.program.sweep.execute(begun[0]) == "complete"


def test_k55_a_run_whose_process_is_gone(case_of: MakeCase) -> None:
    """A run that nobody carries on holds nothing once its hold has passed, and is marked abandoned by the next."""
    case, kind = case_of("github"), "issue"
    silently(case, kind, 2)
    dead = case.program.sweep.begin(Asked(trigger="nightly", since=None))
    case.edit("UPDATE sweeps SET held_until = clock_timestamp() WHERE run_id = %s", dead)
    case.edit("UPDATE runs SET started_at = clock_timestamp() - interval '1 hour' WHERE id = %s", dead)

    told = case.sweep(kind)

    assert told.state == "complete"
    assert case.rows("SELECT state FROM runs WHERE id = %s", dead) == [("abandoned",)]
    assert case.wrong(kind) == []


def test_k56_a_pause_is_told(case_of: MakeCase, command: Callable[..., tuple[int, str, str]]) -> None:
    """A run that can read nothing because of a pause ends with 1 and says so; `status` shows the pause."""
    case = case_of("github")
    silently(case, "pull_request", 2)
    case.edit(PAUSED, case.source, "10 minutes")

    code, out, _ = command(case, "--since", "last", "--kind", "pull_request")
    status, shown, _ = command(case, "status")

    assert code == 1
    assert content.parse(out)["kinds"][-1]["error"] == "2 unfinished"
    assert (status, content.parse(shown)["sources"][0]["state"]) == (1, "unavailable")


def test_k56_a_pause_that_outlives_its_reason(case_of: MakeCase) -> None:
    """A pause until next year, as no rule of ours sets one, is ended loudly, and what waited for it is read."""
    case = case_of("github")
    case.edit(PAUSED, case.source, "1 year")
    made = case.act("create", "pull_request")
    case.flush()
    stop = threading.Event()
    case.program.drain.start(stop)

    until(lambda: case.stands("pull_request", made) is True)
    stop.set()

    assert case.program.drain.join(10)
    assert case.pauses() == []
    assert case.logged("source.unfrozen")


PAUSED = (
    "INSERT INTO pauses (source, what, because, since, until)"
    " VALUES (%s, 'unavailable', 'it was down', clock_timestamp(), clock_timestamp() + %s::interval)"
)
