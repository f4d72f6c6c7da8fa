"""The group of the ledger: what finance waits for, how fast all of it is proved, and what an event costs on disk.

That is journal, postings and body after maintenance, with ids that nothing can compress.
"""

from __future__ import annotations

import base64
import random
import shutil
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
from deltalake import DeltaTable
from rich.table import Table

from core.clock import SystemClock, to_micros
from core.decision import Decision
from core.event import Dedupe, to_headers
from core.work import postings_to_json
from journal.append import Appender
from journal.bodies import BodyStore
from journal.schema import JournalRow
from journal.writer import JournalWriter
from ledger.accounts import book_fact
from ledger.maintain.compact import CompactionLimits, LazySparkSession
from ledger.maintain.job import MaintenanceJob, maintain
from ledger.maintain.tables import StreamTables
from ledger.postings import POSTINGS_SCHEMA, PostingsWriter
from ledger.queries.balances import sum_balances
from ledger.queries.story import read_event_story
from ledger.settings import LedgerSettings
from ledger.spark import maintenance_master, open_read_session
from load.bench.figures import Done, Run, median_s, nothing_shown
from load.bench.history import FIRST_AT, ROWS_PER_DAY, HistoryEvent, column, made_history
from load.bench.ledger_verify import measure_verify
from load.samples.stripe import stripe_event
from processor.decide.arrivals import make_item
from processor.source.records import KafkaRecord
from providers.port import Request
from providers.settings import ProvidersSettings
from providers.stripe import StripeAdapter
from stack.jars import spark_jars

LINES_PER_FILE = 500_000
LINES_PER_BOOKING = 2
MERCHANTS = 500
CURRENCIES = ("EUR", "JPY", "KWD")
PROVIDERS = ("adyen", "stripe")
AMOUNT_MINOR_MAX = 1_000_000

EVENTS, EVENTS_SHORT = 200_000, 20_000
EVENTS_PER_COMMIT = 500
PARTITIONS = 48
TOPIC = "payments.events"
TABLES = ("journal", "postings", "bodies")
COLUMNS_SHOWN = 8


def measure_ledger(run: Run) -> dict[str, float]:
    """Each part on a ledger of its own."""
    return {**measure_queries(run), **measure_verify(run.within("verify")), **measure_size(run.within("size"))}


def measure_queries(run: Run) -> dict[str, float]:
    """Seconds within the process, the tables' opening included: what the command adds is its start.

    The history was written faster than its log got checkpoints; a processor's journal has one every 100 commits.
    """
    layout, count = made_history(run)
    history, postings = layout.ledger(), run.folder / f"postings-{count}"
    DeltaTable(str(history.journal)).create_checkpoint()
    with run.progress(f"{count:,} postings", count) as done:
        make_postings(postings, count, done)
    balances_s = median_s(lambda: sum_balances(str(postings)))
    run.console.print(f"balances of {count:,} lines: {balances_s:.2f} s")
    chance = random.Random(13)

    def story() -> None:
        key = HistoryEvent(chance.randint(1, count)).event_key
        assert read_event_story(str(history.journal), str(history.postings), key, str(history.bodies_table)).rows

    story_s = median_s(story)
    run.console.print(f"an event's story among {count:,} rows: {story_s:.2f} s")
    return {"ledger.balances_s_10m": balances_s, "ledger.event_story_s_10m": story_s}


