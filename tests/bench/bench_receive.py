"""
Deliveries a second over HTTP, each durable before its 200, beside what PostgreSQL alone stores one by one.

    python -m tests.bench.bench_receive [--runs N] [--connections N]

The limit is pgbench inserting the same bodies, a transaction each, over half as many connections.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import re
import subprocess
import sys
import tempfile
import time
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING

import sqlalchemy

from reconciler import log
from reconciler.embedded import Embedded, binaries
from reconciler.metrics import Metrics
from reconciler.receive import Receiver
from reconciler.store.database import connect
from reconciler.store.migrate import migrate
from reconciler.web.public import Heartbeats, Reception, public_app
from reconciler.web.server import Site, WebServer
from tests.bench.measuring import Bench
from tests.paths.listening import ANYWHERE, SOURCE, event, now, request, signature, stripe

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from reconciler.store.database import Database

DELIVERIES = 10_000
SECONDS = 3
_TPS = re.compile(r"tps = ([\d.]+)")


@dataclass(frozen=True, slots=True)
class Receiving:
    """A listener in this process, its database, and senders in another one."""

    database: Database
    port: int
    connections: int
    numbers: count[int]

    def deliveries(self) -> float:
        """Return how many deliveries a second are answered 200."""
        with self.database.transaction() as connection:
            connection.exec_driver_sql("TRUNCATE webhook_events, event_objects, refetches")
        first = next(self.numbers) * DELIVERIES
        sender = [sys.executable, "-m", "tests.bench.bench_receive", "--send", str(self.port), str(first)]
        sent = subprocess.run(
            [*sender, "--connections", str(self.connections)], check=True, capture_output=True, text=True
        )
        return float(sent.stdout)

    def inserts(self) -> float:
        """Return how many single inserts of such a body a second PostgreSQL commits."""
        with self.database.transaction() as connection:
            connection.exec_driver_sql("DROP TABLE IF EXISTS bare")
            connection.exec_driver_sql("CREATE TABLE bare (id bigserial PRIMARY KEY, body jsonb)")
        url = sqlalchemy.make_url(self.database.url)
        with tempfile.NamedTemporaryFile("w", suffix=".sql") as script:
            script.write(f"INSERT INTO {self.database.schema}.bare (body) VALUES ('{_body(0).decode()}');\n")
            script.flush()
            told = subprocess.run(
                [
                    *(binaries.choose(os.environ, cluster=None) / "pgbench", "-n", "-M", "prepared", "-f", script.name),
                    *("-c", str(self.connections // 2), "-j", "2", "-T", str(SECONDS)),
                    *("-h", str(url.query["host"]), "-U", str(url.username), str(url.database)),
                ],
                check=True,
                capture_output=True,
                text=True,
            ).stdout
        found = _TPS.search(told)
        assert found is not None, told
        return float(found.group(1))


@contextmanager
def receiving(connections: int = 32) -> Iterator[list[Bench]]:
    """Yield what a listener takes, before a server that keeps what it is told, with its log going nowhere."""
    with tempfile.TemporaryDirectory(prefix="reconciler-bench-") as folder, Path(os.devnull).open("w") as nowhere:
        Path(folder).chmod(0o1777)
        log.configure("info", nowhere)
        with Embedded(Path(folder) / "postgres") as embedded:
            database = connect(embedded.url("reconciler"), schema="reconciler", connections=2)
            migrate(database)
            with Receiver(database, {SOURCE: stripe()}, Metrics()) as receiver:
                app = public_app(receiver, Heartbeats(), reception=Reception(max_body=1 << 20), clock=now)
                server = WebServer(Site("web.listen", app, ANYWHERE))
                (address,) = server.start()
                both = Receiving(database, int(address.rpartition(":")[2]), connections, count())
                yield [Bench("receive_http", "deliveries/s", both.deliveries, both.inserts)]
                server.stop(1)
            database.close()


def _body(number: int) -> bytes:
    return event(number, note="x" * 700)


async def send(port: int, requests: Sequence[bytes], *, connections: int) -> float:
    """Send every request over so many connections and return how many a second were answered 200."""
    left = iter(requests)

    async def send_some() -> None:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        for each in left:
            writer.write(each)
            head = await reader.readuntil(b"\r\n\r\n")
            assert head.startswith(b"HTTP/1.1 200"), head
            length = head.lower().partition(b"content-length: ")[2].partition(b"\r")[0]
            await reader.readexactly(int(length))
        writer.close()
        await writer.wait_closed()

    began = time.monotonic()
    await asyncio.gather(*(send_some() for _ in range(connections)))
    return len(requests) / (time.monotonic() - began)


def signed(first: int) -> list[bytes]:
    """Return DELIVERIES signed requests whose events are numbered from *first*."""
    bodies = [_body(number) for number in range(first, first + DELIVERIES)]
    kept = {"Connection": "keep-alive"}
    return [request(f"/webhooks/{SOURCE}", body, signature(body) | kept) for body in bodies]


def main(arguments: Sequence[str]) -> None:
    """Print the line of JSON, or as a sender the rate alone."""
    parser = argparse.ArgumentParser(prog="python -m tests.bench.bench_receive", description=__doc__)
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--connections", type=int, default=32)
    parser.add_argument("--send", type=int, nargs=2, metavar=("PORT", "FIRST"), help=argparse.SUPPRESS)
    asked = parser.parse_args(arguments)
    if asked.send is not None:
        port, first = asked.send
        print(asyncio.run(send(port, signed(first), connections=asked.connections)))
        return
    with receiving(asked.connections) as every:
        print(*(bench.line(asked.runs) for bench in every), sep="\n", flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
