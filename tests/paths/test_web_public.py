"""What a provider gets to hear, over real HTTP: every status of the contract, and nothing that breaks us."""

from __future__ import annotations

import concurrent.futures
import json
import re
import socket
import threading
from contextlib import closing
from dataclasses import replace
from itertools import count
from typing import TYPE_CHECKING

import httpx
import pytest

from reconciler.config.values import Given, Listen, secret
from reconciler.errors import ConfigError, SignatureInvalid
from reconciler.store.database import connect
from reconciler.web.public import Heartbeats, Reception, public_app
from reconciler.web.server import PATIENCE, Site, WebServer
from tests.paths.listening import (
    ANYWHERE,
    SECRET,
    SOURCE,
    Plain,
    event,
    eventually,
    held_up,
    listening,
    now,
    receiving,
    request,
    rows,
    said,
    signature,
    status,
    stripe,
    two_schemes,
)

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from reconciler.model import Delivery
    from reconciler.store.database import Database
    from tests.paths.listening import Listening

INBOX = f"/webhooks/{SOURCE}"
SMALL = Reception(max_body=100_000, body_within=0.3)


@pytest.fixture
def web(database: Database) -> Iterator[Listening]:
    """Yield a listener with the usual bounds."""
    with listening(database) as serving:
        yield serving


def post(web: Listening, body: bytes, headers: dict[str, str] | None = None) -> httpx.Response:
    """Deliver *body*, signed unless headers are given."""
    return httpx.post(web.inbox, content=body, headers=signature(body) if headers is None else headers)


def connected(web: Listening) -> closing[socket.socket]:
    """Return a connection, to be closed at the end of the block."""
    return closing(socket.create_connection(("127.0.0.1", web.port), timeout=10))


def refuses(web: Listening) -> bool:
    """Say whether nobody listens any more."""
    try:
        with connected(web):
            return False
    except ConnectionRefusedError:
        return True


def chunked(*chunks: bytes) -> bytes:
    """Return a chunked body of exactly these chunks."""
    return b"".join(b"%x\r\n%b\r\n" % (len(chunk), chunk) for chunk in chunks) + b"0\r\n\r\n"


def events(database: Database) -> list[str]:
    """Return the ids of the stored events."""
    return rows(database, "SELECT event_id FROM webhook_events ORDER BY 1")


def test_stored_and_repeated(web: Listening, database: Database) -> None:
    """200 with the event's id, and on a repeat the word for it in body and header."""
    first, second = post(web, event()), post(web, event())

    assert (first.status_code, first.json()) == (200, {"event_id": "evt_1", "duplicate": False})
    assert "x-duplicate" not in first.headers
    assert (second.status_code, second.json()) == (200, {"event_id": "evt_1", "duplicate": True})
    assert second.headers["x-duplicate"] == "1"
    assert rows(database, "SELECT event_id, duplicates FROM webhook_events") == [("evt_1", 1)]


def test_nothing_we_mirror(web: Listening, database: Database) -> None:
    """An authentic delivery about nothing we mirror is a success, on record."""
    answer = post(web, event(type="account.updated", data={"object": {"id": "acct_1", "object": "account"}}))

    assert answer.status_code == 200
    assert rows(database, "SELECT event_id, outcome FROM webhook_events") == [("evt_1", "ignored")]


def test_k01_the_exact_bytes(web: Listening, database: Database) -> None:
    """What is signed is what was sent, byte by byte; the same JSON in other bytes is refused."""
    body = rb'{"id":"evt_1","note":"a\u2028b","url":"https:\/\/x\/y","t":"R\u0026D","type":"a.b"}' + b"\n"
    resorted = json.dumps(json.loads(body), sort_keys=True).encode()

    answers = [post(web, body), post(web, resorted, signature(body))]

    assert [answer.status_code for answer in answers] == [200, 400]
    assert answers[1].json() == {"error": "signature"}
    assert events(database) == ["evt_1"]


