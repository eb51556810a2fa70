"""The provider's side of the demo: what happens there, told to the stand-in by its control routes."""

from __future__ import annotations

import http.client
import json
from collections import Counter
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from reconciler.errors import ReconcilerError

if TYPE_CHECKING:
    from random import Random

_OK = 200
# How many of each kind there are at first; some can be deleted, some change without telling.
_FIRST = {
    "customer": 90,
    "product": 30,
    "price": 30,
    "subscription": 60,
    "invoice": 40,
    "payment_intent": 30,
    "charge": 20,
    "refund": 10,
}
_DELETABLE = ("customer", "product")


class Provider:
    """One stand-in, and the objects that were made there."""

    def __init__(self, url: str, chance: Random) -> None:
        self.url = url
        self.changes = Counter[str]()
        self._chance = chance
        self._alive: dict[tuple[str, str], bool] = {}

    def ask(self, method: str, path: str, told: object = None) -> Any:  # noqa: ANN401 - JSON
        """Ask a control route and return its answer."""
        address = urlsplit(self.url)
        connection = http.client.HTTPConnection(address.hostname or "", address.port, timeout=60)
        try:
            body = None if told is None else json.dumps(told)
            connection.request(method, f"/_control{path}", body, {"Content-Type": "application/json"})
            response = connection.getresponse()
            answer = response.read()
        finally:
            connection.close()
        if response.status != _OK:
            raise ReconcilerError(f"the stand-in answered {response.status} to {path}: {answer[:300]!r}")
        return json.loads(answer)

    def create(self) -> None:
        """Make the first objects of every kind."""
        self._operate([{"op": "create", "kind": kind} for kind, count in _FIRST.items() for _ in range(count)])

    def change(self, count: int) -> None:
        """Let *count* things happen: mostly changes, now and then a deletion, a return, a new object."""
        self._operate([self._something() for _ in range(count)])

    def change_in_silence(self, count: int) -> None:
        """Let *count* objects change, and some go, without any event: what no feed can show."""
        alive = [key for key, is_alive in self._alive.items() if is_alive]
        chosen = self._chance.sample(alive, count)
        self._operate(
            [
                {
                    "op": "delete" if kind in _DELETABLE and number % 4 == 0 else "change",
                    "kind": kind,
                    "id": identity,
                    "announce": False,
                }
                for number, (kind, identity) in enumerate(chosen)
            ]
        )

    def truth(self) -> dict[tuple[str, str], Any]:
        """Return the body of every object there is, by kind and id; None for one that is gone."""
        told = self.ask("GET", "/objects")
        return {(each["kind"], each["id"]): None if each["deleted"] else each["body"] for each in told}

    def _something(self) -> dict[str, Any]:
        drawn = self._chance.random()
        gone = [key for key, is_alive in self._alive.items() if not is_alive and key[0] == "product"]
        if drawn < 0.02:
            return {"op": "create", "kind": self._chance.choice(list(_FIRST))}
        if drawn < 0.03 and gone:
            kind, identity = self._chance.choice(gone)
            self._alive[kind, identity] = True
            return {"op": "recreate", "kind": kind, "id": identity}
        wanted = _DELETABLE if drawn < 0.05 else tuple(_FIRST)
        kind, identity = self._chance.choice(
            [key for key, is_alive in self._alive.items() if is_alive and key[0] in wanted]
        )
        if wanted is _DELETABLE:
            self._alive[kind, identity] = False
            return {"op": "delete", "kind": kind, "id": identity}
        return {"op": "change", "kind": kind, "id": identity}

    def _operate(self, operations: list[dict[str, Any]]) -> None:
        for told, done in zip(operations, self.ask("POST", "/objects", operations), strict=True):
            if "error" in done:
                continue  # Stripe would not have it: an invoice that is paid cannot change
            self.changes[told["op"]] += 1
            self._alive[done["kind"], done["id"]] = told["op"] != "delete"
