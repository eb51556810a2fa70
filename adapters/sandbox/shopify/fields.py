"""What each field of the schema shows: stored values, other objects by their gid, pages of lists."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, TypeAlias

from graphql import GraphQLError, get_named_type, is_composite_type, is_non_null_type

from adapters.sandbox.shopify.bodies import GIDS, NOTHING, gid, number_of
from adapters.sandbox.shopify.connections import MOST, connection, in_order, refused
from adapters.sandbox.shopify.kinds import KINDS
from adapters.sandbox.shopify.ledger import kind_of
from adapters.sandbox.shopify.lists import LISTS
from adapters.sandbox.shopify.search import searched
from adapters.sandbox.shopify.stamps import stamp

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from graphql import GraphQLResolveInfo

    from adapters.sandbox.shopify.access import Policy
    from adapters.sandbox.shopify.bulk import Bulk
    from adapters.sandbox.shopify.ledger import Ledger
    from adapters.sandbox.shopify.subscriptions import Subscriptions
    from adapters.sandbox.world import JSON, Body

Info: TypeAlias = "GraphQLResolveInfo[Look]"
Answer: TypeAlias = "Callable[[Look, Body, Info, dict[str, JSON]], JSON]"

RECENT_DAYS = 60
"""Without `read_all_orders`, older orders are not there."""

COUNTED = 10_000
_SCOPES = {kind.type: kind.scope for kind in KINDS.values() if kind.scope}
_DOCUMENTATION = "https://shopify.dev/api/usage/access-scopes"


@dataclass(slots=True, kw_only=True)
class Look:
    """
    What one call may see.

    Attributes:
        now: The provider's time.
        at: Ticks of the world it is shown; None: as it is now.
        ceiling: How far a list may be paged through.
        search: What was not understood of the searches, as the answer spells it.
        pages: Kind and last gid of each page that has more.
    """

    ledger: Ledger
    policy: Policy
    subscriptions: Subscriptions
    bulk: Bulk
    versions: Sequence[Body]
    now: float
    at: float | None
    ceiling: int
    search: list[Body] = field(default_factory=list)
    pages: list[tuple[str, str]] = field(default_factory=list)

    def find(self, gid_: str) -> Body | None:
        """Return the object with this gid, if there is one and the app may see that it exists."""
        kind = kind_of(gid_)
        body = self.ledger.find(kind, number_of(gid_), self.at) if kind is not None else None
        return body if body is not None and self.shows(kind or "", body) else None

    def every(self, kind: str) -> list[Body]:
        """Return each object of *kind* that the app may see."""
        return [body for body in self.ledger.every(kind, self.at) if self.shows(kind, body)]

    def children(self, kind: str, parent: Body) -> list[Body]:
        """Return the objects of *kind* that belong to *parent*."""
        return [body for body in self.ledger.children(kind, parent["id"], self.at) if self.shows(kind, body)]

    def shows(self, kind: str, body: Body) -> bool:
        """Tell whether the app may know of an object: not of an old order without the scope for it."""
        if kind in {"refund", "fulfillment", "fulfillment_order"}:
            return self.find(body["order"]) is not None
        if kind != "order" or "read_all_orders" in self.policy.scopes:
            return True
        return bool(body["createdAt"] >= stamp(self.now - RECENT_DAYS * 24 * 3600))


def resolve(source: Body | None, info: Info, **args: JSON) -> JSON:
    """Return what the field shows, for graphql-core; what the app may not see is an error of that field alone."""
    look: Look = info.context
    name = f"{info.parent_type.name}.{info.field_name}"
    named = get_named_type(info.return_type)
    policy = look.policy
    needed = _SCOPES.get(named.name.removesuffix("Connection"), "")
    if name in policy.denied or (needed and needed not in policy.scopes):
        raise _denied(info.field_name, needed or "protected customer data")
    if name in policy.hidden:
        return None
    answer = _ANSWERS.get(name) or _BY_NAME.get(info.field_name)
    if answer is not None:
        return answer(look, source or {}, info, args)
    value = (source or {}).get(info.field_name)
    if value is None and named.name.endswith("Connection"):
        value = []
    if isinstance(value, list):
        return _listed(look, value, info, args)
    if isinstance(value, str) and is_composite_type(named):
        return look.find(value)
    return _nothing(info) if value is None and is_non_null_type(info.return_type) else value


def type_of(value: Body, *_: object) -> str:
    """Return the type of an object that stands where there may be several."""
    if "__typename" in value:
        return str(value["__typename"])
    return str(value["id"]).removeprefix(GIDS).partition("/")[0] if "id" in value else "WebhookHttpEndpoint"


def _nothing(info: Info) -> JSON:
    spelled = str(info.return_type).rstrip("!")
    return [] if spelled.startswith("[") else NOTHING.get(spelled)


def _denied(name: str, needed: str) -> GraphQLError:
    required = f"`{needed}` access scope."
    return GraphQLError(
        f"Access denied for {name} field. Required access: {required}",
        extensions={"code": "ACCESS_DENIED", "documentation": _DOCUMENTATION, "requiredAccess": required},
    )


def _listed(look: Look, values: list[JSON], info: Info, args: dict[str, JSON]) -> JSON:
    """Return an object's own list: a page of it, or its first ones."""
    if get_named_type(info.return_type).name.endswith("Connection"):
        return connection(values, args, sort=in_order(values), ceiling=look.ceiling)
    return values[: args.get("first")]


