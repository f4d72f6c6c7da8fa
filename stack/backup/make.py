"""Makes one backup, looks whether it is good, and removes those that are no more wanted."""

from __future__ import annotations

import contextlib
import json
import logging
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

from deltalake.exceptions import DeltaError

from core.clock import Clock, SystemClock, to_rfc3339
from core.errors import PayhookError
from core.files import write_whole
from core.location import Location, location_of
from core.status_file import past_moment_of, read_said
from journal.errors import JournalBroken, problem_of
from journal.histories import JournalOlder, ReflectedPosition, may_follow
from journal.lake import has_table
from journal.reader import JournalReader
from ledger.maintain.tables import MaintenanceRunning, hold_maintenance_lock
from stack.backup.check import LAKE, describe_journal, find_problems
from stack.backup.copying import CopyTarget, PinnedTable, copy_data, pin_table
from stack.backup.manifest import (
    JOURNAL,
    MANIFEST,
    PARTIAL,
    REJECTED,
    BackupImpossible,
    BackupManifest,
    CopiedJournal,
    CopiedTable,
    NoBackup,
    SourceTable,
    list_backups,
    list_complete_backups,
    list_files,
    list_tables,
    name_after,
    read_manifest,
    table_location,
)
from stack.backup.trees import FileTree, tree_at
from stack.journals import check_all_journals
from stack.settings import Settings

log = logging.getLogger("backup")


@dataclass(frozen=True, slots=True)
class BackupReport:
    """The result of a backup. ``problems``: what verification found; a backup with any is none.

    ``copied_bytes`` were copied, the rest of ``bytes`` is shared with an earlier backup. ``good_at``: when the newest
    good one was begun, this one or another; ``since``: the same, or while there is none, the first try.
    """

    folder: Location
    name: str
    ended_at: datetime
    seconds: float
    files: int
    bytes: int
    copied_bytes: int
    journals: dict[str, int]
    problems: tuple[str, ...]
    kept: tuple[str, ...]
    good_at: datetime | None
    since: datetime

    @property
    def ok(self) -> bool:
        return not self.problems

    def as_json(self) -> str:
        fields = {name: getattr(self, name) for name in self.__dataclass_fields__}
        return json.dumps({"ok": self.ok, **fields}, indent=1, default=_format_value) + "\n"


def run_round(settings: Settings) -> bool:
    """Makes a backup as `stack.rounds` runs it: true if a valid one was made. What became of it is also in the run
    folder."""
    clock = SystemClock()
    try:
        report = back_up(settings, location_of(settings.backup.folder), settings.backup.keep, clock)
    except MaintenanceRunning as other:
        log.info("%s", other)
        return False
    except PayhookError as problem:
        log.error("%s", problem)
        record_failure(settings, clock, str(problem))
        return False
    except Exception as bug:
        record_failure(settings, clock, repr(bug))
        raise
    for flaw in report.problems:
        log.error("backup %s is invalid: %s", report.name, flaw)
    log.info("backup %s: %d files, %d bytes, %.1f s", report.name, report.files, report.bytes, report.seconds)
    return report.ok


def back_up(settings: Settings, folder: Location, keep: int, clock: Clock) -> BackupReport:
    """Copies what can't be made again into a folder of its own in ``folder``, and verifies the copy.

    Runs beside a busy stack. Holds the maintenance lock while it copies, not while it verifies.

    :raises BackupImpossible: it can't be made
    :raises IncompleteJournals: it wouldn't hold all of them
    :raises MaintenanceRunning: maintenance, or another backup, copies or rewrites tables; run it again
    """
    began_s, began_at = clock.monotonic_s(), clock.now()
    folder = _check_apart(folder, settings)
    try:
        backups = tree_at(folder)
        with backups.hold_lock(_make_scratch(settings)) as is_ours:
            if not is_ours:
                problem = f"another backup is being made in {backups.place}; run it again when that is done"
                raise BackupImpossible(problem)
            _clear(backups)
            target, manifest = _copy_lake(settings, backups, clock)
            flaws = find_problems(folder / target.under, manifest, list_tables(settings), _make_scratch(settings))
            if flaws:
                backups.move_path(f"{target.under}/{MANIFEST}", f"{target.under}/{REJECTED}")
                _clear(backups)
            else:
                _drop_others(backups, keep)
            kept = list_complete_backups(backups)
    except (DeltaError, OSError) as failed:
        raise BackupImpossible(problem_of(failed)) from failed
    good_at = last_good(settings, began_at) if flaws else began_at
    report = BackupReport(
        folder=folder,
        name=target.under,
        ended_at=clock.now(),
        seconds=round(clock.monotonic_s() - began_s, 3),
        files=len(manifest.files),
        bytes=manifest.bytes,
        copied_bytes=target.copied_bytes,
        journals={journal.stream: journal.seq for journal in manifest.journals.values()},
        problems=tuple(flaws),
        kept=tuple(kept),
        good_at=good_at,
        since=good_at or _read_first_try(settings, began_at) or began_at,
    )
    write_whole(settings.layout.backed_up, report.as_json())
    return report


