"""Failures met in the field, by their numbers: what comes late, twice or at once, and what may be written over what."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor, wait
from dataclasses import replace
from datetime import UTC, datetime, timedelta, timezone
from typing import TYPE_CHECKING, Any

import pytest

from reconciler import content
from tests.paths.cases import EVERY, FIRST, ago, at
from tests.paths.draining import until

if TYPE_CHECKING:
    from collections.abc import Mapping

    from reconciler.model import Delivery
    from tests.paths.cases import Case, MakeCase

TOLD = {"stripe": ["product"], "github": ["issue", "issue_comment"], "shopify": ["order"]}
UNSTAMPED = {"stripe": ["customer", "invoice"], "github": ["label"], "shopify": ["refund"]}
SOME = {provider: [*kinds, UNSTAMPED[provider][0]] for provider, kinds in TOLD.items()}
LAGGING = {
    "stripe": ["subscription", "invoice"],
    "github": ["issue", "issue_comment", "release", "label"],
    "shopify": ["order", "customer", "product"],
}
SILENT = {
    "stripe": ["product"],
    "github": ["issue", "pull_request", "issue_comment", "milestone", "release"],
    "shopify": ["order", "product", "customer", "product_variant"],
}


def changes(case: Case, kind: str, *seconds: int) -> tuple[str, list[Delivery]]:
    """Create an object at the first of these seconds and change it at the others; keep what is sent of each."""
    made, sent = case.withheld("create", kind, at=seconds[0])
    deliveries = [about(case, kind, sent)]
    for second in seconds[1:]:
        _, sent = case.withheld("change", kind, made, at=second)
        deliveries.append(about(case, kind, sent))
    return made, deliveries


def about(case: Case, kind: str, sent: list[Delivery]) -> Delivery:
    """Return the delivery that tells of the object itself: making one may bring others about."""
    named = [each for each in sent if any(named.ref.kind == kind for named in case.adapter.read(each)[0].named)]
    return named[0]


@pytest.mark.parametrize("provider", EVERY)
@pytest.mark.parametrize("order", ["as sent", "swapped"])
def test_k19_twice_within_one_second(case_of: MakeCase, provider: str, order: str) -> None:
    """Two changes of one second, told in any order: the row is what the object is now."""
    case = case_of(provider)
    for kind in SOME[provider]:
        made, deliveries = changes(case, kind, ago(60), ago(60))

        for each in deliveries if order == "as sent" else reversed(deliveries):
            case.post(each)
            case.quiet()

        assert case.wrong(kind) == []
        assert case.history(kind, made) == ["created"]
        assert set(case.outcomes()) == {"done"}


@pytest.mark.parametrize("provider", EVERY)
def test_k19_a_change_within_the_second_of_the_read(case_of: MakeCase, provider: str) -> None:
    """What changes in the very second in which it was read, stamp and all, is written over what was read."""
    case = case_of(provider)
    for kind in SOME[provider]:
        made, [first, second] = changes(case, kind, ago(60), ago(60))
        case.leap()
        case.post(first)
        case.quiet()
        _, sent = case.withheld("change", kind, made, at=ago(60), stamp="keep")

        case.post(second, *sent)
        case.quiet()

        assert case.wrong(kind) == []
        assert case.history(kind, made) == ["created", "updated"]


@pytest.mark.parametrize(("provider", "kind"), [(each, kind) for each in EVERY for kind in TOLD[each]])
def test_k20_an_older_event_comes_later(case_of: MakeCase, provider: str, kind: str) -> None:
    """It is refused without a fetch, and the refusal is on record with both stamps and the event that told of it."""
    case = case_of(provider, more=f'kinds = ["{kind}"]')
    made, [created, updated] = changes(case, kind, ago(200), ago(100))
    case.post(updated)
    case.quiet()
    inserted, calls = case.history(kind, made), len(case.calls())

    case.post(created)
    case.quiet()

    [(theirs, ours, event)] = case.rows(
        "SELECT incoming_source_updated_at, stored_source_updated_at, event_id FROM declined_writes WHERE kind = %s",
        kind,
    )
    assert (inserted, case.history(kind, made)) == (["created"], ["created"])
    assert (kind, made, "payload") in case.declined()
    assert theirs < ours == case.stamp(kind, made)
    assert event == case.rows("SELECT event_id FROM webhook_events ORDER BY received_at DESC")[0][0]
    assert len(case.calls()) == calls
    assert case.wrong(kind) == []
    assert set(case.outcomes()) == {"done"}


@pytest.mark.parametrize("provider", EVERY)
def test_k20_any_order(case_of: MakeCase, provider: str) -> None:
    """Whatever order many changes are told in, and however often, the row ends as the object is."""
    case = case_of(provider)
    for kind in SOME[provider]:
        made, deliveries = changes(case, kind, *(ago(400 - 50 * number) for number in range(5)))
        shuffled = [deliveries[number] for number in (3, 0, 4, 4, 1, 2, 0)]

        for each in shuffled:
            case.post(each)
            case.program.drain.turn()
        case.quiet()

        assert case.wrong(kind) == []
        assert set(case.outcomes()) == {"done"}
        assert case.history(kind, made) == ["created"]


@pytest.mark.parametrize("provider", EVERY)
def test_k21_not_found_right_after_created(case_of: MakeCase, provider: str) -> None:
    """That is lag: the row appears when the object does, and was never a tombstone in between."""
    case = case_of(provider)
    for kind in LAGGING[provider]:
        case.leap()
        made, sent = case.withheld("create", kind)
        case.faults(stale_reads=1, stale_for=50)

        case.post(about(case, kind, sent))
        case.program.drain.turn()
        early = (case.stands(kind, made), case.outcomes()[-1])
        case.faults()
        case.quiet()

        assert early == (None, None)
        assert case.history(kind, made) == ["created"]
        assert case.wrong(kind) == []
        assert set(case.outcomes()) == {"done"}


@pytest.mark.parametrize("provider", EVERY)
def test_k21_an_older_state_right_after_updated(case_of: MakeCase, provider: str) -> None:
    """A read older than what was told is lag too: it is read again until the object shows what was promised."""
    case = case_of(provider)
    for kind in TOLD[provider]:
        made, [created] = changes(case, kind, ago(200))
        case.post(created)
        case.quiet()
        case.leap()
        _, sent = case.withheld("change", kind, made, at=ago(20))
        case.faults(stale_reads=1, stale_for=50)

        case.post(about(case, kind, sent))
        case.program.drain.turn()
        early = case.outcomes()[-1]
        case.faults()
        case.quiet()

        assert early is None
        assert case.wrong(kind) == []
        assert set(case.outcomes()) == {"done"}


@pytest.mark.parametrize(("provider", "kind"), [(each, kind) for each in EVERY for kind in UNSTAMPED[each]])
def test_k22_objects_without_a_stamp(case_of: MakeCase, provider: str, kind: str) -> None:
    """Where no stamp moves, reads are ordered by when they began: the last state stays, whatever is told after it."""
    case = case_of(provider, more=f'kinds = ["{kind}"]')
    made, [created, first, second] = changes(case, kind, ago(300), ago(200), ago(100))

    for each in (second, first, created):
        case.post(each)
        case.quiet()

    assert case.wrong(kind) == []
    assert case.history(kind, made) == ["created"]
    assert case.declined() == []


# How a later or an earlier instant than 01:30 in the summer time of New York may be written, and whether it is older.
SPELLED = [
    ("2026-11-01T01:10:00-05:00", False),  # 40 minutes later, though it sorts before
    ("2026-11-01T01:50:00-03:00", True),  # and the reverse
    ("2026-11-01T05:30:00Z", False),
    ("2026-11-01T05:30:00.000000Z", False),
    ("2026-11-01T05:29:59.999Z", True),
    ("2026-11-01T05:30:00.5Z", False),
    ("2026-11-01T05:30:00", False),
    ("2026-11-01T05:29:59", True),
    ("2026-11-01T11:00:00+05:30", False),
    ("2026-11-01T10:59:59+05:30", True),
    ("2026-10-31T18:29:59-11:00", True),
]


@pytest.mark.parametrize("provider", ["shopify", "github"])
def test_k23_stamps_are_instants(case_of: MakeCase, provider: str) -> None:
    """Stamps are compared as the instants they name, whatever offset, fraction or clock change they come with."""
    kind, case = FIRST[provider], case_of(provider)
    ours = datetime(2026, 11, 1, 1, 30, tzinfo=timezone(timedelta(hours=-4)))
    made, [created] = changes(case, kind, int(ours.timestamp()))
    case.post(created)
    case.quiet()
    assert case.stamp(kind, made) == ours

    found = []
    for theirs, _ in SPELLED:
        told, before = content.parse(created.body), len(case.declined())
        (told if provider == "shopify" else told["issue"])["updated_at"] = theirs
        case.say(told)
        found.append((theirs, len(case.declined()) > before))

    assert found == SPELLED


def test_k23_one_instant_in_two_forms(case_of: MakeCase) -> None:
    """A shop's webhook writes its offset, the API `Z`: of one state they are one stamp, and no update."""
    case = case_of("shopify", timezone="Asia/Kolkata")
    made, [created] = changes(case, "order", ago(100))
    written = content.parse(created.body)["updated_at"]
    assert written.endswith("+05:30")

    case.post(created)
    case.quiet()
    case.say(created.body)
    case.quiet()

    assert case.stamp("order", made) == datetime.fromisoformat(written).astimezone(UTC)
    assert (case.history("order", made), case.declined()) == (["created"], [])


