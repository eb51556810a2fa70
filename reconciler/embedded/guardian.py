"""
The process that runs an embedded server while somebody uses it, and the locks by which everyone knows.

Three files in the server's root are locked with flock, which the kernel undoes when a process dies, however it dies:

    start.lock   held while somebody prepares a start
    users.lock   held shared by each user; whoever gets it exclusively knows that there are none
    guard.lock   held by whoever may launch or stop the server: the guardian, or the last user where there is none

Runs as a script under `python -I -S`, so it needs the standard library only.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

START = "start.lock"
USERS = "users.lock"
GUARD = "guard.lock"
LOG = "postgres.log"
# In this order: the presence of the last one says that the root is ours and whole.
FILES = (USERS, GUARD, LOG, START)
PORT = 5432

ENVIRONMENT = {"PATH": os.defpath, "LC_ALL": "C", "TZ": "UTC"}
# Lines of the postmaster's pid file, counted from 0.
SOCKET_LINE = 4
_STATUS = 7
_TICK = 0.1
_PATIENCE = 30.0
_ORPHANS_GET = 5.0
_FAST_DEATHS = 5
_LOG_TURNS_AT = 16 * 2**20


class Busy(Exception):
    """Somebody else holds the lock."""


def lock(path: Path, how: int) -> int:
    """Lock the file *path*; return the descriptor that holds the lock. Raises `Busy` with LOCK_NB."""
    descriptor = os.open(path, os.O_RDWR | os.O_CLOEXEC)
    try:
        fcntl.flock(descriptor, how)
    except BlockingIOError:
        os.close(descriptor)
        raise Busy from None
    except BaseException:
        os.close(descriptor)
        raise
    return descriptor


@contextlib.contextmanager
def locked(path: Path, how: int) -> Iterator[None]:
    """Hold a lock on *path* for the length of the block; raises `Busy` with LOCK_NB."""
    descriptor = lock(path, how)
    try:
        yield
    finally:
        os.close(descriptor)


def is_free(path: Path) -> bool:
    """Tell whether nobody holds *path* at this moment."""
    try:
        with locked(path, fcntl.LOCK_EX | fcntl.LOCK_NB):
            return True
    except Busy:
        return False


def residents(cluster: Path) -> frozenset[int]:
    """
    Return the processes that live in *cluster*, the postmaster and its children alike.

    A server's working directory is its cluster, so a reused number in a stale pid file is never mistaken for one.
    """
    home = cluster.stat()
    found = set()
    for running in Path("/proc").iterdir():
        if running.name.isdigit():
            with contextlib.suppress(OSError):
                if os.path.samestat((running / "cwd").stat(), home):
                    found.add(int(running.name))
    return frozenset(found)


def pid_file(cluster: Path) -> list[str]:
    """Return the lines of the postmaster's pid file; none where there is no such file."""
    try:
        return (cluster / "postmaster.pid").read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return []


def postmaster(cluster: Path) -> int | None:
    """Return the pid of the postmaster that lives in *cluster*; None where the pid file is missing or stale."""
    lines = pid_file(cluster)
    if not lines or not lines[0].strip().isdigit():
        return None
    pid = int(lines[0])
    try:
        return pid if Path(f"/proc/{pid}/cwd").samefile(cluster) else None
    except OSError:
        return None


def is_ready(cluster: Path) -> bool:
    """Tell whether the server of *cluster* says that it takes connections."""
    lines = pid_file(cluster)
    return len(lines) > _STATUS and lines[_STATUS].strip() == "ready" and postmaster(cluster) is not None


def stop(cluster: Path) -> None:
    """Stop the server of *cluster* and wait until it is gone; at once and without a checkpoint if it will not go."""
    pid = postmaster(cluster)
    if pid is None:
        return
    for how, patience in ((signal.SIGINT, _PATIENCE), (signal.SIGQUIT, _PATIENCE), (signal.SIGKILL, _PATIENCE)):
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, how)
        if _gone(cluster, pid, patience):
            return


def _gone(cluster: Path, pid: int, patience: float) -> bool:
    deadline = time.monotonic() + patience
    while postmaster(cluster) == pid:
        if time.monotonic() > deadline:
            return False
        time.sleep(0.01)
    return True


