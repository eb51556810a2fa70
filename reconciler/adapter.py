"""
The one seam: what an adapter promises, how it declares its kinds, and what it is handed.

An adapter is a plain class, nothing inherited. It writes nothing and never sees the store.
"""

from __future__ import annotations

import math
import time
from dataclasses import MISSING, dataclass, field
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from typing import TYPE_CHECKING, Any, Final, Literal, Protocol, TypeAlias, TypeVar, runtime_checkable

from reconciler.errors import SourceBusy, SourceUnavailable

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
    from contextlib import ExitStack

    from reconciler.model import Body, Delivery, Hint, Notification, ObjectRef, Page, Snapshot


T = TypeVar("T")

BETWEEN: Final = ": "
"""Stands between the name of a limit and the operation that it is about."""

_BUSY_TIMES: Final = 8
_FAILED_TIMES: Final = 3
_BREATH: Final = 0.5  # seconds
_LONGEST_BREATH: Final = 10.0


class Listing(StrEnum):
    """What a kind's list call shows of each object."""

    WHOLE = "whole"  # the same as its fetch: proved by the contract suite
    HINT = "hint"  # an id worth fetching
    NONE = "none"  # no call lists it


@dataclass(frozen=True, slots=True)
class Column:
    """
    One typed column of a kind's view.

    Attributes:
        pointers: JSON pointers tried in this order; the first that holds something wins (fields move between versions).
        type: The PostgreSQL type; `epoch` means seconds since 1970 shown as timestamptz.
    """

    name: str
    pointers: tuple[str, ...]
    type: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Kind:
    """
    One sort of object: everything the core and an operator need to know about it, in one row.

    Attributes:
        name: Singular, in the provider's own spelling.
        core: Mirrored where the configuration names no kinds.
        topics: The event types that name it.
        stamp: JSON pointer to the provider's last-change time; None: unstamped, positions alone decide.
        list: What its list call shows.
        feed: Where changes are listed from, for people.
        fetch: The call that reads one, for people and budgets (`GET /v1/customers/{id}`).
        deletion: How an absence shows, for people.
        permission: The least permission its calls need.
        cost: Calls a fetch and a page take, for people.
        unordered: JSON pointers (`*` for any step) to arrays whose order means nothing.
        volatile: JSON pointers to fields that change without the object changing.
        columns: The typed columns of its view.
        test: A JSON pointer to what is true of objects that are only tests: the view leaves those out.
        open_while: A JSON pointer and the values by which an object is unfinished; those are read again nightly.
        feed_history: How far back the feed reaches; None: for ever.
        feed_lag: How late a change may appear in the feed.
        blind: What no feed of this kind shows, for people: only a full sweep finds it.
        worth: Why reading one again is worth its calls, for people.
        page: Objects that one call lists at most.
    """

    name: str
    core: bool = True
    topics: tuple[str, ...] = ()
    stamp: str | None = None
    list: Listing
    feed: str
    fetch: str
    deletion: str
    permission: str
    cost: str
    unordered: tuple[str, ...] = ()
    volatile: tuple[str, ...] = ()
    columns: tuple[Column, ...] = ()
    test: str | None = None
    open_while: tuple[str, frozenset[str]] | None = None
    feed_history: timedelta | None = None
    feed_lag: timedelta = field(default=timedelta(0))
    blind: str = ""
    worth: str = ""
    page: int = 100


def links(kind: Kind) -> list[tuple[str, tuple[str, ...]]]:
    """
    Return what objects of *kind* may be linked to: names of kinds, each with the JSON pointers that hold its id.

    A column that is called as a kind is, or so with `_id`, is a link to it; whatever is called otherwise leads nowhere.
    """
    return [(column.name.removesuffix("_id"), column.pointers) for column in kind.columns if column.type == "text"]


class Secret:
    """
    A text that no log, message or repr ever shows: what is shown is where it came from.

    Attributes:
        reference: As the configuration names it, for people: `env:STRIPE_API_KEY`.
    """

    __slots__ = ("_text", "reference")

    def __init__(self, text: str, *, reference: str) -> None:
        self._text = text
        self.reference = reference

    @property
    def written_down(self) -> bool:
        """Whether it stands in the configuration as it is: a URL without a password."""
        return self._text == self.reference

    def reveal(self) -> str:
        """Return the text itself, for the one call that needs it."""
        return self._text

    def __repr__(self) -> str:
        return f"Secret({self.reference})"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Secret) and self._text == other._text

    def __hash__(self) -> int:
        return hash(self._text)


