"""GitHub's stand-in as tests of its adapter use it, and what they send and read."""

from __future__ import annotations

import hashlib
import hmac
import json
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import httpx

from reconciler.model import Delivery, ObjectRef

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from adapters.github import GitHub
    from reconciler.model import Notification, Page
    from tests.adapters.scripted import Asked, Said, Scripted

    MakeGitHub = Callable[..., GitHub]
    MakeScripted = Callable[[Callable[[Asked], Said]], Scripted]

NOW = datetime(2026, 11, 30, 12, 0, 30, tzinfo=UTC)
AT = datetime(2026, 11, 30, 12, 0, 0, tzinfo=UTC)
TOKEN = "ghp_standinofatoken"
SECRET = "standinofasecret"


class Hub:
    """A stand-in of GitHub."""

    def __init__(self, url: str) -> None:
        self.url = url
        self._control = httpx.Client(base_url=f"{url}/_control", timeout=30)
        self.shop = self.act("create", "repository", body={"name": "shop", "owner": "acme"})

    def act(self, op: str, kind: str, id_: str = "", **more: Any) -> str:
        """Make something happen and return the object's id."""
        asked = {"op": op, "kind": kind, **({"id": id_} if id_ else {}), **more}
        if kind != "repository":
            asked.setdefault("scope", self.shop)
        return str(self.told("POST", "/objects", asked)["id"])

    def told(self, method: str, path: str, asked: Any = None) -> Any:
        """Ask the control routes."""
        answer = self._control.request(method, path, json=asked)
        assert answer.status_code == 200, answer.text
        return answer.json()

    def close(self) -> None:
        """Let go."""
        self._control.close()


def ref(kind: str, id_: str, scope: str = "10") -> ObjectRef:
    """Return a ref of the source under test."""
    return ObjectRef("github-acme", scope, kind, id_)


def delivered(body: bytes, event: str = "issues", **headers: str) -> Delivery:
    """Return a delivery of these bytes as GitHub would sign it."""
    given = {
        "content-type": "application/json",
        "x-github-event": event,
        "x-github-delivery": "72d3162e-cc78-11e3-81ab-4c9367dc0958",
        "x-github-hook-id": "292430182",
        "x-hub-signature-256": f"sha256={hmac.new(SECRET.encode(), body, hashlib.sha256).hexdigest()}",
    }
    return Delivery(given | {name.replace("_", "-"): value for name, value in headers.items()}, body, NOW)


def read(adapter: GitHub, event: str, payload: dict[str, Any], **headers: str) -> Notification:
    """Return the one notification in a delivery of *payload*."""
    [notification] = adapter.read(delivered(json.dumps(payload).encode(), event, **headers))
    return notification


def repository(number: int = 10, name: str = "acme/shop", **fields: Any) -> dict[str, Any]:
    """Return a repository as payloads show it."""
    owner, _, own = name.partition("/")
    return {"id": number, "name": own, "full_name": name, "owner": {"login": owner}, **fields}


def issue(number: int, at: int = 0, **fields: Any) -> dict[str, Any]:
    """Return an issue that changed so many seconds after `AT`."""
    stamp = f"{AT + timedelta(seconds=at):%Y-%m-%dT%H:%M:%SZ}"
    return {"id": 7000 + number, "number": number, "state": "open", "updated_at": stamp, **fields}


def shown(pages: Iterable[Page]) -> list[str]:
    """Return the ids on *pages*, in order."""
    return [
        id_
        for page in pages
        for id_ in (*(each.ref.id for each in page.snapshots), *(hint.ref.id for hint in page.hints))
    ]
