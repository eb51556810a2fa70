"""What a receipt promises: the notification is in the database, once, whoever else arrived with it."""

from __future__ import annotations

import asyncio
import json
import os
import random
import signal
import string
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import httpx
import pytest
from sqlalchemy.exc import DataError

from reconciler.errors import DatabaseUnavailable, DeliveryMalformed, SignatureInvalid
from reconciler.receive import DEFAULTS, Limits
from reconciler.store.database import connect
from reconciler.store.events import Receipt
from tests.paths.listening import (
    SOURCE,
    Plain,
    delivery,
    event,
    eventually,
    held_up,
    receiving,
    rows,
    signature,
)

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from reconciler.model import Delivery
    from reconciler.store.database import Database
    from tests.paths.listening import Heard

SERVING = Path(__file__).parent / "serving_until_killed.py"
# Longer than any index entry can be, however it is compressed.
UNSTORABLE = "".join(random.Random(1).choices(string.ascii_letters, k=20_000))


def signed(number: int = 1) -> Delivery:
    """Return a delivery that Stripe vouches for."""
    body = event(number)
    return delivery(body, {name.lower(): value for name, value in signature(body).items()})


def plain(*notifications: Mapping[str, object]) -> Delivery:
    """Return a delivery of these notifications."""
    return delivery(json.dumps(notifications).encode())


@contextmanager
def locked(database: Database) -> Iterator[None]:
    """Let nobody write to the inbox for the length of the block."""
    with database.transaction() as connection:
        connection.exec_driver_sql("LOCK TABLE webhook_events IN ACCESS EXCLUSIVE MODE")
        yield


def transactions(database: Database) -> int:
    """Return how many transactions wrote what the inbox holds."""
    return int(rows(database, "SELECT count(DISTINCT xmin::text) FROM webhook_events")[0])


def send_all(heard: Heard, database: Database, deliveries: Sequence[Delivery]) -> list[Receipt | BaseException]:
    """Send the first, and while the database makes it wait, all the others; return what became of each."""
    with ThreadPoolExecutor(len(deliveries)) as senders:
        with locked(database):
            sent = [senders.submit(heard.receiver.receive, "plain", deliveries[0])]
            eventually(lambda: held_up(database) == 1)
            sent += [senders.submit(heard.receiver.receive, "plain", each) for each in deliveries[1:]]
            eventually(lambda: len(heard.receiver._queue._waiting) == len(deliveries) - 1)
        return [future.exception() or future.result() for future in sent]


def test_a_receipt_means_stored(database: Database) -> None:
    """When the receipt is there, so are the event, its object and the want; a repeat says so and is only counted."""
    with receiving(database) as heard:
        first = heard.receiver.receive(SOURCE, signed())
        stored = rows(database, "SELECT event_id, duplicates FROM webhook_events")
        second = heard.receiver.receive(SOURCE, signed())

    assert (first.event_id, first.duplicate) == ("evt_1", False)
    assert stored == [("evt_1", 0)]
    assert second.duplicate
    assert rows(database, "SELECT event_id, duplicates FROM webhook_events") == [("evt_1", 1)]
    assert rows(database, "SELECT kind, id FROM refetches") == [("customer", "cus_1")]
    assert [line["event"] for line in heard.lines] == ["delivery.stored", "delivery.duplicate"]


def test_the_event_loop_is_never_held_up(database: Database) -> None:
    """While the database makes deliveries wait, other tasks of the loop go on."""

    async def turns_while_waiting() -> tuple[int, str]:
        with receiving(database) as heard:
            blocker = locked(database)
            await asyncio.to_thread(blocker.__enter__)
            waiting = asyncio.create_task(heard.receiver.received(SOURCE, signed()))
            turns = 0
            for _ in range(20):
                await asyncio.sleep(0.005)
                turns += not waiting.done()
            await asyncio.to_thread(blocker.__exit__, None, None, None)
            return turns, (await waiting).event_id

    turns, event_id = asyncio.run(turns_while_waiting())

    assert turns == 20
    assert event_id == "evt_1"


