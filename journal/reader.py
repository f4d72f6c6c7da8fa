"""A journal as of one version, in seq order with bounded memory, however its files are laid out.

Files that were compacted (OPTIMIZE) hold any mixture of old rows, so order comes from reading one window of seq after
the other: seq has no gaps, so a window's width is its number of rows.
"""

from __future__ import annotations

import contextlib
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, ClassVar

import pyarrow as pa
import pyarrow.compute as pc
from deltalake import DeltaTable
from deltalake.exceptions import DeltaError
from deltalake.table import FilePruningPredicateType
from pyarrow.fs import FileSystem, SubTreeFileSystem

from core.arrow import datasets as ds
from core.decision import Decision
from core.location import Location, is_url
from journal.errors import JournalBroken, JournalOutdated, problem_of
from journal.histories import FIRST, History, ReflectedPosition, may_follow
from journal.lake import TableUnreadable, has_table, missing_columns, open_table
from journal.schema import JOURNAL_SCHEMA, ChainHead, JournalRow, from_arrow
from journal.state import JournalState, Marks, commit_info, state_of_commit
from journal.storage import open_storage

ROWS_PER_WINDOW = 50_000
"""About 50 MB of rows in Arrow."""

ROWS_PER_CHUNK = 10_000
"""About 20 MB of rows as Python objects."""

ROWS_PER_WIDE_WINDOW = 250_000
"""About 60 MB of rows with the few columns that the index wants."""

ROWS_PER_TABLE = 50_000

_UNREADABLE = (OSError, DeltaError, pa.ArrowException)


def check_complete(path: str, table: DeltaTable) -> None:
    if missing := missing_columns(table, JOURNAL_SCHEMA):
        raise JournalOutdated(path, f"the columns {', '.join(missing)}")


def lineage_of(path: str) -> str:
    """Reads the lineage of the journal as it is now; empty if none was begun.

    :raises JournalBroken: the log or the rows contradict themselves
    """
    return JournalReader(path).state().lineage if has_table(path) else ""


def rows_where(path: Location | str, wanted: pc.Expression, columns: Sequence[str] | None = None) -> list[JournalRow]:
    """Reads the rows of the journal as it is now that satisfy a condition, in seq order; none if there is no journal.

    :raises TableUnreadable, OSError: its log or a file can't be read
    """
    if not has_table(str(path)):
        return []
    return from_arrow(read_rows(open_table(str(path)), wanted, columns).sort_by("seq"))


