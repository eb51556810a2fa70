"""
How one value of the configuration is read.

A reader takes what was *given* and returns the typed value, or raises `ValueError` with a sentence that says what was
given (never of a secret) and how to write it.
"""

from __future__ import annotations

import re
import tomllib
from dataclasses import dataclass, field
from datetime import datetime, time
from pathlib import Path
from typing import TYPE_CHECKING, Literal, TypeAlias
from urllib.parse import parse_qsl, urlsplit
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from reconciler import times
from reconciler.adapter import Secret

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from datetime import timedelta
    from urllib.parse import SplitResult

Names: TypeAlias = tuple[str, ...] | Literal["all"]
"""Names, or all there are."""

_SIZE = re.compile(r"(\d{1,15})\s*(B|kB|KB|MB|GB|KiB|MiB|GiB)?", re.ASCII)
_BYTES = {"B": 1, "kB": 10**3, "KB": 10**3, "MB": 10**6, "GB": 10**9, "KiB": 2**10, "MiB": 2**20, "GiB": 2**30}
_CLOCK = re.compile(r"([01]\d|2[0-3]):([0-5]\d)", re.ASCII)
_NAME = re.compile(r"[a-z0-9][a-z0-9-]*", re.ASCII)
_SCHEMA = re.compile(r"[a-z_][a-z0-9_]{0,62}", re.ASCII)
_VERSION = re.compile(r"[A-Za-z0-9._-]+", re.ASCII)
_POINTER = re.compile(r"(/([^~]|~[01])*)+")
_LEVELS = ("debug", "info", "warning", "error", "critical")
_WAYS = "env:NAME, file:/PATH or credential:NAME"
_HIGHEST_PORT = 65535


@dataclass(frozen=True, slots=True)
class Listen:
    """
    Where to listen.

    Attributes:
        port: 0: any free one; the log line `serve.ready` says which.
    """

    host: str
    port: int

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


@dataclass(frozen=True, slots=True)
class Given:
    """
    One value as it was written, and what reading it may need.

    Attributes:
        overridden: It is the text of an environment variable; other types are spelled in it as TOML.
        warnings: Sentences that a reader adds where the value is usable but probably not meant.
    """

    value: object
    environment: Mapping[str, str] = field(default_factory=dict)
    overridden: bool = False
    warnings: list[str] = field(default_factory=list)

    def text(self) -> str:
        """Return it if it is text that says something."""
        if not isinstance(self.value, str) or not self.value.strip():
            raise ValueError(f"{self.value!r} is not a text; write it in quotes")
        return self.value

    def plain(self) -> object:
        """Return it with the type it has in TOML."""
        if not self.overridden:
            return self.value
        try:
            return tomllib.loads(f"value = {self.value}")["value"]
        except tomllib.TOMLDecodeError:
            return self.value

    def each(self) -> list[Given]:
        """Return the members of a list; an environment variable may spell it as TOML, or with commas."""
        listed = self.plain()
        if self.overridden and isinstance(listed, str):
            listed = [member.strip() for member in listed.split(",") if member.strip()]
        if not isinstance(listed, list):
            raise ValueError(f'{type(listed).__name__} where a list belongs; write it in brackets: ["...", "..."]')  # noqa: TRY004 - readers raise one type
        return [Given(member, self.environment, warnings=self.warnings) for member in listed]


def text(given: Given) -> str:
    """Read any text."""
    return given.text()


def name(given: Given) -> str:
    """Read the name of a source or endpoint: it stands in URLs, environment variables and rows."""
    return _matching(_NAME, given, "is no name; use lower-case letters, digits and -, a letter or digit first")


def schema(given: Given) -> str:
    """Read the name of a database schema, one that never needs quotes."""
    return _matching(_SCHEMA, given, "is no plain schema name; use lower-case letters, digits and _")


def version(given: Given) -> str:
    """Read the name of an API version."""
    return _matching(_VERSION, given, "is no API version; write it as the provider does")


def log_level(given: Given) -> str:
    """Read from which level on the log is written."""
    if given.text() not in _LEVELS:
        raise ValueError(f"{given.value!r} is no level of the log; it is one of {', '.join(_LEVELS)}")
    return given.text()


def flag(given: Given) -> bool:
    """Read true or false."""
    plain = given.plain()
    if not isinstance(plain, bool):
        raise ValueError(f"{plain!r} is neither true nor false; write one of them, without quotes")  # noqa: TRY004 - readers raise one type
    return plain