def check_backup(settings: Settings, backup: Location) -> list[str]:
    """Finds what is wrong with a backup that is there; nothing in a good one.

    :raises NoBackup: it has no manifest
    """
    return find_problems(backup, read_manifest(backup), list_tables(settings), _make_scratch(settings))


def record_failure(settings: Settings, clock: Clock, problem: str) -> None:
    now = clock.now()
    good_at = last_good(settings, now)
    since = good_at or _read_first_try(settings, now) or now
    fields = {"ok": False, "at": now, "problem": problem, "good_at": good_at, "since": since}
    _make_scratch(settings)
    write_whole(settings.layout.backed_up, json.dumps(fields, indent=1, default=_format_value) + "\n")


def last_good(settings: Settings, now: datetime) -> datetime | None:
    return past_moment_of(read_said(settings.layout.backed_up), "good_at", now)


def _read_first_try(settings: Settings, now: datetime) -> datetime | None:
    return past_moment_of(read_said(settings.layout.backed_up), "since", now)


def _check_apart(folder: Location, settings: Settings) -> Location:
    if isinstance(folder, Path):
        folder = folder.expanduser().absolute()
        if folder.resolve().is_relative_to(settings.data_dir.resolve()):
            raise BackupImpossible(f"{folder} is in the data folder: name one on another disk")
    elif f"{folder}/".startswith(f"{settings.layout.lake}/"):
        raise BackupImpossible(f"{folder} is in the lake's own folder: name another bucket")
    return folder


def _copy_lake(settings: Settings, backups: FileTree, clock: Clock) -> tuple[CopyTarget, BackupManifest]:
    with hold_maintenance_lock(settings.layout.run, clock.now()):
        check_all_journals(settings)
        began_at = clock.now()
        newest = _find_newest(backups)
        earlier = list_backups(backups)
        target = CopyTarget(backups, name_after(earlier, began_at))
        # After a backup that wasn't good no file is shared: the damage may be in one that both would have.
        if newest is not None and not _is_rejected(backups, earlier[-1]):
            target.earlier, target.known = newest[0], newest[1].files
        wanted = [
            table for table in list_tables(settings) if has_table(str(table_location(settings.layout.lake, table.path)))
        ]
        if not any(table.kind == JOURNAL for table in wanted):
            raise BackupImpossible(f"there is no journal at {settings.layout.lake}: nothing was decided yet")
        with _remove_on_failure(target):
            pinned = [
                pin_table(
                    table_location(settings.layout.lake, table.path),
                    f"{LAKE}/{table.path}",
                    target,
                    with_state=table.kind == JOURNAL,
                )
                for table in wanted
            ]
            if newest is not None:
                _check_same_lake(backups.place, pinned, newest[1])
                _check_not_older(pinned, backups.place / newest[0], newest[1])
            for table in pinned:
                copy_data(table, target)
            for path, source in list_files(settings).items():
                if source.is_file():
                    with source.open("rb") as file:
                        target.copy_file(path, file)
    manifest = BackupManifest(
        began_at,
        target.files,
        {
            table.path: CopiedTable(table.kind, at.version, at.table_id)
            for table, at in zip(wanted, pinned, strict=True)
        },
        {
            table.path: _describe_copy(table_location(backups.place / target.under, at.path), table, at)
            for table, at in zip(wanted, pinned, strict=True)
            if table.kind == JOURNAL
        },
    )
    target.sync()
    backups.write(f"{target.under}/{MANIFEST}", manifest.to_json())
    backups.remove(f"{target.under}{PARTIAL}")
    return target, manifest


