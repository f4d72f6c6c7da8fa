"""Removes one event's body for good: from the table, and from every file on the disk that ever held it."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from deltalake import DeltaTable
from pyarrow.fs import FileSystem

from core.arrow import datasets as ds
from core.clock import Clock, to_micros
from core.decision import OPEN_DECISIONS, Decision
from core.errors import PayhookError
from core.location import Location
from core.visible import kept_text
from journal.bodies import BODIES_SCHEMA, BodyStore
from journal.journals import own_items
from journal.log import COMMIT_S_MAX
from journal.reader import rows_where
from journal.rewrite import Rewriter, take_snapshot
from journal.schema import JournalRow
from journal.storage import file_system, open_storage
from ledger.maintain.retention import list_data_files
from ledger.maintain.tables import MAINTAIN, StreamTables, open_staging
from ledger.redactions import DONE, ORDERED, Redaction, Redactions
from operations.done_alone import DAY
from operations.limits import account_of

ROWS_PER_READ = 2_000
IN_FLIGHT_S_MAX = 2 * COMMIT_S_MAX
"""A file is named by its commit within milliseconds; a commit that takes longer than half of this isn't made."""


class EventUnknown(PayhookError):
    def __init__(self, event_key: str) -> None:
        self.event_key = event_key
        super().__init__(f"the journal knows no body of an event {event_key}: nothing was removed")


class EventOpen(PayhookError):
    def __init__(self, event_key: str, item_seq: int, decision: str) -> None:
        self.event_key = event_key
        self.item_seq = item_seq
        self.decision = decision
        super().__init__(
            f"the body of {event_key} is still needed: item {item_seq} is open, its last decision is {decision}. "
            f"Nothing was removed. Settle it first (`payhook dlq show {item_seq}`)."
        )


class AnotherPersonRedacts(PayhookError):
    def __init__(self, actor: str, wanted: int, before: int, most: int) -> None:
        self.actor = actor
        self.wanted = wanted
        self.before = before
        self.most = most
        super().__init__(
            f"Needs another person: {actor} removed {before} bodies in the last 24 hours and asks for {wanted} more; "
            f"the limit is {most} a day (dlq.alone_redactions_max). Have someone else do it, from their account. "
            "Nothing was removed."
        )


@dataclass(frozen=True, slots=True)
class RedactionOrder:
    """
    :raises ValueError: who or why can't be kept as it is (`core.visible.kept_text`)
    """

    event_key: str
    actor: str
    reason: str

    def __post_init__(self) -> None:
        kept_text(self.actor)
        kept_text(self.reason)


@dataclass(frozen=True, slots=True)
class RedactionResult:
    done: tuple[Redaction, ...]
    left: tuple[Redaction, ...] = ()
    """A file that holds one may just be being committed: the next maintenance removes it."""
    earlier: tuple[Redaction, ...] = ()
    lost: tuple[str, ...] = ()
    """Files of the bodies that are gone: what they held isn't known."""


def redact_bodies(
    streams: Sequence[StreamTables], redactions: Redactions, order: RedactionOrder, clock: Clock, alone_max: int
) -> RedactionResult:
    """Removes every body that rows of an event refer to, beside each journal; it writes that down before they go.

    It does so in each journal whose rows refer to one, by any event. The same bytes may have come to two endpoints, or
    were replayed under another entity. After a crash `finish_redactions` does the rest.

    The caller holds `hold_maintenance_lock`.

    :param streams: those of one stream that have a journal
    :param alone_max: bodies that one person may have removed within 24 hours
    :raises EventUnknown, EventOpen, AnotherPersonRedacts: nothing was changed
    :raises CommitFailed: another process rewrites the bodies; the next maintenance finishes it
    """
    hashes = {sha256 for stream in streams for sha256 in _find_bodies(stream, order.event_key)}
    if not hashes:
        raise EventUnknown(order.event_key)
    first_seqs_of = [(stream, _find_first_seqs(stream, hashes, order.event_key)) for stream in streams]
    for stream in streams:
        check_closed(stream.journal, order.event_key, hashes)
    earlier = [act for stream, first_seqs in first_seqs_of for act in _find_removed(stream, redactions, first_seqs)]
    removed, now = {(act.stream, act.body_sha256) for act in earlier}, clock.now()
    acts = [
        Redaction(0, ORDERED, stream.stream, order.event_key, seq, sha256, order.actor, order.reason, now)
        for stream, first_seqs in first_seqs_of
        for sha256, seq in sorted(first_seqs.items(), key=lambda hash_and_seq: hash_and_seq[1])
        if (stream.stream, sha256) not in removed
    ]
    asked, before = (
        len({act.body_sha256 for act in acts}),
        _count_orders_of_day(streams, redactions, order.actor, now),
    )
    if acts and asked + before > alone_max:
        raise AnotherPersonRedacts(order.actor, asked, before, alone_max)
    redactions.add_acts(acts)
    for stream in streams:
        finish_redactions(stream, redactions, clock)
    unfinished = {
        (act.stream, act.body_sha256) for stream in streams for act in redactions.find_unfinished(stream.stream)
    }
    left = tuple(act for act in acts if (act.stream, act.body_sha256) in unfinished)
    lost = tuple(name for stream in streams for name in sorted(_find_lost_files(stream.bodies)))
    return RedactionResult(tuple(act for act in acts if act not in left), left, tuple(earlier), lost)


def _find_lost_files(bodies: Location) -> frozenset[str]:
    if not DeltaTable.is_deltatable(str(bodies)):
        return frozenset()
    return take_snapshot(bodies).names - {file.name for file in list_data_files(bodies)}


