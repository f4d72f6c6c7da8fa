"""Raw bodies by their hash, apart from the journal so that they can be dropped while the proof stays."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import islice

import pyarrow as pa
import pyarrow.compute as pc
from deltalake import DeltaTable
from deltalake.exceptions import DeltaError

from core.arrow import datasets as ds
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


class BodyStore:
    """A Delta table of bodies. A body written twice or never referred to is harmless.

    ``may_create``: whether it is made where there is none; not beside a journal whose events have bodies.

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
        """The bodies that are there, by hash. A search: for recovery and single look-ups, not for batches.

        :raises JournalBroken: a file can't be read
        """
        read = self._search(set(hashes), BODIES_SCHEMA.names)
        return dict(zip(read["body_sha256"].to_pylist(), read["body"].to_pylist(), strict=True))

    def held(self, hashes: Iterable[str]) -> set[str]:
        """Those whose bodies are there; no body is read for it.

        :raises JournalBroken: a file can't be read
        """
        return set(self._search(set(hashes), ["body_sha256"])["body_sha256"].to_pylist())

    def _search(self, hashes: set[str], columns: Sequence[str]) -> pa.Table:
        """A redaction deletes files that may be being read: the table is then read again as it is afterwards."""
        try:
            return self._rows(hashes, columns)
        except JournalBroken:
            return self._rows(hashes, columns)

    def _rows(self, wanted: set[str], columns: Sequence[str]) -> pa.Table:
        found = []
        newest = _newest_first(open_table(self._path)) if wanted else iter(())
        while wanted and (some := list(islice(newest, FILES_PER_READ))):
            first = some[0]
            dataset = ds.FileSystemDataset(some, BODIES_SCHEMA, first.format, first.filesystem)
            is_wanted = pc.field("body_sha256").isin(pa.array(sorted(wanted), pa.string()))
            try:
                read = dataset.to_table(columns=columns, filter=is_wanted)
            except (OSError, pa.ArrowException) as unreadable:
                raise JournalBroken(self._path, f"bodies can't be read: {unreadable}") from unreadable
            found.append(read)
            wanted = wanted - set(read["body_sha256"].to_pylist())
        return pa.concat_tables(found) if found else BODIES_SCHEMA.empty_table().select(columns)


def _newest_first(table: DeltaTable) -> Iterator[ds.ParquetFileFragment]:
    """The table's files."""
    actions = pa.table(table.get_add_actions(flatten=True)).sort_by([("modification_time", "descending")])
    fragments = {fragment.path: fragment for fragment in dataset_of(table).get_fragments()}
    return (fragments[path] for path in actions["path"].to_pylist())