def whole(least: int) -> Callable[[Given], int]:
    """Make a reader of whole numbers from *least* up."""

    def read(given: Given) -> int:
        plain = given.plain()
        if isinstance(plain, bool) or not isinstance(plain, int) or plain < least:
            raise ValueError(f"{plain!r} is no whole number from {least} up; write one, without quotes")
        return plain

    return read


def rate(given: Given) -> float:
    """Read a number above zero."""
    plain = given.plain()
    if isinstance(plain, bool) or not isinstance(plain, int | float) or not 0 < plain < float("inf"):
        raise ValueError(f"{plain!r} is no number above 0; write one, without quotes")
    return float(plain)


def share(given: Given) -> float:
    """Read a part of one whole: above 0, at most 1."""
    part = rate(given)
    if part > 1:
        raise ValueError(f"{part!r} is more than the whole; write a share from above 0 to 1, like 0.1")
    return part


def duration(given: Given) -> timedelta:
    """Read a duration, nothing included."""
    return times.duration(given.text())


def span(given: Given) -> timedelta:
    """Read a duration that lasts."""
    lasting = duration(given)
    if not lasting:
        raise ValueError(f"{given.value!r} is no time at all; write a duration above zero, like 10s")
    return lasting


def span_or_off(given: Given) -> timedelta | None:
    """Read a duration that lasts, or `off`."""
    return None if given.value == "off" else span(given)


def instant(given: Given) -> datetime:
    """Read an instant, as text or as TOML's own."""
    return times.in_utc(given.value) if isinstance(given.value, datetime) else times.instant(given.text())


def clock(given: Given) -> time:
    """Read a time of day."""
    found = _CLOCK.fullmatch(given.text())
    if found is None:
        raise ValueError(f"{given.value!r} is no time of day; write it as HH:MM in quotes, like 03:10")
    return time(int(found[1]), int(found[2]))


def timezone(given: Given) -> ZoneInfo:
    """Read the name of a time zone."""
    try:
        return ZoneInfo(given.text())
    except (ZoneInfoNotFoundError, ValueError, OSError):
        raise ValueError(
            f"{given.value!r} is no time zone known here; write UTC or a name like Europe/Berlin"
        ) from None


def size(given: Given) -> int:
    """Read a size in bytes."""
    found = _SIZE.fullmatch(str(given.value).strip())
    if found is None or isinstance(given.value, bool) or not int(found[1]):
        raise ValueError(f"{given.value!r} is no size; write one like 25MiB")
    return int(found[1]) * _BYTES[found[2] or "B"]


def listen(given: Given) -> Listen:
    """Read where to listen: HOST:PORT, an IPv6 host in brackets."""
    host, colon, port = given.text().strip().rpartition(":")
    bare = host[1:-1] if host.startswith("[") and host.endswith("]") else host
    unbracketed = ":" in bare and bare == host
    if not colon or not bare or unbracketed or re.fullmatch(r"\d{1,5}", port, re.ASCII) is None:
        raise ValueError(f"{given.value!r} is not HOST:PORT; write it like 127.0.0.1:8080 or [::1]:8080")
    if int(port) > _HIGHEST_PORT:
        raise ValueError(f"{given.value!r} has a port above {_HIGHEST_PORT}; write 0 for any free one")
    return Listen(bare, int(port))


def path(given: Given) -> Path:
    """Read an absolute path."""
    written = Path(given.text())
    if not written.is_absolute():
        raise ValueError(f"{given.value!r} depends on where the program is started; write an absolute path")
    return written


def web_address(given: Given) -> str:
    """Read the beginning of a URL, without its last slash; one that holds a password is not repeated."""
    parts = _split(given.text())
    if "@" in parts.netloc:
        raise ValueError("holds a user or password; write the address without it")
    if parts.scheme not in {"http", "https"} or not parts.hostname or parts.query or parts.fragment:
        raise ValueError(f"{given.value!r} is no web address; write one like https://hooks.example.com")
    return given.text().strip().rstrip("/")


def names(given: Given) -> tuple[str, ...]:
    """Read a list of names, none of them twice."""
    return tuple(dict.fromkeys(member.text() for member in given.each()))


def names_or_all(given: Given) -> Names:
    """Read a list of names, or `all`."""
    if given.value == "all":
        return "all"
    if isinstance(given.value, str) and not given.overridden:
        raise ValueError(f'{given.value!r} is no list; write ["{given.value}"], or "all"')
    return names(given)


