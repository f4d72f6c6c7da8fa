"""Puts files in place of others: maintenance's commit, beside the table's running writer.

delta-spark can't be let near the log of a table that is being written: on a local disk it looks whether an entry is
there, and then renames its own onto the place. An entry that was put in between is gone, and its rows with it
(docs/decisions/0021). So Spark writes files, and this puts the entry, as the appender does: where none is yet.
"""

from __future__ import annotations

import contextlib
import json
import uuid
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa

from core.errors import PayhookError
from core.location import Location
from journal.append import COMMIT_S_MAX
from journal.demands import TableUnfit, demands_of
from journal.entries import last_checkpoint, place
from journal.files import since_boot_s
from journal.lake import open_table
from journal.statistics import file_statistics
from journal.storage import Storage
from journal.stores import open_storage

TRIES_MAX = 1_000
"""Commits of the writer in a row that a rewrite steps over; each try takes a millisecond or two."""

CARRIED = "payhook."
"""What commits say of a table's state begins so. A rewrite says again what the last one said: the log forgets entries
after an hour, and a night of nothing but maintenance must not make it forget the state."""

NOT_CARRIED = frozenset({"payhook.kind", "payhook.batch_seq"})
KIND = "rewrite"


class RewriteRefused(PayhookError):
    """The table changed under a rewrite. Nothing was committed: its files are as they were."""

    def __init__(self, path: str, problem: str) -> None:
        self.path = path
        self.problem = problem
        super().__init__(f"table {path}: {problem}. The rewrite was given up, nothing was changed; run it again.")


class RewriteUnknown(PayhookError):
    """Nobody knows whether the commit counts. Its files stay: if it doesn't, they are no part of the table."""

    def __init__(self, path: str, problem: str) -> None:
        self.path = path
        self.problem = problem
        super().__init__(f"table {path}: {problem}. Run it again: it begins with what the table then says.")


@dataclass(frozen=True, slots=True)
class DataFile:
    """One of a table's files: ``first`` and ``last`` are the ends of its range in the column that was asked for."""

    name: str
    size: int
    rows: int
    modified_ms: int
    first: int | None = None
    last: int | None = None


@dataclass(frozen=True, slots=True)
class Snapshot:
    """A table's files at a version. A file without statistics isn't among ``files``: it is left as it is."""

    path: Location
    version: int
    schema_json: str
    append_only: bool
    ordered_by: str | None
    indexed: tuple[str, ...]
    files: tuple[DataFile, ...]
    names: frozenset[str]

    @property
    def bytes(self) -> int:
        return sum(one.size for one in self.files)


def snapshot(path: Location, ordered_by: str | None = None) -> Snapshot:
    """
    :param ordered_by: a column of whole numbers whose range in each file is wanted
    :raises TableUnfit: the table has deletion vectors, partitions or columns that aren't plain
    :raises DeltaError, OSError: no table can be read there
    """
    table = open_table(str(path))
    demands = demands_of(str(path), table)
    if "deletionVectors" in (table.protocol().writer_features or ()):
        raise TableUnfit(str(path), "it has deletion vectors")
    actions = pa.table(table.get_add_actions(flatten=True))
    return Snapshot(
        path=path,
        version=table.version(),
        schema_json=table.schema().to_json(),
        append_only=table.metadata().configuration.get("delta.appendOnly") == "true",
        ordered_by=ordered_by,
        indexed=demands.indexed,
        files=tuple(_files(actions, ordered_by)) if actions.num_rows else (),
        names=frozenset(actions["path"].to_pylist()),
    )


def _files(actions: pa.Table, ordered_by: str | None) -> Iterator[DataFile]:
    modified = actions["modification_time"].cast(pa.timestamp("ms", tz="UTC")).cast(pa.int64())
    about = (actions["path"], actions["size_bytes"], actions["num_records"], modified)
    ends = () if ordered_by is None else (actions[f"min.{ordered_by}"], actions[f"max.{ordered_by}"])
    for values in zip(*(column.to_pylist() for column in (*about, *ends)), strict=True):
        if None not in values:
            yield DataFile(*values)


