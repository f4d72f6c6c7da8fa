"""Journals with many rows, made in a minute: their Delta files are written directly.

`make_history`: every row is the applied first row of an event of its own, with high-entropy keys. The offsets are those
of a topic that no longer exists, so that a fresh Kafka fits: the marks begin where that one does.

`make_whole_history`: one that verifies, with its hashes, its chain, its postings and its index as writers leave them.
"""

from __future__ import annotations

import hashlib
import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc

from core.clock import to_micros
from core.layout import Layout
from core.money import Money, MoneyFact, Movement
from core.work import Posting, postings_to_json
from journal.append import Appender
from journal.bodies import BodyStore
from journal.index import Index
from journal.log import AppTransaction
from journal.reader import JournalReader
from journal.schema import GENESIS, JOURNAL_SCHEMA, commit_digest, extend_chain, row_hashes
from journal.state import Marks, marks_to_json
from journal.table import CHECKS, create_table
from ledger.accounts import book_fact, holder_of
from ledger.handler import handler_version
from ledger.postings import MARK_APP_ID, POSTINGS_SCHEMA, PostingsWriter
from ledger.receipts import RECEIPTS_SCHEMA, ReceiptsTable
from ledger.verify import Lake
from load.bench.figures import Done, Run, nothing_shown
from providers.settings import ProvidersSettings

ROWS_PER_FILE = 500_000
"""About what maintenance leaves; what came since is in files of their own."""

SMALL_FILES = 1_000
SMALL_ROWS = 100
FIRST_AT = datetime(2026, 1, 1, tzinfo=UTC)
ROWS_PER_DAY = 10_000_000
TOPIC = "history"
STREAM = "ledger"
ROWS, ROWS_SHORT = 10_000_000, 200_000

WHOLE_TOPIC = "payments.events"
ACCOUNT = "acct_main"
MERCHANTS, CURRENCIES = 500, ("EUR", "USD", "GBP")
AMOUNT_MINOR_MAX = 1_000_000
LINES = 2
"""Of each booking."""


@dataclass(frozen=True, slots=True)
class HistoryEvent:
    """What the journal of `make_history` holds of its event ``number`` (from 1: the seq of its row)."""

    number: int

    @property
    def digest(self) -> str:
        return _digest(self.number)

    @property
    def event_key(self) -> str:
        return f"stripe:evt_{self.digest[:24]}:charge.succeeded"

    @property
    def content_sha256(self) -> str:
        return self.digest

    @property
    def entity_key(self) -> str:
        return f"stripe:acct_main:pi_{self.digest[24:48]}"

    @property
    def fact(self) -> MoneyFact:
        own = self.digest[24:48]
        return MoneyFact(f"stripe:ch_{own}:capture", Movement.CAPTURE, ACCOUNT, f"pi_{own}", self._money)

    @property
    def booking(self) -> tuple[Posting, ...]:
        """Amount, merchant and currency differ from row to row, so that no reader is spared by repeated texts."""
        return book_fact(self.fact, holder_of("stripe", ACCOUNT), f"merchant-{self.number % MERCHANTS:04}")

    @property
    def _money(self) -> Money:
        return Money(self.number * 7_919 % AMOUNT_MINOR_MAX + 1, CURRENCIES[self.number % len(CURRENCIES)])


def made_history(run: Run) -> tuple[Layout, int]:
    """A data folder whose ledger has as many rows as the run wants; one that is there already is used again."""
    rows = run.count(ROWS, ROWS_SHORT)
    root = run.folder.parent / f"history-{rows}"
    layout, made = Layout(root), root / "made"
    if not made.exists():
        shutil.rmtree(root, ignore_errors=True)
        root.mkdir(parents=True)
        places = layout.ledger()
        with run.progress(f"a journal of {rows:,} rows", rows) as done:
            make_history(Path(places.journal), Path(places.postings), STREAM, rows, done)
        BodyStore(str(places.bodies_table))
        made.touch()
    return layout, rows


