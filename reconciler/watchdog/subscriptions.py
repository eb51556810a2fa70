"""Subscriptions: there, at work, and sending all that is needed; else mended where we may, or named exactly."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import structlog

from reconciler.errors import AccessLost, SourceRefused
from reconciler.store import findings
from reconciler.store.findings import Finding, What

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import timedelta

    from sqlalchemy import Connection

    from reconciler.adapter import Subscription
    from reconciler.store.database import Database
    from reconciler.store.vouching import Vouching
    from reconciler.watchdog.watched import Watched

_EVENTS: Final = "events"
_SAMPLE: Final = 100


class Checking:
    """Looks after the subscriptions of sources."""

    def __init__(self, database: Database, vouching: Vouching, *, recently: timedelta) -> None:
        self._database, self._vouching, self._recently = database, vouching, recently
        self._log = structlog.get_logger()

    def check(self, watched: Watched) -> None:
        """Mend or report each subscription of a source; raises a `SourceError` where it cannot be looked at now."""
        held = self._vouching.held(watched.name)
        try:
            standing = watched.adapter.subscriptions(watched.urls, held=held)
        except AccessLost as lost:
            because = f"the credential may not look after webhooks: {lost}"
            self._log.warning("subscription.unchecked", source=watched.source, because=because)
            return
        if all(each.sound for each in standing):
            self._vouching.drop_others(watched.name, but=[each.id for each in standing])
        lost_ones = [finding for each in standing if (finding := self._wrong(watched, each)) is not None]
        self._keep(watched, What.SUBSCRIPTION_LOST, lost_ones, "subscription.lost")
        self._keep(watched, What.VERSION_DRIFT, self._drifted(watched, standing), "source.version_drift")

    def _wrong(self, watched: Watched, subscription: Subscription) -> Finding | None:
        """Return what is wrong and stays so."""
        if subscription.sound:
            return None
        what = _lack(subscription, watched.url)
        if not watched.manage:
            return _finding(watched, subscription, f"{what}; {_way_out(subscription)}, or set manage_webhooks = true")
        try:
            self._mend(watched, subscription, what)
        except (SourceRefused, AccessLost) as refused:
            because = f"{what}; it cannot be mended from here ({refused}): {_way_out(subscription)}"
            return _finding(watched, subscription, because)
        return None

    def _mend(self, watched: Watched, subscription: Subscription, what: str) -> None:
        mended = watched.adapter.mend_subscription(subscription, watched.url, secret=watched.secret)
        if mended.secret is not None:
            self._vouching.keep(watched.name, mended.id, mended.secret)
        self._log.warning("subscription.mended", source=watched.source, subscription=mended.id, because=what)

    def _drifted(self, watched: Watched, standing: Sequence[Subscription]) -> list[Finding]:
        """Return what sends in another API version than we read in."""
        ours = watched.version
        found = [
            Finding(
                watched.source,
                What.VERSION_DRIFT,
                each.id,
                f"{each.id} sends in API version {each.version}, and we read in {ours}: an endpoint keeps its "
                "version, so make another one in ours, or try the other way with upgrade-api",
            )
            for each in standing
            if each.id and each.version and each.version != ours
        ]
        with self._database.transaction() as connection:
            payloads = findings.latest_payloads(connection, watched.source, span=self._recently, limit=_SAMPLE)
        spoken = {version for each in payloads if (version := watched.adapter.spoken(each)) is not None} - {ours}
        if spoken and not found:
            versions = ", ".join(sorted(spoken))
            because = (
                f"events came in API version {versions}, and we read in {ours}: another endpoint sends them, or ours"
            )
            found.append(Finding(watched.source, What.VERSION_DRIFT, _EVENTS, because))
        return found

    def _keep(self, watched: Watched, what: What, found: Sequence[Finding], event: str) -> None:
        """Let these findings of a sort stand, and no others; log those that are to be said."""

        def keep(connection: Connection) -> list[Finding]:
            findings.lose(connection, watched.source, what, but=[each.about for each in found])
            return [each for each in found if findings.find(connection, each)]

        for each in self._database.commit(keep):
            self._log.warning(event, source=each.source, about=each.about, because=each.because)


def _finding(watched: Watched, subscription: Subscription, because: str) -> Finding:
    return Finding(watched.source, What.SUBSCRIPTION_LOST, subscription.place, because)


def _lack(subscription: Subscription, url: str) -> str:
    """Return what a subscription lacks, and where, in words."""
    if not subscription.id:
        return f"{subscription.place}: no subscription points at {url}"
    lacks = [*subscription.wrong]
    lacks += [f"does not send {', '.join(subscription.missing)}"] if subscription.missing else []
    return f"{subscription.place}: the subscription {subscription.id} to {subscription.url} {', and '.join(lacks)}"


def _way_out(subscription: Subscription) -> str:
    if subscription.id:
        return "mend it at the provider"
    return f"make one at the provider that sends {', '.join(subscription.missing)}"
