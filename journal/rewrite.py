"""Puts files in place of others beside the table's running writer: maintenance's commits, and a rebuild's.

delta-spark can't be let near the log of a table that is being written: on a local disk it looks whether an entry is
there, and then renames its own onto the place. An entry that was put in between is gone, and its rows with it
(docs/decisions/0021). So Spark writes files, and this commits them (`journal.log`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa

from core.location import Location
from journal.append import TableUnfit, compute_file_statistics, demands_of
from journal.lake import open_table
from journal.log import (
    Action,
    AppTransaction,
    NotCommitted,
    Overtaken,
    TableLog,
    actions_of,
    entry_name,
    entry_of,
    make_add_action,
    make_remove_action,
    make_txn_action,
    new_file_name,
    since_boot_s,
)
from journal.storage import open_storage

CARRIED = "payhook."
"""The prefix of a table's state in commits. A rewrite repeats the last one's state: the log removes entries after an
hour, and a night of nothing but maintenance must not lose it."""

NOT_CARRIED = frozenset({"payhook.kind", "payhook.batch_seq"})
KIND = "rewrite"


@dataclass(frozen=True, slots=True)
class DataFile:
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
        return sum(file.size for file in self.files)


def take_snapshot(path: Location, ordered_by: str | None = None) -> Snapshot:
    """
    :param ordered_by: a column of whole numbers whose range in each file is returned
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
        files=tuple(_list_files(actions, ordered_by)) if actions.num_rows else (),
        names=frozenset(actions["path"].to_pylist()),
    )


def _list_files(actions: pa.Table, ordered_by: str | None) -> Iterator[DataFile]:
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
        self._log = TableLog(self._path, open_storage(before.path), before.version, elapsed_s)
        self._append_only = before.append_only
        self._ordered_by = before.ordered_by
        self._indexed = before.indexed
        self._active = set(before.names)
        self._carried = self._last_state(before.version)

    def replace_files(
        self,
        old: Sequence[DataFile],
        new: Sequence[Path],
        now_ms: int,
        *,
        drops_rows: bool = False,
        marks: Sequence[AppTransaction] = (),
    ) -> list[DataFile]:
        """Commits that ``new`` files stand for ``old`` ones; returns what became of them.

        ``new`` are files of this machine (of a table on a disk: in its own folder); they are gone afterwards.
        ``drops_rows``: not all rows of the old files are in the new ones. ``marks`` are moved with it.

        :raises Overtaken: an old file is gone, rows may not be dropped, or the table's metadata changed
        :raises NotCommitted, OutcomeUnknown: see there; it may be run again
        :raises OSError: it can't be written; the entry itself may have been
        """
        if drops_rows and self._append_only:
            raise Overtaken(self._path, "it is append-only: no row may be dropped")
        if gone := [file.name for file in old if file.name not in self._active]:
            raise Overtaken(self._path, f"{len(gone)} of the files were removed from it")
        at_ms = max((file.modified_ms for file in old), default=now_ms)
        stats = [compute_file_statistics(file, self._indexed) for file in new]
        files = [self._data_file(*staged, at_ms) for staged in zip(new, stats, strict=True)]
        names = frozenset(file.name for file in old)
        actions = [make_txn_action(mark) for mark in marks]
        actions += [make_remove_action(file.name, file.size, now_ms, data_change=drops_rows) for file in old]
        for file, its_stats in zip(files, stats, strict=True):
            actions.append(make_add_action(file.name, file.size, its_stats, file.modified_ms, data_change=drops_rows))
        operation, began_s = "DELETE" if drops_rows else "OPTIMIZE", self._log.elapsed_s()
        self._log.adopt_files(new, [file.name for file in files])

        def entry() -> bytes:
            about = {**self._carried, "payhook.kind": KIND}
            return entry_of(operation, {"predicate": "[]"}, about, actions, now_ms)

        def conflict(action: Action) -> str | None:
            removed = action.get("remove", {}).get("path")
            if removed in names:
                return "removed a file that this one replaces"
            self._active.discard(removed)
            self._carried = _read_state(action.get("commitInfo", {})) or self._carried
            return None

        self._log.commit(entry, conflict, [file.name for file in files], began_s)
        self._active.difference_update(names)
        self._active.update(file.name for file in files)
        return files

    def _data_file(self, staged: Path, stats: Mapping[str, Any], at_ms: int) -> DataFile:
        """Makes the file as old as the youngest of its rows: readers of bodies begin with the newest files."""
        ends = [stats[which].get(self._ordered_by) for which in ("minValues", "maxValues")]
        return DataFile(new_file_name(), staged.stat().st_size, stats["numRecords"], at_ms, *ends)

    def _last_state(self, version: int) -> dict[str, str]:
        for number in range(version, -1, -1):
            try:
                actions = actions_of(self._log.storage.read(entry_name(number)))
            except FileNotFoundError:
                break
            except ValueError as torn:
                raise NotCommitted(self._path, f"commit {number} can't be read ({torn})") from torn
            for action in actions:
                if state := _read_state(action.get("commitInfo", {})):
                    return state
        return {}


def replace_all(
    path: Location | str,
    staged: Sequence[Path],
    transaction: AppTransaction,
    about: Mapping[str, str],
    now_ms: int,
    elapsed_s: Callable[[], float] = since_boot_s,
) -> int:
    """Commits that ``staged`` files, and nothing else, are the table, and moves its mark; returns the version.

    Not for maintenance, which changes no row: here what was there may have been wrong. The commit names the writer's
    application id. So a writer that continues from the older table is refused at its next commit, and begins again. The
    staged files are of this machine, and are gone afterwards.

    :raises Overtaken, NotCommitted, OutcomeUnknown, OSError: as `Rewriter.replace_files`
    :raises TableUnfit: see there
    """
    table = open_table(str(path))
    log = TableLog(str(path), open_storage(path), table.version(), elapsed_s)
    began_s, indexed = elapsed_s(), demands_of(str(path), table).indexed
    known_files = pa.table(table.get_add_actions(flatten=True))
    active = (
        dict(zip(known_files["path"].to_pylist(), known_files["size_bytes"].to_pylist(), strict=True))
        if len(known_files)
        else {}
    )
    adds = [
        make_add_action(new_file_name(), file.stat().st_size, compute_file_statistics(file, indexed), now_ms)
        for file in staged
    ]
    names = [action["add"]["path"] for action in adds]
    log.adopt_files(staged, names)

    def entry() -> bytes:
        removes = [make_remove_action(name, size, now_ms) for name, size in active.items()]
        return entry_of("WRITE", {"mode": "Overwrite"}, about, [make_txn_action(transaction), *removes, *adds], now_ms)

    def conflict(action: Action) -> None:
        if "add" in action:
            active[action["add"]["path"]] = action["add"]["size"]
        active.pop(action.get("remove", {}).get("path"), None)

    return log.commit(entry, conflict, names, began_s)


def _read_state(info: Mapping[str, Any]) -> dict[str, str]:
    return {name: text for name, text in info.items() if name.startswith(CARRIED) and name not in NOT_CARRIED}
