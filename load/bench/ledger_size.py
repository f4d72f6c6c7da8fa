"""What an event costs on disk: journal, postings and body, after maintenance, with ids that nothing can compress."""

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

from core.clock import SystemClock
from core.decision import Decision
from core.event import Dedupe, to_headers
from core.work import postings_to_json
from journal.bodies import BodyStore
from journal.schema import JournalRow
from journal.writer import JournalWriter
from ledger.accounts import book
from ledger.maintain import Job, Session, StreamTables, maintain
from ledger.postings import PostingsWriter
from ledger.settings import MaintainSettings
from ledger.spark import open_read_session
from load.bench.figures import Run
from load.bench.history import FIRST_AT
from load.webhooks import stripe_event
from processor.decide.intake import KafkaRecord, new_item
from providers.port import Request
from providers.settings import ProvidersSettings
from providers.stripe import StripeAdapter
from stack.jars import spark_jars

EVENTS, EVENTS_SHORT = 200_000, 20_000
EVENTS_PER_COMMIT = 500
PARTITIONS = 48
MERCHANTS = 500
TOPIC = "payments.events"
TABLES = ("journal", "postings", "bodies")
COLUMNS_SHOWN = 8


def measure_size(run: Run) -> dict[str, float]:
    """Bytes of the files that the tables consist of after maintenance, an event.

    Files that were replaced stay for a day beside them, and the log for an hour: both don't grow with the ledger.
    """
    count = run.count(EVENTS, EVENTS_SHORT)
    tables = made(run.folder, count)
    jars, settings = spark_jars(), MaintainSettings(files_min=2)
    session = Session(lambda: open_read_session("maintain", settings.master, settings.driver_memory, jars, run.folder))
    with session:
        report = maintain([tables], Job(session, settings, SystemClock()))
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
        row = new_item(record, seq, at + timedelta(milliseconds=300), "live").row
        fact = adapter.money(body, event.event_type)
        assert fact is not None
        row.postings = postings_to_json(book(fact, event.provider, f"merchant-{event.account}"))
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
