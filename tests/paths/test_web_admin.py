"""What people and scripts can ask for over HTTP, and who may."""

from __future__ import annotations

import threading
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from decimal import Decimal
from typing import TYPE_CHECKING

import httpx
import pytest

from reconciler.errors import ConfigError, DatabaseUnavailable
from reconciler.model import ObjectRef
from reconciler.web.admin import Looked, RunHeld, RunRequest, UnknownKind, admin_app
from reconciler.web.server import Site, WebServer
from tests.paths.listening import ANYWHERE, eventually, request, said, status

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from reconciler.model import Body

TOKEN = "admin-token-standin"
READ_AT = datetime(2026, 11, 30, 3, 10, tzinfo=UTC)


@dataclass
class Stand:
    """
    Operations that remember what they were asked, and answer what the test says.

    Attributes:
        looked: What came of a refetch; None: nothing yet.
        fault: Raised by whatever is asked.
        told: Nobody learns what came of a refetch before it is set.
    """

    looked: Looked | None = None
    fault: Exception | None = None
    wanted: list[ObjectRef] = field(default_factory=list)
    runs: list[RunRequest] = field(default_factory=list)
    threads: set[str] = field(default_factory=set)
    told: threading.Event = field(default_factory=threading.Event)

    def want(self, ref: ObjectRef) -> int:
        """Know one source."""
        self._asked()
        if ref.source != "shop":
            raise UnknownKind(f"{ref.source} is no source")
        self.wanted.append(ref)
        return 7

    def looked_at(self, ref: ObjectRef, wanted: int, seconds: float) -> Looked | None:
        """Wait as long as it is told if there is nothing to tell."""
        assert (ref, wanted) == (self.wanted[-1], 7)
        self.told.wait(30)
        if self.looked is None:
            time.sleep(seconds)
        return self.looked

    def begin_run(self, request: RunRequest) -> int:
        """Begin nothing."""
        self._asked()
        self.runs.append(request)
        return 42

    def run_report(self, run_id: int) -> Body | None:
        """Know one run."""
        self._asked()
        return {"id": 42, "kinds": [{"listed": Decimal("1.10")}]} if run_id == 42 else None

    def _asked(self) -> None:
        self.threads.add(threading.current_thread().name)
        if self.fault is not None:
            raise self.fault


@contextmanager
def administered(stand: Stand, *, tokens: Sequence[str] = (TOKEN,)) -> Iterator[httpx.Client]:
    """Yield a client that shows the token to a listener before *stand*."""
    app = admin_app(stand, lambda: b"reconciler_runs_total 1.0\n", tokens=tokens)
    server = WebServer(Site("admin.listen", app, ANYWHERE))
    (address,) = server.start()
    try:
        with httpx.Client(base_url=f"http://{address}", headers={"Authorization": f"Bearer {TOKEN}"}) as client:
            yield client
    finally:
        server.stop(1)


@pytest.fixture
def stand() -> Stand:
    """Return operations that answer."""
    answering = Stand()
    answering.told.set()
    return answering


@pytest.fixture
def admin(stand: Stand) -> Iterator[httpx.Client]:
    """Yield a client that shows the token."""
    with administered(stand) as client:
        yield client


def test_a_trigger(admin: httpx.Client, stand: Stand) -> None:
    """202 with the object and its number, at once."""
    answer = admin.post("/refetch/shop/order/7", params={"scope": "12"})

    assert (answer.status_code, answer.json()) == (202, {"ref": "shop/12/order/7", "wanted": 7})
    assert stand.wanted == [ObjectRef("shop", "12", "order", "7")]
    assert not any(name.startswith("web") for name in stand.threads)


def test_a_trigger_that_waits(admin: httpx.Client, stand: Stand) -> None:
    """With `wait`, 200 with what came of it."""
    stand.looked = Looked("applied", READ_AT, READ_AT, deleted=False)

    answer = admin.post("/refetch/shop/order/7", params={"wait": "5"})

    assert (answer.status_code, answer.json()) == (
        200,
        {
            "ref": "shop/order/7",
            "verdict": "applied",
            "source_updated_at": "2026-11-30T03:10:00.000000Z",
            "observed_at": "2026-11-30T03:10:00.000000Z",
            "deleted": False,
        },
    )


