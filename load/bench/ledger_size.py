"""What an event costs on disk: journal, postings and raw body, after maintenance, with ids that nothing can compress.

``python -m load.bench.ledger_size --data DIR --rows 20000`` is the same with a shorter one.
"""

from __future__ import annotations

import argparse
import base64
import random
import shutil
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
from deltalake import DeltaTable
from rich.console import Console
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
from load.bench.figures import is_short
from load.bench.history import FIRST_AT
from load.samples.stripe import stripe_event
from processor.decide.intake import KafkaRecord, new_item
from providers.port import Request
from providers.settings import ProvidersSettings
from providers.stripe import StripeAdapter
from stack.jars import spark_jars

SIZE_SECONDS = 180.0
SIZE_SECONDS_SHORT = 60.0
EVENTS, EVENTS_SHORT = 200_000, 20_000
EVENTS_PER_COMMIT = 500
PARTITIONS = 48
MERCHANTS = 500
TOPIC = "payments.events"
TABLES = ("journal", "postings", "bodies")
COLUMNS_SHOWN = 8


def measure_size(folder: Path, console: Console, events: int | None = None) -> dict[str, float]:
    """Bytes of the files that the tables consist of after maintenance, an event.

    Files that were replaced stay for a day beside them, and the log for an hour: both don't grow with the ledger.
    """
    count = events or (EVENTS_SHORT if is_short() else EVENTS)
    tables = made(folder, count)
    jars, settings = spark_jars(), MaintainSettings(files_min=2)
    session = Session(lambda: open_read_session("maintain", settings.master, settings.driver_memory, jars, folder))
    with session:
        report = maintain([tables], Job(session, settings, SystemClock()))
    if not report.ok:
        raise RuntimeError(report.as_json())
    sizes = {name: _bytes(getattr(tables, name)) / count for name in TABLES}
    console.print(", ".join(f"{name} {size:.0f}" for name, size in sizes.items()) + " bytes an event")
    for name in TABLES:
        _show_columns(name, getattr(tables, name), count, console)
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


def _show_columns(name: str, path: Path, events: int, console: Console) -> None:
    """Which columns it is that cost."""
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
    console.print(table)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=EVENTS)
    parser.add_argument("--data", type=Path, required=True, help="folder for everything that is made")
    wanted = parser.parse_args()
    console = Console()
    console.print(measure_size(wanted.data / "size", console, wanted.rows))


if __name__ == "__main__":
    main()