def test_k02_a_character_split_between_chunks(web: Listening, database: Database) -> None:
    """A chunk may end inside a character."""
    body = event(note="\N{LATIN SMALL LETTER A WITH CIRCUMFLEX}")
    middle = body.index("\N{LATIN SMALL LETTER A WITH CIRCUMFLEX}".encode()) + 1
    headers = signature(body) | {"Transfer-Encoding": "chunked"}
    head, _, _ = request(INBOX, headers=headers).partition(b"\r\n\r\n")

    answer = said(web.port, head + b"\r\n\r\n" + chunked(body[:middle])[:-5], chunked(body[middle:]), pause=0.05)

    assert status(answer) == 200
    assert rows(database, "SELECT payload->>'note' FROM webhook_events") == ["\N{LATIN SMALL LETTER A WITH CIRCUMFLEX}"]


@pytest.mark.parametrize(
    ("pairs", "expected"),
    [
        (("v1=" + "0" * 64, "v1=GOOD", "v0=zz"), 200),
        (("v0=zz", "v1=GOOD", "v1=" + "0" * 64), 200),
        (("v0=GOOD",), 400),
        (("v1", "=", "", "v1=GOOD"), 200),
    ],
)
def test_k03_several_signatures(web: Listening, pairs: tuple[str, ...], expected: int) -> None:
    """Any `v1` that is right vouches, other schemes never do, and a malformed pair stops nothing."""
    assert post(web, event(), two_schemes(event(), pairs)).status_code == expected


def test_k04_two_live_secrets(database: Database) -> None:
    """While a secret is rolled both vouch, it is on record which one did, and the old one ends with its removal."""
    body = event()
    by_old = signature(body, secret="whsec_old")
    with listening(database, {SOURCE: stripe("whsec_new", "whsec_old")}) as web:
        during = post(web, body, by_old)
    with listening(database, {SOURCE: stripe("whsec_new")}) as web:
        after = post(web, body, by_old)

    assert (during.status_code, after.status_code) == (200, 400)
    assert rows(database, "SELECT secret FROM webhook_events") == [2]


def test_k05_a_secret_file_that_ends_in_a_newline(database: Database, tmp_path: Path) -> None:
    """The newline that every editor leaves is no part of the secret."""
    (tmp_path / "whsec").write_bytes(SECRET.encode() + b"\n")
    read = secret(Given(f"file:{tmp_path / 'whsec'}")).reveal()

    with listening(database, {SOURCE: stripe(read)}) as web:
        assert post(web, event()).status_code == 200


def test_k09_a_thin_event(web: Listening, database: Database) -> None:
    """An event without its object, and with times as text, is stored and starts what it names."""
    thin = {
        "id": "evt_t1",
        "object": "v2.core.event",
        "type": "v1.customer.updated",
        "created": "2026-11-30T00:00:00.000Z",
        "livemode": False,
        "related_object": {"id": "cus_9", "type": "customer", "url": "/v1/customers/cus_9"},
    }
    foreign = thin | {"id": "evt_t2", "type": "v2.core.account.updated"}
    foreign["related_object"] = {"id": "acct_1", "type": "v2.core.account", "url": "/v2/core/accounts/acct_1"}

    answers = [post(web, json.dumps(each).encode()) for each in (thin, foreign)]

    assert [answer.status_code for answer in answers] == [200, 200]
    assert rows(database, "SELECT event_id, outcome FROM webhook_events ORDER BY 1") == [
        ("evt_t1", None),
        ("evt_t2", "ignored"),
    ]
    assert rows(database, "SELECT id FROM refetches") == ["cus_9"]


def test_k10_an_event_of_the_other_mode(database: Database) -> None:
    """A test event at a live source is recorded as skipped and wants nothing."""
    with listening(database, {SOURCE: stripe(api_key="rk_" + "live_standin")}) as web:
        answer = post(web, event())

    assert answer.status_code == 200
    assert rows(database, "SELECT outcome FROM webhook_events") == ["skipped"]
    assert rows(database, "SELECT count(*) FROM refetches") == [0]