@pytest.mark.parametrize("provider", EVERY)
def test_k24_what_a_person_asked_for_stays(case_of: MakeCase, provider: str) -> None:
    """A read by hand goes through the same guard: an event from before it changes nothing after."""
    case = case_of(provider)
    for kind in SOME[provider]:
        made, [_, told] = changes(case, kind, ago(300), ago(200))
        case.withheld("change", kind, made, at=ago(100))
        case.want(kind, made)
        case.quiet()
        written = case.body(kind, made)

        case.post(told)
        case.quiet()

        assert case.body(kind, made) == written
        assert case.history(kind, made) == ["created"]
        assert ((kind, made, "payload") in case.declined()) is (kind in TOLD[provider])
        assert set(case.outcomes()) == {"done"}


@pytest.mark.parametrize("provider", EVERY)
def test_k18_ids_of_events_do_not_order(case_of: MakeCase, provider: str) -> None:
    """Whatever events are called, what was told last by its time, and is so, stays: late or in order."""
    case = case_of(provider)
    for kind in SOME[provider]:
        made, [created, updated] = changes(case, kind, ago(200), ago(100))
        for name, each in (("9", updated), ("1", created)):
            case.post(renamed(case, each, f"{name}-{kind}"))
            case.quiet()
        _, sent = case.withheld("change", kind, made, at=ago(50))

        case.post(renamed(case, about(case, kind, sent), f"0-{kind}"))
        case.quiet()

        assert case.wrong(kind) == []
        assert case.history(kind, made) == ["created", "updated"]


