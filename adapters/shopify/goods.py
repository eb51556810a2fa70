"""What a shop has: products, how they are grouped, and how many there are where."""

from __future__ import annotations

from typing import Final

from adapters.shopify.rows import FEED_LAG, Part, Row, Walk, columns, topics
from reconciler.adapter import Kind, Listing

_PRODUCT = topics("products", "create update delete") | topics("variants", "in_stock out_of_stock", "/product_id")
_VARIANT = topics("variants", "in_stock out_of_stock") | topics("products", "create update", "/variants/*/id")
_COLLECTION = topics("collections", "create update delete")
_INVENTORY_ITEM = topics("inventory_items", "create update delete")
_INVENTORY_LEVEL = topics("inventory_levels", "connect update disconnect")
_LOCATION = topics("locations", "activate create deactivate delete update")

ROWS: Final = (
    Row(
        type="Product",
        root="product",
        list="products",
        listed=25,
        fetched=100,
        topics=_PRODUCT,
        parts=(Part("variants", "productVariantId", page=250),),
        destroyed=("PRODUCT",),
        created="created_at",
        count="productsCount",
        kind=Kind(
            name="product",
            topics=tuple(_PRODUCT),
            stamp="/updatedAt",
            list=Listing.WHOLE,
            feed="products by updated_at, and events of action destroy",
            fetch="product(id)",
            deletion="null",
            permission="read_products",
            cost="1 call, with more than 100 variants 1 per 250 and 1; 1 per 25 listed",
            worth="a shop window that shows what was taken down sells what is not there",
            page=25,
            unordered=("/tags",),
            columns=columns("""
                title text /title
                handle text /handle
                status text /status
                vendor text /vendor
                product_type text /productType
                published_at timestamptz /publishedAt
                created_at timestamptz /createdAt
                updated_at timestamptz /updatedAt
            """),
            feed_lag=FEED_LAG,
        ),
    ),
    Row(
        type="ProductVariant",
        root="productVariant",
        list="productVariants",
        walk=Walk.ID,
        topics=_VARIANT,
        destroyed=("PRODUCT_VARIANT",),
        count="productVariantsCount",
        kind=Kind(
            name="product_variant",
            topics=tuple(_VARIANT),
            stamp="/updatedAt",
            list=Listing.WHOLE,
            feed="productVariants by updated_at, and events of action destroy",
            fetch="productVariant(id)",
            deletion="null",
            permission="read_products",
            cost="1 call; 1 per 100 listed",
            worth="prices; and it vanishes with an edit of its product, without a word of its own",
            columns=columns("""
                product text /product/id
                title text /title
                sku text /sku
                barcode text /barcode
                price numeric /price
                compare_at_price numeric /compareAtPrice
                inventory_quantity bigint /inventoryQuantity
                position bigint /position
                created_at timestamptz /createdAt
                updated_at timestamptz /updatedAt
            """),
            feed_lag=FEED_LAG,
            blind="stock that moves without updatedAt; a variant's deletion, where history does not tell of it",
        ),
    ),
    Row(
        type="Collection",
        root="collection",
        list="collections",
        topics=_COLLECTION,
        destroyed=("COLLECTION",),
        count="collectionsCount",
        kind=Kind(
            name="collection",
            core=False,
            topics=tuple(_COLLECTION),
            stamp="/updatedAt",
            list=Listing.WHOLE,
            feed="collections by updated_at, and events of action destroy",
            fetch="collection(id)",
            deletion="null",
            permission="read_products",
            cost="1 call; 1 per 100 listed",
            worth="its webhooks do not tell of its rules",
            columns=columns("""
                title text /title
                handle text /handle
                products_count bigint /productsCount/count
                sort_order text /sortOrder
                updated_at timestamptz /updatedAt
            """),
            feed_lag=FEED_LAG,
            blind="products that enter or leave it by its rules; which they are is not kept, only how many",
        ),
    ),
    Row(
        type="InventoryItem",
        root="inventoryItem",
        list="inventoryItems",
        walk=Walk.ID,
        sorted=False,
        topics=_INVENTORY_ITEM,
        created="created_at",
        kind=Kind(
            name="inventory_item",
            core=False,
            topics=tuple(_INVENTORY_ITEM),
            stamp="/updatedAt",
            list=Listing.WHOLE,
            feed="inventoryItems by updated_at",
            fetch="inventoryItem(id)",
            deletion="null",
            permission="read_inventory",
            cost="1 call; 1 per 100 listed",
            worth="what a piece costs and weighs; edited in bulk, with many webhooks in any order",
            columns=columns("""
                sku text /sku
                tracked boolean /tracked
                requires_shipping boolean /requiresShipping
                unit_cost numeric /unitCost/amount
                currency text /unitCost/currencyCode
                country_of_origin text /countryCodeOfOrigin
                harmonized_system_code text /harmonizedSystemCode
                created_at timestamptz /createdAt
                updated_at timestamptz /updatedAt
            """),
            feed_lag=FEED_LAG,
            blind="its deletion: history does not tell of it",
        ),
    ),
    Row(
        type="InventoryLevel",
        root="inventoryItem",
        list="inventoryItems",
        inside="inventoryLevels",
        holder="InventoryItem",
        walk=Walk.LEVELS,
        sorted=False,
        pair=("inventory_item_id", "location_id"),
        listed=10,
        topics=_INVENTORY_LEVEL,
        kind=Kind(
            name="inventory_level",
            core=False,
            topics=tuple(_INVENTORY_LEVEL),
            stamp="/updatedAt",
            list=Listing.WHOLE,
            feed="inventoryLevels of each location by updated_at",
            fetch="inventoryItem(id).inventoryLevel(locationId)",
            deletion="null: nothing is kept of the item there, or the item or location is gone",
            permission="read_inventory, read_locations",
            cost="1 call; 1 per location and per 100 listed; all of them: 1 per 15 items",
            page=15,
            worth="stock is the one thing that is wrong within seconds; webhooks tell what is available and no more",
            unordered=("/quantities",),
            columns=columns("""
                item text /item/id
                location text /location/id
                available bigint /available/0/quantity
                on_hand bigint /onHand/0/quantity
                active boolean /isActive
                created_at timestamptz /createdAt
                updated_at timestamptz /updatedAt
            """),
            feed_lag=FEED_LAG,
            blind="a level's end, where nobody told of it; quantities that move without updatedAt",
        ),
    ),
    Row(
        type="Location",
        root="location",
        list="locations",
        given="includeInactive: true, includeLegacy: true",
        walk=Walk.WHOLE,
        topics=_LOCATION,
        count="locationsCount",
        kind=Kind(
            name="location",
            core=False,
            topics=tuple(_LOCATION),
            stamp="/updatedAt",
            list=Listing.WHOLE,
            feed="the whole list: no search knows their updated_at",
            fetch="location(id)",
            deletion="null",
            permission="read_locations",
            cost="1 call; 1 per 100 listed",
            worth="there are few, and stock and parcels point at them",
            columns=columns("""
                name text /name
                active boolean /isActive
                country_code text /address/countryCode
                city text /address/city
                fulfills_online_orders boolean /fulfillsOnlineOrders
                ships_inventory boolean /shipsInventory
                created_at timestamptz /createdAt
                updated_at timestamptz /updatedAt
            """),
            blind="its deletion: history does not tell of it",
        ),
    ),
)
"""Goods and where they are, each kind a row."""