def test_group_commit(database: Database) -> None:
    """What arrives while one transaction commits shares the next: 200 parallel deliveries take a tenth as many."""

    async def all_at_once() -> None:
        with receiving(database) as heard:
            await asyncio.gather(*(heard.receiver.received(SOURCE, signed(number)) for number in range(200)))

    asyncio.run(all_at_once())

    assert rows(database, "SELECT count(*) FROM webhook_events") == [200]
    assert transactions(database) <= 20


def test_one_that_cannot_be_stored(database: Database) -> None:
    """What spoils a transaction is refused alone; all that came with it is stored."""
    deliveries = [plain({"event_id": UNSTORABLE if number == 4 else f"e{number}"}) for number in range(9)]

    with receiving(database, {"plain": Plain()}) as heard:
        outcomes = send_all(heard, database, deliveries)

    assert [number for number, outcome in enumerate(outcomes) if isinstance(outcome, DeliveryMalformed)] == [4]
    assert sum(isinstance(outcome, Receipt) for outcome in outcomes) == 8
    assert rows(database, "SELECT count(*) FROM webhook_events") == [8]
    assert [line["reason"] for line in heard.told("delivery.refused")] == ["malformed"]


def test_what_the_driver_refuses(database: Database) -> None:
    """What never reaches the server says nothing about the server."""
    with pytest.raises(DataError), database.transaction() as connection:
        connection.exec_driver_sql("SELECT %(text)s", {"text": "a\0b"})


@pytest.mark.parametrize("event_id", ["a\0b", "a\ud800b"])
def test_text_that_no_driver_sends(database: Database, event_id: str) -> None:
    """What the driver refuses before the server sees it is the sender's fault, not an outage."""
    with receiving(database, {"plain": Plain()}) as heard, pytest.raises(DeliveryMalformed):
        heard.receiver.receive("plain", plain({"event_id": event_id}))


def test_several_notifications_in_one_delivery(database: Database) -> None:
    """They are stored together, and the receipt calls it a repeat only if all of them are."""
    with receiving(database, {"plain": Plain()}) as heard:
        heard.receiver.receive("plain", plain({"event_id": "e1"}))
        mixed = heard.receiver.receive("plain", plain({"event_id": "e1"}, {"event_id": "e2"}))
        again = heard.receiver.receive("plain", plain({"event_id": "e1"}, {"event_id": "e2"}))
        nothing = heard.receiver.receive("plain", plain())

    assert (mixed.duplicate, again.duplicate) == (False, True)
    assert (nothing.event_id, nothing.ignored) == ("", True)
    assert rows(database, "SELECT event_id FROM webhook_events ORDER BY 1") == ["e1", "e2"]


def test_a_notification_older_than_our_row(database: Database) -> None:
    """It is declined on record, and the log says of what, with both stamps, our positions and why."""
    with database.transaction() as connection:
        connection.exec_driver_sql(
            "INSERT INTO objects (source, scope, kind, id, source_updated_at, observed_at, applied_at, read_from,"
            " read_until, digest, shape, body) SELECT 'plain', '', 'order', '7', '2026-11-30 12:00Z', now(), now(),"
            " 5, 6, 'd', '1:x', '{}' FROM set_config('reconciler.guard', 'on', true)"
        )
    late = {"event_id": "e1", "named": {"7": "2026-11-30T11:00:00Z", "8": "2026-11-30T11:00:00Z"}}

    with receiving(database, {"plain": Plain()}) as heard:
        receipt = heard.receiver.receive("plain", plain(late))

    (line,) = heard.told("write.declined")
    assert [str(ref) for ref in receipt.declined] == ["plain/order/7"]
    assert (line["ref"], line["event_id"], line["via"]) == ("plain/order/7", "e1", "payload")
    assert str(line["incoming_source_updated_at"]) == "2026-11-30 11:00:00+00:00"
    assert str(line["stored_source_updated_at"]) == "2026-11-30 12:00:00+00:00"
    assert (line["stored_read_from"], line["stored_read_until"]) == (5, 6)
    assert line["because"] == "the notification is older than our row"
    assert rows(database, "SELECT id FROM refetches") == ["8"]