@dataclass(frozen=True, slots=True)
class Limit:
    """
    How often a source may call: never more than `rate` times the seconds, plus `burst`.

    Attributes:
        name: As `status` shows it.
        rate: Calls a second.
        burst: Calls at once, at least 2: one for either lane.
        operations: None: all calls count together; else each operation that fits this pattern (`*`: all) by itself.
        but: The operation that does not count with all others, for it has a limit of its own.
    """

    name: str
    rate: float
    burst: float
    operations: str | None = None
    but: str | None = None

    def __post_init__(self) -> None:
        if not (0 < self.rate < math.inf and 2 <= self.burst < math.inf and self.name and BETWEEN not in self.name):
            raise ValueError(f"not a limit: {self}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Allotment:
    """
    How many calls a provider allots within so many days: they are counted and shown, and nothing is held up by it.

    Attributes:
        name: As `status` shows it.
        operations: The pattern of the operations that count.
        least: Calls that are allowed in any case.
        each: So many are allowed for each living object of `kind` that holds `holding` and was made within the days.
        created: Its field that says when, in seconds since 1970.
    """

    name: str
    operations: str
    days: int
    least: int
    each: int
    kind: str
    holding: Body
    created: str


def per_second(calls: float, operation_calls: float | None = None) -> tuple[Limit, ...]:
    """
    Return the limits that keep to so many calls in any second, and to so many of each operation.

    A tenth is the burst, so both together stay below what is allowed (but at least 2 calls may be made at once).
    """
    every = [("calls", calls, None)] + ([("operation", operation_calls, "*")] if operation_calls else [])
    return tuple(Limit(name, rate * 0.9, max(2.0, rate * 0.1), operations) for name, rate, operations in every)


class Budget(Protocol):
    """
    What a source may still ask of its provider, shared by all processes.

    An adapter spends before each call and reports after it; waiting happens here, never inside an SDK.
    """

    def spend(self, operation: str) -> None:
        """Wait for the right to call *operation* once; raises `SourceBusy` if that would outlast the deadline."""

    def answered(self, operation: str, status: str) -> None:
        """Count an answer: an HTTP status, or `timeout`, `refused`."""

    def hold(self, seconds: float, *, operation: str | None = None) -> None:
        """Let nobody call *operation* (any, if None) for so long: the provider said so."""


class Validators(Protocol):
    """
    What marked the pages of earlier listings (ETags), so that those which did not change since cost nothing.

    A page that still is as its mark says shows nothing. So marks are handed out only where all that was listed under
    them is applied, durably wanted or dead on record (they are kept with the watermark), in the shape of now, and never
    where rows are to be compared: in a full sweep, a dry run, or a window that somebody asked for.
    """

    def __call__(self, kind: str, scope: str) -> Mapping[str, Body]:
        """Return the marks of every page of the last complete listing, by address; empty: none counts."""


@dataclass(frozen=True, slots=True)
class Issued:
    """An access token that a provider has just issued, and the seconds it is good for."""

    token: str = field(repr=False)
    seconds: float


class Tokens(Protocol):
    """
    The access token of a source whose provider issues them for a while only: one, shared by all processes.

    An adapter asks for it before each call, and says how a new one is had.
    """

    def current(self, issue: Callable[[], Issued]) -> str:
        """
        Return a token that is good for a while yet; where there is none, *issue* is called, by one process at a time.

        Raises what *issue* raises, and `SourceBusy` where another process is at it and takes too long.
        """

    def forget(self, token: str) -> None:
        """Let nobody use *token* again: the provider refused it before its time."""


class Notices(Protocol):
    """What a provider says about the way it is called, kept for people: told whenever it is heard, said once a day."""

    def __call__(self, what: str, about: str, because: str) -> None:
        """Note *what* (`deprecated`, `version_drift`) it says *about* a call or a thing, in words; never raises."""


def unheard(what: str, about: str, because: str) -> None:
    """Let nobody hear what a provider says about the way it is called."""


def our_clock() -> datetime:
    """Return what time it is, in UTC."""
    return datetime.now(UTC)


@dataclass(frozen=True, slots=True, kw_only=True)
class Hands:
    """
    What the adapter of one source is handed; none of it lets it see the store.

    Attributes:
        tokens: The shared tokens of a credential, told by its digest.
        notices: What the provider says in passing about the way it is called.
        tolerance: How far a delivery's signed time may be from ours, either way.
        stack: Closes the adapter's connections at the end.
        clock: Ours, aware and in UTC.
    """

    budget: Budget
    validators: Validators
    tokens: Callable[[str], Tokens]
    notices: Notices
    tolerance: timedelta
    stack: ExitStack
    clock: Callable[[], datetime] = our_clock


@dataclass(frozen=True, slots=True, kw_only=True)
class Subscription:
    """
    A provider's standing order to send deliveries to us, or the place where there should be one.

    Attributes:
        place: Whose it is, in the provider's own words: the account, a repository, an organization, the shop.
        id: The provider's; empty: nothing in this place points at us.
        url: Where it points; empty where nothing does.
        topics: What it sends; `*` is everything.
        missing: What the mirrored kinds need and it does not send.
        wrong: What else keeps its deliveries from being taken, each as a phrase that follows its name.
        version: The API version that it speaks; empty: none of its own.
    """

    place: str
    id: str = ""
    url: str = ""
    topics: tuple[str, ...] = ()
    missing: tuple[str, ...] = ()
    wrong: tuple[str, ...] = ()
    version: str = ""

    @property
    def sound(self) -> bool:
        """Say whether all that we need comes by it."""
        return bool(self.id) and not self.missing and not self.wrong


@dataclass(frozen=True, slots=True)
class Mended:
    """
    A subscription that was made or put right.

    Attributes:
        id: The provider's.
        secret: What it signs with from now on, shown this once; None: with a secret that we have already.
    """

    id: str
    secret: str | None = field(default=None, repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class Undelivered:
    """
    An event that its provider could not deliver.

    Attributes:
        event_id: As `webhook_events` would name it.
        place: Whose subscription it was for; empty where the provider does not say.
        id: What `redeliver` goes by.
        at: When the last attempt failed, or when the event was made.
        hints: What it is about, where the provider shows that instead of sending it again.
    """

    event_id: str
    place: str = ""
    id: str
    at: datetime
    hints: tuple[Hint, ...] = ()


class Standing(StrEnum):
    """How a kind stands in one scope, as far as a question about many scopes shows it."""

    MOVED = "moved"  # something changed, or it was not seen: it has to be listed
    STILL = "still"  # nothing changed that a list would show: it counts as listed
    UNSEEN = "unseen"  # the question does not show all of it, and shows no change: it waits for the night


class Probed(Protocol):
    """What one question about many scopes showed."""

    def standing(self, kind: str, scope: str, since: datetime) -> Standing:
        """Say whether *kind* has to be listed in *scope* for what changed since then."""


@runtime_checkable
class Probing(Protocol):
    """What an adapter has besides where its provider tells in few calls in which of many scopes something changed."""

    def probe(self) -> Probed | None:
        """
        Ask now what changed lately where; None: to list each scope costs no more.

        The sweep asks once in a light pass, before it lists anything. Raises a `SourceError`.
        """


class Subscribed(Protocol):
    """What an adapter knows of how deliveries come; where its provider has no such thing it shows nothing."""

    def subscriptions(self, urls: Sequence[str], *, held: Collection[str] = ()) -> Sequence[Subscription]:
        """
        Return how it stands in each place where something has to point at one of *urls*; shows nothing that does not.

        *held* are the ids of those whose secret was shown to us and is kept. Raises a `SourceError`, `AccessLost` also
        where the credential may not look.
        """

    def mend_subscription(self, broken: Subscription, url: str, *, secret: str | None) -> Mended:
        """
        Make *broken* at *url*, or put it right: send all that we need, besides all that it sends already.

        *secret* is what it is to sign with, where that is ours to say. Touches nothing that points elsewhere. Raises
        `SourceRefused` where no call can mend it, with the way out in words, or another `SourceError`.
        """

    def failed_deliveries(self, urls: Sequence[str], since: datetime) -> Iterator[Undelivered]:
        """Yield each event once that since then was sent to one of *urls*, or to whomever, and did not arrive."""

    def redeliver(self, undelivered: Undelivered) -> None:
        """Have it sent again, to where it failed to arrive; raises a `SourceError`: `SourceRefused` for good."""

    def spoken(self, payload: Body) -> str | None:
        """Return the API version that an event's payload is in; None where that means nothing, or is not told."""


class Adapter(Subscribed, Protocol):
    """
    The code that speaks for one source.

    Attributes:
        provider: `stripe`, `shopify`, `github`, ...
        source: The configured name.
        kinds: The kinds this source mirrors, by name.
    """

    @property
    def provider(self) -> str: ...  # noqa: D102 - the attributes are described above

    @property
    def source(self) -> str: ...  # noqa: D102 - same

    @property
    def kinds(self) -> Mapping[str, Kind]: ...  # noqa: D102 - same

    def read(self, delivery: Delivery, *, secrets: Sequence[str] | None = None) -> tuple[Notification, ...]:
        """
        Verify and parse in one step; what is authentic but about nothing we mirror names no object.

        *secrets* are those of the endpoint that it was sent to, and stand in place of the source's own. Raises
        `SignatureInvalid` or `DeliveryMalformed`, and nothing else whatever the bytes.
        """

    def addressed(self, told: Notification, delivery: Delivery) -> bool:
        """
        Say whether *told*, which any source of the same endpoint read from *delivery*, is about this one; asks nobody.

        What no signature covers, such as a header, may choose among the sources of an endpoint, and nothing else.
        """

    def fetch(self, ref: ObjectRef, *, locator: Body | None = None) -> Snapshot:
        """
        Return the object as it is now, or its absence with the proof.

        Raises `SourceUnavailable`, `SourceBusy`, `SourceRefused` or `AccessLost`. Never shows a part of an object:
        sub-lists are walked, and the head is read again when that took several calls.
        """

    def changed_since(self, kind: str, scope: str, since: datetime) -> Iterator[Page]:
        """
        Yield what the kind's real change feed shows from *since* on, each page asked for only when it is requested.

        May repeat itself, promises no order, never stops early without raising a `SourceError`.
        """

    def crawl(self, kind: str, scope: str) -> Iterator[Page]:
        """Yield every object (whole) or id (hint) the source still has; raises rather than stopping early."""

    def identity(self, scope: str = "") -> str:
        """Return the provider's id of the account behind the credential; raises `AccessLost` if *scope* is not seen."""

    def scopes(self, kind: str | None = None) -> Sequence[str]:
        """Return the scopes to sweep, of *kind* or of all kinds; `("",)` where there is only one."""

    def shown(self, payload: Body, ref: ObjectRef) -> Body | None:
        """Return *ref* as an event's payload shows it, if that is whole and in the shape of `fetch`; else None."""

    def shape(self, kind: str) -> Mapping[str, object]:
        """Return what the form of this kind's bodies depends on: adapter version, API version, requested fields."""


Reader: TypeAlias = Literal["text", "secret", "names", "flag", "whole", "duration", "address"]
"""How a key is read: as str, `Secret`, tuple of str, bool, int above 0, timedelta, or the address of a site."""


def option(read: Reader, *, default: object = MISSING) -> Any:  # noqa: ANN401 - as dataclasses.field
    """
    Declare a key that only sources of one provider have, as a field of `Provider.access`.

    Without a *default* it must be there. A secret is written by name only, like ours.
    """
    metadata = {"read": read}
    return field(metadata=metadata) if default is MISSING else field(default=default, metadata=metadata)


class Access(Protocol):
    """What only the sources of one provider have: a frozen dataclass whose fields are keys of the configuration."""

    def faults(self) -> tuple[str, ...]:
        """Return what its keys together are not good for, each as a sentence that says the way out."""


class Configured(Protocol):
    """
    A source as it is configured.

    Attributes:
        access: What only this provider's sources have: of the class that its provider names.
        webhook_secrets: Any of them vouches for a delivery; none: every delivery is refused.
        kinds: None: the provider's core set.
        backfill_since: None: all history.
        calls_per_second: None: the provider's own limits.
        api_base: Instead of the provider's own address; without a slash at its end.
    """

    @property
    def name(self) -> str: ...  # noqa: D102 - the attributes are described above

    @property
    def access(self) -> Access: ...  # noqa: D102 - same

    @property
    def webhook_secrets(self) -> tuple[Secret, ...]: ...  # noqa: D102 - same

    @property
    def kinds(self) -> tuple[str, ...] | Literal["all"] | None: ...  # noqa: D102 - same

    @property
    def backfill_since(self) -> datetime | None: ...  # noqa: D102 - same

    @property
    def calls_per_second(self) -> float | None: ...  # noqa: D102 - same

    @property
    def api_base(self) -> str | None: ...  # noqa: D102 - same

    @property
    def api_version(self) -> str: ...  # noqa: D102 - same


@dataclass(frozen=True, slots=True, kw_only=True)
class Provider:
    """
    How this program speaks to one provider: what an entry point of the group `reconciler.adapters` names.

    The entry point's own name is the provider's, as the configuration writes it: lower-case letters, digits and `_`.

    Attributes:
        kinds: Every kind there is, by name; a source mirrors some of them.
        access: The keys that only its sources have.
        api_version: What a source speaks that names none.
        redelivers: How long after an event, or after its last delivery, it may be delivered again, by hand or not.
        limits: Returns how often a source may call.
        adapter: Returns the adapter of a source; raises `ConfigError` where that cannot be, and calls nobody yet.
        tests: Says whether a source shows only what its provider keeps for tests.
        checked: Says whether a source is configured for something that its adapter can have confirmed (`Checking`).
        shared: What sources that their provider counts together have in common; None: each is counted by itself.
        allotments: What it allots by the month.
    """

    kinds: Mapping[str, Kind]
    access: type[Access]
    api_version: str
    redelivers: timedelta
    limits: Callable[[Configured], Sequence[Limit]]
    adapter: Callable[[Configured, Hands], Adapter]
    tests: Callable[[Configured], bool] = lambda _: False
    checked: Callable[[Configured], bool] = lambda _: False
    shared: Callable[[Configured], str | None] = lambda _: None
    allotments: tuple[Allotment, ...] = ()


@dataclass(frozen=True, slots=True)
class Count:
    """
    How many objects of a kind there are, as far as a cheap call tells.

    Attributes:
        exact: The provider counted them; else it is an estimate, or there are more than it counts.
        pages: Calls that listing them all takes; None: as many as there are pages.
    """

    objects: int
    exact: bool
    pages: int | None = None


@runtime_checkable
class Counting(Protocol):
    """What an adapter may do besides: count, for forecasts; where it cannot, a page of the list has to do."""

    def count(self, kind: str, scope: str) -> Count | None:
        """Return how many a crawl of *kind* in *scope* would show, for a call or two; None where none tells."""


@runtime_checkable
class Checking(Protocol):
    """What an adapter may do besides: have its provider say whether it has what a source is configured for."""

    def faults(self) -> Sequence[str]:
        """
        Return a sentence for each thing that the provider does not have: the key, the value, and what there is.

        Reads nothing that is kept. Raises a `SourceError` where the provider does not say.
        """


class Feed(Protocol):
    """What shows the changes of the kinds that one pass is about."""

    def changed_since(self, kind: str, scope: str, since: datetime) -> Iterator[Page]:
        """Yield what `Adapter.changed_since` would; what several kinds have in common is asked for once."""


@runtime_checkable
class Sharing(Protocol):
    """What an adapter may do besides: read a feed that several kinds have in common once for all of them."""

    def one_pass(self, kinds: Collection[str]) -> Feed:
        """Return what shows the changes of *kinds* from now on; good for one pass, and for one thread at a time."""


def one_pass(adapter: Adapter, kinds: Collection[str]) -> Feed:
    """Return what shows the changes of *kinds* of *adapter* in a pass that begins now."""
    return adapter.one_pass(kinds) if isinstance(adapter, Sharing) else adapter


def patiently(ask: Callable[[], T], *, sleep: Callable[[float], None] = time.sleep) -> T:
    """
    Return what *ask* returns, asked again while the provider is busy or fails for a moment: one page of a long listing.

    A provider that is busy has said for how long nobody may call, and each call waits for that in the budget; after
    another failure it is given a breath. What goes on failing is raised.
    """
    busy = failed = 0
    while True:
        try:
            return ask()
        except SourceBusy:
            busy += 1
            if busy == _BUSY_TIMES:
                raise
        except SourceUnavailable as error:
            failed += 1
            if failed == _FAILED_TIMES:
                raise
            sleep(min(error.retry_after or _BREATH * failed, _LONGEST_BREATH))