def pointers(given: Given) -> dict[str, tuple[str, ...]]:
    """Read JSON pointers by kind."""
    plain = given.plain()
    if not isinstance(plain, dict):
        raise ValueError(f'{plain!r} is no table; write one like {{ customer = ["/phone"] }}')  # noqa: TRY004 - readers raise one type
    return {kind: tuple(map(_pointer, Given(listed).each())) for kind, listed in plain.items()}


def secret(given: Given) -> Secret:
    """Read a reference to a secret and look it up; the text written there is never repeated."""
    way, colon, place = given.value.partition(":") if isinstance(given.value, str) else ("", "", "")
    if not colon or way not in _LOOKUPS or not place.strip():
        raise ValueError(f"a secret is not written down here; name where it is kept: {_WAYS}")
    reference = f"{way}:{place}"
    found = _LOOKUPS[way](place, given.environment).rstrip("\r\n")
    if not found:
        raise ValueError(f"{reference} is empty; put the secret there")
    if re.search(r"\s", found) and not found.startswith("-----BEGIN"):
        given.warnings.append(
            f"{reference} holds white space inside the secret; it is used as it is, and probably wrong"
        )
    return Secret(found, reference=reference)


def secrets(given: Given) -> tuple[Secret, ...]:
    """Read a list of references to secrets."""
    if isinstance(given.value, str) and not given.overridden:
        raise ValueError(f'a single text where a list belongs; write ["..."] around a reference: {_WAYS}')
    return tuple(secret(member) for member in given.each())


def database_url(given: Given) -> Secret:
    """Read a PostgreSQL URL: a reference, or the URL itself as long as it holds no password."""
    written = given.value if isinstance(given.value, str) else ""
    if "://" not in written or written.partition(":")[0] in _LOOKUPS:
        url = secret(given)
    else:
        url = Secret(written.strip(), reference=written.strip())
        if _may_hold_password(url.reveal()):
            raise ValueError(f"a URL with a password is a secret; keep it elsewhere and name the place: {_WAYS}")
    if _split(url.reveal()).scheme not in {"postgresql", "postgres", "postgresql+psycopg"}:
        raise ValueError("is no PostgreSQL URL; write one like postgresql://user@host:5432/database")
    return url


def password(url: str) -> str | None:
    """Return the password inside *url* as it is written there; None where there is none, or it is no URL."""
    try:
        parts = urlsplit(url)
    except ValueError:
        return None
    return parts.password or dict(parse_qsl(parts.query)).get("password")


def _may_hold_password(url: str) -> bool:
    user = url.partition("://")[2].rpartition("@")[0]
    return ":" in user or any(key.lower().endswith("password") for key, _ in parse_qsl(urlsplit(url).query))


def _matching(pattern: re.Pattern[str], given: Given, otherwise: str) -> str:
    if pattern.fullmatch(given.text()) is None:
        raise ValueError(f"{given.value!r} {otherwise}")
    return given.text()


def _split(url: str) -> SplitResult:
    try:
        parts = urlsplit(url.strip())
        _ = parts.port
    except ValueError:
        raise ValueError("is no URL; check its host and port") from None
    return parts


def _pointer(given: Given) -> str:
    return _matching(_POINTER, given, "is no JSON pointer; write one like /phone or /address/city")


def _from_environment(place: str, environment: Mapping[str, str]) -> str:
    if place not in environment:
        raise ValueError(f"env:{place} names a variable that is not set; set it, or name another place")
    return environment[place]


def _from_file(place: str, _: Mapping[str, str]) -> str:
    if not Path(place).is_absolute():
        raise ValueError(f"file:{place} depends on where the program is started; write an absolute path")
    return _read(Path(place), f"file:{place}")


def _from_credential(place: str, environment: Mapping[str, str]) -> str:
    folder = environment.get("CREDENTIALS_DIRECTORY", "")
    if not folder:
        raise ValueError(
            f"credential:{place} needs $CREDENTIALS_DIRECTORY, which systemd sets for a unit with"
            f" LoadCredential={place}:PATH; start the unit, or use env: or file:"
        )
    if "/" in place or place in {".", ".."}:
        raise ValueError(f"credential:{place} is a path; name the credential only, or use file:/PATH")
    return _read(Path(folder) / place, f"credential:{place}")


def _read(kept: Path, reference: str) -> str:
    try:
        return kept.read_bytes().decode()
    except OSError as error:
        raise ValueError(
            f"{reference} cannot be read ({error.strerror}); check that it exists and who may read it"
        ) from None
    except UnicodeDecodeError:
        raise ValueError(f"{reference} is not UTF-8 text; put the secret there as text") from None


_LOOKUPS = {"env": _from_environment, "file": _from_file, "credential": _from_credential}
