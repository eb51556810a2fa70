"""What becomes of the money: the balance, what leaves it, what is put into it; and the papers that prove it."""

from __future__ import annotations

from typing import Final

from adapters.stripe.kinds.rows import row, topics

ROWS: Final = (
    row(
        "balance_transaction",
        "/v1/balance_transactions",
        worth="it is read from a list, whole; one alone only until it has become available",
        # There is no event about one (SDK, _event.py).
        recent=True,
        permission="Balance Transaction Sources",
        columns="""
            source text
            type text
            reporting_category text
            status text
            currency text
            amount bigint
            fee bigint
            net bigint
            exchange_rate numeric
            available_on epoch
            created epoch
        """,
        open_while=("/status", "pending"),
    ),
    row(
        "payout",
        "/v1/payouts",
        worth="one that was paid may still come back",
        topics=topics("payout", "created updated paid failed canceled reconciliation_completed"),
        permission="Payouts",
        columns="""
            status text
            currency text
            amount bigint
            arrival_date epoch
            automatic boolean
            method text
            destination text
            balance_transaction text
            failure_code text
            reconciliation_status text
            created epoch
        """,
        open_while=("/status", "pending in_transit"),
    ),
    row(
        "transfer",
        "/v1/transfers",
        worth="reversals change it one after another",
        topics=topics("transfer", "created updated reversed"),
        permission="Transfers",
        cost="1 call, with more than 10 reversals 1 per 100 and 1; 1 per 100 listed",
        columns="""
            destination text
            currency text
            amount bigint
            amount_reversed bigint
            reversed boolean
            source_transaction text
            destination_payment text
            balance_transaction text
            transfer_group text
            created epoch
        """,
    ),
    row(
        "topup",
        "/v1/topups",
        worth="it takes days, and the bank may take it back",
        topics=topics("topup", "created succeeded failed canceled reversed"),
        recent=True,
        permission="Top-ups",
        columns="""
            status text
            currency text
            amount bigint
            expected_availability_date epoch
            balance_transaction text
            failure_code text
            transfer_group text
            created epoch
        """,
        open_while=("/status", "pending"),
        blind="edits (metadata, description) of a finished one: there is no topup.updated",
    ),
    row(
        "application_fee",
        "/v1/application_fees",
        worth="what a platform earns shrinks with each refund of it",
        topics=topics("application_fee", "created refunded") | topics("application_fee.refund", "updated", "/fee"),
        permission="Application Fees",
        cost="1 call, with more than 10 refunds 1 per 100 and 1; 1 per 100 listed",
        columns="""
            account text
            charge text
            currency text
            amount bigint
            amount_refunded bigint
            refunded boolean
            balance_transaction text
            created epoch
        """,
    ),
    row(
        "file",
        "/v1/files",
        worth="it expires, and evidence must not hang on a file that is gone",
        topics=topics("file", "created"),
        deletion="404 resource_missing, some time after it has expired",
        permission="Files",
        cost="1 call, with more than 10 links 1 per 100 and 1; 1 per 100 listed",
        # A link is an object of its own, made and ended without any event about its file.
        volatile=("/links",),
        columns="""
            filename text
            purpose text
            title text
            type text
            size bigint
            expires_at epoch
            created epoch
        """,
    ),
)
