"""Whom one sells to, how they pay, and who one is oneself."""

from __future__ import annotations

from typing import Final

from adapters.stripe.kinds.rows import UNDATED, Pass, row, topics

_CUSTOMER = topics("customer", "created updated deleted") | (
    topics("customer.discount", "created updated deleted", "/customer")
    | topics("customer.source", "created updated deleted expiring", "/customer")
    | topics("customer.tax_id", "created updated deleted", "/customer")
)

# What an account may do changes with those who stand behind it, and with where its money goes.
_ACCOUNT = topics("account", "updated") | (
    topics("account.application", "authorized deauthorized", "^/account")
    | topics("account.external_account", "created updated deleted", "/account")
    | topics("capability", "updated", "/account")
    | topics("person", "created updated deleted", "/account")
)

ROWS: Final = (
    row(
        "customer",
        "/v1/customers",
        core=True,
        worth="who may do what hangs on it, and its event is as old as its delivery",
        topics=_CUSTOMER,
        deletion="200 with deleted: true",
        permission="Customers",
        columns="""
            email text
            name text
            phone text
            currency text
            balance bigint
            delinquent boolean
            default_source text
            default_payment_method text /invoice_settings/default_payment_method
            created epoch
        """,
        blind="customers on a test clock: the list leaves them out",
    ),
    row(
        "payment_method",
        "/v1/payment_methods",
        worth="a card that was updated or detached since the event decides whether the next payment can succeed",
        topics=topics("payment_method", "attached detached updated automatically_updated"),
        # "Returns a list of all PaymentMethods" (SDK); it takes no bounds on `created`.
        passes=UNDATED,
        deletion="never: a detached one stays readable, with no customer",
        permission="PaymentMethods",
        columns="""
            customer text
            type text
            card_brand text /card/brand
            card_last4 text /card/last4
            card_exp_month bigint /card/exp_month
            card_exp_year bigint /card/exp_year
            card_fingerprint text /card/fingerprint
            billing_email text /billing_details/email
            allow_redisplay text
            created epoch
        """,
        blind="whether the list shows those that no customer has is not promised",
    ),
    row(
        "tax_id",
        "/v1/tax_ids",
        worth="its verification ends after the event that told of it",
        topics=topics("customer.tax_id", "created updated deleted"),
        # The list shows the account's own (`owner[type]` is `self` unless said otherwise); each customer holds its own.
        passes=(
            Pass(dated=False),
            Pass(path="/v1/customers", parameters={"expand": ["data.tax_ids"]}, inside="/tax_ids", dated=False),
        ),
        deletion="404 resource_missing",
        permission="Tax IDs and Customers",
        cost="1 call; 1 per 100 customers listed",
        columns="""
            customer text
            owner_type text /owner/type
            type text
            value text
            country text
            verification_status text /verification/status
            created epoch
        """,
        open_while=("/verification/status", "pending"),
        blind="the account's own: no event tells of them",
    ),
    row(
        "account",
        "/v1/accounts",
        worth="whether an account can still be paid changes with what is found out about it",
        topics=_ACCOUNT,
        # Each account is seen with its own `Stripe-Account`: what is taken away then is a scope that is lost.
        passes=(Pass(path="/v1/account", alone=True, dated=False),),
        deletion="never: an account that is taken away is access that is lost",
        permission="Accounts",
        cost="1 call an account",
        columns="""
            type text
            country text
            email text
            default_currency text
            charges_enabled boolean
            payouts_enabled boolean
            details_submitted boolean
            disabled_reason text /requirements/disabled_reason
            business_name text /business_profile/name
            created epoch
        """,
    ),
)