def test_k12_what_cannot_be_fetched(web: Listening, database: Database) -> None:
    """The sender hears 200 every time, whatever becomes of the object it names: that is ours to repeat."""
    answers = [post(web, event(number)).status_code for number in range(10)]
    with database.transaction() as connection:
        connection.exec_driver_sql("UPDATE refetches SET dead_at = now(), last_error = '500'")
    answers += [post(web, event(number)).status_code for number in range(10)]

    assert answers == [200] * 20


def test_k13_copies_that_race(web: Listening, database: Database) -> None:
    """Twenty copies at once: all are answered 2xx, one row, one want, nineteen told that they are repeats."""
    body = event()
    headers = signature(body)
    start = threading.Barrier(20)

    def send() -> httpx.Response:
        with httpx.Client() as client:
            start.wait(10)
            return client.post(web.inbox, content=body, headers=headers)

    with concurrent.futures.ThreadPoolExecutor(20) as senders:
        answers = [future.result() for future in [senders.submit(send) for _ in range(20)]]

    assert {answer.status_code for answer in answers} == {200}
    assert sum(answer.json()["duplicate"] for answer in answers) == 19
    assert rows(database, "SELECT event_id, duplicates FROM webhook_events") == [("evt_1", 19)]
    assert rows(database, "SELECT id FROM refetches") == ["cus_1"]


def test_k48_text_that_postgresql_cannot_hold(web: Listening, database: Database) -> None:
    """It is cleaned, the bytes are kept, what only looks like it survives, and a repeat is a repeat."""
    body = (
        rb'{"id":"evt_1","type":"a.b","a":"x\u0000y","b":"\\u0000","k\u0000":1,"s":"\ud800",'
        rb'"n":1e999999,"deep":' + b"[" * 300 + b"]" * 300 + b"}"
    )

    answers = [post(web, body), post(web, body)]

    assert [answer.status_code for answer in answers] == [200, 200]
    assert answers[1].json()["duplicate"]
    (payload, raw) = rows(database, "SELECT payload, raw FROM webhook_events")[0]
    assert payload["a"] == "x\N{REPLACEMENT CHARACTER}y"
    assert payload["b"] == r"\u0000"
    assert payload["k\N{REPLACEMENT CHARACTER}"] == 1
    assert bytes(raw) == body


def test_authentic_but_malformed(web: Listening, database: Database) -> None:
    """Whatever the bytes, 400 and a word, and nothing kept."""
    bodies = [
        b"",
        b"[]",
        b"null",
        b'{"id":"evt_1"',
        b'{"id":NaN}',
        b"{}",
        b'{"id":""}',
        b'{"id":7}',
        b"\xff\xfe",
        b"[" * 100_000,
        b'{"id":"' + b"x" * 5_000 + b'"}',
    ]

    answers = [post(web, body) for body in bodies]

    assert [answer.status_code for answer in answers] == [400] * len(bodies)
    assert {answer.text for answer in answers} == {'{"error":"malformed"}'}
    assert events(database) == []


def test_nobody_vouches(web: Listening, database: Database) -> None:
    """Without a signature of the right form: 400 `signature`, nothing kept."""
    headers = ["", "t=1,v1=00", "t=1", "v1=00", "t=x,v1=" + "0" * 64, "t=1,v1=" + "9" * 5_000]

    answers = [post(web, event(), {}), *(post(web, event(), {"Stripe-Signature": header}) for header in headers)]
    raw = said(web.port, request(INBOX, event(), {"Stripe-Signature": "t=1,v1=\u00e9"}))

    assert [answer.status_code for answer in answers] == [400] * len(answers)
    assert {answer.text for answer in answers} == {'{"error":"signature"}'}
    assert status(raw) == 400
    assert events(database) == []


def test_signatures_that_are_not_ours(web: Listening, database: Database) -> None:
    """Another secret, another scheme and another time vouch for nothing."""
    body = event()
    offered = [
        signature(body, secret="whsec_other"),
        signature(body, scheme="v0"),
        signature(body, moved=-310),
        signature(body, moved=310),
        signature(event(2)),
    ]

    answers = [post(web, body, headers) for headers in offered]

    assert [answer.status_code for answer in answers] == [400] * 5
    assert events(database) == []


