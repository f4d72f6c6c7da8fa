"""A Delta table's log, and the one way in which this code commits to it.

Appends, rewrites and replacements put their entry here: where none is yet (`journal.storage`), after looking at every
entry that came in between (docs/decisions/0001 and 0021).
"""

from __future__ import annotations

import contextlib
import json
import time
import uuid
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias

from core.errors import PayhookError, Unconfirmed
from journal.storage import Storage, make_numbered_name, numbers_in

LOG = "_delta_log"

COMMIT_S_MAX = 600.0
"""From before a commit's files are written until its entry is put, by a clock that runs while the machine sleeps.
Maintenance removes files that no commit names after an hour (`ledger.settings`: ``retention_h``), and a log removes
entries after an hour. Within this time an entry can't name a file that is gone, nor take the place of an entry that was
removed. The rest of the hour is for clocks that differ."""

TRIES_MAX = 1_000
"""Commits of others in a row that a commit steps over; each try takes a millisecond or two."""

COMPRESSION = "zstd"

Action: TypeAlias = dict[str, Any]
"""One line of an entry, as Delta's protocol has it: ``{"add": {…}}``, ``{"remove": {…}}``, ``{"txn": {…}}``…"""


class TableError(PayhookError):
    remedy = ""

    def __init__(self, path: str, problem: str) -> None:
        self.path = path
        self.problem = problem
        super().__init__(f"table {path}: {problem}{self.remedy}")


class CommitFailed(TableError):
    pass


class Overtaken(CommitFailed):
    """Another commit conflicts with this one. Nothing was committed, and trying again is refused as well."""

    remedy = "; nothing was committed"


class NotCommitted(CommitFailed):
    """The commit was given up before its entry was put. Nothing was committed; it may be tried again."""

    remedy = "; nothing was committed, try again"


class OutcomeUnknown(CommitFailed, Unconfirmed):
    """The entry may be in the log and may count. Its files stay: if it doesn't count, they are no part of the table."""


@dataclass(frozen=True, slots=True)
class AppTransaction:
    app_id: str
    version: int


@dataclass(slots=True)
class TableLog:
    """A writer's view of a table's log: ``version`` is the last commit that it knows, and moves only with its own
    commits. Not thread-safe.

    ``elapsed_s``: seconds that also pass while the machine sleeps.
    """

    path: str
    storage: Storage
    version: int
    elapsed_s: Callable[[], float]

    def commit(
        self,
        entry: Callable[[], bytes],
        conflict: Callable[[Action], str | None],
        files: Sequence[str],
        began_s: float,
    ) -> int:
        """Puts an entry behind the last one, wherever that is by now; returns its version.

        :param entry: makes the entry; asked again after each commit of others that was stepped over
        :param conflict: is given each action of every commit after ``version``; what it answers stands in the way
        :param files: names of the files that the entry adds. They are deleted where certainly nothing was committed
        :param began_s: when nothing of the files was written yet
        :raises Overtaken: a later commit changed the table's metadata, or ``conflict`` names one
        :raises NotCommitted: too much time has passed, the log can't be followed, or others committed all the while
        :raises OutcomeUnknown: too much time has passed in the put, or the entry in its place can't be read
        :raises OSError: the log can't be reached; the entry may have been put
        """
        try:
            number = self._put(entry, conflict, began_s)
        except (Overtaken, NotCommitted):
            self.delete(files)
            raise
        if self._is_late(began_s):
            raise OutcomeUnknown(self.path, f"commit {number} took too long to be sure of its place")
        self.version = number
        return number

    def adopt_files(self, staged: Sequence[Path], names: Sequence[str]) -> None:
        """Takes files of this machine in among the table's, all of them or none; the staged ones are gone then."""
        try:
            for file, name in zip(staged, names, strict=True):
                self.storage.adopt_file(file, name)
        except BaseException:
            self.delete(names)
            raise

    def delete(self, files: Iterable[str]) -> None:
        with contextlib.suppress(OSError):
            self.storage.delete(list(files))

    def _put(self, entry: Callable[[], bytes], conflict: Callable[[Action], str | None], began_s: float) -> int:
        removed_upto = self._last_checkpoint()
        for number in range(self.version + 1, self.version + 1 + TRIES_MAX):
            if self._is_late(began_s):
                raise NotCommitted(self.path, f"the commit took more than {COMMIT_S_MAX:.0f} s")
            data: bytes | None = None
            if number > removed_upto:
                data = entry()
                with contextlib.suppress(FileExistsError):
                    self.storage.put_new(entry_name(number), data)
                    return number
            if self._is_there(number, data, conflict):
                return number
        raise NotCommitted(self.path, f"others committed {TRIES_MAX} times before this commit could be made")

    def _is_there(self, number: int, data: bytes | None, conflict: Callable[[Action], str | None]) -> bool:
        """Returns whether the commit there is this one, whose success wasn't reported. If not, it may be stepped over.

        :param data: the entry that was to be put there; None: entries of this number may have been removed
        :raises Overtaken, NotCommitted, OutcomeUnknown: it may not be stepped over
        """
        try:
            current = self.storage.read(entry_name(number))
            actions = actions_of(current)
        except (FileNotFoundError, ValueError) as gone:
            failed = NotCommitted if data is None else OutcomeUnknown
            raise failed(self.path, f"commit {number} can't be read ({gone})") from gone
        if current == data:
            return True
        for action in actions:
            if "metaData" in action or "protocol" in action:
                raise Overtaken(self.path, f"commit {number} changed the table's metadata or protocol")
            if (problem := conflict(action)) is not None:
                raise Overtaken(self.path, f"commit {number} {problem}")
        return False

    def _is_late(self, began_s: float) -> bool:
        return self.elapsed_s() - began_s > COMMIT_S_MAX

    def _last_checkpoint(self) -> int:
        try:
            return last_checkpoint(self.storage)
        except ValueError as torn:
            raise NotCommitted(self.path, str(torn)) from torn


