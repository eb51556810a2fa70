"""What this process mirrors, and in which form: the kinds of every source with their numbered shapes."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import TYPE_CHECKING

from reconciler.content import Form, dumps
from reconciler.store import statements

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from datetime import datetime, timedelta

    from sqlalchemy import Connection

    from reconciler.adapter import Kind
    from reconciler.store.shares import ShareStop


@dataclass(frozen=True, slots=True, kw_only=True)
class Rules:
    """
    The times the guard and the drain go by.

    Attributes:
        read_lag: How long a provider may go on showing an older state after it told of a newer one.
        rewound_after: How long older stamps must be seen before a source is believed to have rewound.
        absence_recheck: The least time between two reads that prove an absence.
        share_stop: How much of a kind may go within an hour.
    """

    read_lag: timedelta
    rewound_after: timedelta
    absence_recheck: timedelta
    share_stop: ShareStop


@dataclass(frozen=True, slots=True)
class MirroredKind:
    """
    One kind of one source as this process stores it.

    Attributes:
        n: The number of this process's shape; a row of a higher one belongs to a newer process.
        shape: `N:digest`, as rows carry it.
    """

    source: str
    kind: Kind
    form: Form
    n: int
    shape: str


@dataclass(frozen=True, slots=True)
class Mirror:
    """Every mirrored kind by source and kind, and the rules they share."""

    kinds: Mapping[tuple[str, str], MirroredKind]
    rules: Rules

    def of(self, source: str, kind: str) -> MirroredKind:
        """Return the mirrored kind; raises KeyError if this process does not mirror it."""
        return self.kinds[source, kind]


def form_of(kind: Kind, omit: Iterable[str]) -> Form:
    """Return how bodies of *kind* are stored and compared where *omit* is never stored."""
    return Form(omit=tuple(omit), volatile=kind.volatile, unordered=kind.unordered)


def activate(
    connection: Connection,
    source: str,
    kind: Kind,
    *,
    facts: Mapping[str, object],
    omit: Iterable[str] = (),
    now: datetime | None = None,
) -> MirroredKind:
    """
    Return *kind* of *source* with its shape's number: the current one's if the facts are the same, else the next.

    From then on processes that started with an earlier shape lease nothing of this kind.
    """
    form = form_of(kind, omit)
    told = {**facts, "omit": sorted(form.omit), "volatile": sorted(form.volatile), "unordered": sorted(form.unordered)}
    digest = hashlib.sha256(dumps(sorted(told.items())).encode()).hexdigest()[:16]
    statements.rows(connection, "lock_shapes")
    found = statements.one(
        connection, "activate_shape", {"source": source, "kind": kind.name, "digest": digest, "now": now}
    )
    return MirroredKind(source, kind, form, found.n, f"{found.n}:{digest}")