def test_a_refused_signature_of_shopify(database: Database) -> None:
    """Shopify is told 401, as it asks for."""

    class Shop(Plain):
        def read(self, delivery: Delivery) -> tuple[()]:
            raise SignatureInvalid(f"nobody vouches for {len(delivery.body)} bytes")

    with listening(database, {"shop": Shop()}) as web:
        answer = httpx.post(f"{web.url}/webhooks/shop", content=b"{}")

    assert (answer.status_code, answer.json()) == (401, {"error": "signature"})


def test_other_requests(web: Listening) -> None:
    """Unknown names are 404, other methods 405, and nothing is ever redirected."""
    expected = {
        ("POST", "/webhooks/nobody"): 404,
        ("POST", "/webhooks/"): 404,
        ("POST", "/webhooks"): 404,
        ("POST", f"{INBOX}/"): 404,
        ("POST", f"//webhooks/{SOURCE}"): 404,
        ("POST", "/webhooks/stripe%2Feu"): 404,
        ("POST", "/webhooks/%00"): 404,
        ("GET", "/"): 404,
        ("GET", INBOX): 405,
        ("PUT", INBOX): 405,
        ("OPTIONS", INBOX): 405,
        ("DELETE", INBOX): 405,
        ("POST", "/healthz"): 405,
        ("HEAD", "/healthz"): 200,
    }

    answers = {asked: status(said(web.port, request(asked[1], b"{}", method=asked[0]))) for asked in expected}

    assert answers == expected


def test_a_name_that_nobody_has(web: Listening) -> None:
    """A mistyped URL is told in the log, with the names there are, and is no label of a metric."""
    answer = httpx.post(f"{web.url}/webhooks/{'stripe-uk' * 20}", content=b"{}")

    [line] = web.heard.told("delivery.refused")
    assert answer.status_code == 404
    assert line["reason"] == "unknown"
    assert line["because"] == f"no source or endpoint has that name; there is: {SOURCE}"
    assert len(line["source"]) == 64
    assert b"stripe-uk" not in web.heard.metrics.exposition()


def test_too_large(database: Database) -> None:
    """What is declared or sent beyond the bound is 413, and the connection serves the next request."""
    large = b"x" * 100_001
    with listening(database, reception=SMALL) as web, httpx.Client() as client:
        declared = client.post(web.inbox, content=large)
        streamed = client.post(web.inbox, content=iter([large[:60_000], large[60_000:]]))
        allowed = event(note="x" * 90_000)
        after = client.post(web.inbox, content=allowed, headers=signature(allowed))
        lying = said(web.port, request(INBOX, headers={"Content-Length": "100001"}))

    assert (declared.status_code, streamed.status_code, after.status_code) == (413, 413, 200)
    assert declared.json() == {"error": "too_large"}
    assert status(lying) == 413
    assert {line["reason"] for line in web.heard.told("delivery.refused")} == {"too_large"}


def test_more_than_the_declared_size(web: Listening, database: Database) -> None:
    """A body longer than declared is read as far as declared; the rest is no request, and ends the connection."""
    body = event()
    whole = request(INBOX, body, signature(body) | {"Connection": "keep-alive"})

    answer = said(web.port, whole, b"more of it\r\n\r\n", pause=0.3)

    assert [int(found) for found in re.findall(rb"HTTP/1.1 (\d+)", answer)] == [200, 400]
    assert events(database) == ["evt_1"]


def test_a_sender_that_goes_away(web: Listening, database: Database) -> None:
    """A body that breaks off is nothing: not stored, not answered, and nothing is left of it."""
    body = event()
    whole = request(INBOX, body, signature(body))
    with connected(web) as connection:
        connection.sendall(whole[:-10])

    assert post(web, event(2)).status_code == 200
    assert events(database) == ["evt_2"]


