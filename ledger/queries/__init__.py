"""Finance's queries of the ledger: functions that read, and the plain values that they answer with.

They need the tables' paths and nothing else, so the command line, web pages and tests ask alike.
"""

from ledger.queries.amounts import AmountInvalid, decimal_text, minor_units
from ledger.queries.balances import (
    AccountOverTime,
    AsOf,
    Balance,
    BalancesOverTime,
    Owed,
    Total,
    balances,
    balances_over_time,
    owed,
    owed_parts,
    totals,
)
from ledger.queries.cursor import CursorInvalid
from ledger.queries.export import Exported, Form, NothingBooked, OutExists, OutUnwritable, Source, export
from ledger.queries.journals import LedgerJournals, RowAmbiguous, RowUnreadable
from ledger.queries.lake import LedgerUnreadable
from ledger.queries.payments import Payment, Payments, find_payments
from ledger.queries.postings import POSTINGS_MAX, PostingLine, PostingsPage, postings
from ledger.queries.search import LIMIT_MAX, Hit, Wanted, search
from ledger.queries.story import (
    RECEIPTS_MAX,
    Cause,
    Delivery,
    EntityEvent,
    EntityStory,
    EventStory,
    Receipt,
    RunningLine,
    entity_story,
    event_story,
)
from ledger.queries.unknown import ClosedUnknown, UnknownEvents, closed_unknown, unknown_events

__all__ = [
    "LIMIT_MAX",
    "POSTINGS_MAX",
    "RECEIPTS_MAX",
    "AccountOverTime",
    "AmountInvalid",
    "AsOf",
    "Balance",
    "BalancesOverTime",
    "Cause",
    "ClosedUnknown",
    "CursorInvalid",
    "Delivery",
    "EntityEvent",
    "EntityStory",
    "EventStory",
    "Exported",
    "Form",
    "Hit",
    "LedgerJournals",
    "LedgerUnreadable",
    "NothingBooked",
    "OutExists",
    "OutUnwritable",
    "Owed",
    "Payment",
    "Payments",
    "PostingLine",
    "PostingsPage",
    "Receipt",
    "RowAmbiguous",
    "RowUnreadable",
    "RunningLine",
    "Source",
    "Total",
    "UnknownEvents",
    "Wanted",
    "balances",
    "balances_over_time",
    "closed_unknown",
    "decimal_text",
    "entity_story",
    "event_story",
    "export",
    "find_payments",
    "minor_units",
    "owed",
    "owed_parts",
    "postings",
    "search",
    "totals",
    "unknown_events",
]
