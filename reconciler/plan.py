"""What it would take to load a kind, before it is enabled: calls, hours, gigabytes, and what the credential lacks."""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from itertools import islice
from time import monotonic
from typing import TYPE_CHECKING, Final, Protocol

from reconciler import content
from reconciler.adapter import Count, Counting, Listing
from reconciler.errors import AccessLost, SourceError

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from reconciler.adapter import Kind, Limit
    from reconciler.budgets import Calls
    from reconciler.model import Body, ObjectRef, Page, Snapshot

_SCOPES: Final = 5
"""Scopes that are looked into: for hundreds of repositories the rest is taken to be alike."""

_FETCHED: Final = 3
"""Objects that are fetched of a list that shows only what is worth fetching."""

_GIGABYTE: Final = 1e9
_HOUR: Final = 3600.0


class Asked(Protocol):
    """What of an adapter is asked for a forecast."""

    @property
    def provider(self) -> str: ...  # noqa: D102 - as `Adapter` says

    @property
    def source(self) -> str: ...  # noqa: D102 - same

    @property
    def kinds(self) -> Mapping[str, Kind]: ...  # noqa: D102 - same

    def scopes(self, kind: str | None = None) -> Sequence[str]: ...  # noqa: D102 - same

    def crawl(self, kind: str, scope: str) -> Iterator[Page]: ...  # noqa: D102 - same

    def fetch(self, ref: ObjectRef, *, locator: Body | None = None) -> Snapshot: ...  # noqa: D102 - same


@dataclass(frozen=True, slots=True, kw_only=True)
class Forecast:
    """
    What loading one kind of one source comes to.

    Attributes:
        scopes: In how many it lives.
        objects: How many there are; None: no call tells.
        exact: They were counted, not estimated.
        least: No call tells how many: there are more than that, and all that follows from it is more.
        calls: To list them all, and fetch those that no list shows whole; None: no call tells.
        hours: As long as the source's limits, and the provider's own pace, let that take.
        gigabytes: Of bodies, as they are stored.
        missing: Why the credential may not read it; empty: it may.
        because: Why there is no forecast, where it is not for that.
    """

    source: str
    provider: str
    kind: Kind
    scopes: int = 0
    objects: int | None = None
    exact: bool = False
    least: bool = False
    calls: int | None = None
    hours: float | None = None
    gigabytes: float | None = None
    missing: str = ""
    because: str = ""

    @property
    def failed(self) -> bool:
        """Say whether the provider did not show what was asked for."""
        return self.calls is None and self.kind.list is not Listing.NONE


@dataclass(slots=True)
class _Sample:
    """What a few scopes showed of a kind."""

    objects: int = 0
    exact: bool = True
    least: bool = False
    pages: int = 0
    sizes: list[int] = field(default_factory=list)
    fetches: float = 0.0
    pace: float = 0.0


def forecast(adapter: Asked, name: str, *, limits: Sequence[Limit], spent: Calls) -> Forecast:
    """
    Return what loading kind *name* comes to, for a handful of calls; a permission that is missing is told, not raised.

    *spent* counts the calls of this thread.
    """
    kind = adapter.kinds[name]
    plain = Forecast(source=adapter.source, provider=adapter.provider, kind=kind)
    try:
        scopes = adapter.scopes(name)
        if kind.list is Listing.NONE:
            return replace(plain, scopes=len(scopes), because="no call lists it: it follows events")
        looked = _spread(scopes)
        sample = _sampled(adapter, kind, looked, spent)
    except AccessLost as lost:
        return replace(plain, missing=str(lost))
    except SourceError as error:
        return replace(plain, because=str(error))
    return _extended(plain, sample, len(scopes), len(looked), limits)


def _extended(plain: Forecast, sample: _Sample, scopes: int, looked: int, limits: Sequence[Limit]) -> Forecast:
    """Return what a sample of some scopes means for all of them."""
    more = scopes / max(looked, 1)
    objects = round(sample.objects * more)
    listing = math.ceil(sample.pages * more)
    calls = listing + math.ceil(objects * sample.fetches)
    size = sum(sample.sizes) / len(sample.sizes) if sample.sizes else 0.0
    return replace(
        plain,
        scopes=scopes,
        objects=objects,
        exact=sample.exact and scopes == looked,
        least=sample.least,
        calls=calls,
        hours=hours(calls, limits, at_least=listing * sample.pace),
        gigabytes=objects * size / _GIGABYTE,
    )


def hours(calls: int, limits: Sequence[Limit], *, at_least: float = 0.0) -> float:
    """Return how long so many calls take, with nobody else calling: what the tightest limit makes of it."""
    ours = [limit for limit in limits if limit.operations in {None, "*"}]
    return max([at_least, *((calls - limit.burst) / limit.rate for limit in ours)]) / _HOUR


def _spread(scopes: Sequence[str]) -> list[str]:
    """Return a few scopes, from all over."""
    step = max(1, len(scopes) // _SCOPES)
    return list(scopes[::step][:_SCOPES])


def _sampled(adapter: Asked, kind: Kind, scopes: Sequence[str], spent: Calls) -> _Sample:
    sample = _Sample()
    for scope in scopes:
        count = adapter.count(kind.name, scope) if isinstance(adapter, Counting) else None
        if count is None or not sample.sizes:
            count = _listed(adapter, kind, scope, count, sample, spent)
        sample.objects += count.objects
        sample.exact = sample.exact and count.exact
        sample.pages += count.pages or max(1, math.ceil(count.objects / kind.page))
    return sample


def _listed(  # noqa: PLR0917 - a sample is taken of these
    adapter: Asked, kind: Kind, scope: str, count: Count | None, sample: _Sample, spent: Calls
) -> Count:
    """Weigh the first page of everything, and return how many there are: *count*, else what two pages show."""
    began = monotonic()
    pages = iter(adapter.crawl(kind.name, scope))
    page = next(pages, None)
    sample.pace = max(sample.pace, monotonic() - began)
    more = next(pages, None) if count is None and page is not None else None
    if page is not None and not sample.sizes:
        _weigh(adapter, page, sample, spent)
    if count is not None:
        return count
    sample.least = sample.least or more is not None
    return Count(_shown(page) + _shown(more), exact=more is None)


def _shown(page: Page | None) -> int:
    return 0 if page is None else len(page.snapshots) + len(page.hints)


def _weigh(adapter: Asked, page: Page, sample: _Sample, spent: Calls) -> None:
    """Note how large the objects of a page are, and what it takes to fetch those that it does not show."""
    sample.sizes += [_size(each.body) for each in page.snapshots if each.body is not None]
    before, fetched = spent.count, list(islice(page.hints, _FETCHED))
    for hint in fetched:
        body = adapter.fetch(hint.ref, locator=hint.locator).body
        sample.sizes += [] if body is None else [_size(body)]
    if fetched:
        hinted = len(page.hints) / (len(page.hints) + len(page.snapshots))
        sample.fetches = (spent.count - before) / len(fetched) * hinted


def _size(body: Body) -> int:
    return len(content.dumps(body).encode("utf-8", "surrogatepass"))