class Guardian:
    """
    Runs the server of one root for as long as it has users.

    Attributes:
        root: The folder with the locks, the cluster (`data`) and the log; guard.lock is taken, or `Busy` raised.
        command: The postmaster and its arguments.
        owner: The user and group the server runs as; None: whoever we are.
    """

    def __init__(self, root: Path, command: Sequence[str], *, socket: Path, owner: tuple[int, int] | None) -> None:
        self._guard = lock(root / GUARD, fcntl.LOCK_EX | fcntl.LOCK_NB)
        self.root = root
        self.data = root / "data"
        self.command = command
        self.socket = socket
        self.owner = owner
        self._server: subprocess.Popen[bytes] | None = None
        self._began = 0.0
        self._deaths = 0
        self._served = False
        self._orphans_since: float | None = None

    def watch(self) -> None:
        """Keep the server up; return when its last user is gone and it is stopped, or when it keeps dying."""
        while not self._unused():
            if not self._alive() and not self._raise_up():
                return
            time.sleep(_TICK)

    def _unused(self) -> bool:
        """
        Stop the server if nobody uses it.

        A start waits for users.lock meanwhile, so it finds the server stopped and nobody on guard.
        """
        try:
            with locked(self.root / USERS, fcntl.LOCK_EX | fcntl.LOCK_NB):
                self._settle_launch()
                stop(self.data)
                self._alive()
                os.close(self._guard)
                return True
        except Busy:
            return False

    def _settle_launch(self) -> None:
        """Wait until a server that was just launched can be found by its pid file."""
        deadline = time.monotonic() + _PATIENCE
        while self._alive() and postmaster(self.data) is None and time.monotonic() < deadline:
            time.sleep(0.01)

    def _alive(self) -> bool:
        self._served = self._served or is_ready(self.data)
        if self._server is not None:
            if self._server.poll() is None:
                return True
            self._server = None
        return postmaster(self.data) is not None

    def _raise_up(self) -> bool:
        """Launch the server once the children of a killed one are gone; False: there is no use in going on."""
        if self._orphaned():
            return True
        lived = time.monotonic() - self._began
        self._deaths = 0 if lived > _PATIENCE else self._deaths + 1
        if self._deaths > _FAST_DEATHS or (self._began and not self._served):
            return False
        if self._deaths > 1:
            time.sleep(_TICK * 2**self._deaths)
        self._began = time.monotonic()
        self._launch()
        return True

    def _orphaned(self) -> bool:
        """
        Tell whether children of a killed postmaster still live, and end those that stay too long.

        They may write to the cluster, so nothing is launched beside them.
        """
        orphans = residents(self.data)
        if not orphans:
            self._orphans_since = None
            return False
        if self._orphans_since is None:
            self._orphans_since = time.monotonic()
        if time.monotonic() - self._orphans_since > _ORPHANS_GET:
            for pid in orphans:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
        return True

    def _turn_log(self) -> None:
        log = self.root / LOG
        if log.exists() and log.stat().st_size > _LOG_TURNS_AT:
            log.replace(log.with_suffix(".log.old"))

    def _launch(self) -> None:
        # These name a pid. With nobody living in the cluster they are stale, and block a start if it is used again.
        name = f".s.PGSQL.{PORT}"
        for left in (self.data / "postmaster.pid", self.socket / f"{name}.lock", self.socket / name):
            left.unlink(missing_ok=True)
        self._turn_log()
        uid, gid = self.owner or (None, None)
        with (self.root / LOG).open("ab") as log:
            self._server = subprocess.Popen(  # noqa: S603 - our own binary, no shell
                self.command,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                cwd="/",
                env=ENVIRONMENT,
                user=uid,
                group=gid,
                extra_groups=None if self.owner is None else [],
                start_new_session=True,
            )


def spawn(root: Path, command: Sequence[str], *, socket: Path, owner: tuple[int, int] | None) -> None:
    """
    Start a guardian for *root* that outlives this process; return once one holds guard.lock.

    Does nothing where another one watches already.
    """
    asked = json.dumps({"root": os.fspath(root), "command": list(command), "socket": os.fspath(socket), "owner": owner})
    with (root / LOG).open("ab") as log:
        subprocess.run(  # noqa: S603 - this very file
            [sys.executable, "-I", "-S", str(Path(__file__).resolve()), asked],
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            start_new_session=True,
            cwd="/",
            env=ENVIRONMENT,
            check=False,
        )


def main(asked: str) -> None:
    """Become the guardian that `spawn` asked for."""
    spec = json.loads(asked)
    root = Path(spec["root"])
    for unwanted in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(unwanted, signal.SIG_IGN)
    owner = tuple(spec["owner"]) if spec["owner"] else None
    with contextlib.suppress(FileNotFoundError, Busy):  # the root was deleted under us, or another one watches
        guardian = Guardian(root, spec["command"], socket=Path(spec["socket"]), owner=owner)
        if os.fork():
            os._exit(0)  # the lock stays with the child, which is nobody's child now
        guardian.watch()


if __name__ == "__main__":
    main(sys.argv[1])