@contextlib.contextmanager
def _remove_on_failure(target: CopyTarget) -> Iterator[None]:
    target.tree.write(f"{target.under}{PARTIAL}", "")
    try:
        yield
    except BaseException:
        with contextlib.suppress(OSError):
            _remove(target.tree, target.under)
        raise


def _describe_copy(copy: Location, table: SourceTable, pinned: PinnedTable) -> CopiedJournal:
    return describe_journal(JournalReader(str(copy), pinned.version).state(), table.stream)


def _find_newest(backups: FileTree) -> tuple[str, BackupManifest] | None:
    for name in reversed(list_complete_backups(backups)):
        with contextlib.suppress(NoBackup):
            return name, read_manifest(backups.place / name)
    return None


def _is_rejected(backups: FileTree, name: str) -> bool:
    return backups.has_file(f"{name}/{REJECTED}")


def _is_partial(backups: FileTree, name: str) -> bool:
    return backups.has_file(f"{name}{PARTIAL}") and not backups.has_file(f"{name}/{MANIFEST}")


def _is_whole(backups: FileTree, name: str) -> bool:
    try:
        read_manifest(backups.place / name)
    except NoBackup:
        return False
    return True


def _check_same_lake(folder: Location, pinned: list[PinnedTable], known: BackupManifest) -> None:
    """Checks that the folder's backups are this lake's: two lakes would remove each other's."""
    table_ids = {table.path.removeprefix(f"{LAKE}/"): table.table_id for table in pinned}
    both = table_ids.keys() & known.journals.keys()
    if both and not any(table_ids[path] == known.tables[path].table_id for path in both):
        raise BackupImpossible(
            f"{folder} holds backups of another lake, whose journals are others: name another folder"
        )


def _check_not_older(pinned: list[PinnedTable], newest: Location, known: BackupManifest) -> None:
    """Checks that the lake isn't older than its newest backup, as it may be where it went back together with Kafka.

    It agrees with itself then, and its backups would remove the newer ones.

    :raises BackupImpossible: the newest backup holds rows of a journal's own lineage that it doesn't hold
    """
    for table in pinned:
        before = known.journals.get(table.path.removeprefix(f"{LAKE}/"))
        if before is None:
            continue
        what, reached = f"backup {newest.name}", ReflectedPosition(before.lineage, before.seq, before.row_hash)
        try:
            # A journal that can't be read is named when its copy is verified.
            with contextlib.suppress(JournalBroken):
                may_follow(what, reached, JournalReader(str(table.place), table.version))
        except JournalOlder as older:
            raise BackupImpossible(
                f"the journal of {before.stream} is an older copy. {what} holds row {before.seq}, which it "
                f"{'lacks' if older.ahead else 'has another row for'}: put the newest data back, or "
                f"`payhook restore {newest.parent}`; to continue without those rows, name another folder"
            ) from older


def _clear(backups: FileTree) -> None:
    present = list_backups(backups)
    bad = [name for name in present if _is_rejected(backups, name)]
    for name in {*bad[:-1], *(name for name in present if _is_partial(backups, name))}:
        _remove(backups, name)


def _drop_others(backups: FileTree, keep: int) -> None:
    old = [name for name in list_complete_backups(backups)[:-keep] if _is_whole(backups, name)]
    for name in [*old, *(name for name in list_backups(backups) if _is_rejected(backups, name))]:
        _remove(backups, name)


def _remove(backups: FileTree, name: str) -> None:
    """Removes a backup, whole or not. Wherever this ends, what is left is no backup, and the next one removes it."""
    backups.write(f"{name}{PARTIAL}", "")
    backups.remove(f"{name}/{MANIFEST}")
    backups.remove(name)
    backups.remove(f"{name}{PARTIAL}")


def _make_scratch(settings: Settings) -> Path:
    settings.layout.run.mkdir(parents=True, exist_ok=True)
    return settings.layout.run


def _format_value(value: Any) -> Any:
    return to_rfc3339(value) if isinstance(value, datetime) else str(value)