def _find_bodies(stream: StreamTables, event_key: str) -> set[str]:
    rows = rows_where(stream.journal, pc.field("event_key") == event_key)
    return {row.body_sha256 for row in rows if row.body_sha256 is not None}


def _find_first_seqs(stream: StreamTables, hashes: Collection[str], event_key: str) -> dict[str, int]:
    rows = _read_referring_rows(stream.journal, hashes)
    last = sorted(rows, key=lambda row: (row.event_key == event_key, -row.seq))
    return {row.body_sha256: row.seq for row in last if row.body_sha256 is not None}


def _count_orders_of_day(streams: Sequence[StreamTables], redactions: Redactions, actor: str, now: datetime) -> int:
    """Counts bodies that a person had removed; one in several journals counts once an order."""
    recent = [act for stream in streams for act, _ in redactions.list_orders(stream.stream) if act.at >= now - DAY]
    return len({(act.at, act.body_sha256) for act in recent if account_of(act.actor) == account_of(actor)})


def _find_removed(stream: StreamTables, redactions: Redactions, hashes: Collection[str]) -> tuple[Redaction, ...]:
    last = {act.body_sha256: (act, done) for act, done in redactions.list_orders(stream.stream)}
    removed = [act for act, done in last.values() if done is not None and act.body_sha256 in hashes]
    again = BodyStore(str(stream.bodies)).find_kept(act.body_sha256 for act in removed) if removed else set()
    return tuple(act for act in removed if act.body_sha256 not in again)


def finish_redactions(stream: StreamTables, redactions: Redactions, clock: Clock) -> int:
    """Finishes what was ordered; returns how many bodies that were.

    :raises CommitFailed: another process rewrites the bodies
    """
    acts = redactions.find_unfinished(stream.stream)
    if not acts:
        return 0
    hashes = {act.body_sha256 for act in acts}
    if DeltaTable.is_deltatable(str(stream.bodies)) and not purge_bodies(stream.bodies, hashes, clock):
        return 0
    now = clock.now()
    redactions.add_acts([replace(act, act=DONE, at=now) for act in acts])
    return len(acts)


def purge_bodies(bodies: Location, hashes: Collection[str], clock: Clock) -> bool:
    """Removes bodies from the table, and every file that held them from the disk, replaced ones too.

    A reader of one of these files then opens the table again, as `BodyStore.fetch` does; all other files stay.

    Returns whether all is done. A file that the table doesn't name and that is only minutes old is left to the next
    run: it may be about to be committed.
    """
    before, storage = take_snapshot(bodies), open_storage(bodies)
    rewriter, files = Rewriter(before), file_system(bodies)
    lost = _find_lost_files(bodies)
    replaced = [file for file in before.files if file.name not in lost and _has_bodies(files, file.name, hashes)]
    for file in replaced:
        with open_staging(bodies, MAINTAIN) as folder:
            others = _write_other_bodies(files, file.name, hashes, folder)
            rewriter.replace_files([file], others, to_micros(clock.now()) // 1_000, drops_rows=True)
    storage.delete([file.name for file in replaced])
    named = take_snapshot(bodies).names
    left = [
        file
        for file in list_data_files(bodies)
        if file.name not in named and _may_hold_bodies(files, file.name, hashes)
    ]
    old = [file for file in left if (clock.now() - file.at).total_seconds() > IN_FLIGHT_S_MAX]
    storage.delete([unnamed.name for unnamed in old])
    return len(old) == len(left)


def _may_hold_bodies(files: FileSystem, name: str, hashes: Collection[str]) -> bool:
    """Checks a file that the table doesn't name. One that can't be read is half written, or is being written now."""
    try:
        return _has_bodies(files, name, hashes)
    except (OSError, pa.ArrowException):
        return False


def _has_bodies(files: FileSystem, name: str, hashes: Collection[str]) -> bool:
    condition = pc.field("body_sha256").isin(pa.array(sorted(hashes), pa.string()))
    return bool(ds.dataset(name, filesystem=files, format="parquet").count_rows(filter=condition))


def _write_other_bodies(files: FileSystem, name: str, hashes: Collection[str], folder: Path) -> list[Path]:
    staged, removed = folder / name, pa.array(sorted(hashes), pa.string())
    rows = 0
    with (
        files.open_input_file(name) as file,
        pq.ParquetFile(file) as parquet,
        pq.ParquetWriter(staged, BODIES_SCHEMA, compression="zstd", store_schema=False) as writer,
    ):
        for batch in parquet.iter_batches(ROWS_PER_READ, columns=BODIES_SCHEMA.names):
            bodies = pa.Table.from_batches([batch]).cast(BODIES_SCHEMA)
            others = bodies.filter(pc.invert(pc.is_in(bodies["body_sha256"], removed)))
            writer.write_table(others)
            rows += others.num_rows
    return [staged] if rows else []


def check_closed(journal: Location, event_key: str, hashes: Collection[str]) -> None:
    """
    :raises EventOpen: an item of any event that refers to one of the bodies is open; items that another journal
    continues don't count
    """
    is_own = own_items(journal)
    items = pa.array(sorted({row.item_seq for row in _read_referring_rows(journal, hashes)}), pa.int64())
    last: dict[int, JournalRow] = {}
    for row in rows_where(journal, pc.field("item_seq").isin(items)):
        last[row.item_seq] = row
    for item_seq, row in sorted(last.items()):
        is_command = row.first and row.decision is Decision.REPLAYED
        if row.decision in OPEN_DECISIONS and not is_command and is_own(row):
            raise EventOpen(event_key, item_seq, row.decision.value)


def _read_referring_rows(journal: Location, hashes: Collection[str]) -> Sequence[JournalRow]:
    return rows_where(journal, pc.field("body_sha256").isin(pa.array(sorted(hashes), pa.string())))
