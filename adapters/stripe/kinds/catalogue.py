"""What is sold, at what price, with what taken off and what tax put on."""

from __future__ import annotations

from typing import Final

from adapters.stripe.kinds.rows import UNDATED, Pass, row, topics

_REDEEMED = "how often it was redeemed: no event is known to tell"

ROWS: Final = (
    row(
        "product",
        "/v1/products",
        core=True,
        worth="it is stamped, so one read settles which of several changes came last",
        topics=topics("product", "created updated deleted"),
        stamp="/updated",
        deletion="404 resource_missing; an id of one's own choice may be used again",
        permission="Products",
        columns="""
            name text
            active boolean
            description text
            default_price text
            type text
            tax_code text
            created epoch
            updated epoch
        """,
    ),
    row(
        "price",
        "/v1/prices",
        core=True,
        worth="what somebody is charged must not hang on which event came last",
        topics=topics("price", "created updated deleted"),
        # "Returns a list of your active prices ... For the list of inactive prices, set active to false" (SDK).
        passes=(Pass(parameters={"active": "true"}), Pass(parameters={"active": "false"})),
        deletion="404 resource_missing; normally a price is only made inactive",
        permission="Prices",
        cost="1 call; 2 lists, 1 per 100 listed",
        columns="""
            product text
            active boolean
            type text
            currency text
            unit_amount bigint
            unit_amount_decimal numeric
            billing_scheme text
            recurring_interval text /recurring/interval
            recurring_interval_count bigint /recurring/interval_count
            lookup_key text
            nickname text
            created epoch
        """,
        blind="inline prices (made with price_data): no list shows them",
    ),
    row(
        "plan",
        "/v1/plans",
        worth="programs older than prices still ask for it",
        topics=topics("plan", "created updated deleted"),
        deletion="404 resource_missing; an id of one's own choice may be used again",
        permission="Plans",
        columns="""
            product text
            active boolean
            nickname text
            currency text
            amount bigint
            amount_decimal numeric
            billing_scheme text
            interval text
            interval_count bigint
            usage_type text
            trial_period_days bigint
            created epoch
        """,
    ),
    row(
        "coupon",
        "/v1/coupons",
        worth="an id may be used again, so an event may speak of another coupon",
        topics=topics("coupon", "created updated deleted"),
        deletion="404 resource_missing; an id of one's own choice may be used again",
        permission="Coupons",
        columns="""
            name text
            valid boolean
            duration text
            duration_in_months bigint
            percent_off numeric
            amount_off bigint
            currency text
            max_redemptions bigint
            times_redeemed bigint
            redeem_by epoch
            created epoch
        """,
        blind=_REDEEMED,
    ),
    row(
        "promotion_code",
        "/v1/promotion_codes",
        worth="a code that was taken back must not be honoured",
        topics=topics("promotion_code", "created updated"),
        deletion="never: it is made inactive",
        permission="Promotion Codes",
        # Since 2025-09-30.clover the coupon stands under `promotion`.
        columns="""
            code text
            coupon text /promotion/coupon /coupon/id
            customer text
            active boolean
            max_redemptions bigint
            times_redeemed bigint
            expires_at epoch
            created epoch
        """,
        blind=_REDEEMED,
    ),
    row(
        "tax_rate",
        "/v1/tax_rates",
        worth="a rate that was put away must be used no more",
        topics=topics("tax_rate", "created updated"),
        deletion="never: it is made inactive",
        permission="Tax Rates",
        columns="""
            display_name text
            active boolean
            inclusive boolean
            percentage numeric
            effective_percentage numeric
            country text
            state text
            jurisdiction text
            tax_type text
            created epoch
        """,
    ),
    row(
        "payment_link",
        "/v1/payment_links",
        worth="whether a link still sells is decided by its last change",
        topics=topics("payment_link", "created updated"),
        passes=UNDATED,
        deletion="never: it is made inactive",
        permission="Payment Links",
        columns="""
            url text
            active boolean
            currency text
            customer_creation text
            submit_type text
        """,
    ),
)
