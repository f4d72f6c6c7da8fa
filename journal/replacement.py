"""Puts files in place of a whole table, and moves its mark, in one commit.

Not for maintenance, which changes no row (`journal.rewrite`): here what was there may have been wrong. The commit names
the writer's application id, so a writer that goes on from what was there before is refused at its next commit, ends,
and begins with what the table then says.
"""

from __future__ import annotations

import contextlib
import json
import uuid
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
from deltalake import DeltaTable

from core.errors import PayhookError
from core.location import Location
from journal.append import COMMIT_S_MAX, AppTransaction
from journal.demands import demands_of
from journal.entries import place
from journal.files import since_boot_s
from journal.statistics import file_statistics
from journal.storage import Storage
from journal.stores import open_storage

TRIES_MAX = 50
"""Commits of a running writer that one try after the other may lose to; it makes a few a second."""


class ReplacementRefused(PayhookError):
    """Others committed again and again, or too much time passed; nothing was changed."""

    def __init__(self, path: str, problem: str) -> None:
        self.path = path
        self.problem = problem
        super().__init__(f"table {path}: {problem}; nothing was changed, try again")


class ReplacementUnknown(PayhookError):
    """Too much time passed in the commit: nobody knows whether it counts, and whether its files are still there."""

    def __init__(self, path: str, number: int) -> None:
        self.path = path
        self.number = number
        super().__init__(f"table {path}: commit {number} took too long to be sure of its place; do it again")


def replace_all(
    path: Location | str,
    staged: Sequence[Path],
    transaction: AppTransaction,
    told: dict[str, str],
    now_ms: int,
    elapsed_s: Callable[[], float] = since_boot_s,
) -> int:
    """Commits that ``staged`` files, and nothing else, are the table; returns the version.

    They are files of this machine (of a table on a disk: in its own folder); they are gone afterwards.

    :raises ReplacementRefused, ReplacementUnknown: see there
    :raises TableUnfit: the table asks of its writers what isn't done here
    """
    storage = open_storage(path)
    began_s = elapsed_s()

    def is_late() -> bool:
        return elapsed_s() - began_s > COMMIT_S_MAX

    indexed = demands_of(str(path), DeltaTable(str(path))).indexed
    adds = [_add(_place(storage, one, indexed), now_ms) for one in staged]
    try:
        number = _put(path, storage, adds, transaction, told, now_ms, is_late)
    except ReplacementRefused:
        # After anything else the entry may be there: it must never name files that are gone.
        for one in adds:
            with contextlib.suppress(OSError):
                storage.delete(one["add"]["path"])
        raise
    if is_late():
        raise ReplacementUnknown(str(path), number)
    return number


def _put(
    path: Location | str,
    storage: Storage,
    adds: list[dict[str, Any]],
    transaction: AppTransaction,
    told: dict[str, str],
    now_ms: int,
    is_late: Callable[[], bool],
) -> int:
    for _ in range(TRIES_MAX):
        if is_late():
            raise ReplacementRefused(str(path), f"it took more than {COMMIT_S_MAX:.0f} s")
        table = DeltaTable(str(path))
        number = table.version() + 1
        actions = [_info(told, now_ms), {"txn": {"appId": transaction.app_id, "version": transaction.version}}]
        actions += [*_removes(table, now_ms), *adds]
        entry = "".join(f"{json.dumps(action, ensure_ascii=False)}\n" for action in actions).encode()
        try:
            storage.put_new(place(number), entry)
        except FileExistsError:
            continue
        return number
    raise ReplacementRefused(str(path), f"others committed {TRIES_MAX} times before this could")


@dataclass(frozen=True, slots=True)
class _Placed:
    """A file among the table's; ``stats`` is what the log says of it."""

    name: str
    size: int
    stats: str


def _place(storage: Storage, staged: Path, indexed: Sequence[str]) -> _Placed:
    """A staged file under a name of its own among the table's; it outlasts a loss of power."""
    stats = json.dumps(file_statistics(staged, indexed), ensure_ascii=False)
    placed = _Placed(f"part-00000-{uuid.uuid4()}-c000.zstd.parquet", staged.stat().st_size, stats)
    storage.adopt(staged, placed.name)
    return placed


def _info(told: dict[str, str], now_ms: int) -> dict[str, Any]:
    about = {
        "timestamp": now_ms,
        "operation": "WRITE",
        "operationParameters": {"mode": "Overwrite"},
        "isBlindAppend": False,
        "engineInfo": "payhook",
        "txnId": str(uuid.uuid4()),
    }
    return {"commitInfo": {**about, **told}}


def _add(file: _Placed, now_ms: int) -> dict[str, Any]:
    return {
        "add": {
            "path": file.name,
            "partitionValues": {},
            "size": file.size,
            "modificationTime": now_ms,
            "dataChange": True,
            "stats": file.stats,
        }
    }


def _removes(table: DeltaTable, now_ms: int) -> list[dict[str, Any]]:
    actions = pa.table(table.get_add_actions(flatten=True))
    if actions.num_rows == 0:
        return []
    return [
        {
            "remove": {
                "path": name,
                "deletionTimestamp": now_ms,
                "dataChange": True,
                "extendedFileMetadata": True,
                "partitionValues": {},
                "size": size,
            }
        }
        for name, size in zip(actions["path"].to_pylist(), actions["size_bytes"].to_pylist(), strict=True)
    ]