def test_a_trigger_that_waits_in_vain(admin: httpx.Client) -> None:
    """When nothing came of it in time it is 202, as without waiting."""
    answer = admin.post("/refetch/shop/order/7", params={"wait": "0.3"})

    assert (answer.status_code, answer.json()) == (202, {"ref": "shop/order/7", "wanted": 7})


def test_a_dead_letter(admin: httpx.Client, stand: Stand) -> None:
    """What was given up is told with the reason."""
    stand.looked = Looked(None, None, None, deleted=False, error="422 from the provider")

    answer = admin.post("/refetch/shop/order/7?wait=5").json()

    assert (answer["verdict"], answer["observed_at"], answer["error"]) == (None, None, "422 from the provider")


def test_ids_as_providers_write_them(admin: httpx.Client, stand: Stand) -> None:
    """Slashes, colons, escapes and other scripts are part of an id."""
    paths = ["gid://shopify/Order/1", "1:2", "a%2Fb", "a%20b", "a%25b", "%C3%BC", "a%3Fb%23c"]

    answers = [admin.post(f"/refetch/shop/order/{path}").status_code for path in paths]

    assert answers == [202] * len(paths)
    assert [ref.id for ref in stand.wanted] == ["gid://shopify/Order/1", "1:2", "a/b", "a b", "a%b", "ü", "a?b#c"]


def test_what_no_object_is_called(admin: httpx.Client, stand: Stand) -> None:
    """What no database could look up is refused, not tried."""
    refused = {
        "/refetch/shop/order/": 404,
        "/refetch/shop/order": 404,
        "/refetch/shop/order/%00": 400,
        "/refetch/shop/order/a%0Ab": 404,
        f"/refetch/shop/order/{'x' * 1001}": 400,
        "/refetch/shop/order/7?scope=%00": 400,
        "/refetch/shop/order/7?wait=soon": 400,
        "/refetch/shop/order/7?wait=-1": 400,
        "/refetch/shop/order/7?wait=nan": 400,
        "/refetch/shop/order/7?wait=inf": 400,
        "/refetch/nowhere/order/7": 404,
        "/refetch/shop/order/%2E%2E": 400,
        "/refetch/shop/order/7?scope=..": 400,
    }

    answers = {path: admin.post(path) for path in refused}

    assert {path: answer.status_code for path, answer in answers.items()} == refused
    assert answers["/refetch/nowhere/order/7"].json() == {"error": "nowhere is no source"}
    assert stand.wanted == []


def test_a_run(admin: httpx.Client, stand: Stand) -> None:
    """202 with its number; what is not said, or null, is everything."""
    asked = {"since": "24h", "until": None, "sources": ["shop"], "kinds": ["order"], "full": True, "dry_run": True}
    asked |= {"allow_deletes": True}

    answers = [admin.post("/reconcile", json=asked), admin.post("/reconcile"), admin.post("/reconcile", json={})]

    assert [(answer.status_code, answer.json()) for answer in answers] == [(202, {"run": 42})] * 3
    assert stand.runs == [
        RunRequest(since="24h", sources=("shop",), kinds=("order",), full=True, dry_run=True, allow_deletes=True),
        RunRequest(),
        RunRequest(),
    ]


def test_a_run_that_cannot_be_asked_for(admin: httpx.Client, stand: Stand) -> None:
    """400 with a sentence, before anything is begun."""
    bodies = [
        b"[]",
        b"{",
        b'{"sinse":"24h"}',
        b'{"full":"yes"}',
        b'{"kinds":"order"}',
        b'{"kinds":[1]}',
        b'{"since":1}',
    ]

    answers = [admin.post("/reconcile", content=body) for body in bodies]

    assert [answer.status_code for answer in answers] == [400] * len(bodies)
    assert answers[2].json()["error"].startswith("sinse: unknown; known are since")
    assert admin.post("/reconcile", content=b" " * 70_000).status_code == 413
    assert stand.runs == []


def test_what_operations_raise(admin: httpx.Client, stand: Stand) -> None:
    """Each reason has its status: another run 409, a wrong question 400, no database 503 with a time to come again."""
    faults: list[Exception] = [RunHeld(41), ConfigError("'yesterday' is no duration"), DatabaseUnavailable("gone")]
    answers = []
    for stand.fault in faults:
        answers.append(admin.post("/reconcile", json={}))

    assert [(answer.status_code, answer.json()) for answer in answers] == [
        (409, {"run": 41}),
        (400, {"error": "'yesterday' is no duration"}),
        (503, {"error": "gone"}),
    ]
    assert answers[2].headers["retry-after"] == "5"


