"""What each provider contributes to the demo: its objects, what happens to them, and how its source is configured."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from reconciler.model import Body

_NAMES = {"stripe": "Stripe", "shopify": "Shopify", "github": "GitHub"}
_FAULTS = {
    "drop": 0.1,
    "duplicate": 0.1,
    "reorder": 0.2,
    "delay": [0, 1.5],
    "status": {"429": 0.01, "500": 0.01},
    "stale_reads": 0.02,
    "stale_for": 0.5,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """
    One provider's part.

    Attributes:
        provider: As the configuration calls it.
        secret: What signs its webhooks.
        keys: What is written into the table of its source, besides the name and the address.
        variables: The secrets that those keys name.
        controls: What its stand-in is told before anything happens, by control route.
        faults: What it does wrong while objects change.
        first: How many objects of each kind there are at first; none of a kind that only comes with another.
        changes: How many things happen in a round.
        scopes: The kind whose objects the others live in; empty: they live in none.
        belongs: The field of a new object that names another, and the kind of that.
        moves: What a change may set, by kind; the stand-in's own idea of a change where nothing is said.
        leaves: The kinds whose objects are deleted now and then.
        returns: Those whose deleted objects come back.
        silence: What is told of changes that no event announces, in turn.
    """

    provider: str
    secret: str
    keys: Sequence[str]
    variables: Mapping[str, str]
    controls: Mapping[str, Body] = field(default_factory=dict)
    faults: Body = field(default_factory=lambda: dict(_FAULTS))
    first: Mapping[str, int]
    changes: int
    scopes: str = ""
    belongs: Mapping[str, tuple[str, str]] = field(default_factory=dict)
    moves: Mapping[str, Sequence[Body]] = field(default_factory=dict)
    leaves: Sequence[str]
    returns: Sequence[str] = ()
    silence: Sequence[Body]

    @property
    def name(self) -> str:
        """The provider's name, as people write it."""
        return _NAMES[self.provider]

    @property
    def source(self) -> str:
        """The name of its source."""
        return f"{self.provider}-demo"

    def configuration(self, url: str) -> str:
        """Return the table of its source, whose provider answers under *url*."""
        lines = [
            "[[sources]]",
            f'name = "{self.source}"',
            f'provider = "{self.provider}"',
            f'api_base = "{url}"',
            f"kinds = {json.dumps(list(self.first))}",
            f'webhook_secrets = ["env:DEMO_{self.provider.upper()}_WEBHOOKS"]',
            "calls_per_second = 600",
            *self.keys,
        ]
        return "\n".join(lines) + "\n"

    def environment(self) -> dict[str, str]:
        """Return the variables in which its secrets are kept."""
        return {**self.variables, f"DEMO_{self.provider.upper()}_WEBHOOKS": self.secret}


_UNTOLD: Body = {"announce": False}
_UNSEEN: Body = {"announce": False, "stamp": "keep"}

_STRIPE = Part(
    provider="stripe",
    secret="whsec_standin",  # noqa: S106 - opens nothing but the stand-in
    keys=('api_key = "env:DEMO_STRIPE_KEY"',),
    variables={"DEMO_STRIPE_KEY": "sk_test_standin"},
    first={
        "customer": 50,
        "product": 20,
        "price": 20,
        "subscription": 30,
        "invoice": 20,
        "payment_intent": 15,
        "charge": 10,
        "refund": 5,
    },
    changes=12,
    leaves=("customer", "product"),
    returns=("product",),
    silence=(_UNTOLD,),
)

# Shopify drops a subscription whose deliveries fail for hours: half a minute at the stand-in, unless told.
_SHOPIFY = Part(
    provider="shopify",
    secret="shpss_standin",  # noqa: S106 - as above
    keys=(
        'shop = "standin.myshopify.com"',
        'client_id = "env:DEMO_SHOPIFY_ID"',
        'client_secret = "env:DEMO_SHOPIFY_SECRET"',
    ),
    variables={"DEMO_SHOPIFY_ID": "standin", "DEMO_SHOPIFY_SECRET": "shpss_standin"},
    controls={"/retries": {"first": 0.25, "factor": 2, "most": 2, "attempts": 60}},
    first={"customer": 25, "product": 20, "product_variant": 10, "order": 25, "refund": 8},
    changes=8,
    belongs={
        "product_variant": ("product", "product"),
        "order": ("customer", "customer"),
        "refund": ("order", "order"),
    },
    leaves=("customer", "product", "product_variant", "order"),
    returns=("customer", "product"),
    silence=(_UNTOLD, _UNSEEN),
)

# GitHub never sends a delivery again by itself, and lets a token call 5,000 times an hour unless told.
_GITHUB = Part(
    provider="github",
    secret="standin",  # noqa: S106 - as above
    keys=('organizations = ["acme"]', 'token = "env:DEMO_GITHUB_TOKEN"'),
    variables={"DEMO_GITHUB_TOKEN": "ghp_standin"},
    controls={"/habits": {"limit": 100_000}},
    first={
        "repository": 2,
        "label": 8,
        "milestone": 4,
        "issue": 25,
        "pull_request": 15,
        "issue_comment": 20,
        "release": 6,
    },
    changes=6,
    scopes="repository",
    belongs={"issue_comment": ("issue", "issue")},
    moves={
        "issue": ({}, {"state": "closed"}, {"state": "open"}, {"labels": ["bug"]}, {"labels": ["bug", "urgent"]}),
        "pull_request": ({}, {}, {"state": "closed"}, {"state": "open"}),
        "milestone": ({}, {"state": "closed"}, {"state": "open"}),
    },
    leaves=("label", "milestone", "issue", "issue_comment", "release"),
    silence=(_UNTOLD, _UNSEEN),
)


def parts() -> tuple[Part, ...]:
    """Return every provider's part."""
    return (_STRIPE, _SHOPIFY, _GITHUB)
