"""Reads a journal's table in seq order with bounded memory, however its files are laid out.

Files that were compacted (OPTIMIZE) hold any mixture of old rows, so order comes from reading one window
of seq after the other: seq has no gaps, so a window's width is its number of rows.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import pyarrow as pa
import pyarrow.compute as pc
from deltalake import DeltaTable
from deltalake.exceptions import DeltaError

from core.decision import Decision
from journal.errors import JournalBroken
from journal.histories import FIRST
from journal.lake import dataset_of

ROWS_PER_WINDOW = 50_000
"""About 50 MB of rows in Arrow."""


def scan(
    table: DeltaTable, after: int, columns: Sequence[str] | None = None, rows_per_window: int = ROWS_PER_WINDOW
) -> Iterator[pa.Table]:
    """Rows with a greater seq than ``after``, in seq order, a window a table.

    A large file is decoded once for every window that it reaches into: few columns bear wider windows.

    :raises JournalBroken: a seq is missing or there twice, or a file can't be read
    """
    wanted = None if columns is None else list(dict.fromkeys(["seq", *columns]))
    try:
        last = last_seq(table)
        for since in range(after + 1, last + 1, rows_per_window):
            until = min(since + rows_per_window, last + 1)
            rows = _window(table, since, until, wanted)
            _check_whole(table, rows, since, until)
            yield rows
    except (OSError, DeltaError, pa.ArrowException) as unreadable:
        raise JournalBroken(table.table_uri, f"it can't be read: {unreadable}") from unreadable


def pick(table: DeltaTable, seqs: Sequence[int], columns: Sequence[str] | None = None) -> pa.Table:
    """The rows of ascending ``seqs``, in that order; whole ones unless ``columns`` are named.

    :raises JournalBroken: one is missing or there twice, or a file can't be read
    """
    wanted = pa.array(seqs, pa.int64())
    named = None if columns is None else list(dict.fromkeys(["seq", *columns]))
    try:
        files = dataset_of(table, file_pruning_predicate=f"seq >= {seqs[0]} AND seq <= {seqs[-1]}")
        rows = files.to_table(columns=named, filter=pc.field("seq").isin(wanted)).sort_by("seq")
    except (OSError, DeltaError, pa.ArrowException) as unreadable:
        raise JournalBroken(table.table_uri, f"it can't be read: {unreadable}") from unreadable
    if rows["seq"].combine_chunks() != wanted:
        raise JournalBroken(table.table_uri, f"of the rows {seqs[0]} to {seqs[-1]} not each is there once")
    return rows


def applied_after(table: DeltaTable, after: Mapping[str, int]) -> dict[str, int]:
    """Of each entity the last item that was applied, if it came after the one that is named.

    :raises JournalBroken: a file can't be read
    """
    since = min(after.values())
    of_them = pc.field("entity_key").isin(pa.array(sorted(after), pa.string()))
    applied = (pc.field("decision") == Decision.APPLIED.value) & of_them & (pc.field("item_seq") > since)
    try:
        files = dataset_of(table, file_pruning_predicate=f"seq > {since}")
        rows = files.to_table(columns=["entity_key", "item_seq"], filter=applied)
    except (OSError, DeltaError, pa.ArrowException) as unreadable:
        raise JournalBroken(table.table_uri, f"it can't be read: {unreadable}") from unreadable
    found = rows.group_by("entity_key").aggregate([("item_seq", "max")]).to_pylist()
    last = {one["entity_key"]: int(one["item_seq_max"]) for one in found}
    return {entity: item for entity, item in last.items() if item > after[entity]}


def seqs_of_offsets(table: DeltaTable, offsets: Mapping[tuple[str, int], int]) -> list[int]:
    """The seq of the newest first row of each offset, by topic and partition; nothing of one that has no row.

    :raises JournalBroken: a file can't be read
    """
    if not offsets:
        return []
    first = pc.field("first") & pc.field("offset").isin(pa.array(sorted(set(offsets.values())), pa.int64()))
    try:
        rows = dataset_of(table).to_table(columns=["topic", "partition", "offset", "seq"], filter=first)
    except (OSError, DeltaError, pa.ArrowException) as unreadable:
        raise JournalBroken(table.table_uri, f"it can't be read: {unreadable}") from unreadable
    newest = rows.group_by(["topic", "partition", "offset"]).aggregate([("seq", "max")]).to_pylist()
    return sorted(one["seq_max"] for one in newest if offsets.get((one["topic"], one["partition"])) == one["offset"])


def offsets_of(table: DeltaTable, topic: str, history: int) -> pa.Table:
    """``partition, offset, seq`` of the first rows of one history of a topic that stand for one offset each.

    :raises JournalBroken: a file can't be read
    """
    there = {field.name for field in table.schema().fields}
    wanted = pc.field("first") & (pc.field("topic") == topic)
    if "history" in there:
        wanted &= pc.coalesce(pc.field("history"), pc.scalar(FIRST)) == history
    if "offset_until" in there:
        wanted &= pc.field("offset_until").is_null()
    try:
        return dataset_of(table).to_table(columns=["partition", "offset", "seq"], filter=wanted)
    except (OSError, DeltaError, pa.ArrowException) as unreadable:
        raise JournalBroken(table.table_uri, f"it can't be read: {unreadable}") from unreadable


def last_seq(table: DeltaTable) -> int:
    """The greatest seq in the table, from the files' statistics; 0 if it is empty."""
    actions = pa.table(table.get_add_actions(flatten=True))
    if actions.num_rows == 0:
        return 0
    if "max.seq" in actions.column_names and actions["max.seq"].null_count == 0:
        return int(pc.max(actions["max.seq"]).as_py())
    return int(pc.max(dataset_of(table).to_table(columns=["seq"])["seq"]).as_py())


def _window(table: DeltaTable, since: int, until: int, columns: list[str] | None) -> pa.Table:
    files = dataset_of(table, file_pruning_predicate=f"seq >= {since} AND seq < {until}")
    seq = pc.field("seq")
    return files.to_table(columns=columns, filter=(seq >= since) & (seq < until)).sort_by("seq")


def _check_whole(table: DeltaTable, rows: pa.Table, since: int, until: int) -> None:
    if rows["seq"].combine_chunks() != pa.array(range(since, until), pa.int64()):
        raise JournalBroken(table.table_uri, f"seq {since} to {until - 1} aren't there once each")
