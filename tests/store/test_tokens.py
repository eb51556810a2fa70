"""Tokens that end: shared by all, issued by one at a time, renewed before they end."""

from __future__ import annotations

import threading
import uuid
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

import pytest

from reconciler.adapter import Issued
from reconciler.errors import AccessLost, SourceBusy
from reconciler.store import tokens
from reconciler.store.tokens import FRESH, HOLD, SharedTokens

if TYPE_CHECKING:
    from collections.abc import Callable

    from reconciler.store.database import Database
    from reconciler.store.tokens import Share

NOON = datetime(2026, 11, 30, 12, tzinfo=UTC)
DAY = 24 * 3600.0


def shared(
    database: Database, lease: uuid.UUID, *, at: float = 0, credential: str = "app", source: str = "shop"
) -> Share:
    """Return what a process that would renew under *lease* sees so many seconds after noon."""
    now = NOON + timedelta(seconds=at)
    return database.commit(lambda c: tokens.share(c, source, credential=credential, lease=lease, now=now))


def kept(database: Database, lease: uuid.UUID, token: str, *, at: float = 0, seconds: float = DAY) -> bool:
    """Share a token issued under *lease* so many seconds after noon."""
    now = NOON + timedelta(seconds=at)
    return database.commit(lambda c: tokens.keep(c, "shop", Issued(token, seconds), lease=lease, now=now))


class Issuing:
    """Issues `token-1`, `token-2`, ... and counts them."""

    def __init__(self, seconds: float = DAY) -> None:
        self.count, self.seconds = 0, seconds
        self.failure: Exception | None = None
        self._lock = threading.Lock()

    def __call__(self) -> Issued:
        """Issue the next one."""
        if self.failure is not None:
            raise self.failure
        with self._lock:
            self.count += 1
            return Issued(f"token-{self.count}", self.seconds)


def test_one_at_a_time(database: Database) -> None:
    """Where there is no token, the first who asks is to have one issued, and nobody beside it."""
    one, other = uuid.uuid4(), uuid.uuid4()

    first, second, again = shared(database, one), shared(database, other), shared(database, one)

    assert [first.ours, second.ours, again.ours] == [True, False, True]
    assert [first.token, second.token] == [None, None]


def test_a_token_is_shared(database: Database) -> None:
    """What one process had issued all others use, of that source and credential only."""
    one, other = uuid.uuid4(), uuid.uuid4()
    shared(database, one)
    kept(database, one, "secret")

    found = shared(database, other, at=60)

    assert (found.token, found.good, found.ours) == ("secret", "secret", False)
    assert found.ends_in == pytest.approx(DAY - 60)
    assert shared(database, other, source="elsewhere").token is None
    assert "secret" not in repr(found)


def test_renewed_before_it_ends(database: Database) -> None:
    """After three quarters of its life one process renews it, while all others go on with it."""
    one, other = uuid.uuid4(), uuid.uuid4()
    shared(database, one)
    kept(database, one, "old")

    before = shared(database, one, at=DAY * FRESH - 1)
    due, beside = shared(database, one, at=DAY * FRESH), shared(database, other, at=DAY * FRESH)
    kept(database, one, "new", at=DAY * FRESH)

    assert (before.ours, before.good) == (False, "old")
    assert (due.ours, due.good) == (True, "old")
    assert (beside.ours, beside.good) == (False, "old")
    assert shared(database, other, at=DAY * FRESH).good == "new"


def test_an_ended_token_is_none(database: Database) -> None:
    """A token that has ended is handed to nobody."""
    one = uuid.uuid4()
    shared(database, one)
    kept(database, one, "old")

    assert shared(database, one, at=DAY).good is None


def test_a_dead_process_holds_nothing(database: Database) -> None:
    """A lease that was not ended runs out, and what is then issued under it is not shared."""
    one, other = uuid.uuid4(), uuid.uuid4()
    shared(database, one)

    assert not shared(database, other, at=HOLD.total_seconds() - 1).ours
    assert shared(database, other, at=HOLD.total_seconds()).ours
    assert not kept(database, one, "late", at=HOLD.total_seconds() + 1)
    assert kept(database, other, "new", at=HOLD.total_seconds() + 1)
    assert shared(database, one, at=HOLD.total_seconds() + 2).token == "new"


def test_other_credentials(database: Database) -> None:
    """A token that was issued for other credentials counts for nothing, nor does their lease."""
    one, other = uuid.uuid4(), uuid.uuid4()
    shared(database, one)
    kept(database, one, "old")

    found = shared(database, other, at=1, credential="rotated")

    assert (found.token, found.ours) == (None, True)
    assert shared(database, one, at=2).ours


def test_threads_and_processes_issue_one(database: Database) -> None:
    """Any number of threads of any number of processes that start at once have one token issued."""
    issuing, found = Issuing(), list[str]()
    processes = [SharedTokens(database, "shop", credential="app") for _ in range(3)]
    threads = [
        threading.Thread(target=lambda each: found.append(each.current(issuing)), args=(each,))
        for each in processes * 3
    ]

    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(20)

    assert found == ["token-1"] * 9
    assert issuing.count == 1


def test_in_hand(database: Database) -> None:
    """A process asks the database once for a token that is fresh, and again when it was refused."""
    issuing = Issuing()
    one, other = (SharedTokens(database, "shop", credential="app") for _ in range(2))
    first = one.current(issuing)
    other.forget(first)

    assert one.current(issuing) == first == "token-1"
    assert other.current(issuing) == "token-2"
    one.forget(first)
    assert one.current(issuing) == "token-2"
    assert issuing.count == 2


@pytest.mark.parametrize("failure", [AccessLost("invalid_client"), RuntimeError("a fault of ours")])
def test_a_failed_renewal(database: Database, failure: Exception) -> None:
    """What keeps a first token from being issued is raised, and the next who asks tries anew at once."""
    issuing, one, other = Issuing(), *(SharedTokens(database, "shop", credential="app") for _ in range(2))
    issuing.failure = failure

    with pytest.raises(type(failure)):
        one.current(issuing)
    issuing.failure = None

    assert other.current(issuing) == "token-1"


def test_a_failed_renewal_leaves_the_old_token(database: Database) -> None:
    """While the old token is good, a renewal that fails disturbs nobody."""
    issuing = Issuing(seconds=40)
    SharedTokens(database, "shop", credential="app").current(issuing)
    with database.transaction() as connection:
        connection.exec_driver_sql("UPDATE tokens SET renew_at = clock_timestamp()")
    issuing.failure = AccessLost("invalid_client")

    assert SharedTokens(database, "shop", credential="app").current(issuing) == "token-1"


def test_patience(database: Database) -> None:
    """Whoever waits for another process's token gives up in time."""
    shared_now: Callable[[uuid.UUID], Share] = lambda lease: database.commit(  # noqa: E731 - on the database's clock
        lambda c: tokens.share(c, "shop", credential="app", lease=lease)
    )
    assert shared_now(uuid.uuid4()).ours

    with pytest.raises(SourceBusy, match="another process"):
        SharedTokens(database, "shop", credential="app", patience=0.2).current(Issuing())