class JournalReader:
    """A journal as of ``version``, or of the latest one.

    Its methods raise `JournalBroken` where a file can't be read, or where a row is missing or there twice.
    """

    def __init__(self, path: str, version: int | None = None) -> None:
        self.path = path
        self._table = open_table(path, version)
        check_complete(path, self._table)

    @property
    def version(self) -> int:
        return self._table.version()

    @property
    def table_id(self) -> str:
        """The table's own id: shows whether another journal was made in its place."""
        return str(self._table.metadata().id)

    @property
    def lineage(self) -> str:
        """Returns the journal's id, which a restore renews; empty before its first epoch."""
        return self.state().lineage

    @property
    def last_seq(self) -> int:
        return last_seq(self._table)

    def state(self) -> JournalState:
        """Reads epoch, marks and chain at this version.

        For those who only read: a writer gets its state from `JournalWriter.begin_epoch`, and from nowhere else.
        """
        return read_state(self.path, self.version)

    def rows_after(self, seq: int, columns: Sequence[str] | None = None) -> Iterator[list[JournalRow]]:
        """Yields rows with a greater seq, in seq order, in chunks.

        ``columns`` must name those without a default: all others may be left out.
        """
        for window in scan_rows(self._table, seq, columns):
            for at in range(0, window.num_rows, ROWS_PER_CHUNK):
                yield from_arrow(window.slice(at, ROWS_PER_CHUNK))

    def tables_after(self, seq: int, columns: Sequence[str] | None = None) -> Iterator[pa.Table]:
        """Yields tables as `rows_after` yields rows: for reading every row, or a few short columns, of a long
        journal.
        """
        width = ROWS_PER_WINDOW if columns is None else ROWS_PER_WIDE_WINDOW
        for window in scan_rows(self._table, seq, columns, width):
            for at in range(0, window.num_rows, ROWS_PER_TABLE):
                yield window.slice(at, ROWS_PER_TABLE)

    def rows_of(self, seqs: Sequence[int]) -> list[JournalRow]:
        """Reads whole rows by their seq, in seq order; ``seqs`` are ascending and near to one another."""
        return from_arrow(self._read_picked(seqs)) if seqs else []

    def tables_of(self, seqs: Sequence[int], columns: Sequence[str]) -> pa.Table:
        if not seqs:
            return pa.table({name: pa.array([], JOURNAL_SCHEMA.field(name).type) for name in columns})
        return self._read_picked(seqs, columns)

    def seqs_of_offsets(self, offsets: Mapping[tuple[str, int], int]) -> list[int]:
        """Finds the seqs of the first rows that decided an offset of each topic's partition, ascending.

        The newest row of each counts; an offset without a row has none. It reads a few columns of the whole journal.
        """
        if not offsets:
            return []
        first = pc.field("first") & pc.field("offset").isin(pa.array(sorted(set(offsets.values())), pa.int64()))
        rows = self._search(["topic", "partition", "offset", "seq"], first)
        newest = rows.group_by(["topic", "partition", "offset"]).aggregate([("seq", "max")]).to_pylist()
        return sorted(
            row["seq_max"] for row in newest if offsets.get((row["topic"], row["partition"])) == row["offset"]
        )

    def offsets_of(self, topic: str, history: int) -> pa.Table:
        """Reads ``partition, offset, seq`` of the first rows of one history of a topic that stand for one offset
        each."""
        wanted = pc.field("first") & (pc.field("topic") == topic) & pc.field("offset_until").is_null()
        wanted &= pc.coalesce(pc.field("history"), pc.scalar(FIRST)) == history
        return self._search(["partition", "offset", "seq"], wanted)

    def applied_upto(self, after: Mapping[str, int]) -> dict[str, int]:
        """Finds for each entity the last applied item that came after the named one; leaves out entities without one.

        It reads a few columns of all rows from the first of those items on.
        """
        if not after:
            return {}
        since = min(after.values())
        of_them = pc.field("entity_key").isin(pa.array(sorted(after), pa.string()))
        applied = (pc.field("decision") == Decision.APPLIED.value) & of_them & (pc.field("item_seq") > since)
        rows = self._search(["entity_key", "item_seq"], applied, f"seq > {since}")
        groups = rows.group_by("entity_key").aggregate([("item_seq", "max")]).to_pylist()
        last = {group["entity_key"]: int(group["item_seq_max"]) for group in groups}
        return {entity: item for entity, item in last.items() if item > after[entity]}

    def row_hash_at(self, seq: int) -> str | None:
        window = next(scan_rows(self._table, seq - 1, ["row_hash"]), None)
        return None if window is None else str(window["row_hash"][0].as_py())

    def _read_picked(self, seqs: Sequence[int], columns: Sequence[str] | None = None) -> pa.Table:
        wanted = pa.array(seqs, pa.int64())
        named = None if columns is None else list(dict.fromkeys(["seq", *columns]))
        within = f"seq >= {seqs[0]} AND seq <= {seqs[-1]}"
        rows = self._search(named, pc.field("seq").isin(wanted), within).sort_by("seq")
        if rows["seq"].combine_chunks() != wanted:
            raise JournalBroken(self.path, f"of the rows {seqs[0]} to {seqs[-1]} not each is there once")
        return rows

    def _search(self, columns: list[str] | None, wanted: pc.Expression, within: str | None = None) -> pa.Table:
        with _translate_errors(self._table.table_uri):
            return dataset_of(self._table, within).to_table(columns=columns, filter=wanted)