def test_a_body_that_dribbles(database: Database) -> None:
    """A body that does not come in time is 408, and others are served meanwhile."""
    body = event()
    whole = request(INBOX, body, signature(body))
    with listening(database, reception=SMALL) as web, connected(web) as connection:
        connection.sendall(whole[:-10])
        meanwhile = post(web, event(2)).status_code
        answer = connection.recv(65536)

    assert status(answer) == 408
    assert meanwhile == 200
    assert events(database) == ["evt_2"]


def test_large_bodies_take_turns(database: Database) -> None:
    """Large bodies wait for one another, small ones for nobody."""
    large = event(note="x" * 90_000)
    reception = Reception(max_body=100_000, large_at_once=1, body_within=5.0)
    with (
        listening(database, reception=reception) as web,
        connected(web) as holding,
        concurrent.futures.ThreadPoolExecutor(1) as senders,
    ):
        holding.sendall(request(INBOX, large, signature(large))[:-10])
        httpx.get(f"{web.url}/healthz")
        waiting = senders.submit(post, web, event(2, note="x" * 90_000))
        small = post(web, event(3)).status_code
        was_waiting = not waiting.done()
        holding.sendall(large[-10:])
        answers = [status(holding.recv(65536)), waiting.result().status_code]

    assert small == 200
    assert was_waiting
    assert answers == [200, 200]
    assert len(events(database)) == 3


