"""What loading a kind comes to: drawn from a few calls, and told whatever a provider answers."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import TYPE_CHECKING

import pytest

from reconciler.adapter import Count, Kind, Limit, Listing
from reconciler.budgets import Calls, Lane
from reconciler.errors import AccessLost, SourceUnavailable
from reconciler.model import Hint, ObjectRef, Page, Snapshot
from reconciler.plan import forecast, hours

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from reconciler.errors import SourceError
    from reconciler.model import Body
    from reconciler.plan import Forecast

AT = datetime(2026, 11, 30, tzinfo=UTC)
BODY: Body = {"id": "1", "text": "x" * 980}
SIZE = 1000


def kind(listing: Listing = Listing.WHOLE, page: int = 10) -> Kind:
    """Return a kind of which a page holds so many."""
    return Kind(
        name="thing", list=listing, feed="", fetch="", deletion="", permission="Things: read", cost="", page=page
    )


@dataclass
class Shown:
    """A provider that shows what a test says, and counts what it is asked."""

    kinds: Mapping[str, Kind]
    objects: int = 0
    places: Sequence[str] = ("",)
    refusal: SourceError | None = None
    spent: Calls = field(default_factory=lambda: Calls(Lane.SWEEP, None))
    provider: str = "standin"
    source: str = "source"

    def scopes(self, kind: str | None = None) -> Sequence[str]:
        """Return the places."""
        del kind
        return self.places

    def crawl(self, kind: str, scope: str) -> Iterator[Page]:
        """Yield pages, whole or of hints as the kind says."""
        if self.refusal is not None:
            raise self.refusal
        row = self.kinds[kind]
        for start in range(0, max(self.objects, 1), row.page):
            self.spent.count += 1
            refs = [
                ObjectRef("source", scope, kind, str(number))
                for number in range(start, min(start + row.page, self.objects))
            ]
            whole = row.list is Listing.WHOLE
            yield Page(
                tuple(Snapshot(ref, BODY, None, AT) for ref in refs if whole),
                tuple(Hint(ref) for ref in refs if not whole),
            )

    def fetch(self, ref: ObjectRef, *, locator: Body | None = None) -> Snapshot:
        """Return an object, for two calls."""
        del locator
        self.spent.count += 2
        return Snapshot(ref, BODY, None, AT)


@dataclass
class Counted(Shown):
    """One that counts, too."""

    def count(self, kind: str, scope: str) -> Count:
        """Return how many there are in every place."""
        del kind, scope
        self.spent.count += 1
        return Count(self.objects, exact=True)


def seen(shown: Shown, *limits: Limit) -> Forecast:
    """Return what is forecast of the one kind."""
    return forecast(shown, "thing", limits=limits or (Limit("calls", 100, 2),), spent=shown.spent)


def test_a_count_is_taken() -> None:
    """What a provider counts is how many there are; pages and bytes follow from it, for two calls."""
    shown = Counted({"thing": kind()}, 1234)

    found = seen(shown)

    assert (found.scopes, found.objects, found.exact, found.calls, found.failed) == (1, 1234, True, 124, False)
    assert found.gigabytes == pytest.approx(1234 * SIZE / 1e9, rel=0.05)
    assert shown.spent.count == 2


@pytest.mark.parametrize(("objects", "shown", "calls"), [(0, 0, 1), (10, 10, 1), (11, 11, 2), (1234, 20, 2)])
def test_without_a_count_two_pages_have_to_do(objects: int, shown: int, calls: int) -> None:
    """A list of one page shows all there are, a longer one the least that there may be."""
    found = seen(Shown({"thing": kind()}, objects))

    assert (found.objects, found.calls) == (shown, calls)
    assert (found.exact, found.least) == ((True, False) if objects <= 10 else (False, True))


def test_hints_are_fetched() -> None:
    """What a list shows only to be fetched costs the calls that fetching took, each."""
    found = seen(Counted({"thing": kind(Listing.HINT)}, 1234))

    assert found.calls == 124 + 1234 * 2
    assert found.gigabytes == pytest.approx(1234 * SIZE / 1e9, rel=0.05)


def test_many_scopes_are_taken_to_be_alike() -> None:
    """Of hundreds of repositories a handful is asked; nobody takes that for a count."""
    shown = Counted({"thing": kind()}, 30, [f"{number}" for number in range(600)])

    found = seen(shown)

    assert (found.scopes, found.objects, found.exact, found.calls) == (600, 30 * 600, False, 3 * 600)
    assert shown.spent.count == 6


def test_no_scope() -> None:
    """A source that sees nothing has nothing to load."""
    found = seen(Counted({"thing": kind()}, 30, []))

    assert (found.scopes, found.objects, found.calls, found.gigabytes, found.failed) == (0, 0, 0, 0, False)


def test_what_no_list_shows() -> None:
    """A kind that no call lists costs nothing to load: it says so, and asks nobody."""
    shown = Shown({"thing": kind(Listing.NONE)}, 5)

    found = seen(shown)

    assert (found.calls, found.because, found.failed) == (None, "no call lists it: it follows events", False)
    assert shown.spent.count == 0


@pytest.mark.parametrize(
    ("refusal", "missing", "because"),
    [(AccessLost("403"), "403", ""), (SourceUnavailable("a time-out"), "", "a time-out")],
)
def test_a_refusal_is_told(refusal: SourceError, missing: str, because: str) -> None:
    """A missing permission, or a provider that does not answer, ends this forecast and no other."""
    found = seen(Shown({"thing": kind()}, 5, refusal=refusal))

    assert (found.missing, found.because, found.calls, found.failed) == (missing, because, None, True)


def test_hours() -> None:
    """The tightest limit counts, beyond what it lets through at once; one operation's own counts for no other."""
    every, operations = Limit("calls", 10, 100), Limit("operation", 1, 2, operations="*")
    hour, search = Limit("hour", 0.5, 1800), Limit("search", 0.001, 2, operations="GET /search*")

    assert hours(3700, [every]) == pytest.approx(0.1)
    assert hours(3602, [every, operations]) == pytest.approx(1)
    assert hours(3600, [every, hour]) == pytest.approx(1)
    assert hours(3700, [every, search]) == pytest.approx(0.1)
    assert hours(3, [every], at_least=7200) == pytest.approx(2)
    assert hours(0, [every]) == 0