def test_following_a_run(admin: httpx.Client) -> None:
    """Its report, numbers as they were written; 404 where there is none."""
    found, missing, absurd = (admin.get(f"/runs/{number}") for number in ("42", "43", "9" * 30))

    assert (found.status_code, found.text) == (200, '{"id":42,"kinds":[{"listed":1.10}]}')
    assert (missing.status_code, absurd.status_code) == (404, 404)
    assert admin.get("/runs/x").status_code == 404


def test_metrics_are_open(stand: Stand) -> None:
    """Prometheus needs no token, even where none is configured."""
    with administered(stand, tokens=()) as client:
        answer = client.get("/metrics", headers={"Authorization": ""})

    assert (answer.status_code, answer.content) == (200, b"reconciler_runs_total 1.0\n")
    assert answer.headers["content-type"].startswith("text/plain; version=0.0.4")


def test_no_token_configured(stand: Stand) -> None:
    """Everything else is refused then, whatever is shown."""
    with administered(stand, tokens=("",)) as client:
        answers = [
            client.post("/refetch/shop/order/7", headers={"Authorization": shown})
            for shown in ("", "Bearer", "Bearer x")
        ]

    assert [answer.status_code for answer in answers] == [403, 403, 403]
    assert stand.wanted == []


def test_who_may(admin: httpx.Client, stand: Stand) -> None:
    """Only a configured token opens, in the bearer scheme; without it even unknown paths tell nothing."""
    refused = ["", "Bearer", "Bearer x", f"Basic {TOKEN}", TOKEN, f"Bearer {TOKEN}x", f"Bearer {TOKEN[:-1]}"]

    answers = [admin.post("/refetch/shop/order/7", headers={"Authorization": shown}) for shown in refused]
    nowhere = admin.get("/nowhere", headers={"Authorization": ""})
    near = admin.get("/metrics/", headers={"Authorization": ""})
    allowed = admin.post("/refetch/shop/order/7", headers={"Authorization": f"bearer {TOKEN}"})

    assert {answer.status_code for answer in [*answers, nowhere, near]} == {401}
    assert answers[0].headers["www-authenticate"].startswith("Bearer")
    assert allowed.status_code == 202
    assert len(stand.wanted) == 1


def test_a_token_in_bytes_of_no_script(admin: httpx.Client) -> None:
    """Any header can be compared."""
    sent = request("/reconcile", headers={"Authorization": "Bearer \u00ff\u00e9"})

    assert status(said(int(admin.base_url.port or 0), sent)) == 401


def test_several_tokens(stand: Stand) -> None:
    """Each of them opens, so that they can be changed one after the other."""
    with administered(stand, tokens=("other-standin", TOKEN)) as client:
        assert client.post("/reconcile").status_code == 202
        assert client.post("/reconcile", headers={"Authorization": "Bearer other-standin"}).status_code == 202


def test_other_requests(admin: httpx.Client) -> None:
    """Unknown paths are 404, other methods 405, nothing is redirected."""
    answers = [admin.get("/"), admin.get("/reconcile"), admin.post("/metrics"), admin.get("/refetch/shop/order/7")]

    assert [answer.status_code for answer in answers] == [404, 405, 405, 405]
    assert admin.post("/reconcile/").status_code == 404


def test_many_that_wait(admin: httpx.Client, stand: Stand) -> None:
    """Those who wait for a verdict keep nobody else from being answered."""
    stand.looked = Looked("unchanged", None, READ_AT, deleted=False)
    stand.told.clear()
    with ThreadPoolExecutor(20) as waiting:
        sent = [waiting.submit(admin.post, "/refetch/shop/order/7?wait=60", timeout=60) for _ in range(20)]
        eventually(lambda: len(stand.wanted) == 20)

        answer = admin.get("/runs/42")

        anyone = any(future.done() for future in sent)
        stand.told.set()
        statuses = {future.result().status_code for future in sent}

    assert answer.status_code == 200
    assert not anyone
    assert statuses == {200}