def make_history(journal: Path, postings: Path | None, stream: str, rows: int, done: Done = nothing_shown) -> None:
    """Writes a journal of ``rows`` rows, and where ``postings`` are kept a table that has passed them all."""
    create_table(str(journal), stream)
    appender = Appender.open(str(journal), checks=CHECKS)
    since = 1
    for count in file_sizes(rows):
        last = since + count - 1
        appender.append(rows_table(since, last + 1), AppTransaction(f"payhook-{stream}", last), commit(stream, last))
        done(last)
        since = last + 1
    if postings is not None:
        # What a start asks of the table, without its 20 million lines: a mark that is past the history.
        PostingsWriter.open(str(postings))
        Appender.open(str(postings)).append(None, AppTransaction(MARK_APP_ID, rows))


def make_whole_history(lake: Lake, rows: int, done: Done = nothing_shown) -> None:
    """Writes everything that `ledger.verify` looks at; each row has a booking of two lines."""
    create_table(str(lake.journal), lake.stream)
    BodyStore(str(lake.bodies_table))
    PostingsWriter.open(str(lake.postings))
    # No receipt: reading 10 million of them would be a part of the figure.
    ReceiptsTable(str(lake.receipts)).append(0, RECEIPTS_SCHEMA.empty_table(), 0)
    journal, postings = Appender.open(str(lake.journal), checks=CHECKS), Appender.open(str(lake.postings))
    since, chain = 1, GENESIS
    for count in file_sizes(rows):
        last = since + count - 1
        table = _hashed(rows_table(since, last + 1, WHOLE_TOPIC, books=True))
        chain = extend_chain(chain, commit_digest(table["row_hash"].to_pylist()))
        info = commit(lake.stream, last, {WHOLE_TOPIC: {0: last}}, {WHOLE_TOPIC: {0: 0}}, chain)
        info["payhook.batch_seq"] = str(since)
        journal.append(table, AppTransaction(f"payhook-{lake.stream}", last), info)
        postings.append(_lines(table), AppTransaction(MARK_APP_ID, last))
        done(last)
        since = last + 1
    index = Index.open(lake.index, 1)
    index.catch_up(JournalReader(str(lake.journal)), BodyStore(str(lake.bodies_table)))
    index.close()


