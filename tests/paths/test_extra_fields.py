"""What is asked of Shopify besides: checked against its schema before anything begins."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from adapters.sandbox.serving import serving
from adapters.sandbox.shopify import ShopifySandbox
from tests.paths.commanding import Finished, serve, stage_on

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from reconciler.store.database import Database
    from tests.paths.commanding import Stage

_SOURCE = """
[[sources]]
name = "shop-berlin"
provider = "shopify"
shop = "berlin.myshopify.com"
access_token = "env:SHOPIFY_TOKEN"
webhook_secrets = ["env:STRIPE_WHSEC"]
calls_per_second = 2000
api_base = "{api}"
kinds = ["order"]
extra_fields = {{ order = ["poNumber"] }}
"""
_TOKEN = "shpat_standin"
_FAULT = "sources[shop-berlin].extra_fields.order: 'colour' is refused: "


@pytest.fixture
def stage(emptied: Database, tmp_path: Path) -> Iterator[Stage]:
    """Yield a stage with one shop, which is asked for one more field of orders."""
    with stage_on(tmp_path, emptied) as made, serving(ShopifySandbox(7, access_token=_TOKEN)) as shop:
        made.environment["SHOPIFY_TOKEN"] = _TOKEN
        text = made.config.read_text()
        made.config.write_text(text[: text.index("[[sources]]")] + _SOURCE.format(api=shop.url))
        yield made


def run(stage: Stage, *arguments: str) -> Finished:
    """Run a command to its end, as wide as its longest sentence."""
    stage.environment["COLUMNS"] = "20000"
    process = stage.start(*arguments)
    out, err = process.communicate(timeout=120)
    return Finished(process.returncode, out, err)


def configure(stage: Stage, before: str, after: str) -> None:
    """Write another configuration."""
    stage.config.write_text(stage.config.read_text().replace(before, after))


@pytest.mark.parametrize("arguments", [("config", "check"), ("serve",), ("--since", "1h")])
def test_a_wrong_field_stops_before_anything_begins(stage: Stage, arguments: tuple[str, ...]) -> None:
    """The field is named with its source and kind, and with what there is; nothing is served and nothing swept."""
    configure(stage, "poNumber", "colour")

    done = run(stage, *arguments)

    assert done.code == 2
    assert _FAULT in done.err
    assert "Order has " in done.err
    assert ", poNumber," in done.err
    assert "Traceback" not in done.err


def test_a_right_field_is_no_fault(stage: Stage) -> None:
    """What the schema has is checked, and then read."""
    checked, swept = run(stage, "config", "check"), run(stage, "--since", "1h")

    assert (checked.code, swept.code) == (0, 0), checked.err + swept.err


def test_a_shop_that_does_not_answer_keeps_nothing_from_starting(stage: Stage, tmp_path: Path) -> None:
    """Deliveries are taken, and the check says that the shop was not asked; its first read will ask."""
    api = stage.config.read_text().partition('api_base = "')[2].partition('"')[0]
    configure(stage, api, "http://127.0.0.1:9")

    checked = run(stage, "config", "check")

    assert checked.code == 0
    assert "sources[shop-berlin]: its provider was not asked: " in checked.err
    with serve(stage, tmp_path) as daemon:
        assert daemon.lines("source.unconfirmed")[0]["source"] == "shop-berlin"


def test_a_check_needs_no_database_of_sources_without_such_fields(stage: Stage) -> None:
    """Where nothing is asked besides, the configuration is checked alone."""
    configure(stage, 'extra_fields = { order = ["poNumber"] }', "")
    stage.environment["DATABASE_URL"] = "postgresql://nobody@127.0.0.1:9/none"

    assert run(stage, "config", "check").code == 0