def make_postings(path: Path, lines: int, done: Done = nothing_shown) -> None:
    """A postings table of captures with so many lines."""
    shutil.rmtree(path, ignore_errors=True)
    PostingsWriter.open(str(path))
    appender = Appender.open(str(path))
    for since, until in _spans(lines // LINES_PER_BOOKING):
        appender.append(_lines(since, until))
        done((until - 1) * LINES_PER_BOOKING)


def _spans(bookings: int) -> Iterator[tuple[int, int]]:
    step = LINES_PER_FILE // LINES_PER_BOOKING
    for since in range(1, bookings + 1, step):
        yield since, min(since + step, bookings + 1)


def _lines(since: int, until: int) -> pa.Table:
    """Two lines a booking; merchants, providers and currencies take turns."""
    seqs = range(since, until)
    digests = [HistoryEvent(seq).digest for seq in seqs]
    merchants = [f"merchant-{seq % MERCHANTS:04}" for seq in seqs]
    providers = [PROVIDERS[seq % len(PROVIDERS)] for seq in seqs]
    a_row_us = timedelta(days=1) // timedelta(microseconds=ROWS_PER_DAY)
    decided = [to_micros(FIRST_AT) + seq * a_row_us for seq in seqs]
    count, at = len(seqs), pa.array(decided, pa.int64())
    columns: dict[str, object] = {
        "seq": list(seqs),
        "event_key": [f"{provider}:evt_{one[:24]}:capture" for provider, one in zip(providers, digests, strict=True)],
        "fact_key": [f"{provider}:ch_{one[24:48]}:capture" for provider, one in zip(providers, digests, strict=True)],
        "entity_key": [f"{provider}:acct:pi_{one[24:48]}" for provider, one in zip(providers, digests, strict=True)],
        "provider": providers,
        "merchant": merchants,
        "amount_minor": [seq * 7_919 % AMOUNT_MINOR_MAX + 1 for seq in seqs],
        "currency": [CURRENCIES[seq % len(CURRENCIES)] for seq in seqs],
        "occurred_at": at,
        "decided_at": at,
    }
    clearing = [f"provider:{provider}:clearing" for provider in providers]
    payable = [f"merchant:{merchant}:payable" for merchant in merchants]
    sides = [
        columns | {"line": 0, "side": "debit", "account": clearing},
        columns | {"line": 1, "side": "credit", "account": payable},
    ]
    tables = [
        pa.table([column(side.get(field.name), field, count) for field in POSTINGS_SCHEMA], POSTINGS_SCHEMA)
        for side in sides
    ]
    return pa.concat_tables(tables).sort_by([("seq", "ascending"), ("line", "ascending")])


def measure_size(run: Run) -> dict[str, float]:
    """Bytes of the files that the tables consist of after maintenance, an event.

    Files that were replaced stay for a day beside them, and the log for an hour: both don't grow with the ledger.
    """
    count = run.count(EVENTS, EVENTS_SHORT)
    tables = made(run.folder, count)
    jars, settings = spark_jars(), LedgerSettings()
    master = maintenance_master(settings.master)
    session = LazySparkSession(lambda: open_read_session("maintain", master, settings.driver_memory, jars, run.folder))
    with session:
        report = maintain(
            [tables], MaintenanceJob(session, settings.maintain, SystemClock(), limits=CompactionLimits(files_min=2))
        )
    if not report.ok:
        raise RuntimeError(report.as_json())
    sizes = {name: _bytes(getattr(tables, name)) / count for name in TABLES}
    run.console.print(", ".join(f"{name} {size:.0f}" for name, size in sizes.items()) + " bytes an event")
    for name in TABLES:
        run.console.print(_costly_columns(name, getattr(tables, name), count))
    return {"ledger.bytes_per_event": sum(sizes.values())}


def made(folder: Path, events: int) -> StreamTables:
    """A ledger by its real writers, a commit for each `EVENTS_PER_COMMIT`."""
    shutil.rmtree(folder, ignore_errors=True)
    tables = StreamTables("ledger", folder / "journal" / "ledger", folder / "bodies", folder / "postings")
    assert tables.postings is not None
    writer = JournalWriter.create_or_open(str(tables.journal), tables.stream)
    writer.begin_epoch({TOPIC: dict.fromkeys(range(PARTITIONS), 0)})
    bodies, postings = BodyStore(str(tables.bodies)), PostingsWriter.open(str(tables.postings))
    marks = dict.fromkeys(range(PARTITIONS), 0)
    rows: list[JournalRow] = []
    raw: list[tuple[str, bytes]] = []
    for number, (row, body) in enumerate(_events(events, marks), 1):
        rows.append(row)
        raw.append((row.body_sha256 or "", body))
        if number % EVENTS_PER_COMMIT == 0 or number == events:
            bodies.append(raw)
            writer.commit(rows, {TOPIC: dict(marks)}, number)
            postings.follow(rows)
            rows, raw = [], []
    return tables


def _events(count: int, marks: dict[int, int]) -> Iterator[tuple[JournalRow, bytes]]:
    """Captures as a receiver publishes them and the ledger's handler books them."""
    chance = random.Random(29)
    adapter = StripeAdapter(ProvidersSettings())
    for seq in range(1, count + 1):
        at = FIRST_AT + timedelta(milliseconds=7 * seq + chance.randrange(7))
        body = stripe_event(
            f"evt_{_tail(chance)}",
            "charge.succeeded",
            payment=f"pi_{_tail(chance)}",
            account=f"acct_{chance.randrange(MERCHANTS):016}",
            amount_minor=chance.randrange(1, 1_000_000),
            currency=chance.choice(("EUR", "USD", "GBP")),
            created=at,
        )
        (event,) = adapter.events(Request(body, ()), "live")
        traceparent = f"00-{chance.randbytes(16).hex()}-{chance.randbytes(8).hex()}-01"
        headers = to_headers(event, at, Dedupe.CLAIMED, traceparent)
        partition = chance.randrange(PARTITIONS)
        record = KafkaRecord(TOPIC, partition, marks[partition], body, list(headers))
        marks[partition] += 1
        row = make_item(record, seq, at + timedelta(milliseconds=300), "live").row
        fact = adapter.money(body, event.event_type)
        assert fact is not None
        row.postings = postings_to_json(book_fact(fact, event.provider, f"merchant-{event.account}"))
        row.decision, row.handler_version = Decision.APPLIED, "ledger-1"
        yield row, body


def _tail(chance: random.Random) -> str:
    """24 characters that mean nothing."""
    return base64.b32encode(chance.randbytes(15)).decode("ascii")


def _bytes(path: Path) -> int:
    return int(sum(pa.table(DeltaTable(str(path)).get_add_actions())["size_bytes"].to_pylist()))


def _costly_columns(name: str, path: Path, events: int) -> Table:
    sizes: dict[str, int] = {}
    for file in DeltaTable(str(path)).file_uris():
        metadata = pq.read_metadata(file)
        for group in range(metadata.num_row_groups):
            for at in range(metadata.num_columns):
                column = metadata.row_group(group).column(at)
                sizes[column.path_in_schema] = sizes.get(column.path_in_schema, 0) + column.total_compressed_size
    table = Table("column", "bytes an event", title=name)
    for column_name, size in sorted(sizes.items(), key=lambda one: -one[1])[:COLUMNS_SHOWN]:
        table.add_row(column_name, f"{size / events:.1f}")
    return table
