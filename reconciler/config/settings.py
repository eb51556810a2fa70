"""
What can be configured: each table of the file is a class, each key a field with its reader and its default.

These classes are the table of keys; the example file and the reference are compared with them by a test.
"""

# ruff: noqa: RUF009 - what declares a key returns a field, as dataclasses.field does

from __future__ import annotations

from dataclasses import dataclass, field, fields
from datetime import timedelta
from typing import TYPE_CHECKING, Any, TypeVar, cast

from reconciler.adapter import Secret
from reconciler.config import values
from reconciler.config.shops import extra_fields
from reconciler.config.values import Given

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from dataclasses import Field
    from datetime import datetime, time
    from pathlib import Path
    from zoneinfo import ZoneInfo

    from reconciler.adapter import Access, Reader
    from reconciler.config.values import Listen, Names

T = TypeVar("T")

CALL_TIMEOUT = timedelta(seconds=30)
"""What one provider call may take in all; a lease must outlast it."""

READ = "read"
TABLE = "table"


def key(read: Callable[[Given], T], default: object) -> T:
    """Declare a key whose absence means *default*, spelled as the file would."""
    return field(default_factory=lambda: read(Given(default)), metadata={READ: read})


def optional(read: Callable[[Given], T]) -> T | None:
    """Declare a key whose absence means None."""
    return field(default=None, metadata={READ: read})


def required(read: Callable[[Given], T]) -> T:
    """Declare a key that must be there."""
    return cast("T", field(metadata={READ: read}))


def table(cls: Callable[[], T]) -> T:
    """Declare a table of keys that may be absent."""
    return field(default_factory=cls, metadata={TABLE: cls})


@dataclass(frozen=True, slots=True, kw_only=True)
class DatabaseSettings:
    """
    Where the mirror is kept.

    Attributes:
        url: None: an embedded PostgreSQL under the state directory.
        direct_url: For LISTEN, where `url` goes through a pooler; None: `url`.
    """

    url: Secret | None = optional(values.database_url)
    schema: str = key(values.schema, "reconciler")
    direct_url: Secret | None = optional(values.database_url)


@dataclass(frozen=True, slots=True, kw_only=True)
class WebSettings:
    """
    The public listener.

    Attributes:
        max_body: Bytes of the largest delivery that is read.
        tolerance: How far a delivery's signed time may be from ours, either way.
        spool: The state directory is durable: deliveries are kept there, and answered 200, while the database is away.
        spool_max: Bytes that are kept so, at most.
    """

    listen: Listen = key(values.listen, "127.0.0.1:8080")
    max_body: int = key(values.size, "25MiB")
    tolerance: timedelta = key(values.span, "5m")
    spool: bool = key(values.flag, default=False)
    spool_max: int = key(values.size, "1GiB")


@dataclass(frozen=True, slots=True, kw_only=True)
class AdminSettings:
    """
    The listener for people and scripts.

    Attributes:
        tokens: Any of them opens it; none: everything but `/metrics` is refused.
    """

    listen: Listen = key(values.listen, "127.0.0.1:8081")
    tokens: tuple[Secret, ...] = key(values.secrets, [])


@dataclass(frozen=True, slots=True, kw_only=True)
class LogSettings:
    """
    What a daemon tells about itself.

    Attributes:
        level: From this one up.
    """

    level: str = key(values.log_level, "info")


@dataclass(frozen=True, slots=True, kw_only=True)
class DeletesStop:
    """
    When so much of a kind goes at once that it is more likely a mistake.

    Attributes:
        share: Of the kind's rows, in one run or within an hour.
        above: So many may always go.
    """

    share: float = key(values.share, 0.1)
    above: int = key(values.whole(0), 20)


@dataclass(frozen=True, slots=True, kw_only=True)
class DrainSettings:
    """
    How refetches are worked off.

    Attributes:
        lease: How long one worker alone works on a refetch.
        attempts: After so many failures a refetch is a dead letter.
        poll: How often to look for work that no wake-up announced.
        rewound_after: Between the first and the last read that show a source has rewound.
        absence_recheck: Between the two reads that prove an absence.
        read_lag: How long a provider may show an older state after it announced a change.
    """

    workers: int = key(values.whole(1), 8)
    lease: timedelta = key(values.span, "5m")
    attempts: int = key(values.whole(1), 12)
    poll: timedelta = key(values.span, "1s")
    rewound_after: timedelta = key(values.span, "10m")
    absence_recheck: timedelta = key(values.span, "5s")
    deletes_stop: DeletesStop = table(DeletesStop)
    read_lag: timedelta = key(values.duration, "10s")


