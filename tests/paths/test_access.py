"""What a provider says of our access is looked at at once: lost as a state of its own, and back without a night."""

from __future__ import annotations

import json
from contextlib import ExitStack
from typing import TYPE_CHECKING

import httpx
import pytest

from adapters.sandbox.stripe import StripeSandbox
from reconciler.store import pauses, sources
from tests.paths.listening import eventually, rows
from tests.paths.test_endpoints import (
    ACME,
    APP_SECRET,
    LIVING,
    OWN_SECRET,
    STORED,
    StandIn,
    app_of,
    from_github,
    front,
    hub,
    installed,
    private_key,
    shops,
)

if TYPE_CHECKING:
    from pathlib import Path

    from reconciler.store.database import Database
    from tests.paths.test_endpoints import Front, Hub, Shops

__all__ = ["hub", "private_key", "shops"]

LOST = "SELECT source, scope, what FROM pauses ORDER BY 1, 2"
LOOKS = "SELECT source, scope FROM access_looks"


def tell(made: Front, action: str) -> None:
    """Deliver that something became of acme's installation."""
    payload = {"action": action, "installation": {"id": ACME, "account": {"login": "acme", "id": 9}}}
    body = json.dumps(payload).encode()
    answer = httpx.post(made.inbox("github-app"), content=body, headers=from_github(body, "installation"))
    assert answer.status_code == 200


@pytest.mark.parametrize(
    ("became", "told", "what"), [("suspended", "suspend", "suspended"), ("no", "deleted", "uninstalled")]
)
def test_an_installation(  # noqa: PLR0917 - fixtures
    database: Database, tmp_path: Path, hub: Hub, private_key: str, became: str, told: str, what: str
) -> None:
    """A suspended or deleted installation is one state within seconds, and read again once that is over."""
    text = installed(tmp_path, "acme", ACME, private_key, api_base=json.dumps(hub.at.url)) + app_of("acme")
    with front(database, tmp_path, text) as made:
        hub.app_sends_to(made.inbox("github-app"))
        hub.opens("acme/shop")
        eventually(lambda: len(rows(database, LIVING)) == 1)
        hub.at.control("PUT", "habits", {"installed": became})

        tell(made, told)
        eventually(lambda: rows(database, LOST) == [("acme", "", what)])
        hub.opens("acme/shop")
        calls = hub.at.calls()
        hub.at.control("PUT", "habits", {})
        tell(made, "unsuspend")
        eventually(lambda: rows(database, LOST) == [])
        eventually(lambda: len(rows(database, LIVING)) == 2)

        outcomes = {kind: outcome for _, kind, outcome in rows(database, STORED)}
    assert hub.at.calls() > calls
    assert outcomes[f"installation.{told}"] == outcomes["installation.unsuspend"] == "done"
    assert [line["what"] for line in made.lines if line["event"] == "source.paused"] == [what]
    assert rows(database, LOOKS) == []


def test_a_shop(database: Database, tmp_path: Path, shops: Shops) -> None:
    """A shop that took the app off is uninstalled within seconds, and the others are as before."""
    with front(database, tmp_path, shops.configuration()) as made:
        for each in (shops.berlin, shops.paris):
            each.sends_to(made.inbox("shop-app"), APP_SECRET)
        shops.berlin.control("PUT", "shop", {"state": "uninstalled"})
        eventually(lambda: rows(database, LOST) == [("shop-berlin", "", "uninstalled")])
        shops.berlin.control("PUT", "shop", {})
        database.commit(lambda connection: sources.refuse(connection, "shop-berlin", "", "order", because="denied"))

        shops.berlin.control("POST", "send", {"topic": "app/scopes_update", "body": {"current": ["read_orders"]}})
        eventually(lambda: rows(database, LOST) == [])

    assert rows(database, "SELECT kind FROM refused_kinds WHERE until > clock_timestamp()") == []


def test_a_connected_account(database: Database, tmp_path: Path) -> None:
    """An account that leaves a platform is a lost scope within seconds; the platform and others are not."""
    with ExitStack() as stack:
        sandbox = StripeSandbox(7, accounts=("acct_a", "acct_b"))
        platform = StandIn(stack.enter_context(sandbox.serve()).url)
        text = (
            '[[sources]]\nname = "platform"\nprovider = "stripe"\napi_key = "env:STRIPE_KEY"\n'
            f'accounts = "all"\napi_base = "{platform.url}"\nwebhook_secrets = ["env:OWN_SECRET"]\n'
        )
        made = stack.enter_context(front(database, tmp_path, text, STRIPE_KEY="sk_test_standinofakey"))
        platform.sends_to(made.inbox("platform"), OWN_SECRET)

        platform.control("POST", "objects", {"op": "delete", "kind": "account", "id": "acct_a"})

        eventually(lambda: rows(database, LOST) == [("platform", "acct_a", "uninstalled")])


def test_a_look_is_taken_once_and_stays_until_it_is_answered(database: Database) -> None:
    """Words that come together want one look; one that comes while it is under way wants another."""
    database.commit(lambda c: pauses.want_looks(c, [("acme", "", "suspended"), ("acme", "", "")]))

    look = database.commit(lambda c: pauses.lease_look(c, ["acme"]))
    meanwhile = database.commit(lambda c: pauses.lease_look(c, ["acme", "other"]))
    database.commit(lambda c: pauses.want_looks(c, [("acme", "", "uninstalled")]))
    assert look is not None
    database.commit(lambda c: pauses.settle_look(c, look))
    again = database.commit(lambda c: pauses.lease_look(c, ["acme"]))
    assert again is not None
    database.commit(lambda c: pauses.settle_look(c, again))

    assert (look.what, meanwhile, again.what) == ("", None, "uninstalled")
    assert rows(database, LOOKS) == []
