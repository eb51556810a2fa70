"""The words of this program as values: frozen, compared by content, with no behaviour of their own."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING, Any, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Mapping
    from datetime import datetime

JSON: TypeAlias = Any
"""Parsed JSON: None, bool, int, Decimal, str, list and dict with text keys. Never a float."""

Body: TypeAlias = dict[str, Any]
"""A JSON object."""


class Verdict(StrEnum):
    """What became of one snapshot."""

    APPLIED = "applied"  # our row now shows it
    UNCHANGED = "unchanged"  # our row showed it already
    DECLINED = "declined"  # it is older than our row
    TIED = "tied"  # it cannot be ordered against our row; a fresh read is queued


class Via(StrEnum):
    """The way a snapshot or a stamp came to us."""

    WEBHOOK = "webhook"
    SWEEP = "sweep"
    CRAWL = "crawl"
    TRIGGER = "trigger"
    REPLAY = "replay"
    REREAD = "reread"
    HAND_EDIT = "hand_edit"
    PAYLOAD = "payload"


class Reason(StrEnum):
    """Why an object is wanted."""

    WEBHOOK = "webhook"
    SWEEP = "sweep"
    TRIGGER = "trigger"
    REPLAY = "replay"
    TIE = "tie"
    REREAD = "reread"
    HAND_EDIT = "hand_edit"


class Change(StrEnum):
    """What an applied snapshot did to our row (`object_history.what`)."""

    LOADED = "loaded"
    CREATED = "created"
    UPDATED = "updated"
    DELETED = "deleted"
    RESTORED = "restored"
    REWOUND = "rewound"
    RESHAPED = "reshaped"


class Proof(StrEnum):
    """How a source showed that an object is absent."""

    STATED = "stated"  # it says so: `deleted: true`, a 410 about this object
    NOT_FOUND = "not_found"  # a 404 or null: believed only when seen twice


@dataclass(frozen=True, slots=True, order=True)
class ObjectRef:
    """
    Where one object lives.

    Attributes:
        source: The configured name of the account at the provider.
        scope: The part of the source it lives in; empty where there is only one.
        kind: Singular, in the provider's own spelling.
        id: The provider's id, as text.
    """

    source: str
    scope: str
    kind: str
    id: str

    def __str__(self) -> str:
        """Write it as paths are written, leaving out an empty scope."""
        return "/".join(part for part in (self.source, self.scope, self.kind, self.id) if part)


@dataclass(frozen=True, slots=True)
class Delivery:
    """
    One HTTP request made to us: nobody has vouched for it yet.

    Attributes:
        headers: Lower-case names; a repeated header holds its last value.
        body: The exact bytes received.
        received_at: Aware, UTC, our clock.
    """

    headers: Mapping[str, str]
    body: bytes = field(repr=False)
    received_at: datetime


@dataclass(frozen=True, slots=True)
class Named:
    """
    One object that a notification names.

    Attributes:
        stamp: The object's own stamp as the notification shows it; None for unstamped kinds.
        locator: What a call needs besides the id (a label's name), never identity.
    """

    ref: ObjectRef
    stamp: datetime | None = None
    locator: Body | None = None


@dataclass(frozen=True, slots=True)
class Erasure:
    """
    What a provider asks us to forget.

    Attributes:
        objects: Which; True: with what is linked to it.
        whole: All there is of the source.
    """

    objects: tuple[tuple[ObjectRef, bool], ...] = ()
    whole: bool = False


@dataclass(frozen=True, slots=True)
class AccessWord:
    """
    That a provider says our access has changed, which somebody is to look at now.

    Attributes:
        scope: Where; empty: to all of the source.
        what: `suspended` or `uninstalled`, as a lost access is called then; empty: it may have been given, or back.
    """

    scope: str = ""
    what: str = ""


@dataclass(frozen=True, slots=True)
class Notification:
    """
    A verified hint, read from a delivery, that objects changed.

    Attributes:
        occurred_at: The provider's time of the event; orders events, never states.
        payload: The parsed, cleaned body.
        raw: The exact bytes, kept only where cleaning changed something.
        named: The objects to look at; empty when it is about nothing we mirror.
        skipped: Why an authentic event must not be acted on (other mode); empty when it may be.
        secret: Which configured secret vouched for it, counted from 1.
        erasure: What it asks us to forget; None: nothing.
        access: What it says of our access to the source, or to a scope of it; None: nothing.
    """

    source: str
    event_id: str
    event_type: str
    occurred_at: datetime | None
    payload: Body = field(repr=False)
    raw: bytes | None = field(default=None, repr=False)
    named: tuple[Named, ...] = ()
    skipped: str = ""
    secret: int = 1
    erasure: Erasure | None = None
    access: AccessWord | None = None


@dataclass(frozen=True, slots=True)
class Snapshot:
    """
    The state of one object as its source showed it in one read.

    Attributes:
        body: The whole object; None: the source says there is none.
        stamp: The provider's own time of the last change; None where the body has none or the kind is unstamped.
        observed_at: The provider's `Date` of the read (ours, where it sends none); for people, orders nothing.
        proof: How an absence was shown; None where there is a body.
        because: The absence in words, for example `404 resource_missing`.
        locator: What calls about it need besides the id.
    """

    ref: ObjectRef
    body: Body | None = field(repr=False)
    stamp: datetime | None
    observed_at: datetime
    proof: Proof | None = None
    because: str = ""
    locator: Body | None = None


@dataclass(frozen=True, slots=True)
class Hint:
    """
    What a feed shows when it does not show the whole object.

    Attributes:
        event_id: The provider's event behind it, as `webhook_events` would name it; None where the feed has none.
        changed_at: When it changed, by the feed; None where it does not say.
    """

    ref: ObjectRef
    event_id: str | None = None
    event_type: str | None = None
    changed_at: datetime | None = None
    stamp: datetime | None = None
    locator: Body | None = None


@dataclass(frozen=True, slots=True)
class Page:
    """
    One page of a feed or listing: whole snapshots, hints, or both; may repeat itself, promises no order.

    Attributes:
        validators: What marks it as it is now, by its address; kept with the watermark, for whoever lists it next.
        since_begun: It shows what was read at any time since the listing began, not since this page was asked for.
    """

    snapshots: tuple[Snapshot, ...] = ()
    hints: tuple[Hint, ...] = ()
    validators: Mapping[str, Body] = field(default_factory=dict)
    since_begun: bool = False


@dataclass(frozen=True, slots=True)
class Reading:
    """
    A snapshot with the interval of positions that its read took.

    Attributes:
        read_from: Drawn before the first provider call.
        read_until: Drawn after the last answer; None: the applying transaction draws it.
        began_at: The database's clock when `read_from` was drawn.
        listed: It came from a list, not from a fetch of this object.
    """

    snapshot: Snapshot
    read_from: int
    read_until: int | None
    began_at: datetime
    listed: bool = False


@dataclass(frozen=True, slots=True)
class Origin:
    """
    What brought a read, for the record.

    Attributes:
        event_id: The newest event it answers, where events asked for it.
        run_id: The run it is part of, where a run asked for it.
    """

    via: Via
    event_id: str | None = None
    run_id: int | None = None