def test_what_is_no_request(web: Listening) -> None:
    """Broken requests are 4xx, and the listener goes on."""
    broken = [
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
        b"GET\r\n\r\n",
        b"POST /webhooks/stripe-eu HTTP/9.9\r\n\r\n",
        b"POST /webhooks/stripe-eu HTTP/1.1\r\nContent-Length: -1\r\n\r\n",
        b"POST /webhooks/stripe-eu HTTP/1.1\r\nContent-Length: 99999999999999999999999\r\n\r\n",
        b"POST /webhooks/stripe-eu HTTP/1.1\r\nContent-Length: 5\r\nContent-Length: 6\r\n\r\nabcdef",
        b"POST /webhooks/stripe-eu HTTP/1.1\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
        b"POST /webhooks/stripe-eu HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
        b"POST /webhooks/stripe-eu HTTP/1.1\r\n: empty\r\n\r\n",
        b"POST /webhooks/\xff HTTP/1.1\r\nHost: x\r\n\r\n",
        b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
        b"CONNECT example.com:443 HTTP/1.1\r\nHost: x\r\n\r\n",
    ]

    answers = [status(said(web.port, each)) for each in broken]

    assert [answer // 100 for answer in answers] == [4] * len(broken)
    assert post(web, event()).status_code == 200


@pytest.mark.parametrize("size", [70_000, 1_000_000])
def test_a_head_without_end(web: Listening, size: int) -> None:
    """A head beyond the bound is 431 and the end of that connection, however it is cut."""
    one = said(web.port, request(INBOX, headers={"X-Large": "x" * size}))
    unfinished = said(web.port, b"POST / HTTP/1.1\r\nX-Large: ", *[b"x" * 10_000] * (size // 10_000 + 40))

    assert b"431" in one.split(b"\r\n")[0] or one == b""  # a sender that is still sending may see only the end
    assert b"431" in unfinished.split(b"\r\n")[0] or unfinished == b""
    assert post(web, event()).status_code == 200


@pytest.mark.parametrize(
    ("begun", "endless"),
    [
        (b"1\r\n{\r\n0\r\n", b"X-Trailer: " + b"x" * 80 + b"\r\n"),
        (b"1\r\n{\r\n0\r\nX-Trailer: ", b"x" * 90),
        (b"1;", b"x" * 90),
    ],
    ids=["trailers", "trailer", "extension"],
)
def test_what_is_no_part_of_a_body(web: Listening, begun: bytes, endless: bytes) -> None:
    """What is sent beside a chunked body is bounded as a head is: nobody can fill our memory with it."""
    head = request(INBOX, headers={"Transfer-Encoding": "chunked", "Connection": "keep-alive"})

    answer = said(web.port, head + begun, *[endless * 100] * 20, within=5.0)

    assert answer == b""
    assert post(web, event()).status_code == 200


def test_trailers_are_no_headers(web: Listening, database: Database) -> None:
    """A signature that comes after the body vouches for nothing; a body in many chunks is no head."""
    small, large = event(), event(2, note="x" * 300_000)
    [(name, value)] = signature(small).items()
    pieces = chunked(*(large[start : start + 1000] for start in range(0, len(large), 1000)))
    head = {"Transfer-Encoding": "chunked"}

    late = said(web.port, request(INBOX, chunked(small)[:-2] + f"{name}: {value}\r\n\r\n".encode(), head))
    early = said(web.port, request(INBOX, pieces, head | signature(large)))

    assert (status(late), status(early)) == (400, 200)
    assert events(database) == ["evt_2"]


def test_many_ordinary_headers(web: Listening) -> None:
    """A head within the bound passes, whatever proxies have added."""
    body = event()
    added = {f"X-Added-{number}": "v" * 100 for number in range(200)}

    assert post(web, body, signature(body) | added).status_code == 200


@pytest.mark.parametrize("begun", [b"", b"POST /webhooks/stripe-eu HTTP/1.1\r\nHost:", b"\r\n\r\n\r\n"])
def test_a_client_that_says_nothing(database: Database, begun: bytes) -> None:
    """A connection whose head does not come is closed."""
    with listening(database, patience=replace(PATIENCE, head=0.2)) as web:
        assert said(web.port, begun, within=5.0) == b""


def test_a_connection_at_rest(database: Database) -> None:
    """Between requests a connection is kept for a while, and stray line ends do not keep it for ever."""
    kept_alive = request("/healthz", method="GET", headers={"Connection": "keep-alive"})
    with listening(database, patience=replace(PATIENCE, idle=0.9)) as web:
        answer = said(web.port, kept_alive, kept_alive, b"\r\n", pause=0.1, within=8.0)

    assert answer.count(b"HTTP/1.1 200") == 2


def test_a_body_that_never_ends(database: Database) -> None:
    """What is sent after the answer is thrown away, but not for ever."""
    head, _, _ = request("/nowhere", headers={"Transfer-Encoding": "chunked", "Connection": "keep-alive"}).partition(
        b"\r\n\r\n"
    )
    with listening(database, patience=replace(PATIENCE, request=0.5)) as web:
        answer = said(web.port, head + b"\r\n\r\n", *[b"1\r\nx\r\n"] * 8, pause=0.05, within=5.0)

    assert status(answer) == 404


def test_more_connections_than_served(database: Database) -> None:
    """Beyond the bound the newest is told to come again, in the words of an outage."""
    with (
        listening(database, connections=2) as web,
        closing(socket.create_connection(("127.0.0.1", web.port))) as one,
        closing(socket.create_connection(("127.0.0.1", web.port))) as other,
    ):
        one.sendall(b"P")
        other.sendall(b"P")
        answer = post(web, event())

    assert (answer.status_code, answer.headers["retry-after"]) == (503, "5")


def test_no_database() -> None:
    """A delivery that cannot be made durable is 503 with a time to come again; readiness says so, life goes on."""
    nowhere = connect("postgresql://nobody@127.0.0.1:9/none", schema="reconciler", connections=1)
    with listening(nowhere) as web:
        answer = post(web, event())
        ready = httpx.get(f"{web.url}/readyz")
        alive = httpx.get(f"{web.url}/healthz")

    assert (answer.status_code, answer.headers["retry-after"]) == (503, "5")
    assert ready.status_code == 503
    assert ready.json()["ready"] is False
    assert ready.json()["because"]
    assert (alive.status_code, alive.json()) == (200, {"alive": True})


def test_ready_until_retired(web: Listening) -> None:
    """Ready while deliveries can be stored; retired at once when told so, while what comes is still taken."""
    before = httpx.get(f"{web.url}/readyz")
    web.heard.receiver.retire()
    after = httpx.get(f"{web.url}/readyz")
    answer = post(web, event())

    assert (before.status_code, before.json()) == (200, {"ready": True})
    assert (after.status_code, after.json()) == (503, {"ready": False, "because": "shutting down"})
    assert answer.status_code == 200


def test_a_database_that_hangs(database: Database) -> None:
    """Readiness does not wait for a database that does not answer, nor ask it again meanwhile."""
    reception = Reception(max_body=1000, probe_within=0.2)
    with listening(database, reception=reception) as web, database.transaction() as connection:
        connection.exec_driver_sql("ALTER SEQUENCE positions OWNED BY NONE")  # locks it until the end
        answers = [httpx.get(f"{web.url}/readyz") for _ in range(7)]  # longer than one look is good for
        asking = held_up(database)

    assert [answer.status_code for answer in answers] == [503] * 7
    assert answers[0].json()["because"] == "the database does not answer"
    assert asking == 1


def test_a_loop_that_stands_still(database: Database) -> None:
    """Life is denied when a loop has not turned for a minute, and not for one that has ended."""
    clock = count(0, 31).__next__
    with listening(database, monotonic=clock) as web:
        web.heartbeats.beat("drain")
        first = httpx.get(f"{web.url}/healthz")
        second = httpx.get(f"{web.url}/healthz")
        web.heartbeats.end("drain")
        third = httpx.get(f"{web.url}/healthz")

    assert (first.status_code, first.json()) == (200, {"alive": True})
    assert (second.status_code, second.json()) == (503, {"alive": False, "late": ["drain"]})
    assert third.status_code == 200


def test_answers_tell_nothing_of_the_server(web: Listening) -> None:
    """No header names what serves."""
    assert "server" not in httpx.get(f"{web.url}/healthz").headers


def test_a_port_that_is_taken(web: Listening, database: Database) -> None:
    """It is told before anything is served, with the key and the way out."""
    with receiving(database) as heard:
        app = public_app(heard.receiver, Heartbeats(), reception=SMALL, clock=now)
        taken = WebServer(Site("admin.listen", app, ANYWHERE), Site("web.listen", app, Listen("127.0.0.1", web.port)))

        with pytest.raises(ConfigError, match=rf"web\.listen: 127\.0\.0\.1:{web.port}: another program listens there"):
            taken.start()


@pytest.mark.parametrize("host", ["no.such.host.invalid", "192.0.2.1"])
def test_an_address_that_is_not_ours(database: Database, host: str) -> None:
    """It is told before anything is served."""
    with receiving(database) as heard:
        app = public_app(heard.receiver, Heartbeats(), reception=SMALL, clock=now)

        with pytest.raises(ConfigError, match=r"web\.listen: .*address"):
            WebServer(Site("web.listen", app, Listen(host, 0))).start()


def test_inherited_sockets(database: Database) -> None:
    """A socket that listens already is served as it is, and its address told."""
    with receiving(database) as heard, socket.create_server(("127.0.0.1", 0)) as inherited:
        app = public_app(heard.receiver, Heartbeats(), reception=SMALL, clock=now)
        server = WebServer(Site("web.listen", app, ANYWHERE, inherited=[inherited]))
        port = inherited.getsockname()[1]
        addresses = server.start()
        answer = httpx.get(f"http://{addresses[0]}/healthz")
        server.stop(1)

    assert addresses == (f"127.0.0.1:{port}",)
    assert answer.status_code == 200


def test_stopping_finishes_what_was_begun(database: Database) -> None:
    """A delivery on its way when the end comes is answered; later ones find nobody."""
    body = event()
    whole = request(INBOX, body, signature(body))
    with (
        listening(database) as web,
        connected(web) as connection,
        concurrent.futures.ThreadPoolExecutor(1) as stopping,
    ):
        connection.sendall(whole[:-10])
        httpx.get(f"{web.url}/healthz")
        stopped = stopping.submit(web.stop, 5)
        eventually(lambda: refuses(web))
        connection.sendall(whole[-10:])
        answer = connection.recv(65536)
        stopped.result()

    assert status(answer) == 200
    assert events(database) == ["evt_1"]
