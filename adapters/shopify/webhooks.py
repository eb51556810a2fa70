"""What a delivery says: which objects it names, when it happened, whose it is."""

from __future__ import annotations

import hashlib
import re
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Final

from adapters.shopify.ignored import why_ignored
from adapters.shopify.kinds import KINDS
from adapters.shopify.rows import ANYWHERE
from reconciler import content
from reconciler.model import AccessWord, Erasure, Named, ObjectRef

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping

    from adapters.shopify.rows import Row
    from reconciler.model import JSON, Body, Delivery

CUSTOMERS_REDACT: Final = "customers/redact"
SHOP_REDACT: Final = "shop/redact"
COMPLIANCE: Final = frozenset({"customers/data_request", CUSTOMERS_REDACT, SHOP_REDACT})
"""Topics that every app must answer; they ask for something, and tell of no object."""

SECRETS: Final = frozenset(
    {
        "cart_token",
        "checkout_token",
        "client_secret",
        "invoice_url",
        "multipass_identifier",
        "order_status_url",
        "receipt",
        "token",
    }
)
"""Fields of webhooks that open a cart, a checkout, an order's page or an account for whoever holds them."""

_ACCESS: Final = {"app/uninstalled": AccessWord(what="uninstalled"), "app/scopes_update": AccessWord()}

DELETED: Final = "deleted"
"""The key of a locator that holds what said so."""

ORDER: Final = "order"
"""The key of a refund's locator that holds the number of its order."""

_GID: Final = re.compile(r"gid://shopify/(\w+)/([0-9]{1,20})(?:\?.*)?", re.ASCII)
_NUMBER: Final = re.compile(r"[0-9]{1,20}", re.ASCII)
_TEXT: Final = re.compile(r"[\x21-\x7e]{1,255}")


def header(delivery: Delivery, name: str) -> str:
    """Return a header of either family, `X-Shopify-` or `shopify-`; empty where there is none that can be one."""
    names = (f"x-shopify-{name}", f"shopify-{name}")
    return next((value for each in names if _TEXT.fullmatch(value := delivery.headers.get(each, ""))), "")


def event_id(delivery: Delivery) -> str:
    """
    Return the id of the delivery, the same for each attempt; without one, a digest of what it says.

    `X-Shopify-Event-Id` is no such id: all that one act of the merchant's brings about has the same.
    """
    if told := header(delivery, "webhook-id"):
        return told
    said = (header(delivery, "topic"), header(delivery, "triggered-at"))
    digest = hashlib.sha256("\n".join([*said, ""]).encode() + delivery.body)
    return f"sha256:{digest.hexdigest()}"


def instant(value: JSON) -> datetime | None:
    """Return the time that an ISO 8601 text tells, whatever its offset; None where it tells none."""
    try:
        told = datetime.fromisoformat(value) if isinstance(value, str) else None
        return None if told is None else (told.replace(tzinfo=UTC) if told.tzinfo is None else told.astimezone(UTC))
    except (ValueError, OverflowError):
        return None


def stamp_of(row: Row, body: Body) -> datetime | None:
    """Return the stamp that an object of the Admin API carries; None for unstamped kinds."""
    return instant(content.find(body, row.kind.stamp)) if row.kind.stamp else None


def number_of(gid: JSON, types: Collection[str]) -> str | None:
    """Return the number of a global id of one of *types*, or of a plain number; None for anything else."""
    if isinstance(gid, int) and not isinstance(gid, bool):
        return str(gid) if gid > 0 else None
    if not isinstance(gid, str):
        return None
    found = _GID.fullmatch(gid)
    if found is not None:
        return found.group(2) if found.group(1) in types else None
    return gid if _NUMBER.fullmatch(gid) else None


def access(topic: str) -> AccessWord | None:
    """Return what a webhook of *topic* says of the app's access to the shop; None: nothing."""
    return _ACCESS.get(topic)


def named(topic: str, body: Body, rows: Mapping[str, Row], source: str) -> tuple[Named, ...]:
    """Return the objects of *rows* that a webhook of *topic* concerns."""
    if topic in COMPLIANCE or why_ignored(topic):
        return ()
    known = any(topic in row.topics for row in KINDS.values())
    found: dict[ObjectRef, Named] = {}
    for row in rows.values():
        for number, shown in _concerned(row, topic, body) if known else _by_gid(row, body):
            ref = ObjectRef(source, "", row.kind.name, number)
            stamp = instant(shown.get("updated_at")) if row.kind.stamp else None
            found.setdefault(ref, Named(ref, stamp, _locator(row, topic, shown)))
    return tuple(found.values())


