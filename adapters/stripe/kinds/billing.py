"""What was agreed, and what is asked for because of it."""

from __future__ import annotations

from typing import Final

from adapters.stripe.kinds.rows import UNDATED, Pass, row, topics

_SUBSCRIPTION_EVENTS = (
    "created updated deleted paused resumed trial_will_end pending_update_applied pending_update_expired"
)
_SUBSCRIPTION = topics("customer.subscription", _SUBSCRIPTION_EVENTS) | topics(
    "customer.discount", "created updated deleted", "/subscription"
)
# An item that was taken off stands only in what the subscription was before.
_SUBSCRIPTION_ITEM = topics(
    "customer.subscription", _SUBSCRIPTION_EVENTS, "/items/data/* ^/data/previous_attributes/items/data/*"
)
_INVOICE = (
    topics(
        "invoice",
        "created updated deleted finalized finalization_failed sent paid payment_succeeded payment_failed "
        "payment_action_required payment_attempt_required marked_uncollectible voided overdue overpaid will_be_due",
    )
    | topics("invoice_payment", "paid", "/invoice")
    | topics("invoiceitem", "created deleted", "/invoice")
)

ROWS: Final = (
    row(
        "subscription",
        "/v1/subscriptions",
        core=True,
        worth="it decides who may log in, and its events come in any order",
        topics=_SUBSCRIPTION,
        passes=(Pass(parameters={"status": "all"}),),
        deletion="never: a canceled one stays readable; 404 resource_missing if it does not",
        permission="Subscriptions",
        cost="1 call, with more than 10 items 1 per 100 and 1; 1 per 100 listed",
        # Since 2025-03-31.basil the period is each item's own; before, the subscription's.
        columns="""
            customer text
            status text
            current_period_start epoch /items/data/0/current_period_start /current_period_start
            current_period_end epoch /items/data/0/current_period_end /current_period_end
            price text /items/data/0/price/id /plan/id
            quantity bigint /items/data/0/quantity /quantity
            cancel_at_period_end boolean
            cancel_at epoch
            canceled_at epoch
            ended_at epoch
            trial_end epoch
            start_date epoch
            collection_method text
            default_payment_method text
            latest_invoice text
            created epoch
        """,
        open_while=("/status", "incomplete past_due unpaid"),
        blind="subscriptions on a test clock: the list leaves them out",
    ),
    row(
        "subscription_item",
        "/v1/subscription_items",
        worth="what was bought and how many, one row each, for those who do not read JSON",
        topics=_SUBSCRIPTION_ITEM,
        # A list of its own needs the subscription: one call each. Every subscription shows its items whole.
        passes=(Pass(path="/v1/subscriptions", parameters={"status": "all"}, inside="/items", dated=False),),
        deletion="404 resource_missing",
        permission="Subscriptions",
        cost="1 call; 1 per 100 subscriptions listed",
        columns="""
            subscription text
            price text /price/id /plan/id
            product text /price/product /plan/product
            quantity bigint
            current_period_start epoch
            current_period_end epoch
            created epoch
        """,
        blind="items beyond the tenth: events show ten; and those of subscriptions on a test clock",
    ),
    row(
        "subscription_schedule",
        "/v1/subscription_schedules",
        worth="its phases begin and end by the clock",
        topics=topics("subscription_schedule", "created updated aborted canceled completed expiring released"),
        deletion="never: it is canceled or released",
        permission="Subscriptions",
        columns="""
            customer text
            subscription text
            status text
            end_behavior text
            phase_start epoch /current_phase/start_date
            phase_end epoch /current_phase/end_date
            released_subscription text
            canceled_at epoch
            completed_at epoch
            released_at epoch
            created epoch
        """,
        open_while=("/status", "not_started active"),
    ),
    row(
        "quote",
        "/v1/quotes",
        worth="it expires by the clock, and edits of a draft are announced nowhere",
        topics=topics("quote", "created finalized accepted canceled"),
        passes=UNDATED,
        deletion="never: it is canceled",
        permission="Quotes",
        columns="""
            customer text
            number text
            status text
            currency text
            amount_subtotal bigint
            amount_total bigint
            invoice text
            subscription text
            expires_at epoch
            created epoch
        """,
        open_while=("/status", "draft open"),
        blind="edits: there is no quote.updated; unfinished ones are read again nightly",
    ),
    row(
        "invoice",
        "/v1/invoices",
        core=True,
        worth="whether it is paid is told by many events in any order",
        topics=_INVOICE,
        deletion="404 resource_missing: only drafts can be deleted",
        permission="Invoices",
        cost="1 call, with more than 10 lines 1 per 100 and 1; 1 per 100 listed",
        volatile=("/hosted_invoice_url", "/invoice_pdf"),
        # Since 2025-03-31.basil: parent, payments and total_taxes instead of subscription, payment_intent and tax.
        columns="""
            customer text
            subscription text /parent/subscription_details/subscription /subscription
            number text
            status text
            currency text
            total bigint
            subtotal bigint
            amount_due bigint
            amount_paid bigint
            amount_remaining bigint
            payment_intent text /payments/data/0/payment/payment_intent /payment_intent
            collection_method text
            billing_reason text
            due_date epoch
            paid_at epoch /status_transitions/paid_at
            created epoch
        """,
        open_while=("/status", "draft open"),
    ),
    row(
        "invoiceitem",
        "/v1/invoiceitems",
        worth="what will stand on the next invoice is edited without any event",
        topics=topics("invoiceitem", "created deleted"),
        recent=True,
        deletion="404 resource_missing, or 200 with deleted: true",
        permission="Invoices",
        # Since 2025-03-31.basil: pricing and parent instead of price and subscription.
        columns="""
            customer text
            invoice text
            subscription text /parent/subscription_details/subscription /subscription
            price text /pricing/price_details/price /price/id
            currency text
            amount bigint
            quantity bigint
            description text
            proration boolean
            date epoch
        """,
        blind="edits of an older one: there is no invoiceitem.updated",
    ),
    row(
        "credit_note",
        "/v1/credit_notes",
        worth="a note that was voided no longer lowers what is owed",
        topics=topics("credit_note", "created updated voided"),
        deletion="never: it is voided",
        permission="Credit Notes",
        cost="1 call, with more than 10 lines 1 per 100 and 1; 1 per 100 listed",
        volatile=("/pdf",),
        columns="""
            customer text
            invoice text
            number text
            status text
            type text
            reason text
            currency text
            amount bigint
            total bigint
            voided_at epoch
            created epoch
        """,
    ),
)