def _by_id(kind: str) -> Answer:
    def answer(look: Look, _: Body, __: Info, args: dict[str, JSON]) -> JSON:
        number = _named(args["id"], KINDS[kind].type)
        return look.find(gid(KINDS[kind].type, number))

    return answer


def _node(look: Look, _: Body, __: Info, args: dict[str, JSON]) -> JSON:
    return _any(look, args["id"])


def _nodes(look: Look, _: Body, __: Info, args: dict[str, JSON]) -> JSON:
    if len(args["ids"]) > MOST:
        raise refused(f"The input array size of {len(args['ids'])} is greater than the maximum allowed of {MOST}.")
    return [_any(look, each) for each in args["ids"]]


def _any(look: Look, id_: str) -> Body | None:
    """Return the object of any kind, if the app may see that kind."""
    kind = kind_of(_gid(id_))
    needed = KINDS[kind].scope if kind is not None else ""
    if needed and needed not in look.policy.scopes:
        raise _denied("node", needed)
    return look.find(id_)


def _of(kind: str, *, belonging: bool = False, field: str = "") -> Answer:
    """Return what answers with a page of the objects of *kind*, of all or of those whose *field* names this one."""

    def answer(look: Look, source: Body, info: Info, args: dict[str, JSON]) -> JSON:
        found = look.children(kind, source) if belonging else look.every(kind)
        found = [each for each in found if not field or each[field] == source["id"]]
        found = [each for each in found if not _hidden(kind, each, args)]
        return _page(look, kind, _found(look, kind, found, info, args), args)

    return answer


def _hidden(kind: str, body: Body, args: dict[str, JSON]) -> bool:
    """Tell whether a list leaves an object out unless it is asked for such."""
    if kind == "fulfillment_order":
        return body["status"] == "CLOSED" and not args.get("includeClosed")
    return "includeInactive" in args and not body["isActive"] and not args["includeInactive"]


def _count(kind: str) -> Answer:
    def answer(look: Look, _: Body, info: Info, args: dict[str, JSON]) -> JSON:
        most = args.get("limit") or look.ceiling + 1
        return _counted(len(_found(look, kind, look.every(kind), info, args)), most)

    return answer


def _counted(count: int, most: int) -> Body:
    return {"count": min(count, most), "precision": "EXACT" if count <= most else "AT_LEAST"}


def _found(look: Look, kind: str, found: list[Body], info: Info, args: dict[str, JSON]) -> list[Body]:
    """Return those of *found* that the `query` argument asks for, and note what it was not understood of."""
    query = args.get("query")
    if not query or not query.strip():
        return found
    said = searched(query, LISTS[kind].fields)
    if said.warnings:
        path = [each for each in info.path.as_list() if isinstance(each, str)]
        look.search.append({"path": path, "query": query, "parsed": said.parsed, "warnings": said.warnings})
    return [body for body in found if said.keep(body)]


def _page(look: Look, kind: str, found: list[Body], args: dict[str, JSON]) -> Body:
    page = connection(found, args, sort=LISTS[kind].sort(args.get("sortKey")), ceiling=look.ceiling)
    if page["nodes"] and page["pageInfo"]["hasNextPage"]:
        look.pages.append((kind, page["nodes"][-1]["id"]))
    return page