def renamed(case: Case, delivery: Delivery, name: str) -> Delivery:
    """Return an authentic delivery of the same event under another id."""
    if case.provider == "stripe":
        return case.signed(content.parse(delivery.body) | {"id": f"evt_{name}"})
    header = {"github": "x-github-delivery", "shopify": "x-shopify-webhook-id"}[case.provider]
    return replace(delivery, headers={**delivery.headers, header: name})


# --- what changes without its stamp ---


def test_k44_a_label_leaves_an_issue(case_of: MakeCase) -> None:
    """A label that is deleted leaves its issues, whose stamps stay: a run that is wide enough mends and reports it."""
    case = case_of("github")
    made = case.act("create", "issue", body={"labels": ["bug", "p1"]}, at=ago(3000))
    case.quiet()
    case.sweep(full=True)
    stamp = case.stamp("issue", made)
    [p1] = [each["id"] for each in case.body("issue", made)["labels"] if each["name"] == "p1"]

    case.act("delete", "label", str(p1))
    case.quiet()
    told = case.sweep("issue", "label", since=at(ago(7200)))

    assert [each["name"] for each in case.body("issue", made)["labels"]] == ["bug"]
    assert case.stamp("issue", made) == stamp
    assert (made, "differs", "other") in told.drift
    assert case.wrong("issue", "label") == []


@pytest.mark.parametrize("provider", EVERY)
@pytest.mark.parametrize("how", ["full", "window"])
def test_k44_content_that_moves_alone(case_of: MakeCase, provider: str, how: str) -> None:
    """Another content under the same stamp is written and put on record as drift, by any run that sees it."""
    case = case_of(provider)
    for kind in SILENT[provider]:
        made = case.act("create", kind, at=ago(3000), deliver=False)
        case.sweep(kind, full=True)
        stamp = case.stamp(kind, made)
        case.act("change", kind, made, stamp="keep", announce=provider == "stripe", deliver=False)

        told = case.sweep(kind, **({"full": True} if how == "full" else {"since": at(ago(7200))}))

        assert case.wrong(kind) == []
        assert case.stamp(kind, made) == stamp
        assert [(id_, what) for id_, what, _ in told.drift] == [(made, "differs")]


# --- what is no change ---

# Where a stand-in marks each version of an object: what is configured as never stored is not compared.
_MARKED = {"customer": "/metadata", "issue": "/body", "release": "/body", "order": "/tags"}


