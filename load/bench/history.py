"""A ledger stream with many decided events, made in a minute: its Delta files are written directly.

Every row is the applied first row of an event of its own, with high-entropy keys. The offsets are those of a topic that
no longer exists, so that a fresh Kafka fits: the marks begin where that one does.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc

from core.clock import to_micros
from journal.append import Appender
from journal.log import AppTransaction
from journal.schema import GENESIS, JOURNAL_SCHEMA
from journal.state import marks_to_json
from journal.table import CHECKS, create_table
from ledger.postings import MARK_APP_ID, PostingsWriter

ROWS_PER_FILE = 500_000
"""About what maintenance leaves; what came since is in files of their own."""

SMALL_FILES = 1_000
SMALL_ROWS = 100
FIRST_AT = datetime(2026, 1, 1, tzinfo=UTC)
ROWS_PER_DAY = 10_000_000
TOPIC = "history"


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


def make_history(
    journal: Path, postings: Path | None, stream: str, rows: int, done: Callable[[int], None] = lambda rows: None
) -> None:
    """Writes a journal of ``rows`` rows, and where ``postings`` are kept a table that has passed them all.

    ``done`` is told how many rows each file took.
    """
    create_table(str(journal), stream)
    appender = Appender.open(str(journal), checks=CHECKS)
    since = 1
    for count in file_sizes(rows):
        until = since + count
        fence = AppTransaction(f"payhook-{stream}", until - 1)
        appender.append(rows_table(since, until), fence, _told(stream, until - 1))
        done(count)
        since = until
    if postings is not None:
        _pass_over(postings, rows)


def file_sizes(rows: int) -> Iterator[int]:
    """Rows of each file: large ones, then small ones with a tenth of the rows at most."""
    small = min(SMALL_FILES, rows // SMALL_ROWS // 10)
    large = rows - small * SMALL_ROWS
    while large > 0:
        yield min(large, ROWS_PER_FILE)
        large -= ROWS_PER_FILE
    yield from [SMALL_ROWS] * small


def rows_table(since: int, until: int, topic: str = TOPIC, postings: str | None = None) -> pa.Table:
    """Rows of seq ``since`` to before ``until``; their hashes are fillers of the right length."""
    digest = pa.array([_digest(number) for number in range(since, until)], pa.string())
    seq = pa.array(range(since, until), pa.int64())
    first_us, a_row_us = to_micros(FIRST_AT), timedelta(days=1) // timedelta(microseconds=ROWS_PER_DAY)
    at = pc.add(pc.multiply(seq, a_row_us), first_us).cast(JOURNAL_SCHEMA.field("decided_at").type)
    short, other = pc.utf8_slice_codeunits(digest, 0, 24), pc.utf8_slice_codeunits(digest, 24, 48)
    reverse = pc.utf8_reverse(digest)
    columns: dict[str, object] = {
        "seq": seq,
        "batch_seq": since,
        "epoch": 1,
        "item_seq": seq,
        "first": True,
        "topic": topic,
        "partition": 0,
        "offset": pc.subtract(seq, 1),
        "event_key": pc.binary_join_element_wise("stripe:evt_", short, ":charge.succeeded", ""),
        "fact_key": pc.binary_join_element_wise("stripe:ch_", other, ":charge", ""),
        "fact_sha256": reverse,
        "entity_key": pc.binary_join_element_wise("stripe:acct_main:pi_", other, ""),
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
        "body_sha256": pc.binary_join_element_wise(other, short, pc.utf8_slice_codeunits(digest, 48, 64), ""),
        "content_sha256": digest,
        "content_version": 1,
        "dedupe": "claimed",
        "handler_version": "ledger-1",
        "postings": postings,
        "row_hash": reverse,
    }
    return pa.Table.from_arrays(
        [_array(columns.get(field.name), field, len(seq)) for field in JOURNAL_SCHEMA], schema=JOURNAL_SCHEMA
    )


def _array(values: object, field: pa.Field, count: int) -> pa.Array:
    if isinstance(values, pa.Array):
        return values.cast(field.type)
    return pa.repeat(pa.scalar(values, field.type), count)


def _digest(number: int) -> str:
    return hashlib.sha256(b"%d" % number).hexdigest()


def _told(stream: str, seq: int) -> dict[str, str]:
    """What the journal's writer says of a commit, with nothing known of any topic that exists."""
    return {
        "payhook.stream": stream,
        "payhook.epoch": "1",
        "payhook.seq": str(seq),
        "payhook.marks": marks_to_json({}),
        "payhook.start": marks_to_json({}),
        "payhook.chain": GENESIS,
        "payhook.published_upto": str(seq),
    }


def _pass_over(postings: Path, rows: int) -> None:
    """A table of postings whose mark is past the history: what a start asks of it, without its 20 million lines."""
    PostingsWriter.open(str(postings))
    Appender.open(str(postings)).append(None, AppTransaction(MARK_APP_ID, rows))