class Rewriter:
    """Replaces files of one table, as of a snapshot; may be used over and over. Not thread-safe."""

    def __init__(self, before: Snapshot, elapsed_s: Callable[[], float] = since_boot_s) -> None:
        self._path = str(before.path)
        self._storage = open_storage(before.path)
        self._version = before.version
        self._append_only = before.append_only
        self._ordered_by = before.ordered_by
        self._indexed = before.indexed
        self._active = set(before.names)
        self._elapsed_s = elapsed_s
        self._carried = self._last_told(before.version)

    def replace(
        self, old: Sequence[DataFile], new: Sequence[Path], now_ms: int, *, drops_rows: bool = False
    ) -> list[DataFile]:
        """Commits that ``new`` files stand for ``old`` ones; returns what became of them.

        ``new`` are files of this machine (of a table on a disk: in its own folder); they are gone afterwards.
        ``drops_rows``: not all rows of the old files are in the new ones.

        :raises RewriteRefused: an old file is gone, rows may not be dropped, the table's metadata changed, its log
            can't be followed, or too much time has passed before the commit
        :raises RewriteUnknown: too much time has passed in the commit
        :raises OSError: it can't be written; the entry itself may have been
        """
        if drops_rows and self._append_only:
            raise RewriteRefused(self._path, "it is append-only: no row may be dropped")
        if strangers := [one.name for one in old if one.name not in self._active]:
            raise RewriteRefused(self._path, f"{len(strangers)} of the files are no part of it any more")
        at_ms = max((one.modified_ms for one in old), default=now_ms)
        told = [file_statistics(one, self._indexed) for one in new]
        files = [self._data_file(one, stats, at_ms) for one, stats in zip(new, told, strict=True)]
        adds = [_add(one, stats, drops_rows) for one, stats in zip(files, told, strict=True)]
        removes = [_remove(one, now_ms, drops_rows) for one in old]
        began_s, names = self._elapsed_s(), {one.name for one in old}
        self._adopt(new, files)
        try:
            self._put([*removes, *adds], names, now_ms, "DELETE" if drops_rows else "OPTIMIZE", began_s)
        except RewriteRefused:
            # After anything else the entry may be there: it must never name files that are gone.
            self._delete(files)
            raise
        self._active.difference_update(one.name for one in old)
        self._active.update(one.name for one in files)
        return files

    def _data_file(self, staged: Path, stats: Mapping[str, Any], at_ms: int) -> DataFile:
        """A staged file under the name that it gets among the table's."""
        ends = [stats[which].get(self._ordered_by) for which in ("minValues", "maxValues")]
        name = f"part-00000-{uuid.uuid4()}-c000.zstd.parquet"
        return DataFile(name, staged.stat().st_size, stats["numRecords"], at_ms, *ends)

    def _adopt(self, staged: Sequence[Path], files: Sequence[DataFile]) -> None:
        try:
            for one, file in zip(staged, files, strict=True):
                self._storage.adopt(one, file.name)
        except BaseException:
            self._delete(files)
            raise

    def _delete(self, files: Sequence[DataFile]) -> None:
        for one in files:
            with contextlib.suppress(OSError):
                self._storage.delete(one.name)

    def _put(
        self,
        actions: Sequence[Mapping[str, Any]],
        old: Collection[str],
        now_ms: int,
        operation: str,
        began_s: float,
    ) -> None:
        for _ in range(TRIES_MAX):
            passed, number = self._last_checkpoint(), self._version + 1
            if self._is_late(began_s):
                raise RewriteRefused(self._path, f"it took too long: more than {COMMIT_S_MAX:.0f} s")
            if number > passed and self._put_entry(number, self._entry(actions, now_ms, operation)):
                if self._is_late(began_s):
                    raise RewriteUnknown(self._path, f"commit {number} took too long to be sure of its place")
                self._version = number
                return
            self._pass(number, old)
        raise RewriteRefused(self._path, f"others committed {TRIES_MAX} times before this one could")

    def _is_late(self, began_s: float) -> bool:
        return self._elapsed_s() - began_s > COMMIT_S_MAX

    def _put_entry(self, number: int, entry: bytes) -> bool:
        """Whether it is there now: put by this very call, though a file system may say that one was there before."""
        try:
            self._storage.put_new(place(number), entry)
        except FileExistsError:
            with contextlib.suppress(FileNotFoundError):
                return self._storage.read(place(number)) == entry
            return False
        return True

    def _pass(self, number: int, old: Collection[str]) -> None:
        """Steps over somebody else's commit, if it leaves the old files and the table as they are."""
        try:
            actions = _actions(self._storage, number)
        except (OSError, ValueError) as gone:
            raise RewriteRefused(self._path, f"commit {number} can't be read ({gone})") from gone
        for action in actions:
            if "metaData" in action or "protocol" in action:
                raise RewriteRefused(self._path, f"commit {number} changed its metadata or protocol")
            removed = action.get("remove", {}).get("path")
            if removed in old:
                raise RewriteRefused(self._path, f"commit {number} removed a file that this one replaces")
            self._active.discard(removed)
            self._carried = _told(action.get("commitInfo", {})) or self._carried
        self._version = number

    def _entry(self, actions: Sequence[Mapping[str, Any]], now_ms: int, operation: str) -> bytes:
        info = {
            "timestamp": now_ms,
            "operation": operation,
            "operationParameters": {"predicate": "[]"},
            "isBlindAppend": False,
            "engineInfo": "payhook",
            "txnId": str(uuid.uuid4()),
            **self._carried,
            "payhook.kind": KIND,
        }
        lines = [{"commitInfo": info}, *actions]
        return "".join(f"{json.dumps(line, ensure_ascii=False)}\n" for line in lines).encode()

    def _last_told(self, version: int) -> dict[str, str]:
        """What the last commit that says anything says, as far as the log goes back."""
        for number in range(version, -1, -1):
            try:
                infos = [action["commitInfo"] for action in _actions(self._storage, number) if "commitInfo" in action]
            except FileNotFoundError:
                break
            except ValueError as torn:
                raise RewriteRefused(self._path, f"commit {number} can't be read ({torn})") from torn
            for told in map(_told, infos):
                if told:
                    return told
        return {}

    def _last_checkpoint(self) -> int:
        try:
            return last_checkpoint(self._storage)
        except ValueError as torn:
            raise RewriteRefused(self._path, str(torn)) from torn


def _add(file: DataFile, stats: Mapping[str, Any], drops_rows: bool) -> dict[str, Any]:
    """Its time is when the youngest of its rows came: readers of bodies begin with the newest files."""
    return {
        "add": {
            "path": file.name,
            "partitionValues": {},
            "size": file.size,
            "modificationTime": file.modified_ms,
            "dataChange": drops_rows,
            "stats": json.dumps(stats, ensure_ascii=False),
        }
    }


def _remove(file: DataFile, now_ms: int, drops_rows: bool) -> dict[str, Any]:
    return {
        "remove": {
            "path": file.name,
            "deletionTimestamp": now_ms,
            "dataChange": drops_rows,
            "extendedFileMetadata": True,
            "partitionValues": {},
            "size": file.size,
        }
    }


def _told(info: Mapping[str, Any]) -> dict[str, str]:
    return {name: text for name, text in info.items() if name.startswith(CARRIED) and name not in NOT_CARRIED}


def _actions(storage: Storage, number: int) -> list[dict[str, Any]]:
    return [json.loads(line) for line in storage.read(place(number)).splitlines() if line]
