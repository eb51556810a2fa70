"""The embedded server: there in a moment, shared, gone with its last user, and hard to kill."""

from __future__ import annotations

import os
import pwd
import shutil
import signal
import stat
import subprocess
import sys
import sysconfig
import tempfile
import time
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING

import psycopg
import pytest

from reconciler.embedded import Embedded, binaries, guardian
from reconciler.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

_PATIENCE = 30.0
_USER = """
import sys
from pathlib import Path
from reconciler.embedded import Embedded
with Embedded(Path(sys.argv[1]), settings={"fsync": "off"}) as embedded:
    print(embedded.url("reconciler"), flush=True)
    sys.stdin.read()
"""
_HERE = Path(__file__).parents[2]
_ENVIRONMENT = {
    **os.environ,
    "PYTHONPATH": os.pathsep.join([str(_HERE), sysconfig.get_path("platlib")]),
    "PYTHONDONTWRITEBYTECODE": "1",
}
_ROOT_ONLY = pytest.mark.skipif(os.geteuid() != 0, reason="only root can become somebody else")


@pytest.fixture
def place() -> Iterator[Path]:
    """Yield a folder that every user may pass, as pytest's own may not."""
    made = Path(tempfile.mkdtemp(prefix="reconciler-embedded-"))
    made.chmod(0o755)
    yield made
    shutil.rmtree(made)


@pytest.fixture
def root(place: Path) -> Iterator[Path]:
    """Yield a root for a server, and see at the end that nothing is left of it."""
    root = place / "postgres"
    yield root
    eventually(lambda: not (root / "data").exists() or not guardian.residents(root / "data"))
    eventually(lambda: not (root / guardian.GUARD).exists() or guardian.is_free(root / guardian.GUARD))


def hasty(root: Path) -> Embedded:
    """Return a hold on a server that need not survive a power failure."""
    return Embedded(root, settings={"fsync": "off"})


def eventually(holds: Callable[[], bool]) -> None:
    """Return as soon as *holds*; fail if it does not in time."""
    deadline = time.monotonic() + _PATIENCE
    while not holds():
        assert time.monotonic() < deadline, "it did not come to be"
        time.sleep(0.02)