def _history(look: Look, source: Body, info: Info, args: dict[str, JSON]) -> JSON:
    """Return a page of what the shop's history tells, of one object where the field is one's own."""
    told = [each for each in look.every("event") if source.get("id") in {None, each["subjectId"]}]
    return _page(look, "event", _found(look, "event", told, info, args), args)


def _metafield(_: Look, source: Body, __: Info, args: dict[str, JSON]) -> JSON:
    wanted = (args.get("namespace"), args["key"])
    return next((each for each in source.get("metafields", []) if (each.get("namespace"), each["key"]) == wanted), None)


def _refunds(look: Look, source: Body, _: Info, args: dict[str, JSON]) -> JSON:
    return look.children("refund", source)[: args.get("first")]


def _fulfillments(look: Look, source: Body, _: Info, args: dict[str, JSON]) -> JSON:
    return look.children("fulfillment", source)[: args.get("first")]


def _level(look: Look, source: Body, _: Info, args: dict[str, JSON]) -> JSON:
    thing, location = (str(args.get(name, source["id"])) for name in ("inventoryItemId", "locationId"))
    found = look.ledger.find("inventory_level", f"{number_of(thing)}:{number_of(location)}", look.at)
    return None if found is None or _hidden("inventory_level", found, args) else found


def _quantities(_: Look, source: Body, __: Info, args: dict[str, JSON]) -> JSON:
    return [each for each in source["quantities"] if each["name"] in args["names"]]


def _last_order(look: Look, source: Body, *_: object) -> JSON:
    return max(look.children("order", source), key=lambda body: str(body["createdAt"]), default=None)


def _variants_count(look: Look, source: Body, *_: object) -> JSON:
    return _counted(len(look.children("product_variant", source)), COUNTED)


def _stock(look: Look, source: Body, *_: object) -> JSON:
    return sum(each["inventoryQuantity"] or 0 for each in look.children("product_variant", source))


def _prices(look: Look, source: Body, *_: object) -> JSON:
    prices = sorted((each["price"] for each in look.children("product_variant", source)), key=float) or ["0.0"]
    return {"minVariantPrice": _money(prices[0]), "maxVariantPrice": _money(prices[-1])}


def _money(amount: str) -> Body:
    return {"amount": amount, "currencyCode": "EUR"}


def _only_variant(look: Look, source: Body, *_: object) -> JSON:
    return len(look.children("product_variant", source)) == 1


def _installation(look: Look, *_: object) -> JSON:
    return {
        "id": gid("AppInstallation", 1),
        "accessScopes": [{"handle": scope, "description": scope} for scope in look.policy.scopes],
        "app": {"id": gid("App", 1), "apiKey": "standin", "handle": "standin", "title": "Stand-in"},
        "launchUrl": "https://example.com/app",
    }


def _shop(look: Look, *_: object) -> JSON:
    return look.find(look.ledger.shop_gid)


def _versions(look: Look, *_: object) -> JSON:
    return look.versions


def _subscriptions(look: Look, _: Body, __: Info, args: dict[str, JSON]) -> JSON:
    topics, uri = args.get("topics"), args.get("uri") or args.get("callbackUrl")
    found = [
        each
        for each in look.subscriptions.every()
        if (topics is None or each["topic"] in topics) and uri in {None, each["uri"]}
    ]
    return connection(found, args, sort=in_order(found), ceiling=look.ceiling)


def _subscription(look: Look, _: Body, __: Info, args: dict[str, JSON]) -> JSON:
    return next((each for each in look.subscriptions.every() if each["id"] == args["id"]), None)


def _subscribe(look: Look, _: Body, __: Info, args: dict[str, JSON]) -> JSON:
    return look.subscriptions.add(args["topic"], args["webhookSubscription"])


def _resubscribe(look: Look, _: Body, __: Info, args: dict[str, JSON]) -> JSON:
    return look.subscriptions.change(args["id"], args["webhookSubscription"])


def _unsubscribe(look: Look, _: Body, __: Info, args: dict[str, JSON]) -> JSON:
    return look.subscriptions.remove(args["id"])


def _subscriptions_count(look: Look, *_: object) -> JSON:
    return _counted(len(look.subscriptions.every()), COUNTED)


def _operation(look: Look, _: Body, __: Info, args: dict[str, JSON]) -> JSON:
    return look.bulk.look(args["id"])


def _run(look: Look, _: Body, __: Info, args: dict[str, JSON]) -> JSON:
    return look.bulk.run(look, args["query"])


def _cancel(look: Look, _: Body, __: Info, args: dict[str, JSON]) -> JSON:
    return look.bulk.cancel(args["id"])