def test_what_vouches_is_not_kept(database: Database) -> None:
    """Headers are kept with the event, except those that prove something."""
    body = event()
    proofs = {"authorization": "Bearer x", "cookie": "a=b", "x-hub-signature-256": "x", "x-shopify-hmac-sha256": "x"}
    kept = {"user-agent": "Stripe/1.0", "x-request-id": "r1"}
    sent = {name.lower(): value for name, value in signature(body).items()} | proofs | kept

    with receiving(database) as heard:
        heard.receiver.receive(SOURCE, delivery(body, sent))

    assert rows(database, "SELECT headers FROM webhook_events") == [kept]


def test_refused_deliveries_leave_nothing(database: Database) -> None:
    """What nobody vouches for is raised, counted and logged without its body, and stored nowhere."""
    with receiving(database) as heard, pytest.raises(SignatureInvalid):
        heard.receiver.receive(SOURCE, delivery(event(), {"stripe-signature": "t=1,v1=00"}))

    (line,) = heard.lines
    assert (line["event"], line["source"], line["reason"]) == ("delivery.refused", SOURCE, "signature")
    assert "Grete" not in repr(line)
    assert b'deliveries_total{outcome="refused",source="stripe-eu"} 1.0' in heard.metrics.exposition()
    assert rows(database, "SELECT count(*) FROM webhook_events") == [0]


def test_a_reader_that_fails(database: Database) -> None:
    """A fault of ours in reading what was sent is no outage that a sender could cause."""
    with receiving(database, {"plain": Plain()}) as heard, pytest.raises(DeliveryMalformed):
        heard.receiver.receive("plain", delivery(b"[1]"))

    assert [line["event"] for line in heard.lines] == ["delivery.unreadable", "delivery.refused"]


def test_no_database() -> None:
    """Without a database there is no receipt, and nothing is acknowledged."""
    nowhere = connect("postgresql://nobody@127.0.0.1:9/none", schema="reconciler", connections=1)

    with receiving(nowhere) as heard:
        with pytest.raises(DatabaseUnavailable):
            heard.receiver.receive(SOURCE, signed())
        hindrance = heard.receiver.hindrance()

    assert hindrance
    assert [line["event"] for line in heard.lines] == ["delivery.unavailable"]
    assert b'deliveries_total{outcome="unavailable",source="stripe-eu"} 1.0' in heard.metrics.exposition()


def test_more_than_may_wait(database: Database) -> None:
    """Beyond its bounds the queue refuses at once, and what it took is stored all the same."""
    limits = replace(DEFAULTS, waiting=3, together=1)

    with receiving(database, limits=limits) as heard, ThreadPoolExecutor(12) as senders:
        with locked(database):
            sent = [senders.submit(heard.receiver.receive, SOURCE, signed(number)) for number in range(12)]
            eventually(lambda: sum(future.done() for future in sent) == 8)
            hindrance = heard.receiver.hindrance()
        faults = [future.exception() for future in sent]

    refused = [fault for fault in faults if isinstance(fault, DatabaseUnavailable)]
    assert len(refused) == 8  # one is being written, three wait
    assert hindrance == "too many deliveries are waiting to be written"
    assert rows(database, "SELECT count(*) FROM webhook_events") == [4]


def test_a_database_that_does_not_answer(database: Database) -> None:
    """A sender is told to come again in time; the delivery it waited for is stored when that is possible."""
    with receiving(database, limits=replace(DEFAULTS, patience=0.2)) as heard:
        with locked(database), pytest.raises(DatabaseUnavailable):
            heard.receiver.receive(SOURCE, signed())
        heard.receiver.close(5)

    assert rows(database, "SELECT event_id FROM webhook_events") == ["evt_1"]