def file_sizes(rows: int) -> Iterator[int]:
    """Rows of each file: large ones, then small ones with a tenth of the rows at most."""
    small = min(SMALL_FILES, rows // SMALL_ROWS // 10)
    large = rows - small * SMALL_ROWS
    while large > 0:
        yield min(large, ROWS_PER_FILE)
        large -= ROWS_PER_FILE
    yield from [SMALL_ROWS] * small


def rows_table(since: int, until: int, topic: str = TOPIC, *, books: bool = False) -> pa.Table:
    """Rows of seq ``since`` to before ``until``; their hashes are fillers of the right length."""
    events = [HistoryEvent(number) for number in range(since, until)]
    digests = [one.digest for one in events]
    digest = pa.array(digests, pa.string())
    seq = pa.array(range(since, until), pa.int64())
    first_us, a_row_us = to_micros(FIRST_AT), timedelta(days=1) // timedelta(microseconds=ROWS_PER_DAY)
    at = pc.add(pc.multiply(seq, a_row_us), first_us).cast(JOURNAL_SCHEMA.field("decided_at").type)
    short, other = pc.utf8_slice_codeunits(digest, 0, 24), pc.utf8_slice_codeunits(digest, 24, 48)
    reverse = pc.utf8_reverse(digest)
    body = pc.binary_join_element_wise(other, short, pc.utf8_slice_codeunits(digest, 48, 64), "")
    event_key = pc.binary_join_element_wise("stripe:evt_", short, ":charge.succeeded", "")
    entity_key = pc.binary_join_element_wise("stripe:acct_main:pi_", other, "")
    facts = [one.fact for one in events]
    fact_key, fact_sha256 = [one.fact_key for one in facts], [one.sha256 for one in facts]
    columns: dict[str, object] = {
        "seq": seq,
        "batch_seq": since,
        "epoch": 1,
        "item_seq": seq,
        "first": True,
        "topic": topic,
        "partition": 0,
        "offset": pc.subtract(seq, 1),
        "event_key": event_key,
        "fact_key": fact_key,
        "fact_sha256": fact_sha256,
        "entity_key": entity_key,
        "provider": "stripe",
        "account": "acct_main",
        "event_type": "charge.succeeded",
        "mode": "live",
        "decision": "applied",
        "attempt": 0,
        "blocking": False,
        "out_of_order": False,
        "occurred_at": at,
        "received_at": at,
        "decided_at": at,
        "body_sha256": body,
        "content_sha256": digest,
        "content_version": 1,
        "dedupe": "claimed",
        "handler_version": handler_version(ProvidersSettings()),
        "postings": [postings_to_json(one.booking) for one in events] if books else None,
        "headers": _headers(event_key, entity_key, fact_key, fact_sha256, digest, body, at),
        "row_hash": reverse,
    }
    return pa.Table.from_arrays(
        [column(columns.get(field.name), field, len(seq)) for field in JOURNAL_SCHEMA], schema=JOURNAL_SCHEMA
    )


def _headers(
    event_key: pa.Array,
    entity_key: pa.Array,
    fact_key: list[str],
    fact_sha256: list[str],
    digest: pa.Array,
    body: pa.Array,
    at: pa.Array,
) -> pa.Array:
    """Builds headers as `processor.source.records` keeps those of a receiver's record."""
    when = pc.strftime(at, "%Y-%m-%dT%H:%M:%SZ")
    return pc.binary_join_element_wise(
        '{"account":"acct_main","body_sha256":"',
        body,
        '","ce_id":"',
        pc.utf8_slice_codeunits(event_key, 7, 35),
        '","ce_source":"/webhooks/stripe","ce_specversion":"1.0","ce_time":"',
        when,
        '","ce_type":"charge.succeeded","content_sha256":"',
        digest,
        '","content_version":"1","dedupe":"claimed","entity_key":"',
        entity_key,
        '","event_key":"',
        event_key,
        '","fact_key":"',
        pa.array(fact_key),
        '","fact_sha256":"',
        pa.array(fact_sha256),
        '","mode":"live","provider":"stripe","received_at":"',
        when,
        '"}',
        "",
    )


def column(values: object, field: pa.Field, count: int) -> pa.Array:
    """A column of ``count`` values: those that are listed, or the same one in each row."""
    if isinstance(values, (pa.Array, pa.ChunkedArray)):
        return values.cast(field.type)
    if isinstance(values, list):
        return pa.array(values, field.type)
    return pa.repeat(pa.scalar(values, field.type), count)


def _digest(number: int) -> str:
    return hashlib.sha256(b"%d" % number).hexdigest()


def commit(
    stream: str, seq: int, marks: Marks | None = None, start: Marks | None = None, chain: str = GENESIS
) -> dict[str, str]:
    """Returns what the journal's writer says of a commit; unless marks are given nothing is known of any topic that
    exists."""
    return {
        "payhook.stream": stream,
        "payhook.epoch": "1",
        "payhook.seq": str(seq),
        "payhook.marks": marks_to_json(marks or {}),
        "payhook.start": marks_to_json(start or {}),
        "payhook.chain": chain,
        "payhook.published_upto": str(seq),
    }


def _hashed(table: pa.Table) -> pa.Table:
    at = JOURNAL_SCHEMA.get_field_index("row_hash")
    return table.set_column(at, JOURNAL_SCHEMA.field(at), pa.array(row_hashes(table), pa.string()))


def _lines(table: pa.Table) -> pa.Table:
    """The booking's lines of each row, as `ledger.postings.flatten_postings` makes them."""
    bookings = [HistoryEvent(seq).booking for seq in table["seq"].to_pylist()]
    sides = [_side(table, number, [one[number] for one in bookings]) for number in range(LINES)]
    return pa.concat_tables(sides).sort_by([("seq", "ascending"), ("line", "ascending")])


def _side(table: pa.Table, number: int, lines: list[Posting]) -> pa.Table:
    count = table.num_rows
    own = {
        "line": number,
        "merchant": [f"merchant-{seq % MERCHANTS:04}" for seq in table["seq"].to_pylist()],
        "account": [line.account for line in lines],
        "side": [line.side for line in lines],
        "amount_minor": [line.money.amount_minor for line in lines],
        "currency": [line.money.currency for line in lines],
    }
    columns = [
        column(own[field.name] if field.name in own else table[field.name], field, count) for field in POSTINGS_SCHEMA
    ]
    return pa.table(columns, POSTINGS_SCHEMA)
