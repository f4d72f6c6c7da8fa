"""Looks at a copy as a restore would need it: every byte by its hash, every row by its own, and the chains over them.

An earlier backup may have been good when it was made, and the lake, or the copy, was changed since: what is stored as a
row's hash proves nothing until it is computed again. And says what the present journals hold beyond a copy.
"""

from __future__ import annotations

import contextlib
import hashlib
import tempfile
from collections.abc import Iterator, Mapping
from itertools import islice
from pathlib import Path

import pyarrow as pa
from deltalake.exceptions import DeltaError

from core.errors import PayhookError
from core.location import Location
from journal.bodies import BodyStore
from journal.histories import JournalOlder, ReflectedPosition, common_rows, may_follow
from journal.index import Index
from journal.lake import has_table, open_table
from journal.reader import JournalReader, dataset_of, read_rows
from journal.schema import ChainHead, row_hashes
from journal.state import JournalState
from ledger.redactions import Redactions
from operations.audit_log import AuditLog, ChainWalk
from stack.backup.copying import UNREADABLE, data_files
from stack.backup.manifest import (
    ACTS,
    BODIES,
    JOURNAL,
    REDACTIONS,
    BackupManifest,
    CopiedJournal,
    CopiedTable,
    RestoreRefused,
    SourceTable,
    list_tables,
    table_location,
)
from stack.backup.trees import copy_hashed, tree_at
from stack.settings import Settings

PROBLEMS_MAX = 10
BODIES_PER_READ = 256
"""What the receiver takes as a body (`ingest.body_bytes_max`) bounds what they are in memory."""

LAKE = "lake"
"""The folder of the tables in a backup."""


def find_problems(backup: Location, manifest: BackupManifest, tables: list[SourceTable], scratch: Path) -> list[str]:
    """Finds what is wrong with a backup, `PROBLEMS_MAX` at most; nothing in a good one. Reads every file.

    :param tables: what belongs to which work stream (`stack.backup.manifest.list_tables`)
    :param scratch: a folder on a disk with room for an index
    """
    broken = list(islice(_broken_files(backup, manifest), PROBLEMS_MAX))
    # Tables with a file that isn't what it was are not opened: the file is what there is to say.
    return broken or list(islice(find_table_problems(backup / LAKE, manifest, tables, scratch), PROBLEMS_MAX))


def find_table_problems(
    lake: Location, manifest: BackupManifest, tables: list[SourceTable], scratch: Path
) -> Iterator[str]:
    for path, table in manifest.tables.items():
        try:
            yield from _broken_table(lake, path, table, manifest)
            if table.kind == BODIES:
                yield from _broken_bodies(lake, path, table)
            elif table.kind == ACTS:
                yield from _broken_acts(lake / path)
            elif table.kind == REDACTIONS:
                Redactions(lake / path).read_all()
        except (DeltaError, OSError, pa.ArrowException) as failed:
            yield f"{path} can't be read: {failed}"
        except PayhookError as failed:
            yield f"{path}: {failed}"
    bodies = {table.stream: lake / table.path for table in tables if table.kind == BODIES}
    for path, journal in manifest.journals.items():
        try:
            yield from _broken_journal(lake / path, journal, manifest.tables[path], bodies.get(journal.stream), scratch)
        except (PayhookError, DeltaError, OSError, pa.ArrowException) as failed:
            yield f"{path}: {failed}"


def describe_journal(state: JournalState, stream: str) -> CopiedJournal:
    seq = state.next_seq - 1
    return CopiedJournal(stream, state.epoch, seq, state.chain, state.row_hash, state.lineage)


def _broken_files(backup: Location, manifest: BackupManifest) -> Iterator[str]:
    stored = tree_at(backup)
    for path, expected in manifest.files.items():
        try:
            with stored.open(path) as file:
                copy = copy_hashed(file)
        except OSError as unreadable:
            yield f"{path} can't be read: {unreadable.strerror or unreadable}"
            continue
        if copy.size != expected.size:
            yield f"{path} has {copy.size:,} bytes, {expected.size:,} were copied"
        elif copy != expected:
            yield f"{path} isn't what was copied: its hash differs"


def _broken_table(lake: Location, path: str, expected: CopiedTable, manifest: BackupManifest) -> Iterator[str]:
    table = open_table(str(lake / path))
    actual = str(table.metadata().id), table.version()
    if actual != (expected.table_id, expected.version):
        copied = f"{expected.table_id} at {expected.version}"
        yield f"{path} is table {actual[0]} at version {actual[1]}, {copied} was copied"
    missing = [name for name in data_files(table) if f"{LAKE}/{path}/{name}" not in manifest.files]
    if missing:
        yield f"{path} lacks {len(missing):,} of its files, {missing[0]} among them"