@pytest.mark.parametrize(("sizes", "expected"), [([4_000] * 5, 1 + 2), ([4_000, 40_000, 40_000], 1 + 2)])
def test_batches_are_bounded_in_bytes(database: Database, sizes: list[int], expected: int) -> None:
    """Large deliveries are not put together beyond what one statement can carry, and a larger one goes alone."""
    limits = Limits(together_bytes=10_000)
    deliveries = [plain({"event_id": f"e{number}", "note": "x" * size}) for number, size in enumerate(sizes)]

    with receiving(database, {"plain": Plain()}, limits=limits) as heard:
        send_all(heard, database, deliveries)

    assert rows(database, "SELECT count(*) FROM webhook_events") == [len(sizes)]
    assert transactions(database) == expected  # the first is on its way before the others come


def test_closing_finishes_what_was_taken(database: Database) -> None:
    """What was taken before the end is stored, what comes later is refused."""
    with receiving(database) as heard, ThreadPoolExecutor(2) as senders:
        with locked(database):
            taken = senders.submit(heard.receiver.receive, SOURCE, signed(1))
            eventually(lambda: held_up(database) == 1)
            closing = senders.submit(heard.receiver.close, 5.0)
        closing.result()
        with pytest.raises(DatabaseUnavailable):
            heard.receiver.receive(SOURCE, signed(2))

        assert taken.result().event_id == "evt_1"
        assert heard.receiver.hindrance() == "shutting down"
    assert rows(database, "SELECT event_id FROM webhook_events") == ["evt_1"]


def test_a_database_that_only_reads(database: Database) -> None:
    """A standby, or a primary turned read-only, cannot make a delivery durable, and says so."""
    with database.transaction() as connection:
        name = connection.exec_driver_sql("SELECT current_database()").scalar_one()
        connection.exec_driver_sql(f'ALTER DATABASE "{name}" SET default_transaction_read_only = on')
    database.close()

    with receiving(database) as heard:
        hindrance = heard.receiver.hindrance()
        with pytest.raises(DatabaseUnavailable):
            heard.receiver.receive(SOURCE, signed())

    assert hindrance is not None
    assert "read-only" in hindrance


@pytest.mark.parametrize("after", [1, 5, 25])
def test_killed_right_after_the_answer(database: Database, after: int) -> None:
    """Law 4: whatever was answered 200 is in the database, though the program is killed at that very instant."""
    answered: set[str] = set()
    enough = threading.Event()
    with subprocess.Popen(
        [sys.executable, str(SERVING)],
        env=os.environ | {"SERVING_DATABASE": database.url, "SERVING_SCHEMA": database.schema},
        cwd=Path(__file__).parents[2],
        stdout=subprocess.PIPE,
        text=True,
    ) as serving:
        assert serving.stdout is not None
        url = serving.stdout.readline().strip()

        def send(number: int) -> None:
            if enough.is_set():
                return
            body = event(number)
            try:
                answer = httpx.post(url, content=body, headers=signature(body))
            except httpx.HTTPError:
                return
            if answer.status_code == 200:
                answered.add(answer.json()["event_id"])
                if len(answered) >= after:
                    serving.send_signal(signal.SIGKILL)
                    enough.set()

        with ThreadPoolExecutor(4) as senders:
            for number in range(200):
                senders.submit(send, number)

    assert len(answered) >= after
    assert answered <= set(rows(database, "SELECT event_id FROM webhook_events"))


@pytest.mark.parametrize("table", ["webhook_events", "event_objects", "refetches", "declined_writes"])
def test_a_table_that_is_gone(database: Database, table: str) -> None:
    """Whatever table is missing: nothing is acknowledged, readiness says which, and it goes on once that is back."""
    with receiving(database) as heard:
        with database.transaction() as connection:
            connection.exec_driver_sql(f"ALTER TABLE {table} RENAME TO elsewhere")
        hindrance = heard.receiver.hindrance()
        if table != "declined_writes":  # which is written where there is something to decline
            with pytest.raises(DatabaseUnavailable):
                heard.receiver.receive(SOURCE, signed())
        with database.transaction() as connection:
            connection.exec_driver_sql(f"ALTER TABLE elsewhere RENAME TO {table}")
        heard.receiver.receive(SOURCE, signed())

    assert hindrance is not None
    assert f'"{table}" does not exist' in hindrance
    assert rows(database, "SELECT event_id FROM webhook_events") == ["evt_1"]