@dataclass(frozen=True, slots=True, kw_only=True)
class ScheduleSettings:
    """
    When sweeps run.

    Attributes:
        nightly: Local to `timezone`.
        light_every: A cheap pass over the change feeds between nights; None: off.
        overlap: How far before its watermark a sweep begins.
        in_flight: What changed less than this ago is not called drift yet.
        full_every: In this time everything is compared once, a share each night; None: only what is asked for.
    """

    nightly: time = key(values.clock, "03:10")
    timezone: ZoneInfo = key(values.timezone, "UTC")
    light_every: timedelta | None = key(values.span_or_off, "1h")
    overlap: timedelta = key(values.duration, "2h")
    in_flight: timedelta = key(values.duration, "5m")
    full_every: timedelta | None = key(values.span_or_off, "7d")


@dataclass(frozen=True, slots=True, kw_only=True)
class RetentionSettings:
    """
    For how long what is settled stays on record, by table; None: for ever.

    Attributes:
        webhook_events: From the last time an event came or was worked on, with its payload.
        runs: From a run's end.
    """

    webhook_events: timedelta | None = key(values.span_or_off, "45d")
    object_history: timedelta | None = key(values.span_or_off, "45d")
    declined_writes: timedelta | None = key(values.span_or_off, "45d")
    drift: timedelta | None = key(values.span_or_off, "45d")
    runs: timedelta | None = key(values.span_or_off, "45d")

    def kept(self) -> dict[str, timedelta | None]:
        """Return for how long each table keeps what is settled, by its name."""
        return {each.name: getattr(self, each.name) for each in fields(self)}


@dataclass(frozen=True, slots=True, kw_only=True)
class StripeAccess:
    """
    What only a Stripe source has.

    Attributes:
        accounts: Connected accounts, or `all` the platform has; empty: none.
    """

    api_key: Secret = required(values.secret)
    accounts: Names = key(values.names_or_all, [])

    def faults(self) -> tuple[str, ...]:
        """Return what its keys together are not good for."""
        if self.accounts == "all":
            return ()
        odd = ", ".join(repr(each) for each in self.accounts if not each.startswith("acct_"))
        return (f"accounts: {odd} is no id of a connected account; those begin with acct_",) if odd else ()


@dataclass(frozen=True, slots=True, kw_only=True)
class ShopifyAccess:
    """
    What only a Shopify source has: `client_id` with `client_secret`, or an `access_token`.

    Attributes:
        shops: Written in place of `shop`, for a source for each of them; once read, empty.
        extra_fields: What is asked of objects besides, by kind: fields as GraphQL writes them, metafields by name.
    """

    shop: str = field(default="", metadata={READ: values.text})
    shops: tuple[str, ...] = key(values.names, [])
    client_id: Secret | None = optional(values.secret)
    client_secret: Secret | None = optional(values.secret)
    access_token: Secret | None = optional(values.secret)
    extra_fields: Mapping[str, tuple[str, ...]] = key(extra_fields, {})

    def faults(self) -> tuple[str, ...]:
        """Return what its keys together are not good for."""
        if not self.shop:
            return ("needs a shop, or a list of shops",)
        if self.access_token is None and None in {self.client_id, self.client_secret}:
            return ("needs client_id with client_secret, or an access_token",)
        return ()


@dataclass(frozen=True, slots=True, kw_only=True)
class GitHubAccess:
    """What only a GitHub source has: a `token`, or `app_id` with `private_key` and `installation_id`."""

    token: Secret | None = optional(values.secret)
    app_id: int | None = optional(values.whole(1))
    private_key: Secret | None = optional(values.secret)
    installation_id: int | None = optional(values.whole(1))
    repositories: tuple[str, ...] = key(values.names, [])
    organizations: tuple[str, ...] = key(values.names, [])

    def faults(self) -> tuple[str, ...]:
        """Return what its keys together are not good for."""
        if self.token is None and None in {self.app_id, self.private_key, self.installation_id}:
            return ("needs a token, or app_id with private_key and installation_id",)
        return ()

    def says_whose(self) -> bool:
        """Say whether it shows which deliveries of an app, which anybody may install, are about this source."""
        return bool(self.repositories or self.organizations or (self.token is None and self.installation_id))


@dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    """
    One account at a provider, in one mode, that we mirror.

    Attributes:
        access: What only this provider's sources have, credentials first.
        webhook_secrets: Any of them vouches for a delivery; none: every delivery is refused.
        kinds: None: the provider's core set.
        backfill_since: None: all history.
        omit: JSON pointers by kind, never stored.
        manage_webhooks: Create and mend the provider's subscription.
        calls_per_second: None: the provider's own limits.
        api_base: Instead of the provider's own address; without a slash at its end.
    """

    name: str = required(values.name)
    provider: str = required(values.text)
    access: Access
    webhook_secrets: tuple[Secret, ...] = key(values.secrets, [])
    kinds: Names | None = optional(values.names_or_all)
    backfill_since: datetime | None = optional(values.instant)
    omit: Mapping[str, tuple[str, ...]] = key(values.pointers, {})
    manage_webhooks: bool = key(values.flag, default=False)
    calls_per_second: float | None = optional(values.rate)
    api_base: str | None = optional(values.web_address)
    api_version: str = required(values.version)


@dataclass(frozen=True, slots=True, kw_only=True)
class Endpoint:
    """
    One URL that feeds several sources, told apart by what a delivery says.

    Attributes:
        sources: Their names; once read, those of all sources of `provider` where that is written instead.
        provider: Once read, that of the sources.
        webhook_secrets: Any of them vouches for a delivery, and those of the sources do not.
    """

    name: str = required(values.name)
    sources: tuple[str, ...] = key(values.names, [])
    provider: str | None = optional(values.text)
    webhook_secrets: tuple[Secret, ...] = key(values.secrets, [])


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """
    Everything that is configured, checked.

    Attributes:
        public_url: Where providers reach the public listener; without a slash at its end.
        warnings: Sentences about what can be used but is probably not meant, for the caller to show.
        files: What was read, in this order.
    """

    state_directory: Path = required(values.path)
    public_url: str | None = optional(values.web_address)
    database: DatabaseSettings = table(DatabaseSettings)
    web: WebSettings = table(WebSettings)
    admin: AdminSettings = table(AdminSettings)
    log: LogSettings = table(LogSettings)
    drain: DrainSettings = table(DrainSettings)
    schedule: ScheduleSettings = table(ScheduleSettings)
    retention: RetentionSettings = table(RetentionSettings)
    sources: tuple[Source, ...] = ()
    endpoints: tuple[Endpoint, ...] = ()
    warnings: tuple[str, ...] = ()
    files: tuple[Path, ...] = ()

    def secrets(self) -> tuple[str, ...]:
        """Return the text of every secret, and the passwords inside URLs, so that the log knows what never to show."""
        found = [secret for secret in _secrets_in(self) if not secret.written_down]
        passwords = (values.password(secret.reveal()) for secret in found)
        return tuple(dict.fromkeys(text for text in (*(secret.reveal() for secret in found), *passwords) if text))


def keys(cls: Callable[..., object]) -> dict[str, Field[Any]]:
    """Return the keys of the table that the class *cls* stands for, in the order of the example."""
    return {one.name: one for one in fields(cast("Any", cls)) if one.metadata}


def read(declared: Field[Any], given: Given) -> object:
    """Return what is *given* for a key, read; raises `ValueError` with a sentence."""
    reader = declared.metadata[READ]
    return OPTIONS.get(reader, reader)(given)


# How the keys that an installed adapter declares are read (`reconciler.adapter.option`).
OPTIONS: Mapping[Reader, Callable[[Given], object]] = {
    "text": values.text,
    "secret": values.secret,
    "names": values.names,
    "flag": values.flag,
    "whole": values.whole(1),
    "duration": values.duration,
    "address": values.web_address,
}


def _secrets_in(value: object) -> list[Secret]:
    if isinstance(value, Secret):
        return [value]
    if isinstance(value, tuple):
        return [secret for member in value for secret in _secrets_in(member)]
    if hasattr(value, "__dataclass_fields__"):
        return [secret for one in fields(cast("Any", value)) for secret in _secrets_in(getattr(value, one.name))]
    return []