def _broken_bodies(lake: Location, path: str, expected: CopiedTable) -> Iterator[str]:
    """Checks each body by its hash: the lake's own files may have been damaged before they were copied."""
    dataset = dataset_of(open_table(str(lake / path), expected.version))
    for batch in dataset.to_batches(batch_size=BODIES_PER_READ, batch_readahead=1, fragment_readahead=1):
        for sha256, body in zip(batch["body_sha256"].to_pylist(), batch["body"].to_pylist(), strict=True):
            if hashlib.sha256(body).hexdigest() != sha256:
                yield f"{path} holds a body that isn't what its hash says: {sha256}"


def _broken_acts(log: Location) -> Iterator[str]:
    AuditLog(log).head()
    rows = read_rows(open_table(str(log))).sort_by("number").to_pylist()
    for offender in ChainWalk().find_offenders(rows):
        yield f"{log.name}, {', '.join(f'{name} {value}' for name, value in offender.items())}"


def _broken_journal(
    journal: Location, expected: CopiedJournal, table: CopiedTable, bodies: Location | None, scratch: Path
) -> Iterator[str]:
    reader = JournalReader(str(journal), table.version)
    actual = describe_journal(reader.state(), expected.stream)
    if actual != expected:
        yield f"the journal of {expected.stream} says {actual}, {expected} was copied"
    chain = ChainHead()
    changed: list[int] = []
    for rows in reader.tables_after(0):
        stored = rows["row_hash"].to_pylist()
        for batch_seq, digest in zip(rows["batch_seq"].to_pylist(), stored, strict=True):
            chain.add(batch_seq, digest)
        seqs = zip(rows["seq"].to_pylist(), stored, row_hashes(rows), strict=True)
        changed += [seq for seq, digest, computed in seqs if digest != computed]
    if changed:
        yield f"rows of {expected.stream} don't match their hash: {len(changed):,}, seq {changed[0]} is the first"
        return
    if (chain.head, reader.last_seq) != (expected.chain, expected.seq):
        head = f"seq {reader.last_seq}, chain {chain.head[:16]}…"
        yield f"the rows of {expected.stream} end at {head}; seq {expected.seq}, {expected.chain[:16]}… was recorded"
        return
    if expected.seq == 0 or bodies is None:
        return
    with tempfile.TemporaryDirectory(prefix="backup-check-", dir=scratch) as folder:
        index = Index.open(Path(folder), 1)
        try:
            index.catch_up(reader, BodyStore(str(bodies), may_create=False))
        finally:
            index.close()


Present = Mapping[str, JournalState | None]
"""What each journal that is there says of itself, by its path in the lake; None of one that can't be read."""


def present_journals(settings: Settings) -> Present:
    lake = settings.layout.lake
    journals = {
        table.path: table_location(lake, table.path) for table in list_tables(settings) if table.kind == JOURNAL
    }
    return {path: _read_state(journal) for path, journal in journals.items() if has_table(str(journal))}


def rows_beyond(
    settings: Settings, present: Present, backup: Location, manifest: BackupManifest
) -> dict[str, int | None]:
    """Returns how many rows each present journal has, by its stream, that aren't the backup's: those after the last row
    that both have. None where it can't be read.

    :raises RestoreRefused: the backup's journal can't be read
    """
    streams = {table.path: table.stream for table in list_tables(settings) if table.kind == JOURNAL}
    return {
        streams[path]: None
        if state is None
        else _count_rows_beyond(settings.layout.lake, path, state, backup, manifest)
        for path, state in present.items()
    }


def _read_state(journal: Location) -> JournalState | None:
    try:
        return JournalReader(str(journal)).state()
    except UNREADABLE:
        return None


def _count_rows_beyond(
    lake: Location, path: str, state: JournalState, backup: Location, manifest: BackupManifest
) -> int:
    last_seq = state.next_seq - 1
    if path not in manifest.journals:
        return last_seq
    try:
        copied = JournalReader(str(table_location(backup / LAKE, path)), manifest.tables[path].version)
        with contextlib.suppress(JournalOlder):
            if may_follow("the present journal", ReflectedPosition(state.lineage, last_seq, state.row_hash), copied):
                return 0
    except UNREADABLE as broken:
        raise RestoreRefused(f"backup {backup.name}: {broken}") from broken
    try:
        return last_seq - common_rows(JournalReader(str(table_location(lake, path))), copied)
    except UNREADABLE:
        # Where they part can't be seen; that they do is known.
        return max(1, last_seq - manifest.journals[path].seq)