def _number(_: Look, source: Body, *__: object) -> JSON:
    return number_of(source["id"])


def _gid(text: str) -> str:
    """Return *text* if it looks like a gid; raises what Shopify says where it does not."""
    if not text.startswith(GIDS) or not number_of(text):
        raise GraphQLError(f"Invalid global id '{text}'", extensions={"code": "argumentLiteralsIncompatible"})
    return text


def _named(text: str, type_: str) -> str:
    """Return the number of a gid of *type_*, or of a bare one."""
    if text.isdecimal():
        return text
    if _gid(text).removeprefix(GIDS).partition("/")[0] != type_:
        raise GraphQLError(f"Invalid id: {text}", extensions={"code": "RESOURCE_NOT_FOUND"})
    return number_of(text)


_BY_NAME: Mapping[str, Answer] = {"events": _history, "legacyResourceId": _number, "metafield": _metafield}

_ANSWERS: Mapping[str, Answer] = {
    "QueryRoot.bulkOperation": _operation,
    "QueryRoot.collection": _by_id("collection"),
    "QueryRoot.collections": _of("collection"),
    "QueryRoot.collectionsCount": _count("collection"),
    "QueryRoot.currentAppInstallation": _installation,
    "QueryRoot.customer": _by_id("customer"),
    "QueryRoot.customers": _of("customer"),
    "QueryRoot.customersCount": _count("customer"),
    "QueryRoot.discountNode": _by_id("discount"),
    "QueryRoot.discountNodes": _of("discount"),
    "QueryRoot.discountNodesCount": _count("discount"),
    "QueryRoot.draftOrder": _by_id("draft_order"),
    "QueryRoot.draftOrders": _of("draft_order"),
    "QueryRoot.draftOrdersCount": _count("draft_order"),
    "QueryRoot.fulfillment": _by_id("fulfillment"),
    "QueryRoot.fulfillmentOrder": _by_id("fulfillment_order"),
    "QueryRoot.fulfillmentOrders": _of("fulfillment_order"),
    "QueryRoot.inventoryItem": _by_id("inventory_item"),
    "QueryRoot.inventoryItems": _of("inventory_item"),
    "QueryRoot.inventoryLevel": _node,
    "QueryRoot.location": _by_id("location"),
    "QueryRoot.locations": _of("location"),
    "QueryRoot.locationsCount": _count("location"),
    "QueryRoot.node": _node,
    "QueryRoot.nodes": _nodes,
    "QueryRoot.order": _by_id("order"),
    "QueryRoot.orders": _of("order"),
    "QueryRoot.ordersCount": _count("order"),
    "QueryRoot.product": _by_id("product"),
    "QueryRoot.products": _of("product"),
    "QueryRoot.productsCount": _count("product"),
    "QueryRoot.productVariant": _by_id("product_variant"),
    "QueryRoot.productVariants": _of("product_variant"),
    "QueryRoot.productVariantsCount": _count("product_variant"),
    "QueryRoot.publicApiVersions": _versions,
    "QueryRoot.refund": _by_id("refund"),
    "QueryRoot.shop": _shop,
    "QueryRoot.webhookSubscription": _subscription,
    "QueryRoot.webhookSubscriptions": _subscriptions,
    "QueryRoot.webhookSubscriptionsCount": _subscriptions_count,
    "Mutation.bulkOperationCancel": _cancel,
    "Mutation.bulkOperationRunQuery": _run,
    "Mutation.webhookSubscriptionCreate": _subscribe,
    "Mutation.webhookSubscriptionDelete": _unsubscribe,
    "Mutation.webhookSubscriptionUpdate": _resubscribe,
    "Customer.lastOrder": _last_order,
    "Customer.orders": _of("order", belonging=True),
    "InventoryItem.inventoryLevel": _level,
    "InventoryItem.inventoryLevels": _of("inventory_level", belonging=True),
    "InventoryLevel.quantities": _quantities,
    "Location.inventoryLevel": _level,
    "Location.inventoryLevels": _of("inventory_level", field="location"),
    "Order.fulfillments": _fulfillments,
    "Order.refunds": _refunds,
    "Product.hasOnlyDefaultVariant": _only_variant,
    "Product.priceRangeV2": _prices,
    "Product.totalInventory": _stock,
    "Product.variants": _of("product_variant", belonging=True),
    "Product.variantsCount": _variants_count,
}
