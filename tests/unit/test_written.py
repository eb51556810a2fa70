"""What is kept of a configuration to compare it with later: everything but secrets."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

from reconciler.config import load
from reconciler.config.written import changes, written

if TYPE_CHECKING:
    from reconciler.config.written import Tree

_ONE = """
public_url = "https://hooks.example.com"
[database]
url = "env:DATABASE_URL"
[schedule]
nightly = "{nightly}"
[[sources]]
name = "stripe-eu"
provider = "stripe"
api_key = "env:{key}"
webhook_secrets = ["env:KEY"]
omit = {{ customer = ["/phone"] }}
backfill_since = "2024-01-01T00:00:00Z"
{more}
"""
_SHOP = """
[[sources]]
name = "shop-berlin"
provider = "shopify"
shop = "berlin.myshopify.com"
access_token = "env:KEY"
"""
_ENVIRONMENT = {"KEY": "sk_test_standin", "OTHER": "sk_test_other", "DATABASE_URL": "postgresql://me:hidden@db/mirror"}


def kept(folder: Path, *kinds: str, nightly: str = "03:10", key: str = "KEY", more: str = "") -> Tree:
    """Return what is kept of a configuration like this."""
    file = folder / "reconciler.toml"
    file.write_text(_ONE.format(nightly=nightly, key=key, more=more))
    return written(load(file, _ENVIRONMENT, default=Path("/nowhere")), {"stripe-eu": kinds})


def test_no_secret_is_kept(tmp_path: Path) -> None:
    """Of a secret only the place where it is kept is kept, also of a URL's password; all of it is JSON."""
    text = json.dumps(kept(tmp_path, "customer", more=_SHOP))

    assert not [secret for secret in ("standin", "hidden") if secret in text]
    assert "env:KEY" in text
    assert "env:DATABASE_URL" in text


def test_what_differs(tmp_path: Path) -> None:
    """Each key that differs is told as it was and is; a source that came or went as a whole."""
    before = kept(tmp_path, "price", "customer")

    after = kept(tmp_path, "customer", "invoice", nightly="04:00", key="OTHER", more=_SHOP)

    assert [str(each) for each in changes(before, after)] == [
        "schedule.nightly: 03:10 -> 04:00",
        "sources.shop-berlin: added",
        "sources.stripe-eu.api_key: env:KEY -> env:OTHER",
        "sources.stripe-eu.kinds: -price +invoice",
    ]
    assert [str(each) for each in changes(after, before)][1] == "sources.shop-berlin: removed"
    assert changes(after, after) == []
    assert changes(json.loads(json.dumps(after)), after) == []
