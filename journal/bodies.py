"""Raw bodies by their hash, apart from the journal so that they can be dropped while the proof stays."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, field
from itertools import islice
from typing import TypeAlias

import pyarrow as pa
import pyarrow.compute as pc
from deltalake import DeltaTable
from deltalake.exceptions import DeltaError

from core.arrow import datasets as ds
from core.location import is_url
from journal.append import Appender, TableUnfit
from journal.errors import JournalBroken, StorageDown, problem_of
from journal.lake import ensure_table, open_table
from journal.log import CommitFailed
from journal.reader import dataset_of

BODIES_SCHEMA = pa.schema(
    [pa.field("body_sha256", pa.string(), nullable=False), pa.field("body", pa.binary(), nullable=False)]
)
CONFIGURATION = {
    "delta.checkpointInterval": "100",
    "delta.logRetentionDuration": "interval 1 hours",
    "delta.deletedFileRetentionDuration": "interval 24 hours",
}
FILES_PER_READ = 64
"""Files looked through at a time, the newest first: what recovery asks for was mostly written last."""
LOST_SHOWN_MAX = 3

_UNREADABLE = (OSError, pa.ArrowException)
Fragment: TypeAlias = ds.ParquetFileFragment


@dataclass(frozen=True, slots=True)
class FoundBodies:
    """The bodies that a search found. ``lost``: files that are gone or damaged; they may hold missing bodies."""

    hashes: Set[str] = frozenset()
    bodies: Mapping[str, bytes] = field(default_factory=dict)
    lost: tuple[str, ...] = ()

    def lost_names(self) -> str:
        more = len(self.lost) - LOST_SHOWN_MAX
        return ", ".join(self.lost[:LOST_SHOWN_MAX]) + (f" and {more:,} more" if more > 0 else "")


class BodyStore:
    """A Delta table of bodies. A body written twice or never referred to does no harm.

    ``may_create``: whether the table may be made; False beside a journal whose events have bodies.

    :raises StorageDown: the table can't be reached or made now
    """

    def __init__(self, path: str, *, may_create: bool = True) -> None:
        self._path = path
        try:
            if may_create:
                ensure_table(path, BODIES_SCHEMA, "bodies", CONFIGURATION)
            self._appender = Appender.open(path)
        except (DeltaError, OSError, TableUnfit) as failed:
            raise StorageDown("the bodies", path, problem_of(failed)) from failed

    def append(self, bodies: Sequence[tuple[str, bytes]]) -> None:
        """Writes bodies, committed on return; an empty list writes nothing.

        :raises StorageDown: they can't be written now; some or all of them may be
        """
        if not bodies:
            return
        hashes, raw = zip(*bodies, strict=True)
        table = pa.table([pa.array(hashes, pa.string()), pa.array(raw, pa.binary())], schema=BODIES_SCHEMA)
        try:
            self._appender.append(table)
        except (CommitFailed, OSError) as failed:
            raise StorageDown("the bodies", self._path, problem_of(failed)) from failed

    def fetch(self, hashes: Iterable[str]) -> dict[str, bytes]:
        """Reads the bodies that are there, by hash. This searches: use it for recovery and single look-ups, not for
        batches.

        :raises JournalBroken: the disk or the store doesn't answer
        """
        return dict(self.find_bodies(hashes).bodies)

    def find_kept(self, hashes: Iterable[str]) -> Set[str]:
        """Finds the hashes whose bodies are there, without reading a body.

        :raises JournalBroken: the disk or the store doesn't answer
        """
        return self.find_bodies(hashes, only_hashes=True).hashes

    def find_bodies(self, hashes: Iterable[str], *, only_hashes: bool = False) -> FoundBodies:
        """Searches as `fetch`; also returns the files that are gone or damaged, unless it found every body before them.

        Where a redaction deletes files meanwhile, the new state of the table is read.

        :raises JournalBroken: the disk or the store doesn't answer
        """
        wanted = set(hashes)
        bodies = self._search(wanted, only_hashes)
        return self._search(wanted, only_hashes) if bodies.lost else bodies

    def lost_files(self) -> list[str]:
        """Lists the files of the table that are gone or damaged, each with why; opens every one.

        :raises JournalBroken: the disk or the store doesn't answer
        """
        lost: list[str] = []
        for fragment in _newest_first(open_table(self._path)):
            self._read_parts([fragment], ["body_sha256"], None, lost)
        return lost

    def _search(self, wanted: Set[str], only_hashes: bool) -> FoundBodies:
        columns = ["body_sha256"] if only_hashes else BODIES_SCHEMA.names
        read: list[pa.Table] = [BODIES_SCHEMA.empty_table().select(columns)]
        lost: list[str] = []
        newest = _newest_first(open_table(self._path)) if wanted else iter(())
        left = wanted
        while left and (some := list(islice(newest, FILES_PER_READ))):
            parts = self._read_parts(some, columns, _is_in(left), lost)
            read += parts
            left = left - {sha256 for part in parts for sha256 in part["body_sha256"].to_pylist()}
        rows = pa.concat_tables(read)
        hashes = rows["body_sha256"].to_pylist()
        bodies = {} if only_hashes else dict(zip(hashes, rows["body"].to_pylist(), strict=True))
        return FoundBodies(set(hashes), bodies, tuple(lost) if left else ())

    def _read_parts(
        self, some: Sequence[Fragment], columns: Sequence[str], wanted: pc.Expression | None, lost: list[str]
    ) -> list[pa.Table]:
        try:
            return [_read_fragments(some, columns, wanted)]
        except _UNREADABLE as unreadable:
            if len(some) == 1:
                lost.append(self._explain_lost(some[0], unreadable))
                return []
        return [part for fragment in some for part in self._read_parts([fragment], columns, wanted, lost)]

    def _explain_lost(self, fragment: Fragment, unreadable: Exception) -> str:
        name = fragment.path.rpartition("/")[2]
        if isinstance(unreadable, FileNotFoundError):
            return f"{name} (it is gone)"
        if isinstance(unreadable, OSError) and (unreadable.errno is not None or is_url(self._path)):
            raise JournalBroken(self._path, f"bodies can't be read: {problem_of(unreadable)}") from unreadable
        return f"{name} (it is damaged)"


def _is_in(hashes: Set[str]) -> pc.Expression:
    return pc.field("body_sha256").isin(pa.array(sorted(hashes), pa.string()))


def _read_fragments(some: Sequence[Fragment], columns: Sequence[str], wanted: pc.Expression | None) -> pa.Table:
    dataset = ds.FileSystemDataset(list(some), BODIES_SCHEMA, some[0].format, some[0].filesystem)
    return dataset.to_table(columns=list(columns), filter=wanted)


def _newest_first(table: DeltaTable) -> Iterator[Fragment]:
    actions = pa.table(table.get_add_actions(flatten=True)).sort_by([("modification_time", "descending")])
    fragments = {fragment.path: fragment for fragment in dataset_of(table).get_fragments()}
    return (fragments[path] for path in actions["path"].to_pylist())
