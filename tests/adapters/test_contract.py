"""What every adapter must do, shown against a stand-in of its provider over real HTTP."""

from __future__ import annotations

import logging
import time
import traceback
from collections import Counter
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import pytest

from reconciler import content
from reconciler.adapter import Listing
from reconciler.errors import (
    AccessLost,
    DeliveryMalformed,
    SignatureInvalid,
    SourceBusy,
    SourceError,
    SourceUnavailable,
)
from reconciler.model import Delivery, ObjectRef, Proof
from tests.adapters.bench import (
    BENCHES,
    CORE_KINDS,
    EVERY_KIND,
    KINDS_ALONE,
    KINDS_NEVER_DELETED,
    KINDS_TOLD_BARELY,
    KINDS_UNTOLD,
    KINDS_WITH_PARTS,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

    from reconciler.adapter import Adapter
    from reconciler.model import Hint, Page, Snapshot
    from tests.adapters.bench import Bench
    from tests.adapters.trickle import Trickle

every_kind = pytest.mark.parametrize(("bench", "kind"), CORE_KINDS, indirect=["bench"])
every_kind_with_parts = pytest.mark.parametrize(("bench", "kind"), KINDS_WITH_PARTS, indirect=["bench"])
every_provider = pytest.mark.parametrize("bench", BENCHES, indirect=True)
with_others = pytest.mark.parametrize(
    "bench", sorted({provider for provider, kind in EVERY_KIND if (provider, kind) not in CORE_KINDS}), indirect=True
)


@pytest.fixture
def bench(request: pytest.FixtureRequest) -> Iterator[Bench]:
    """Yield the bench of one provider."""
    with BENCHES[request.param]() as made:
        yield made


def ref(bench: Bench, kind: str, id_: str) -> ObjectRef:
    """Return a ref of the bench's source."""
    return ObjectRef("source", bench.scope(kind), kind, id_)


def digest(bench: Bench, snapshot: Snapshot) -> str:
    """Return the digest by which a snapshot would be compared."""
    kind = bench.adapter.kinds[snapshot.ref.kind]
    form = content.Form(volatile=kind.volatile, unordered=kind.unordered)
    assert snapshot.body is not None
    return form.digest(form.stored(snapshot.body))


def ids(pages: Iterable[Page]) -> Counter[str]:
    """Return how often each id stands in *pages*, whole or as a hint."""
    shown = list(pages)
    whole = (each.ref.id for page in shown for each in page.snapshots)
    hinted = (each.ref.id for page in shown for each in page.hints)
    return Counter([*whole, *hinted])


# The seam


@every_provider
def test_it_is_an_adapter(bench: Bench) -> None:
    """It has what the seam asks for, and its kinds are its own rows, named alike."""
    adapter: Adapter = bench.adapter

    assert adapter.source == "source"
    assert adapter.provider in BENCHES
    assert {name: kind.name for name, kind in adapter.kinds.items()} == {name: name for name in adapter.kinds}
    assert {bench.scope(kind) for kind in adapter.kinds} == set(adapter.scopes())
    assert adapter.identity()


@every_kind
def test_shape_can_be_digested(bench: Bench, kind: str) -> None:
    """What the form of bodies depends on is plain JSON, and the same each time."""
    shape = dict(bench.adapter.shape(kind))

    assert content.parse(content.dumps(shape)) == shape == dict(bench.adapter.shape(kind))
    assert shape


# Reading


@every_kind
def test_read_names_what_was_delivered(bench: Bench, kind: str) -> None:
    """A delivery as the provider sends it is believed, and names the object it is about."""
    id_ = bench.act("create", kind)

    found = [named for each in bench.deliveries() for note in bench.adapter.read(each) for named in note.named]

    assert ref(bench, kind, id_) in {named.ref for named in found}


@every_kind
def test_read_tells_the_stamp_of_stamped_kinds_only(bench: Bench, kind: str) -> None:
    """A stamp in a notification is the object's own, equal to what a fetch then shows."""
    id_ = bench.act("create", kind)

    named = [one for each in bench.deliveries() for note in bench.adapter.read(each) for one in note.named]
    stamps = {one.stamp for one in named if one.ref == ref(bench, kind, id_)}

    fetched = bench.adapter.fetch(ref(bench, kind, id_)).stamp
    assert stamps == {fetched}
    assert (fetched is not None) is (bench.adapter.kinds[kind].stamp is not None)


@every_provider
def test_read_is_repeatable(bench: Bench) -> None:
    """One delivery read twice says the same, and different events have different ids."""
    kind = next(iter(bench.adapter.kinds))
    for _ in range(3):
        bench.act("create", kind)

    notes = [bench.adapter.read(each) for each in bench.deliveries()]

    assert notes == [bench.adapter.read(each) for each in bench.deliveries()]
    assert len({note.event_id for [note] in notes}) == len(notes) == 3


@every_provider
def test_read_refuses_what_nobody_vouches_for(bench: Bench) -> None:
    """Changed bytes, no headers and, where it tells, another time than now are all refused for the signature."""
    bench.act("create", next(iter(bench.adapter.kinds)))
    [good] = bench.deliveries()
    away = (timedelta(days=1), timedelta(days=-1))

    for bad in (
        Delivery(good.headers, good.body + b" ", good.received_at),
        Delivery(good.headers, good.body[:-1], good.received_at),
        Delivery(good.headers, b"", good.received_at),
        Delivery({}, good.body, good.received_at),
        Delivery(dict.fromkeys(good.headers, ""), good.body, good.received_at),
        Delivery(dict.fromkeys(good.headers, "\udcff\0"), good.body, good.received_at),
        *(Delivery(good.headers, good.body, good.received_at + apart) for apart in away if bench.dated),
    ):
        with pytest.raises(SignatureInvalid):
            bench.adapter.read(bad)


@every_provider
@pytest.mark.parametrize("body", [b"", b"{", b"[]", b"null", b"\xff", b"[" * 50_000])
def test_read_refuses_what_is_no_object(bench: Bench, body: bytes) -> None:
    """Authentic bytes that are no JSON object are malformed."""
    with pytest.raises(DeliveryMalformed):
        bench.adapter.read(bench.forge(body))


@every_provider
def test_read_spends_nothing(bench: Bench) -> None:
    """Reading a delivery asks nothing of the provider."""
    bench.act("create", next(iter(bench.adapter.kinds)))

    for each in bench.deliveries():
        bench.adapter.read(each)

    assert bench.spent.operations == []
    assert bench.calls() == 0


@every_provider
def test_read_with_the_secrets_of_an_endpoint(bench: Bench) -> None:
    """Given secrets stand in place of the source's own, which then vouch for nothing; none at all refuse everything."""
    bench.act("create", next(iter(bench.adapter.kinds)))
    [good] = bench.deliveries()

    [told] = bench.adapter.read(good, secrets=["standinofanother", bench.secrets[1]])

    assert (told.named, told.secret) == (bench.adapter.read(good)[0].named, 2)
    for secrets in (["standinofanother"], [""], []):
        with pytest.raises(SignatureInvalid):
            bench.adapter.read(good, secrets=secrets)


@every_provider
def test_addressed_knows_its_own(bench: Bench) -> None:
    """What the provider sends about the source is its own, and to say so asks nothing of the provider."""
    bench.act("create", next(iter(bench.adapter.kinds)))

    [each] = bench.deliveries()

    assert [bench.adapter.addressed(note, each) for note in bench.adapter.read(each)] == [True]
    assert bench.spent.operations == []


@every_provider
@pytest.mark.parametrize("odd", [None, 5, "x", [], [[]], {}, {"id": [], "login": {}, "full_name": 7, "account": 3}])
def test_addressed_whatever_is_said(bench: Bench, odd: Any) -> None:
    """Whose a notification is gets an answer, whatever stands where that would be told."""
    places = ("repository", "installation", "organization", "account", "context", "livemode")
    forged = bench.forge(content.dumps({"id": "evt_1"} | dict.fromkeys(places, odd)).encode())

    answers = [bench.adapter.addressed(note, forged) for note in bench.adapter.read(forged)]

    assert answers in ([True], [False])


# Fetching


@every_kind
def test_fetch_shows_the_object(bench: Bench, kind: str) -> None:
    """A fetch shows the object as it is now, by its ref, with the provider's time of the read."""
    id_ = bench.act("create", kind)
    before = bench.adapter.fetch(ref(bench, kind, id_))
    bench.change(kind, id_)

    after = bench.adapter.fetch(ref(bench, kind, id_))

    assert after.ref == ref(bench, kind, id_)
    assert after.proof is None
    assert digest(bench, before) != digest(bench, after)
    assert abs(after.observed_at - datetime.now(UTC)) < timedelta(seconds=10)
    assert after.observed_at.utcoffset() == timedelta(0)


@every_kind
def test_fetch_of_what_never_was(bench: Bench, kind: str) -> None:
    """What does not exist is a snapshot without a body that says how that was shown, not an error."""
    absent = bench.adapter.fetch(ref(bench, kind, "nobody_1"))

    assert (absent.body, absent.stamp) == (None, None)
    assert absent.proof in set(Proof)
    assert absent.because


@pytest.mark.parametrize(
    ("bench", "kind"), [each for each in CORE_KINDS if each not in KINDS_NEVER_DELETED], indirect=["bench"]
)
def test_fetch_of_what_was_deleted(bench: Bench, kind: str) -> None:
    """What was deleted is absent; where the provider only marks it, it is still shown."""
    id_ = bench.act("create", kind)
    bench.act("delete", kind, id_)

    shown = bench.adapter.fetch(ref(bench, kind, id_))

    assert (shown.body is not None) is bench.truth(kind)[id_]
    assert (shown.body is None) is (shown.proof is not None)


@every_kind
def test_lost_access_is_no_absence(bench: Bench, kind: str) -> None:
    """A credential that sees nothing any more raises, for what exists and for what does not."""
    id_ = bench.act("create", kind)

    for loss in bench.losses:
        bench.faults(**loss)
        for each in (id_, "nobody_1"):
            with pytest.raises(AccessLost):
                bench.adapter.fetch(ref(bench, kind, each))
        with pytest.raises(AccessLost):
            list(bench.adapter.crawl(kind, bench.scope(kind)))
        with pytest.raises(AccessLost):
            bench.adapter.identity()


@every_provider
@pytest.mark.parametrize(
    ("faults", "error"),
    [
        ({"status": {"429": 1}}, SourceBusy),
        ({"status": {"500": 1}}, SourceUnavailable),
        ({"status": {"502": 1}}, SourceUnavailable),
        ({"status": {"503": 1}}, SourceUnavailable),
        ({"status": {"504": 1}}, SourceUnavailable),
        ({"status": {"401": 1}}, AccessLost),
        ({"status": {"403": 1}}, AccessLost),
    ],
)
def test_a_failure_is_no_absence(bench: Bench, faults: Mapping[str, Any], error: type[SourceError]) -> None:
    """No failure of the provider looks like an absence, whether or not the object exists, in any call."""
    kind = next(iter(bench.adapter.kinds))
    id_ = bench.act("create", kind)
    bench.faults(**faults)
    since = datetime.now(UTC) - timedelta(hours=1)

    for call in (
        lambda: bench.adapter.fetch(ref(bench, kind, id_)),
        lambda: bench.adapter.fetch(ref(bench, kind, "nobody_1")),
        lambda: list(bench.adapter.crawl(kind, bench.scope(kind))),
        lambda: list(bench.adapter.changed_since(kind, bench.scope(kind), since)),
        bench.adapter.identity,
    ):
        with pytest.raises(error):
            call()


@every_provider
@pytest.mark.parametrize(
    "start", [b"", b"HTTP/1.1 200 OK\r\nX: ", b"HTTP/1.1 200 OK\r\nContent-Length: 100000\r\n\r\n"]
)
def test_no_call_outlasts_its_deadline(bench: Bench, start: bytes, trickle: Callable[[bytes], Trickle]) -> None:
    """A provider that answers a byte at a time is given up on, in total time, and that is no absence."""
    adapter = bench.trickling(trickle(start).url)
    began = time.monotonic()

    with pytest.raises(SourceUnavailable):
        adapter.fetch(ref(bench, next(iter(adapter.kinds)), "x_1"))

    assert time.monotonic() - began < 3


@every_kind_with_parts
def test_sub_lists_are_whole(bench: Bench, kind: str) -> None:
    """An object whose sub-list takes pages is shown whole, and twice the same."""
    id_ = bench.long(kind)

    snapshot = bench.adapter.fetch(ref(bench, kind, id_))

    assert '"has_more":true' not in content.dumps(snapshot.body)
    assert digest(bench, snapshot) == digest(bench, bench.adapter.fetch(ref(bench, kind, id_)))
    assert max(map(len, _arrays(snapshot.body))) == 213


def _arrays(tree: Any) -> Iterator[list[Any]]:
    if isinstance(tree, list):
        yield tree
    for each in tree.values() if isinstance(tree, dict) else tree if isinstance(tree, list) else ():
        yield from _arrays(each)


@every_provider
def test_numbers_and_texts_arrive_exactly(bench: Bench) -> None:
    """No number passes through a float and no character is lost, in a fetch, a list and a delivery."""
    kind = next(iter(bench.adapter.kinds))
    odd = content.parse('{"n":9007199254740993,"m":0.10,"k":-1E+400,"t":"\\u00e9\\u2028\\ud83d\\ude00\\/"}')
    shown = content.dumps(odd) if bench.typed else odd
    id_ = bench.act("create", kind, body={bench.spare: shown})

    bodies = [bench.adapter.fetch(ref(bench, kind, id_)).body]
    bodies += [each.body for page in bench.adapter.crawl(kind, bench.scope(kind)) for each in page.snapshots]
    bodies += [
        bench.adapter.shown(note.payload, ref(bench, kind, id_))
        for each in bench.deliveries()
        for note in bench.adapter.read(each)
    ]

    assert len(bodies) == 3
    assert {content.dumps(body[bench.spare]) for body in bodies if body} == {content.dumps(shown)}


@every_provider
def test_unstorable_texts_are_cleaned_alike(bench: Bench) -> None:
    """NUL and lone surrogates end in the same stored form by whatever way they come, the exact bytes beside it."""
    kind = next(iter(bench.adapter.kinds))
    id_ = bench.act("create", kind, body={bench.spare: "a\0b", **({} if bench.typed else {"odd\0": "\\u0000"})})
    form = content.Form()

    fetched = bench.adapter.fetch(ref(bench, kind, id_)).body
    [delivery] = bench.deliveries()
    [note] = bench.adapter.read(delivery)
    shown = bench.adapter.shown(note.payload, ref(bench, kind, id_))

    assert fetched is not None
    assert form.stored(fetched)[bench.spare] == "a\ufffdb"
    assert shown is None or form.digest(form.stored(fetched)) == form.digest(form.stored(shown))
    assert note.raw == delivery.body


# Lists


@every_kind
def test_listed_and_fetched_are_equal(bench: Bench, kind: str) -> None:
    """Where a kind's list view is called whole, each listed object has the digest that its fetch has."""
    for number in range(4):
        id_ = bench.act("create", kind)
        if number % 2:
            bench.change(kind, id_)
    bench.finished(kind)

    listed = [each for page in bench.adapter.crawl(kind, bench.scope(kind)) for each in page.snapshots]

    assert (len(listed) >= 4) is (bench.adapter.kinds[kind].list is Listing.WHOLE)
    for each in listed:
        fetched = bench.adapter.fetch(each.ref)
        assert digest(bench, each) == digest(bench, fetched)
        assert each.stamp == fetched.stamp


@every_kind_with_parts
def test_a_list_never_shows_a_part(bench: Bench, kind: str) -> None:
    """An object whose sub-list is cut short in a list is hinted at, not shown."""
    id_ = bench.long(kind)

    pages = list(bench.adapter.crawl(kind, bench.scope(kind)))

    assert [hint.ref.id for page in pages for hint in page.hints] == [id_]
    assert id_ not in {each.ref.id for page in pages for each in page.snapshots}


@every_kind
def test_a_crawl_shows_every_object(bench: Bench, kind: str) -> None:
    """A crawl shows everything that exists, finished or not, over several pages, and nothing that is gone."""
    start = int(datetime.now(UTC).timestamp()) - 1000
    for number in range(230):
        bench.act("create", kind, at=start + number // 3)
    hidden = bench.finished(kind)

    seen = ids(bench.adapter.crawl(kind, bench.scope(kind)))

    alive = {id_ for id_, exists in bench.truth(kind).items() if exists}
    assert set(seen) == alive
    assert hidden is None or hidden in seen
    assert len(alive) >= 230


@every_kind
def test_a_crawl_survives_moving_pages(bench: Bench, kind: str) -> None:
    """While objects come and go between pages, what was there all along is shown, or the crawl raises."""
    start = int(datetime.now(UTC).timestamp()) - 1000
    for number in range(330):
        bench.act("create", kind, at=start + number)
    bench.faults(shift_pages=1)
    before = {id_ for id_, exists in bench.truth(kind).items() if exists}

    try:
        seen = ids(bench.adapter.crawl(kind, bench.scope(kind)))
    except SourceUnavailable:
        return

    throughout = {id_ for id_, exists in bench.truth(kind).items() if exists} & before
    assert throughout <= set(seen)


@every_kind
def test_a_crawl_of_nothing(bench: Bench, kind: str) -> None:
    """A kind of which nobody has made an object is crawled to its end, and shows none."""
    there = {id_: 1 for id_, exists in bench.truth(kind).items() if exists}

    assert ids(bench.adapter.crawl(kind, bench.scope(kind))) == Counter(there)


# The change feed


@every_kind
def test_changed_since_shows_every_announced_change(bench: Bench, kind: str) -> None:
    """Whatever was announced since then, that very second included, delivered or not, is shown."""
    now = int(datetime.now(UTC).timestamp())
    bench.act("create", kind, at=now - 1000)
    wanted = {bench.act("create", kind, at=now - 500 + number // 2, deliver=number % 2 == 0) for number in range(120)}

    seen = ids(bench.adapter.changed_since(kind, bench.scope(kind), datetime.fromtimestamp(now - 500, UTC)))

    assert wanted <= set(seen)
    assert set(seen) == wanted or kind in bench.unfiltered


@every_kind
def test_changed_since_shows_changes_of_old_objects(bench: Bench, kind: str) -> None:
    """An old object that changed lately is shown by its change, and by its deletion."""
    now = int(datetime.now(UTC).timestamp())
    changed = bench.act("create", kind, at=now - 90_000)
    untouched = bench.act("create", kind, at=now - 90_000)
    bench.change(kind, changed)

    seen = ids(bench.adapter.changed_since(kind, bench.scope(kind), datetime.fromtimestamp(now - 60, UTC)))

    assert changed in seen
    assert untouched not in seen or kind in bench.unfiltered


@every_kind
def test_hints_name_their_events(bench: Bench, kind: str) -> None:
    """A hint that comes from an event has the id, the type and the object that a delivery of it has; others none."""
    bench.act("create", kind)
    since = datetime.now(UTC) - timedelta(minutes=1)
    notes = [note for each in bench.deliveries() for note in bench.adapter.read(each)]
    delivered = {
        (note.event_id, note.event_type, each.ref) for note in notes for each in note.named if each.ref.kind == kind
    }

    hints = [hint for page in bench.adapter.changed_since(kind, bench.scope(kind), since) for hint in page.hints]

    told = {(hint.event_id, hint.event_type, hint.ref) for hint in hints}
    assert told == (delivered if bench.eventful else {(None, None, each.ref) for each in hints})
    assert all(hint.changed_at is not None for hint in hints)


# Honesty


@every_kind
@pytest.mark.parametrize(("share", "ends"), [(0.2, "complete"), (0.9, "raised")])
def test_a_list_raises_or_is_complete(bench: Bench, kind: str, share: float, ends: str) -> None:
    """Whatever fails on whichever page, a list shows everything or raises; a failure now and then ends none."""
    start = int(datetime.now(UTC).timestamp()) - 1000
    wanted = {bench.act("create", kind, at=start + number) for number in range(220)}
    bench.faults(status={"500": share / 2, "429": share / 2})
    ended = Counter[str]()

    for attempt in range(6):
        pages = (
            bench.adapter.crawl(kind, bench.scope(kind))
            if attempt % 2
            else bench.adapter.changed_since(kind, bench.scope(kind), datetime.fromtimestamp(start, UTC))
        )
        try:
            seen = ids(pages)
        except SourceError:
            ended["raised"] += 1
        else:
            assert wanted <= set(seen)
            ended["complete"] += 1

    assert ended[ends] > 0


@every_kind
def test_every_call_is_paid_for(bench: Bench, kind: str) -> None:
    """The budget is asked before each call, told of each answer, and knows of as many as the provider saw."""
    for _ in range(3):
        bench.act("create", kind)
    long = bench.long(kind) if (bench.adapter.provider, kind) in KINDS_WITH_PARTS else bench.act("create", kind)
    since = datetime.now(UTC) - timedelta(minutes=5)

    listed: list[Snapshot | Hint] = []
    for page in bench.adapter.crawl(kind, bench.scope(kind)):
        listed += [*page.snapshots, *page.hints]
    [locator] = [each.locator for each in listed if each.ref.id == long]
    bench.adapter.fetch(ref(bench, kind, long), locator=locator)
    bench.adapter.fetch(ref(bench, kind, "nobody_1"))
    list(bench.adapter.changed_since(kind, bench.scope(kind), since))
    bench.adapter.identity()
    bench.faults(status={"500": 1})
    with pytest.raises(SourceUnavailable):
        bench.adapter.fetch(ref(bench, kind, long))

    assert len(bench.spent.operations) == bench.calls()
    assert [operation for operation, _ in bench.spent.answers] == bench.spent.operations
    assert bench.adapter.kinds[kind].fetch in bench.spent.operations


@every_provider
def test_a_budget_that_refuses_is_obeyed(bench: Bench) -> None:
    """Where the budget says no, nothing is asked of the provider."""
    kind = next(iter(bench.adapter.kinds))

    bench.spent.refusal = SourceBusy("no budget left", retry_after=3)

    with pytest.raises(SourceBusy, match="no budget left"):
        bench.adapter.fetch(ref(bench, kind, "x_1"))
    with pytest.raises(SourceBusy):
        list(bench.adapter.crawl(kind, bench.scope(kind)))
    assert bench.calls() == 0


@every_provider
def test_pages_are_asked_for_one_by_one(bench: Bench) -> None:
    """A page costs nothing until it is requested."""
    kind = next(iter(bench.adapter.kinds))
    for _ in range(150):
        bench.act("create", kind)

    pages = bench.adapter.crawl(kind, bench.scope(kind))
    assert bench.calls() == 0
    next(pages)

    assert bench.calls() == 1


@every_provider
def test_secrets_are_told_nobody(bench: Bench, caplog: pytest.LogCaptureFixture) -> None:
    """No secret is in what an adapter shows, raises or logs."""
    caplog.set_level(logging.DEBUG)
    kind = next(iter(bench.adapter.kinds))
    told = [repr(bench.adapter), str(bench.adapter), repr(bench.adapter.kinds)]

    for faults in (*bench.losses, {"status": {"500": 1}}, {"status": {"429": 1}}, {}):
        bench.faults(**faults)
        try:
            told.append(repr(bench.adapter.fetch(ref(bench, kind, "nobody_1"))))
        except SourceError as error:
            told += [str(error), *traceback.format_exception(error)]
    with pytest.raises(SignatureInvalid) as refused:
        bench.adapter.read(Delivery(bench.forge(b"{}").headers, b"[]", datetime.now(UTC)))
    told += [str(refused.value), caplog.text]

    assert len(told) > 6
    assert not [text for text in told for secret in bench.secrets if secret in text]


# The kinds that are not core: all of a provider's in one case, with fewer objects


def others(bench: Bench) -> list[str]:
    """Return the kinds of a provider that nobody mirrors without asking for them."""
    provider = bench.adapter.provider
    return [kind for kind in bench.adapter.kinds if (provider, kind) not in CORE_KINDS]


@with_others
def test_others_are_read_and_fetched(bench: Bench) -> None:
    """A delivery names what it is about, with its stamp; a fetch shows that and its change; what is not is absent."""
    for kind in others(bench):
        here, known = bench.adapter.provider, len(bench.deliveries())
        id_ = bench.act("create", kind)
        before = bench.adapter.fetch(ref(bench, kind, id_))
        bench.change(kind, id_)

        after = bench.adapter.fetch(ref(bench, kind, id_))
        nobody = bench.adapter.fetch(ref(bench, kind, "nobody_1"))
        told = [one for each in bench.deliveries()[known:] for note in bench.adapter.read(each) for one in note.named]

        stamps = {one.stamp for one in told if one.ref == ref(bench, kind, id_)}
        stamped = bench.adapter.kinds[kind].stamp is not None
        untold = "delivered" in KINDS_UNTOLD.get((here, kind), ())
        assert bool(stamps) is not untold, kind
        assert (after.stamp is not None) is stamped, kind
        assert untold or after.stamp in stamps or (here, kind) in KINDS_TOLD_BARELY, kind
        assert digest(bench, before) != digest(bench, after), kind
        assert (nobody.body, nobody.proof in set(Proof)) == (None, True), kind
        assert dict(bench.adapter.shape(kind)) == content.parse(content.dumps(dict(bench.adapter.shape(kind)))), kind


@with_others
def test_others_that_were_deleted(bench: Bench) -> None:
    """What was deleted is absent; where the provider only marks it, it is still shown."""
    for kind in others(bench):
        if (bench.adapter.provider, kind) in KINDS_NEVER_DELETED:
            continue
        id_ = bench.act("create", kind)
        bench.act("delete", kind, id_)

        shown = bench.adapter.fetch(ref(bench, kind, id_))

        assert (shown.body is not None) is bench.truth(kind)[id_], kind
        assert (shown.body is None) is (shown.proof is not None), kind


@with_others
def test_others_are_listed(bench: Bench) -> None:
    """A crawl shows all there are, over pages that shift, as a fetch does; the feed shows what changed since then."""
    now = int(datetime.now(UTC).timestamp())
    for kind in others(bench):
        old = bench.act("create", kind, at=now - 90_000)
        changed = bench.act("create", kind, at=now - 90_000)
        made = {bench.act("create", kind, at=now - 50 + number // 3) for number in range(12)}
        bench.change(kind, changed)
        hidden = bench.finished(kind)
        since = datetime.fromtimestamp(now - 60, UTC)

        crawled = [each for page in bench.adapter.crawl(kind, bench.scope(kind)) for each in page.snapshots]
        all_ids = set(ids(bench.adapter.crawl(kind, bench.scope(kind))))
        seen = set(ids(bench.adapter.changed_since(kind, bench.scope(kind), since)))

        listing = bench.adapter.kinds[kind].list
        alive = {id_ for id_, exists in bench.truth(kind).items() if exists}
        alone = (bench.adapter.provider, kind) in KINDS_ALONE
        assert all_ids == (set() if listing is Listing.NONE else alive), kind
        assert hidden is None or listing is Listing.NONE or hidden in all_ids, kind
        untold = KINDS_UNTOLD.get((bench.adapter.provider, kind), frozenset())
        assert "made" in untold or made <= seen, kind
        assert (changed in seen) is ("changed" not in untold), kind
        assert old not in seen or alone or kind in bench.unfiltered, kind
        assert bool(crawled) is (listing is Listing.WHOLE), kind
        for each in crawled[:3]:
            fetched = bench.adapter.fetch(each.ref)
            assert digest(bench, each) == digest(bench, fetched), kind
            assert each.stamp == fetched.stamp, kind


@with_others
def test_others_and_failures(bench: Bench) -> None:
    """Whatever fails, a list shows everything or raises, lost access is no absence, and each call is paid for."""
    start = int(datetime.now(UTC).timestamp()) - 100
    since = datetime.fromtimestamp(start, UTC)
    made = {kind: {bench.act("create", kind, at=start + number) for number in range(6)} for kind in others(bench)}
    ended = Counter[str]()

    bench.faults(status={"500": 0.05, "429": 0.05})
    for kind, wanted in made.items():
        scope = bench.scope(kind)
        for pages in (bench.adapter.crawl(kind, scope), bench.adapter.changed_since(kind, scope, since)):
            try:
                seen = set(ids(pages))
            except SourceError:
                ended["raised"] += 1
            else:
                ended["complete"] += 1
                assert wanted <= seen or bench.adapter.kinds[kind].list is Listing.NONE, kind
    for loss in bench.losses:
        bench.faults(**loss)
        for kind, wanted in made.items():
            for id_ in (min(wanted), "nobody_1"):
                with pytest.raises(AccessLost):
                    bench.adapter.fetch(ref(bench, kind, id_))

    assert ended["complete"] > ended["raised"]
    assert len(bench.spent.operations) == bench.calls()
    assert [operation for operation, _ in bench.spent.answers] == bench.spent.operations


def test_every_bench_is_complete() -> None:
    """The suite runs for every provider and every one of its kinds."""
    kinds = []
    for provider, bench in BENCHES.items():
        with bench() as made:
            kinds += [(provider, kind) for kind in made.adapter.kinds]

    assert kinds == EVERY_KIND