def dataset_of(table: DeltaTable, file_pruning_predicate: FilePruningPredicateType | None = None) -> ds.Dataset:
    """Opens the rows of any table at its open version, leaving out the files that the predicate rules out.

    delta-rs's own dataset opens files through Python, and Arrow's threads keep reading while a process ends. A thread
    that enters the interpreter then kills the process by a signal. So it is used for object stores alone, which have no
    other way in.
    """
    disk = None
    if not is_url(table.table_uri):
        root, folder = FileSystem.from_uri(table.table_uri)
        disk = SubTreeFileSystem(folder, root)
    return table.to_pyarrow_dataset(filesystem=disk, file_pruning_predicate=file_pruning_predicate)


def read_rows(
    table: DeltaTable,
    wanted: pc.Expression | None = None,
    columns: Sequence[str] | None = None,
    files: FilePruningPredicateType | None = None,
) -> pa.Table:
    """Reads the rows of any table that satisfy a condition, whole ones unless ``columns`` are named.

    :param files: as `dataset_of` has it
    :raises TableUnreadable: a file is missing or damaged
    """
    try:
        return dataset_of(table, files).to_table(columns=None if columns is None else list(columns), filter=wanted)
    except _UNREADABLE as unreadable:
        raise TableUnreadable(table.table_uri, problem_of(unreadable)) from unreadable


def scan_rows(
    table: DeltaTable, after: int, columns: Sequence[str] | None = None, rows_per_window: int = ROWS_PER_WINDOW
) -> Iterator[pa.Table]:
    """Yields rows with a greater seq than ``after``, in seq order, a window a table.

    A large file is decoded once for every window that it reaches into: few columns bear wider windows.

    :raises JournalBroken: a seq is missing or there twice, or a file can't be read
    """
    wanted = None if columns is None else list(dict.fromkeys(["seq", *columns]))
    with _translate_errors(table.table_uri):
        last = last_seq(table)
        for since in range(after + 1, last + 1, rows_per_window):
            until = min(since + rows_per_window, last + 1)
            rows = _read_window(table, since, until, wanted)
            if rows["seq"].combine_chunks() != pa.array(range(since, until), pa.int64()):
                raise JournalBroken(table.table_uri, f"seq {since} to {until - 1} aren't there once each")
            yield rows


def last_seq(table: DeltaTable) -> int:
    """Reads the greatest seq in the table, from the files' statistics; 0 if it is empty."""
    actions = pa.table(table.get_add_actions(flatten=True))
    if actions.num_rows == 0:
        return 0
    if "max.seq" in actions.column_names and actions["max.seq"].null_count == 0:
        return int(pc.max(actions["max.seq"]).as_py())
    return int(pc.max(read_rows(table, columns=["seq"])["seq"]).as_py())


def _read_window(table: DeltaTable, since: int, until: int, columns: list[str] | None) -> pa.Table:
    files = dataset_of(table, file_pruning_predicate=f"seq >= {since} AND seq < {until}")
    seq = pc.field("seq")
    return files.to_table(columns=columns, filter=(seq >= since) & (seq < until)).sort_by("seq")


@contextlib.contextmanager
def _translate_errors(table: str) -> Iterator[None]:
    try:
        yield
    except _UNREADABLE as unreadable:
        raise JournalBroken(table, f"it can't be read: {problem_of(unreadable)}") from unreadable


def read_state(path: str, version: int) -> JournalState:
    """Reads the state at ``version``.

    The log's entries are read as files. In deltalake 1.6.6 ``history()`` of a table at an older version hands out later
    commits too, under wrong numbers. Maintenance commits say nothing of a journal's state and are passed over.

    :raises JournalBroken: an entry or the rows can't be read
    """
    storage = open_storage(path)
    for number in range(version, -1, -1):
        commit = commit_info(path, storage, number)
        if commit is None:
            break
        if "payhook.marks" in commit:
            return state_of_commit(commit, version)
    return _from_rows(open_table(path, version), version)


