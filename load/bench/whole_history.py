"""A ledger that verifies: a long journal with its hashes, its chain, its postings and its index, as writers leave them.

Every row is the applied first row of an event of its own, with a booking of two lines.
"""

from __future__ import annotations

from collections.abc import Callable

import pyarrow as pa

from core.money import Money
from core.work import Posting, postings_to_json
from journal.append import Appender
from journal.bodies import BodyStore
from journal.index import Index
from journal.log import AppTransaction
from journal.reader import JournalReader
from journal.schema import GENESIS, JOURNAL_SCHEMA, commit_digest, extend, row_hashes
from journal.state import marks_to_json
from journal.table import CHECKS, create_table
from ledger.accounts import Role, account, merchant_of
from ledger.postings import MARK_APP_ID, POSTINGS_SCHEMA, PostingsWriter
from ledger.receipts import RECEIPTS_SCHEMA, ReceiptsTable
from ledger.verify import Lake
from load.bench.history import file_sizes, rows_table

TOPIC = "payments.events"
MERCHANT = "merchant-main"
BOOKING = (
    Posting(account(Role.CLEARING, "stripe", MERCHANT), "debit", Money(1_250, "EUR")),
    Posting(account(Role.PAYABLE, "stripe", MERCHANT), "credit", Money(1_250, "EUR")),
)


def make_whole_history(lake: Lake, rows: int, done: Callable[[int], None] = lambda rows: None) -> None:
    """Writes everything that `ledger.verify` looks at; ``done`` is told how many rows each file took."""
    create_table(str(lake.journal), lake.stream)
    BodyStore(str(lake.bodies))
    PostingsWriter.open(str(lake.postings))
    # No receipt: reading 10 million of them would be a part of the figure.
    ReceiptsTable(str(lake.receipts)).append(0, RECEIPTS_SCHEMA.empty_table(), 0)
    journal, postings = Appender.open(str(lake.journal), checks=CHECKS), Appender.open(str(lake.postings))
    since, chain = 1, GENESIS
    for count in file_sizes(rows):
        until = since + count
        table = _hashed(rows_table(since, until, TOPIC, postings_to_json(BOOKING)))
        chain = extend(chain, commit_digest(table["row_hash"].to_pylist()))
        journal.append(table, AppTransaction(f"payhook-{lake.stream}", until - 1), _told(lake, until - 1, chain, since))
        postings.append(_lines(table), AppTransaction(MARK_APP_ID, until - 1))
        done(count)
        since = until
    index = Index.open(lake.index, 1)
    index.catch_up(JournalReader(str(lake.journal)), BodyStore(str(lake.bodies)))
    index.close()


def _hashed(table: pa.Table) -> pa.Table:
    at = JOURNAL_SCHEMA.get_field_index("row_hash")
    return table.set_column(at, JOURNAL_SCHEMA.field(at), pa.array(row_hashes(table), pa.string()))


def _told(lake: Lake, seq: int, chain: str, batch_seq: int) -> dict[str, str]:
    return {
        "payhook.stream": lake.stream,
        "payhook.epoch": "1",
        "payhook.seq": str(seq),
        "payhook.marks": marks_to_json({TOPIC: {0: seq}}),
        "payhook.start": marks_to_json({TOPIC: {0: 0}}),
        "payhook.chain": chain,
        "payhook.published_upto": str(seq),
        "payhook.batch_seq": str(batch_seq),
    }


def _lines(table: pa.Table) -> pa.Table:
    """The booking's lines of each row, as `ledger.postings.flat` makes them."""
    sides = [_side(table, number) for number in range(len(BOOKING))]
    return pa.concat_tables(sides).sort_by([("seq", "ascending"), ("line", "ascending")])


def _side(table: pa.Table, number: int) -> pa.Table:
    line = BOOKING[number]
    own = {
        "line": number,
        "merchant": merchant_of(BOOKING),
        "account": line.account,
        "side": line.side,
        "amount_minor": line.money.amount_minor,
        "currency": line.money.currency,
    }
    columns = [
        pa.repeat(pa.scalar(own[field.name], field.type), table.num_rows)
        if field.name in own
        else table[field.name].cast(field.type)
        for field in POSTINGS_SCHEMA
    ]
    return pa.table(columns, POSTINGS_SCHEMA)