@contextmanager
def users(
    root: Path, number: int = 1, *, python: str = sys.executable, uid: int | None = None
) -> Iterator[list[subprocess.Popen[str]]]:
    """Yield *number* processes that start the server at once and hold it until their input ends."""
    started = [
        subprocess.Popen(
            [python, "-c", _USER, str(root)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            user=uid,
            env=_ENVIRONMENT,
            cwd="/",
        )
        for _ in range(number)
    ]
    try:
        yield started
    finally:
        for each in started:
            with suppress(BrokenPipeError):
                each.communicate(timeout=_PATIENCE)


def python_for(uid: int) -> str:
    """Return a Python that *uid* can run with what is installed here; skip the test where there is none."""
    for python in (sys.executable, "/usr/bin/python3", "/usr/local/bin/python3"):
        with suppress(OSError):
            tried = subprocess.run(
                [python, "-c", "import psycopg, reconciler"], user=uid, env=_ENVIRONMENT, cwd="/", check=False
            )
            if tried.returncode == 0:
                return python
    pytest.skip("no Python here that an ordinary user can run with our packages")


def said(user: subprocess.Popen[str]) -> str:
    """Return the URL a user printed once the server was up."""
    assert user.stdout is not None
    return user.stdout.readline().strip()


def ask(url: str, query: str = "SELECT 1") -> str:
    """Return the first column of the first row that *query* gives."""
    with psycopg.connect(url) as connection:
        row = connection.execute(query.encode()).fetchone()
    assert row is not None
    return str(row[0])


def answers(url: str) -> bool:
    """Tell whether the server takes a query now."""
    try:
        return ask(url) == "1"
    except psycopg.Error:
        return False


def server(root: Path) -> int:
    """Return the postmaster's pid."""
    pid = guardian.postmaster(root / "data")
    assert pid is not None
    return pid


def guardian_of(root: Path) -> int:
    """Return the pid of the process that watches *root*."""
    for process in Path("/proc").iterdir():
        with suppress(OSError):
            words = (process / "cmdline").read_bytes()
            if b"guardian.py" in words and os.fsencode(root) in words:
                return int(process.name)
    pytest.fail("nobody watches")


def is_down(root: Path) -> bool:
    """Tell whether no process lives in the cluster."""
    return not guardian.residents(root / "data")


def test_start_brings_a_server_and_close_ends_it(root: Path) -> None:
    """What one user starts is a durable server with our database, and is gone when close returns."""
    with Embedded(root) as embedded:
        fsync = ask(embedded.url(), "SHOW fsync")
        database = ask(embedded.url("reconciler"), "SELECT current_database()")
        listens = ask(embedded.url(), "SHOW listen_addresses")

    assert (fsync, database, listens) == ("on", "reconciler", "")
    eventually(lambda: is_down(root))


def test_rows_outlive_the_server(root: Path) -> None:
    """A later start finds what an earlier one committed."""
    with hasty(root) as embedded, psycopg.connect(embedded.url("reconciler")) as connection:
        connection.execute("CREATE TABLE kept AS SELECT 42 AS number")

    with hasty(root) as embedded:
        assert ask(embedded.url("reconciler"), "SELECT number FROM kept") == "42"


def test_start_is_quick(root: Path) -> None:
    """A new cluster takes a few seconds at the most, an old one a moment."""
    began = time.monotonic()
    with hasty(root):
        cold = time.monotonic() - began
    began = time.monotonic()
    with hasty(root):
        warm = time.monotonic() - began

    assert cold < 10
    assert warm < 5


def test_start_and_close_may_be_repeated(root: Path) -> None:
    """Starting twice holds once, and closing twice is closing once."""
    embedded = hasty(root)

    assert embedded.start() is embedded.start()
    embedded.close()
    eventually(lambda: is_down(root))
    embedded.close()


def test_many_starting_at_once_share_one_server(root: Path) -> None:
    """Eight processes that find nothing agree on one server, which stays until the last of them."""
    with users(root, 8) as started:
        urls = {said(user) for user in started}
        pid = server(root)
        for user in started[1:]:
            user.communicate(timeout=_PATIENCE)

        assert len(urls) == 1
        assert answers(urls.pop())
        assert server(root) == pid

    eventually(lambda: is_down(root))


def test_a_killed_user_leaves_no_server_behind(root: Path) -> None:
    """When the last user is killed the server goes all the same."""
    with users(root) as [user]:
        said(user)
        user.kill()
        user.wait()

        eventually(lambda: is_down(root))


def test_a_killed_server_comes_back(root: Path) -> None:
    """Whoever uses the server finds it again after its postmaster was killed, with all that was committed."""
    with hasty(root) as embedded:
        with psycopg.connect(embedded.url("reconciler")) as connection:
            connection.execute("CREATE TABLE kept AS SELECT 42 AS number")
        killed = server(root)

        os.kill(killed, signal.SIGKILL)
        eventually(lambda: guardian.postmaster(root / "data") not in {None, killed} and answers(embedded.url()))

        assert ask(embedded.url("reconciler"), "SELECT number FROM kept") == "42"
    eventually(lambda: is_down(root))


def test_a_killed_guardian_costs_nothing(root: Path) -> None:
    """Without its guardian the server serves on; the last close ends it, and the next start finds a new guardian."""
    with hasty(root) as embedded:
        os.kill(guardian_of(root), signal.SIGKILL)
        eventually(lambda: guardian.is_free(root / guardian.GUARD))
        pid = server(root)
        with users(root) as [user]:
            assert answers(said(user))
            assert server(root) == pid
            assert not guardian.is_free(root / guardian.GUARD)
        assert answers(embedded.url())

    eventually(lambda: is_down(root))


def test_a_guardian_is_not_asked_to_go(root: Path) -> None:
    """What a service manager sends to every process does not end the server under its users."""
    with hasty(root) as embedded:
        for polite in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            os.kill(guardian_of(root), polite)

        assert not guardian.is_free(root / guardian.GUARD)
        assert answers(embedded.url())


def test_a_long_log_is_turned(root: Path) -> None:
    """A log that grew large is put aside at the next launch, so that it cannot fill the disk."""
    with hasty(root):
        pass
    with (root / guardian.LOG).open("ab") as log:
        log.truncate(32 * 2**20)

    with hasty(root):
        pass

    assert (root / guardian.LOG).stat().st_size < 2**20
    assert (root / "postgres.log.old").stat().st_size > 2**20


def test_everything_killed_is_only_a_crash(root: Path) -> None:
    """With postmaster, guardian and user killed together, the next start recovers."""
    with users(root) as [user]:
        said(user)
        for pid in (guardian_of(root), user.pid, server(root)):
            os.kill(pid, signal.SIGKILL)
        user.wait()

        with hasty(root) as embedded:
            assert answers(embedded.url())


def test_a_stale_pid_file_is_not_believed(root: Path) -> None:
    """A pid file whose number now belongs to somebody else neither blocks a start nor gets that one killed."""
    with hasty(root):
        lines = guardian.pid_file(root / "data")
    bystander = subprocess.Popen(["/bin/sleep", "60"])
    lines[0] = str(bystander.pid)
    (root / "data" / "postmaster.pid").write_text("\n".join(lines))
    (root / "socket" / ".s.PGSQL.5432.lock").write_text("\n".join(lines))

    try:
        with hasty(root) as embedded:
            assert answers(embedded.url())
        assert bystander.poll() is None
    finally:
        bystander.kill()
        bystander.wait()


@pytest.mark.parametrize("name", ["with space", "o'clock $HOME", "uml\u00e4ut", 'quote"d', "x" * 120])
def test_any_path_will_do(place: Path, name: str) -> None:
    """Blanks, quotes, letters beyond ASCII and long paths are no obstacle, also where a socket could not be."""
    with hasty(place / name / "postgres") as embedded:
        socket = Path(guardian.pid_file(place / name / "postgres" / "data")[guardian.SOCKET_LINE])
        assert answers(embedded.url("reconciler"))

    if not socket.is_relative_to(place):
        shutil.rmtree(socket)


@pytest.mark.parametrize("mask", [0, 0o077])
def test_any_umask_will_do(root: Path, mask: int) -> None:
    """The files are private, and the server reaches them, whatever the umask is."""
    before = os.umask(mask)
    try:
        with hasty(root) as embedded:
            assert answers(embedded.url())
    finally:
        os.umask(before)

    assert stat.S_IMODE((root / "data").stat().st_mode) == 0o700
    assert stat.S_IMODE((root / guardian.USERS).stat().st_mode) == 0o600


def test_a_start_touches_nothing_of_others(place: Path, root: Path) -> None:
    """The folders above keep their mode and their owner."""
    place.chmod(0o711)
    before = place.stat()

    with hasty(root):
        pass

    after = place.stat()
    assert (after.st_mode, after.st_uid, after.st_gid) == (before.st_mode, before.st_uid, before.st_gid)


def test_a_folder_of_somebody_else_is_refused(root: Path) -> None:
    """A folder with foreign files in it is left exactly as it was."""
    root.mkdir()
    (root / "letter.txt").write_text("dear")

    with pytest.raises(ConfigError, match="files that are not ours"):
        hasty(root).start()

    assert [path.name for path in root.iterdir()] == ["letter.txt"]


def test_a_start_without_binaries_says_what_to_install(
    root: Path, place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A folder without a server in it is named, and nothing stays locked."""
    monkeypatch.setenv(binaries.CHOICE, str(place))

    with pytest.raises(ConfigError, match=binaries.CHOICE):
        hasty(root).start()

    assert guardian.is_free(root / guardian.USERS)


def test_a_cluster_of_another_version_is_not_opened(root: Path) -> None:
    """A cluster that no server here can read is refused with its version and what there is."""
    with hasty(root):
        pass
    (root / "data" / "PG_VERSION").write_text("9\n")

    with pytest.raises(ConfigError, match="made by PostgreSQL 9"):
        hasty(root).start()


def test_a_server_that_cannot_start_tells_why(root: Path) -> None:
    """The sentence ends with what the server's log says, and it comes at once."""
    began = time.monotonic()

    with pytest.raises(ConfigError, match="no_such_setting"):
        Embedded(root, settings={"no_such_setting": "1"}).start()

    assert time.monotonic() - began < 10
    assert guardian.is_free(root / guardian.USERS)


def test_a_root_that_cannot_be_is_a_sentence(place: Path) -> None:
    """A root below a file is refused, naming it."""
    (place / "file").write_text("")

    with pytest.raises(ConfigError, match="file"):
        hasty(place / "file" / "postgres").start()


@_ROOT_ONLY
def test_a_full_disk_is_a_sentence(root: Path) -> None:
    """Where a cluster does not fit, that is what the refusal says, and no half of one is left to trip over."""
    root.mkdir()
    mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=16m", "tmpfs", str(root)], check=False)
    if mounted.returncode:
        pytest.skip("this machine lets nobody mount a small disk")
    try:
        with pytest.raises(ConfigError, match="No space left on device"):
            hasty(root).start()

        assert not (root / "data").exists()
    finally:
        subprocess.run(["umount", "--lazy", str(root)], check=True)


@_ROOT_ONLY
def test_root_hands_the_server_to_another_user(root: Path) -> None:
    """Started by root the server runs as somebody else, who owns the cluster and not the locks."""
    with hasty(root) as embedded:
        runs_as = Path(f"/proc/{server(root)}").stat().st_uid

        assert answers(embedded.url())
        assert runs_as == (root / "data").stat().st_uid != 0
        assert (root / guardian.USERS).stat().st_uid == 0
        assert root.stat().st_uid == 0


@_ROOT_ONLY
def test_root_is_told_of_a_root_folder_that_the_server_cannot_reach(place: Path) -> None:
    """Under a closed folder nothing is opened up; the sentence says where to go."""
    place.chmod(0o700)

    with pytest.raises(ConfigError, match="cannot reach"):
        hasty(place / "postgres").start()

    assert stat.S_IMODE(place.stat().st_mode) == 0o700


@_ROOT_ONLY
def test_root_runs_binaries_that_only_root_can_reach(root: Path, place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Binaries in a closed folder are copied; the folder stays closed."""
    closed = place / "closed"
    folder = binaries.choose(os.environ, cluster=None)
    package = folder.parents[1]
    copy = closed / package.name / folder.relative_to(package)
    shutil.copytree(folder.parent, copy.parent, symlinks=True)
    if (libraries := package.with_name(f"{package.name}.libs")).is_dir():
        shutil.copytree(libraries, closed / libraries.name, symlinks=True)
    closed.chmod(0o700)
    monkeypatch.setenv(binaries.CHOICE, str(copy))

    with hasty(root) as embedded:
        assert answers(embedded.url())

    assert stat.S_IMODE(closed.stat().st_mode) == 0o700


@_ROOT_ONLY
def test_an_ordinary_user_needs_no_help(root: Path) -> None:
    """Everything of an ordinary user's server belongs to that user, and root may use it as well."""
    nobody = pwd.getpwnam("nobody")
    python = python_for(nobody.pw_uid)
    root.mkdir()
    os.chown(root, nobody.pw_uid, nobody.pw_gid)

    with users(root, 2, python=python, uid=nobody.pw_uid) as started:
        urls = [said(user) for user in started]
        with hasty(root) as embedded:
            assert answers(embedded.url())
        assert {path.stat().st_uid for path in root.rglob("*")} == {nobody.pw_uid}
        assert all(map(answers, urls))

    eventually(lambda: is_down(root))