def _from_rows(table: DeltaTable, version: int) -> JournalState:
    """Makes the state from the rows alone, when the log's commits are gone: dead letters are published again.

    Lineage, generation and the topics' ids are not in the rows.
    """
    ranges = _Ranges()
    chain = ChainHead()
    seq, epoch, row_hash = 0, 0, ""
    columns = ["batch_seq", "epoch", "first", "topic", "partition", "offset", "row_hash", "history", "offset_until"]
    for rows in scan_rows(table, 0, columns):
        ranges.take_rows(rows)
        for batch_seq, digest in zip(rows["batch_seq"].to_pylist(), rows["row_hash"].to_pylist(), strict=True):
            chain.add(batch_seq, digest)
        seq, epoch = rows["seq"][-1].as_py(), max(epoch, pc.max(rows["epoch"]).as_py())
        row_hash = rows["row_hash"][-1].as_py()
    return JournalState(
        epoch=epoch,
        version=version,
        next_seq=seq + 1,
        marks=ranges.marks,
        start=ranges.start,
        published_upto=0,
        chain=chain.head,
        row_hash=row_hash,
        histories={topic: History(number) for topic, number in ranges.numbers.items() if number != FIRST},
        lasts=ranges.lasts,
    )


class _Ranges:
    def __init__(self) -> None:
        self.start: Marks = {}
        self.marks: Marks = {}
        self.lasts: Marks = {}
        self.numbers: dict[str, int] = {}

    def take_rows(self, rows: pa.Table) -> None:
        first = rows.filter(rows["first"])
        first = first.append_column("life", pc.fill_null(pc.cast(first["history"], pa.int64()), FIRST))
        after = pc.coalesce(first["offset_until"], pc.add(first["offset"], 1))
        ranges = first.append_column("after", after).group_by(["life", "topic", "partition"])
        groups = ranges.aggregate([("offset", "min"), ("after", "max"), ("seq", "max")])
        for group in groups.sort_by("life").to_pylist():
            self._widen_range(group)

    def _widen_range(self, group: dict[str, Any]) -> None:
        topic, number, life = group["topic"], group["partition"], group["life"]
        if life > self.numbers.get(topic, 0):
            self.numbers[topic] = life
            for known in (self.start, self.marks, self.lasts):
                known.pop(topic, None)
        since, until = group["offset_min"], group["after_max"]
        start = self.start.setdefault(topic, {})
        start[number] = min(start.get(number, since), since)
        marks = self.marks.setdefault(topic, {})
        if until >= marks.get(number, 0):
            self.lasts.setdefault(topic, {})[number] = group["seq_max"]
        marks[number] = max(marks.get(number, 0), until)


class JournalFollower(ABC):
    """Something that reflects a journal's rows in their order, up to its `position`.

    It continues from there while the journal holds that row unchanged. It begins again where another journal is in the
    place: a new or restored one, or an older copy under another lineage. It raises `JournalOlder` where the very
    journal lacks reflected rows; without a lineage in its position it begins again then, too.

    Each window's rows and the position move together, so a follower whose process ends loses and repeats nothing.
    """

    what: ClassVar[str]
    """Its name in `JournalOlder`."""

    @property
    @abstractmethod
    def position(self) -> ReflectedPosition: ...

    @abstractmethod
    def begin_again(self, journal: JournalReader) -> None: ...

    @abstractmethod
    def take_windows(self, journal: JournalReader) -> Iterator[None]: ...

    def is_of(self, journal: JournalReader) -> bool:
        """Returns whether it continues from its position in this journal.

        :raises JournalOlder: it is of this very journal, and knows rows that the journal doesn't have now
        """
        return may_follow(self.what, self.position, journal)

    def follow_journal(self, journal: JournalReader, is_over: Callable[[], bool] = lambda: False) -> bool:
        """Reflects the journal up to the reader's version; False where ``is_over`` said so before the end.

        :raises JournalOlder: as `is_of`
        :raises JournalBroken: a row is missing, or a file can't be read
        """
        if not self.is_of(journal):
            self.begin_again(journal)
        windows = self.take_windows(journal)
        return all(not is_over() or self.position.seq >= journal.last_seq for _ in windows)
