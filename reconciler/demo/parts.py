"""What each provider contributes to the demo: its objects, what happens to them, and how its source is configured."""

from __future__ import annotations

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
        first: How many objects of each kind are made at first; none of a kind that is there without, or in another.
        changes: How many things happen in a round.
        scopes: The kind whose objects the others live in; empty: they live in none.
        outside: The kinds that live in none of them all the same.
        belongs: The field of a new object that names another, and the kind of that.
        within: The kinds that the stand-in only knows inside others: the kind of those, and the field.
        unlisted: The kinds that no call lists: of what no event told, their ids are all that one can go by.
        moves: What a change may ask for, by kind; the stand-in's own idea of a change where nothing is said.
        leaves: The kinds whose objects are deleted now and then, or end in the way that theirs do.
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
    outside: Sequence[str] = ()
    belongs: Mapping[str, tuple[str, str]] = field(default_factory=dict)
    within: Mapping[str, tuple[str, str]] = field(default_factory=dict)
    unlisted: Sequence[str] = ()
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
            'kinds = "all"',
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
_CLOSED: Body = {"body": {"state": "closed"}}
_OPEN: Body = {"body": {"state": "open"}}

_STRIPE = Part(
    provider="stripe",
    secret="whsec_standin",  # noqa: S106 - opens nothing but the stand-in
    keys=('api_key = "env:DEMO_STRIPE_KEY"',),
    variables={"DEMO_STRIPE_KEY": "sk_test_standin"},
    first={
        "customer": 40,
        "product": 16,
        "price": 16,
        "subscription": 25,
        "subscription_item": 0,
        "invoice": 16,
        "payment_intent": 12,
        "charge": 10,
        "refund": 5,
        "account": 0,
        "application_fee": 3,
        "balance_transaction": 4,
        "checkout_session": 4,
        "coupon": 4,
        "credit_note": 3,
        "dispute": 3,
        "file": 3,
        "invoiceitem": 4,
        "mandate": 3,
        "payment_link": 3,
        "payment_method": 6,
        "payout": 3,
        "plan": 3,
        "promotion_code": 3,
        "quote": 4,
        "setup_intent": 4,
        "subscription_schedule": 4,
        "tax_id": 4,
        "tax_rate": 3,
        "topup": 3,
        "transfer": 3,
    },
    changes=12,
    within={"subscription_item": ("subscription", "items")},
    unlisted=("mandate",),
    moves={"subscription": ({}, {}, {"parts": 2}, {"parts": 1})},
    leaves=(
        "checkout_session",
        "coupon",
        "credit_note",
        "customer",
        "file",
        "invoice",
        "invoiceitem",
        "payment_intent",
        "payment_link",
        "payment_method",
        "payout",
        "plan",
        "price",
        "product",
        "promotion_code",
        "quote",
        "refund",
        "setup_intent",
        "subscription",
        "subscription_schedule",
        "tax_id",
        "tax_rate",
        "topup",
    ),
    returns=("coupon", "plan", "product"),
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
    first={
        "customer": 20,
        "product": 16,
        "product_variant": 10,
        "order": 20,
        "refund": 8,
        "collection": 4,
        "discount": 4,
        "draft_order": 5,
        "fulfillment": 6,
        "fulfillment_order": 6,
        "location": 4,
        "inventory_item": 3,
        "inventory_level": 6,
        "shop": 0,
    },
    changes=8,
    belongs={
        "product_variant": ("product", "product"),
        "order": ("customer", "customer"),
        "refund": ("order", "order"),
        "fulfillment": ("order", "order"),
        "fulfillment_order": ("order", "order"),
    },
    leaves=(
        "collection",
        "customer",
        "discount",
        "draft_order",
        "inventory_item",
        "inventory_level",
        "location",
        "order",
        "product",
        "product_variant",
    ),
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
        "issue": 20,
        "pull_request": 12,
        "issue_comment": 16,
        "release": 6,
        "branch": 4,
        "check_suite": 3,
        "check_run": 5,
        "commit_comment": 4,
        "deployment": 3,
        "deployment_status": 5,
        "member": 4,
        "review": 6,
        "review_comment": 6,
        "team": 3,
        "workflow_run": 4,
        "workflow_job": 6,
    },
    changes=6,
    scopes="repository",
    outside=("member", "team"),
    belongs={
        "check_run": ("check_suite", "check_suite"),
        "deployment_status": ("deployment", "deployment"),
        "issue_comment": ("issue", "issue"),
        "review": ("pull_request", "pull_request"),
        "review_comment": ("pull_request", "pull_request"),
        "workflow_job": ("workflow_run", "workflow_run"),
    },
    unlisted=("check_run", "check_suite", "deployment_status", "workflow_job"),
    moves={
        "issue": ({}, _CLOSED, _OPEN, {"body": {"labels": ["bug"]}}, {"body": {"labels": ["bug", "urgent"]}}),
        "pull_request": ({}, {}, _CLOSED, _OPEN),
        "milestone": ({}, _CLOSED, _OPEN),
    },
    leaves=(
        "branch",
        "commit_comment",
        "deployment",
        "issue",
        "issue_comment",
        "label",
        "member",
        "milestone",
        "release",
        "review_comment",
        "team",
        "workflow_run",
    ),
    returns=("branch", "member"),
    silence=(_UNTOLD, _UNSEEN),
)


def parts() -> tuple[Part, ...]:
    """Return every provider's part."""
    return (_STRIPE, _SHOPIFY, _GITHUB)