COMPARED: Mapping[str, list[tuple[str, dict[str, Any], dict[str, Any], bool]]] = {
    "stripe": [
        ("customer", {"odd": {"a": 1.0, "b": [1, 2]}}, {"odd": {"b": [1, 2], "a": 1}}, False),
        ("customer", {"odd": {"a": 100}}, {"odd": {"a": 1e2}}, False),
        ("customer", {"odd": {"b": [1, 2]}}, {"odd": {"b": [2, 1]}}, True),
        ("customer", {"odd": {"a": 1}}, {"odd": {"a": "1"}}, True),
        ("customer", {"odd": {"a": None}}, {"odd": {"a": False}}, True),
    ],
    "github": [
        ("issue", {"labels": ["bug", "p1"]}, {"labels": ["p1", "bug"]}, False),
        ("issue", {"labels": ["bug", "p1"]}, {"labels": ["bug"]}, True),
        ("issue", {"odd": {"a": 1.0, "b": [1]}}, {"odd": {"b": [1], "a": 1}}, False),
        ("issue", {"odd": [1, 2]}, {"odd": [2, 1]}, True),
        ("release", {"odd": {"b": 1, "a": 2}}, {"odd": {"a": 2, "b": 1}}, False),
    ],
    "shopify": [
        ("order", {"note": "a"}, {"note": "a"}, False),
        ("order", {"note": "a"}, {"note": "b"}, True),
    ],
}


@pytest.mark.parametrize("provider", EVERY)
def test_k45_what_counts_as_different(case_of: MakeCase, provider: str) -> None:
    """Key order, spelling of numbers and order in sets are no drift; values, and order elsewhere, are."""
    omit = ", ".join(f'{kind} = ["{_MARKED[kind]}"]' for kind in {kind for kind, *_ in COMPARED[provider]})
    case = case_of(provider, more=f"omit = {{ {omit} }}")
    for kind, before, after, drifts in COMPARED[provider]:
        made = case.act("create", kind, body=before, at=ago(3000), deliver=False)
        case.sweep(kind, full=True)
        case.act("change", kind, made, body=after, stamp="keep", announce=False)

        told = case.sweep(kind, full=True)

        assert [(id_, what) for id_, what, _ in told.drift] == ([(made, "differs")] if drifts else []), (before, after)
        assert case.history(kind, made)[1:] == (["updated"] if drifts else [])


@pytest.mark.parametrize(("provider", "kind"), [("stripe", "customer"), ("github", "issue"), ("shopify", "order")])
def test_k49_the_nightly_run_beside_webhooks(case_of: MakeCase, provider: str, kind: str) -> None:
    """Full runs, deliveries and workers write the same objects at once: nothing is lost, and no error escapes."""
    case = case_of(provider)
    ids = [case.act("create", kind, deliver=False) for _ in range(12)]
    case.sweep(kind, full=True)
    stop = threading.Event()
    case.program.drain.start(stop)
    with ThreadPoolExecutor(1) as pool:
        nightly = pool.submit(lambda: [case.sweep(kind, full=True) for _ in range(4)])
        for number in range(60):
            case.act("change", kind, ids[(number * 7) % len(ids)])
        told = nightly.result(60)
    stop.set()
    assert case.program.drain.join(10)
    case.quiet()

    assert [(each.state, each.report["because"]) for each in told] == [("complete", None)] * 4
    assert case.program.drain.failure is None
    assert case.wrong(kind) == []
    assert not [line for line in case.lines if line["log_level"] in {"error", "critical"}]


def test_k49_what_another_reads(case_of: MakeCase) -> None:
    """An object that somebody else is reading is waited for, however far away the end of its lease is."""
    case, kind = case_of("github"), "issue"
    made = case.act("create", kind, deliver=False)
    case.want(kind, made)
    leased = "leased_until = clock_timestamp() + interval '5 minutes', lease_token = gen_random_uuid()"
    case.edit(f"UPDATE refetches SET {leased}, leased_wanted = wanted")
    with ThreadPoolExecutor(1) as pool:
        nightly = pool.submit(case.sweep, kind)
        until(lambda: case.rows("SELECT tallies -> 'kinds' -> 0 ->> 'listed' FROM runs") == [("1",)])
        _, waiting = wait([nightly], timeout=0.5)
        case.edit("UPDATE refetches SET leased_until = clock_timestamp()")
        told = nightly.result(20)

    assert waiting
    assert (told.state, told.report["because"]) == ("complete", None)
    assert case.wrong(kind) == []
