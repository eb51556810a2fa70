"""The provider's side of the demo: what happens there, told to a stand-in by its control routes."""

from __future__ import annotations

import json
from collections import Counter
from itertools import cycle
from random import Random
from typing import TYPE_CHECKING, Any, TypeAlias
from urllib.parse import urlsplit

from reconciler.demo.loopback import ask
from reconciler.errors import ReconcilerError

if TYPE_CHECKING:
    from collections.abc import Iterable

    from reconciler.demo.parts import Part
    from reconciler.model import Body

Key: TypeAlias = tuple[str, str, str]
"""The scope, kind and id of an object."""

_CREATED, _RESTORED, _DELETED = 0.02, 0.03, 0.05
"""Of all that happens, the shares up to which a draw means that."""

_STAY = 2
"""So many objects of a kind are not deleted: there is something to compare in the end."""


class Provider:
    """
    One stand-in, and the objects that were made there.

    Attributes:
        part: What happens there.
        happened: How often each operation was done.
    """

    def __init__(self, part: Part, url: str, *, seed: int) -> None:
        self.part = part
        self.url = url
        self.happened = Counter[str]()
        self._chance = Random(f"{seed} {part.source}")  # noqa: S311 - a seeded course of events, not a secret
        self._alive: dict[Key, bool] = {}
        self._leaving = cycle(part.leaves)
        self.ask("POST", "/seed", {"seed": seed})
        for path, told in part.controls.items():
            self.ask("PUT", path, told)

    def ask(self, method: str, path: str, told: object = None) -> Any:  # noqa: ANN401 - JSON
        """Ask a control route and return its answer."""
        return json.loads(ask(urlsplit(self.url).netloc, method, f"/_control{path}", told))

    def create(self, share: float) -> None:
        """Make *share* of the first objects of every kind, without a word to anybody."""
        self._alive |= dict.fromkeys(self.truth(), True)
        for kind, count in self.part.first.items():
            wanted = max(1, round(count * share)) if count else 0
            refused = self._operate([self._new(kind) | {"announce": False} for _ in range(wanted)])
            if refused:
                raise ReconcilerError(f"{self.part.source} would not make a {kind}: {refused[0]}")
        self.happened.clear()

    def send_to(self, address: str) -> None:
        """Send webhooks to *address* from now on, as badly as the part has it."""
        hook = {"url": f"http://{address}/webhooks/{self.part.source}", "secret": self.part.secret}
        self.ask("PUT", "/webhooks", hook)
        self.ask("PUT", "/faults", self.part.faults)

    def change(self, count: int) -> None:
        """Let *count* things happen: mostly changes, now and then a deletion, a return, a new object."""
        self._operate([self._something() for _ in range(count)])

    def change_in_silence(self, count: int) -> int:
        """Let *count* objects change, and some go, without any event; return how many did."""
        before = self.happened.total()
        chosen = self._chance.sample(self._standing(self.part.first), count)
        quiet = self.part.silence
        self._operate(
            [
                {**_named("delete" if _goes(self.part, kind, turn) else "change", (scope, kind, id_))}
                | quiet[turn % len(quiet)]
                for turn, (scope, kind, id_) in enumerate(chosen)
            ]
        )
        return self.happened.total() - before

    def some(self, count: int) -> list[Key]:
        """Return *count* objects that are there, drawn by lot."""
        return self._chance.sample(self._standing(self.part.first), count)

    def behave(self) -> int:
        """Do nothing wrong any more, and return how many deliveries are still on their way after a while."""
        self.ask("PUT", "/faults", {})
        return int(self.ask("POST", "/flush?timeout=60")["pending"])

    def truth(self) -> dict[Key, Body]:
        """Return the body of every object that there is."""
        there = {key: body for key, body in self._known() if body is not None}
        for kind, (holder, field) in self.part.within.items():
            for (scope, above, _), body in list(there.items()):
                if above == holder:
                    there |= {(scope, kind, each["id"]): each for each in body[field]["data"]}
        return there

    def unlisted(self) -> list[Key]:
        """Return every object that there ever was of the kinds that no call lists."""
        return [key for key, _ in self._known() if key[1] in self.part.unlisted]

    def _known(self) -> list[tuple[Key, Body | None]]:
        """Return every object that there ever was, and its body unless it is gone."""
        return [
            ((each["scope"], each["kind"], each["id"]), None if each["deleted"] else each["body"])
            for each in self.ask("GET", "/objects")
        ]

    def _something(self) -> Body:
        drawn = self._chance.random()
        gone = [key for key, is_alive in self._alive.items() if not is_alive and key[1] in self.part.returns]
        if drawn < _CREATED:
            made = [kind for kind, count in self.part.first.items() if count and kind != self.part.scopes]
            return self._new(self._chance.choice(made))
        if drawn < _RESTORED and gone:
            return _named("recreate", self._chance.choice(gone))
        if drawn < _DELETED and len(leaving := self._standing([next(self._leaving)])) > _STAY:
            return _named("delete", self._chance.choice(leaving))
        key = self._chance.choice(self._standing(self.part.first))
        return _named("change", key) | self._chance.choice(self.part.moves.get(key[1], ({},)))

    def _new(self, kind: str) -> Body:
        """Return the creation of an object, in a place that there is, and most often of what it may belong to."""
        scope = ""
        if self.part.scopes and kind not in {self.part.scopes, *self.part.outside}:
            scope = self._chance.choice(self._standing([self.part.scopes]))[2]
        field, parent = self.part.belongs.get(kind, ("", ""))
        parents = [key for key in self._standing([parent]) if key[0] == scope]
        body = {field: self._chance.choice(parents)[2]} if parents else {}
        return {"op": "create", "kind": kind, "scope": scope, "body": body}

    def _standing(self, kinds: Iterable[str]) -> list[Key]:
        wanted = set(kinds)
        return [key for key, is_alive in self._alive.items() if is_alive and key[1] in wanted]

    def _operate(self, operations: list[Body]) -> list[str]:
        """Let these happen, and return what was refused: an invoice that is paid cannot be deleted."""
        refused = []
        for told, done in zip(operations, self.ask("POST", "/objects", operations), strict=True):
            if "error" in done:
                refused.append(done["error"])
                continue
            ended = told["op"] == "delete" and not done["deleted"]  # canceled, say: it stays, and shows that
            self.happened["change" if ended else told["op"]] += 1
            self._note(done)
        return refused

    def _note(self, done: Body) -> None:
        """Note what became of an object, and of those that changed with it."""
        self._alive[done["scope"], done["kind"], done["id"]] = not done["deleted"]
        for each in done.get("also", ()):
            self._note(each)


def _named(op: str, key: Key) -> Body:
    scope, kind, id_ = key
    return {"op": op, "kind": kind, "id": id_, "scope": scope}


def _goes(part: Part, kind: str, turn: int) -> bool:
    return kind in part.leaves and turn % 3 == 0