def entry_of(
    operation: str,
    parameters: Mapping[str, str],
    about: Mapping[str, str],
    actions: Iterable[Action],
    at_ms: int,
    *,
    blind_append: bool = False,
) -> bytes:
    info = {
        "timestamp": at_ms,
        "operation": operation,
        "operationParameters": parameters,
        "isBlindAppend": blind_append,
        "engineInfo": "payhook",
        "txnId": str(uuid.uuid4()),
        **about,
    }
    lines = [{"commitInfo": info}, *actions]
    return "".join(f"{json.dumps(line, ensure_ascii=False)}\n" for line in lines).encode()


def make_txn_action(transaction: AppTransaction) -> Action:
    return {"txn": {"appId": transaction.app_id, "version": transaction.version}}


def new_file_name() -> str:
    return f"part-00000-{uuid.uuid4()}-c000.{COMPRESSION}.parquet"


def make_add_action(
    name: str, size: int, stats: Mapping[str, Any], modified_ms: int, *, data_change: bool = True
) -> Action:
    return {
        "add": {
            "path": name,
            "partitionValues": {},
            "size": size,
            "modificationTime": modified_ms,
            "dataChange": data_change,
            "stats": json.dumps(stats, ensure_ascii=False),
        }
    }


def make_remove_action(name: str, size: int, at_ms: int, *, data_change: bool = True) -> Action:
    return {
        "remove": {
            "path": name,
            "deletionTimestamp": at_ms,
            "dataChange": data_change,
            "extendedFileMetadata": True,
            "partitionValues": {},
            "size": size,
        }
    }


def now_ms() -> int:
    return time.time_ns() // 1_000_000


def since_boot_s() -> float:
    return time.clock_gettime(getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC))


# reading a log


def entry_name(number: int) -> str:
    return f"{LOG}/{make_numbered_name(number)}"


def actions_of(entry: bytes) -> list[Action]:
    return [json.loads(line) for line in entry.splitlines() if line]


def list_numbers(storage: Storage, since: int = 0) -> list[int]:
    """Lists the commits from ``since`` on whose entries are there, in order."""
    return numbers_in(storage, LOG, make_numbered_name(since - 1) if since > 0 else "")


def last_checkpoint(storage: Storage) -> int:
    """Reads the version of the last checkpoint; entries before it may be gone. -1: there is none.

    :raises ValueError: the file that names it can't be read
    :raises OSError: the place can't be reached
    """
    try:
        return int(json.loads(storage.read(f"{LOG}/_last_checkpoint"))["version"])
    except FileNotFoundError:
        return -1
    except (ValueError, KeyError, TypeError) as torn:
        raise ValueError(f"its last checkpoint can't be read ({torn})") from torn


def last_number(storage: Storage) -> int:
    """Reads the last commit's number; -1 if no table is there.

    :raises OSError: the place can't be reached
    """
    try:
        since = max(0, last_checkpoint(storage))
    except ValueError:
        since = 0
    return max(list_numbers(storage, since), default=-1)
