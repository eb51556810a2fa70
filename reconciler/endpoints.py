"""
One URL that feeds several sources: an app with many shops or installations has one secret and one address.

A delivery is verified first, by the adapters' own check with the endpoint's secrets, and only then asked whose it is.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import structlog

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from structlog.typing import FilteringBoundLogger

    from reconciler.adapter import Adapter
    from reconciler.model import Delivery, Notification


class Own:
    """What stands behind a source's own name: its adapter, and the secrets kept besides the configured ones."""

    def __init__(self, adapter: Adapter, secrets: Sequence[str], kept: Callable[[], Sequence[str]]) -> None:
        self._adapter, self._secrets, self._kept = adapter, tuple(secrets), kept

    @property
    def provider(self) -> str:
        """The provider of the source."""
        return self._adapter.provider

    def read(self, delivery: Delivery) -> tuple[Notification, ...]:
        """Verify and parse in one step; raises `SignatureInvalid` or `DeliveryMalformed`."""
        kept = self._kept()
        return self._adapter.read(delivery, secrets=[*self._secrets, *kept] if kept else None)


class Endpoint:
    """
    What stands behind the name of an endpoint: sources of one provider, at least one, and secrets of its own.

    A source's secrets do not open it, nor do its secrets open a source's own URL. *kept* are secrets besides.
    """

    def __init__(
        self,
        name: str,
        adapters: Sequence[Adapter],
        secrets: Sequence[str],
        *,
        kept: Callable[[], Sequence[str]] = tuple,
        log: FilteringBoundLogger | None = None,
    ) -> None:
        self._name, self._adapters, self._secrets = name, tuple(adapters), tuple(secrets)
        self._kept = kept
        self._log: FilteringBoundLogger = log or structlog.get_logger()

    @property
    def provider(self) -> str:
        """The provider of all its sources."""
        return self._adapters[0].provider

    def read(self, delivery: Delivery) -> tuple[Notification, ...]:
        """
        Verify and parse in one step, for each source that the delivery is about; nothing where it is about none.

        Raises `SignatureInvalid` or `DeliveryMalformed`, before anything in the delivery has chosen a source.
        """
        secrets = [*self._secrets, *self._kept()]
        told = self._adapters[0].read(delivery, secrets=secrets)
        meant = [each for each in self._adapters if any(each.addressed(one, delivery) for one in told)]
        if not meant:
            self._note(told)
        return tuple(one for each in meant for one in each.read(delivery, secrets=secrets))

    def _note(self, told: Sequence[Notification]) -> None:
        for one in told:
            self._log.info(
                "delivery.ignored",
                source=self._name,
                event_id=one.event_id,
                event_type=one.event_type,
                vouched_by=one.secret,
                because="it is about none of this endpoint's sources",
            )
