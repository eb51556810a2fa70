"""The configuration: a TOML file, `conf.d` beside it, the environment over both; all faults at once."""

from reconciler.adapter import Secret
from reconciler.config.reading import load
from reconciler.config.settings import (
    CALL_TIMEOUT,
    AdminSettings,
    DatabaseSettings,
    DeletesStop,
    DrainSettings,
    Endpoint,
    RetentionSettings,
    ScheduleSettings,
    Settings,
    Source,
    StripeAccess,
    WebSettings,
)
from reconciler.config.values import Listen, Names

__all__ = [
    "CALL_TIMEOUT",
    "AdminSettings",
    "DatabaseSettings",
    "DeletesStop",
    "DrainSettings",
    "Endpoint",
    "Listen",
    "Names",
    "RetentionSettings",
    "ScheduleSettings",
    "Secret",
    "Settings",
    "Source",
    "StripeAccess",
    "WebSettings",
    "load",
]