def erasure(topic: str, body: Body, source: str, shop: str) -> Erasure | None:
    """
    Return what a delivery asks us to forget; None where it asks for nothing.

    The topic is a header, which is not signed: what is asked for must be what a body of this form can ask for. Of a
    customer those orders go that are named, with what hangs on them; others are too young to go.
    https://shopify.dev/docs/apps/build/compliance/privacy-law-compliance
    """
    if topic == SHOP_REDACT and body.keys() == {"shop_id", "shop_domain"} and body["shop_domain"] == shop:
        return Erasure(whole=True)
    customer = number_of(content.find(body, "/customer/id"), ("Customer",))
    orders = body.get("orders_to_redact")
    if topic != CUSTOMERS_REDACT or customer is None or not isinstance(orders, list):
        return None
    named = [number_of(each, ("Order",)) for each in orders]
    return Erasure(
        (
            (ObjectRef(source, "", "customer", customer), False),
            *((ObjectRef(source, "", "order", each), True) for each in dict.fromkeys(named) if each is not None),
        )
    )


def _concerned(row: Row, topic: str, body: Body) -> Iterator[tuple[str, Body]]:
    """Yield the number of each object that *body* names, with what it shows of it."""
    pointer = row.topics.get(topic)
    if pointer is None:
        return
    if row.pair:
        yield from _paired(row, body)
        return
    if pointer == ANYWHERE:
        yield from ((number, {}) for number in _gids(row, body))
    for place in (pointer, *_ALSO.get((row.kind.name, topic), ())):
        for holder, name in _holders(body, place):
            number = number_of(_said(holder, name, row.types), row.types)
            if number is not None:
                yield number, holder if name in {"id", "admin_graphql_api_id"} else {}


def _paired(row: Row, body: Body) -> Iterator[tuple[str, Body]]:
    """Yield what has no number of its own, by those of what it stands between."""
    numbers = [number_of(body.get(name), ()) for name in row.pair]
    if all(numbers):
        yield ":".join(each or "" for each in numbers), body


def _gids(row: Row, body: Body) -> Iterator[str]:
    """Yield the number of each gid of this kind, wherever it stands as an id."""
    todo: list[JSON] = [body]
    while todo:
        node = todo.pop()
        todo += node.values() if isinstance(node, dict) else node if isinstance(node, list) else ()
        gid = node.get("id") if isinstance(node, dict) else None
        if isinstance(gid, str) and gid.startswith("gid:") and (number := number_of(gid, row.types)) is not None:
            yield number


def _by_gid(row: Row, body: Body) -> Iterator[tuple[str, Body]]:
    """Yield what a body of a topic we do not know is about: by its gid, or that of what it holds."""
    for holder in (body, *(each for each in body.values() if isinstance(each, dict))):
        for gid in (holder.get("admin_graphql_api_id"), holder.get("id")):
            number = number_of(gid, row.types) if isinstance(gid, str) and gid.startswith("gid:") else None
            if number is not None and not row.pair:
                yield number, {}


# What names the same kind at a second place: of a product with many variants the body shows some, and names all.
_ALSO: Final[Mapping[tuple[str, str], tuple[str, ...]]] = {
    ("product_variant", "products/create"): ("/variant_gids/*/admin_graphql_api_id",),
    ("product_variant", "products/update"): ("/variant_gids/*/admin_graphql_api_id",),
    ("customer", "customers/merge"): ("/admin_graphql_api_customer_deleted_id",),
    ("fulfillment_order", "fulfillment_orders/merged"): ("/merge_intents/*/fulfillment_order_id",),
}


def _holders(body: Body, pointer: str) -> Iterator[tuple[Body, str]]:
    """Yield each object that holds the last step of *pointer*, with that step."""
    *steps, last = pointer.split("/")[1:] or [""]
    nodes: list[JSON] = [body]
    for step in steps:
        nodes = [
            inner
            for node in nodes
            for inner in (node if step == "*" and isinstance(node, list) else [content.find(node, f"/{step}")])
        ]
    return ((node, last) for node in nodes if isinstance(node, dict) and last in node)


def _said(holder: Body, name: str, types: Collection[str]) -> JSON:
    """Return the id under *name*: from its gid where there is one, for some senders round long numbers."""
    gid = holder.get("admin_graphql_api_id") if name == "id" else None
    return gid if isinstance(gid, str) and number_of(gid, types) else holder[name]


def _locator(row: Row, topic: str, shown: Body) -> Body | None:
    """
    Return what a fetch has to know besides the id: a refund's order, and that the shop said it deleted an object.

    Headers are not signed: a body that shows more than an id was never sent for a deletion.
    """
    if topic == f"{row.list}/delete" and not shown.keys() - {"id", "admin_graphql_api_id"}:
        return {DELETED: topic}
    order = number_of(shown.get("order_id"), ("Order",)) if row.holder == "Order" else None
    return None if order is None else {ORDER: order}
