"""What exists at the provider: every object with the versions it went through."""

from __future__ import annotations

import hashlib
import threading
from bisect import bisect_left, bisect_right, insort
from collections import Counter, defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Iterator

JSON: TypeAlias = Any
"""Parsed JSON, numbers exact."""

Body: TypeAlias = dict[str, Any]
"""A JSON object."""

Place: TypeAlias = tuple[int, int]
"""Where an object stands in its list: the second it was created, and its turn."""

KEPT_VERSIONS = 32
"""Older versions are forgotten; stale reads look back a few seconds only."""

_LETTERS = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"


@dataclass(frozen=True, slots=True)
class Version:
    """
    One state of one object.

    Attributes:
        number: Grows with each change of the object, its deletion included.
        at: Ticks of the provider's clock when it came to be.
        body: Never changed after this; None: the object is gone.
    """

    number: int
    at: float
    place: Place
    body: Body | None


class Timeline:
    """One object through all it was, newest version last."""

    __slots__ = ("id", "kind", "scope", "versions")

    def __init__(self, scope: str, kind: str, id_: str) -> None:
        self.scope, self.kind, self.id = scope, kind, id_
        self.versions: list[Version] = []

    @property
    def latest(self) -> Version:
        """The version it has now."""
        return self.versions[-1]

    def seen(self, at: float | None) -> Version | None:
        """Return the version it had at *at* (None: has now), or None if it did not exist yet."""
        if at is None:
            return self.latest
        oldest = self.versions[0] if self.versions[0].number > 1 else None
        return next((each for each in reversed(self.versions) if each.at <= at), oldest)


class Shelf:
    """The objects of one kind in one scope, in the order they were created."""

    def __init__(self) -> None:
        self.by_id: dict[str, Timeline] = {}
        self._places: list[Place] = []
        self._standing: dict[Place, Timeline] = {}

    def stand(self, place: Place, timeline: Timeline) -> None:
        """Put *timeline* at *place*; the places of earlier lives stay, but show nothing any more."""
        insort(self._places, place)
        self._standing[place] = timeline

    def newest(self, at: float | None, *, below: Place | None = None) -> Iterator[tuple[Place, Timeline, Body]]:
        """Yield what stood here at *at*, newest first, from under *below* on."""
        start = len(self._places) if below is None else bisect_left(self._places, below)
        return self._walk(range(start - 1, -1, -1), at)

    def oldest(self, at: float | None, *, above: Place) -> Iterator[tuple[Place, Timeline, Body]]:
        """Yield what stood here at *at*, oldest first, from over *above* on."""
        return self._walk(range(bisect_right(self._places, above), len(self._places)), at)

    def _walk(self, indexes: range, at: float | None) -> Iterator[tuple[Place, Timeline, Body]]:
        for index in indexes:
            place = self._places[index]
            timeline = self._standing[place]
            version = timeline.seen(at)
            if version is not None and version.place == place and version.body is not None:
                yield place, timeline, version.body


class World:
    """
    Every object of one stand-in.

    Attributes:
        lock: Held around whatever must be seen as one step.
    """

    def __init__(self, seed: int) -> None:
        self.lock = threading.RLock()
        self._seed = seed
        self._shelves: defaultdict[tuple[str, str], Shelf] = defaultdict(Shelf)
        self._turns: Counter[str] = Counter()

    def shelf(self, scope: str, kind: str) -> Shelf:
        """Return where the objects of *kind* in *scope* stand."""
        return self._shelves[scope, kind]

    def find(self, scope: str, kind: str, id_: str) -> Timeline | None:
        """Return the object, gone or not, or None if there never was one."""
        return self.shelf(scope, kind).by_id.get(id_)

    def everything(self) -> Iterator[Timeline]:
        """Yield every object of every kind and scope, those that are gone too."""
        for shelf in list(self._shelves.values()):
            yield from list(shelf.by_id.values())

    def put(self, timeline: Timeline, body: Body | None, *, at: float, created: int | None = None) -> Version:
        """Give the object its next version; with *created* it begins a new life at the end of that second."""
        shelf = self.shelf(timeline.scope, timeline.kind)
        shelf.by_id.setdefault(timeline.id, timeline)
        place = (created, self.turn("place")) if created is not None else timeline.latest.place
        number = timeline.latest.number + 1 if timeline.versions else 1
        version = Version(number, at, place, body)
        timeline.versions.append(version)
        del timeline.versions[:-KEPT_VERSIONS]
        if created is not None:
            shelf.stand(place, timeline)
        return version

    def turn(self, name: str) -> int:
        """Return the next number of the sequence *name*, from 1 on."""
        with self.lock:
            self._turns[name] += 1
            return self._turns[name]

    def new_id(self, prefix: str, *, length: int = 24) -> str:
        """Return an id as the provider makes them: random to look at, the same for the same seed."""
        digest = hashlib.sha256(f"{self._seed}:{prefix}:{self.turn(prefix)}".encode()).digest()
        return prefix + "".join(_LETTERS[byte % len(_LETTERS)] for byte in digest[:length])
