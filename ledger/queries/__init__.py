"""Finance's queries of the ledger: functions that read, and the plain values that they answer with.

They need the tables' paths and nothing else, so the command line, web pages and tests ask alike.
"""

from ledger.queries.amounts import AmountInvalid, format_decimal, parse_minor_units
from ledger.queries.balances import (
    AccountOverTime,
    AsOf,
    Balance,
    BalancesOverTime,
    OwedAmount,
    Total,
    list_owed_parts,
    read_balances_over_time,
    sum_balances,
    sum_owed,
    sum_totals,
)
from ledger.queries.cursor import CursorInvalid
from ledger.queries.export import ExportResult, Form, NothingBooked, OutExists, OutUnwritable, Source, export_table
from ledger.queries.journals import LedgerJournals, RowAmbiguous, RowNameInvalid
from ledger.queries.lake import LedgerUnreadable
from ledger.queries.payments import Payment, Payments, find_payments
from ledger.queries.postings import POSTINGS_MAX, PostingLine, PostingsPage, read_postings_page
from ledger.queries.search import LIMIT_MAX, DecisionFilter, Hit, search_decisions
from ledger.queries.story import (
    RECEIPTS_MAX,
    Delivery,
    EntityEvent,
    EntityStory,
    EventStory,
    Receipt,
    RowCause,
    RunningLine,
    read_entity_story,
    read_event_story,
)
from ledger.queries.unknown import ClosedUnknown, UnknownEvents, find_closed_unknown, find_unknown_events

__all__ = [
    "LIMIT_MAX",
    "POSTINGS_MAX",
    "RECEIPTS_MAX",
    "AccountOverTime",
    "AmountInvalid",
    "AsOf",
    "Balance",
    "BalancesOverTime",
    "ClosedUnknown",
    "CursorInvalid",
    "DecisionFilter",
    "Delivery",
    "EntityEvent",
    "EntityStory",
    "EventStory",
    "ExportResult",
    "Form",
    "Hit",
    "LedgerJournals",
    "LedgerUnreadable",
    "NothingBooked",
    "OutExists",
    "OutUnwritable",
    "OwedAmount",
    "Payment",
    "Payments",
    "PostingLine",
    "PostingsPage",
    "Receipt",
    "RowAmbiguous",
    "RowCause",
    "RowNameInvalid",
    "RunningLine",
    "Source",
    "Total",
    "UnknownEvents",
    "export_table",
    "find_closed_unknown",
    "find_payments",
    "find_unknown_events",
    "format_decimal",
    "list_owed_parts",
    "parse_minor_units",
    "read_balances_over_time",
    "read_entity_story",
    "read_event_story",
    "read_postings_page",
    "search_decisions",
    "sum_balances",
    "sum_owed",
    "sum_totals",
]
