"""Puts a backup in the place of a data folder's lake. The present tables are moved aside; nothing is deleted.

Everything is put together in a folder beside the lake, on an object store in one within it, by hashes, and checked
there. Only then is anything moved; the moves are written down first, so that a restore that is interrupted can continue
where it was. The audit log that is put together says who restored: it takes effect with the moves, also where another
run ends them.

Tables that hold all that the backup's hold, and more, stay the present ones: what people did and what was redacted
after the backup isn't undone by a restore; nor is what the receiver answered.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, dataclass, field, replace
from datetime import datetime
from pathlib import Path
from typing import Any

from deltalake import DeltaTable
from deltalake.exceptions import DeltaError

from core.clock import Clock, to_rfc3339
from core.files import write_whole
from core.layout import Layout
from core.location import LakeUrl, Location, is_url
from core.routing import MODES, stream_of
from journal.bodies import BodyStore
from journal.errors import problem_of
from journal.journals import IncompleteJournals
from journal.lake import has_table, open_table
from journal.reader import dataset_of, read_rows
from journal.rocksdb_store import is_held
from journal.storage import sync_to_disk
from journal.writer import JournalWriter
from ledger.maintain.redact import EventOpen, check_closed, purge_bodies
from ledger.maintain.tables import hold_maintenance_lock
from ledger.redactions import Redaction, Redactions
from operations.audit_log import AuditEntry, AuditLog, AuditOutcome, ChainWalk
from stack.backup.check import LAKE, Present, find_table_problems, present_journals, rows_beyond
from stack.backup.copying import UNREADABLE, CopyTarget, copy_data, pin_table
from stack.backup.manifest import (
    ACTS,
    BODIES,
    JOURNAL,
    RECEIPTS,
    REDACTIONS,
    BackupManifest,
    NewerRows,
    RestoreRefused,
    SourceTable,
    choose_backup,
    list_files,
    list_tables,
    read_manifest,
    table_location,
)
from stack.backup.trees import FileTree, at_once, tree_at
from stack.journals import check_all_journals
from stack.settings import Settings
from stack.supervisor import sole_supervisor

FILES, KEPT = "files", "_kept"
"""Beside the lake that is put together: the backup's other files. In it: present tables on their way into it."""

RESTORING, REPLACED = "_restoring", "_replaced-"
"""In the lake's folder on an object store, which has no place beside it that a key for this folder may write."""


@dataclass(frozen=True, slots=True)
class RestoreReport:
    """``journals``: the last row of each stream's; ``set_aside``: rows of the present one that it lacks, None where
    that couldn't be read. ``kept``: tables that are the present ones. ``redacted_again``: bodies that were removed
    after the backup, and are removed from it; ``redact``: events whose bodies a person must remove again, because an
    open event needs them, or because Kafka brings them again. ``files``: those that weren't there and are now.
    ``seconds``: all that it took; on record, what it took until the moves.
    """

    name: str
    made_at: datetime
    journals: dict[str, int]
    set_aside: dict[str, int | None]
    kept: tuple[str, ...]
    redacted_again: int
    redact: tuple[str, ...]
    files: tuple[str, ...]
    replaced: Location
    seconds: float

    def as_json(self) -> str:
        plain = {"made_at": to_rfc3339(self.made_at), "replaced": str(self.replaced)}
        return json.dumps({**asdict(self), **plain})


def restore(
    settings: Settings,
    folder: Location,
    clock: Clock,
    *,
    actor: str,
    reason: str,
    name: str | None = None,
    replace_newer: bool = False,
) -> RestoreReport | None:
    """Puts back the newest backup of a folder, or the one that is named, and begins a new lineage of each journal.

    None: an earlier restore was interrupted while it moved tables; that one is done now, and no other was begun.

    :raises RestoreRefused: nothing was changed; `NewerRows`: present journals hold rows that the backup doesn't
    :raises NoBackup: there is none
    :raises AuditLogUnwritable: it can't be put on record; nothing was changed
    :raises AlreadyUp: the stack is up
    :raises MaintenanceRunning: maintenance, or a backup, is at the tables
    """
    began_s, layout = clock.monotonic_s(), settings.layout
    with sole_supervisor(layout), hold_maintenance_lock(layout.run, clock.now()):
        if finish(layout):
            return None
        _check_unused(settings)
        backup = choose_backup(folder.expanduser().absolute() if isinstance(folder, Path) else folder, name)
        manifest = read_manifest(backup)
        _check_journals(settings, backup)
        present = present_journals(settings)
        beyond = rows_beyond(settings, present, backup, manifest)
        newer = sorted((stream, count) for stream, count in beyond.items() if count)
        if newer and not replace_newer:
            raise NewerRows(backup.name, newer)
        try:
            return _Restore(settings, backup, manifest, present, beyond, clock, actor, reason).run(began_s)
        except (DeltaError, OSError) as failed:
            if layout.restore_moves.exists():
                raise
            raise RestoreRefused(problem_of(failed)) from failed


def finish(layout: Layout) -> bool:
    """Does the moves that a restore wrote down and didn't get to; returns whether there were any."""
    try:
        moves = json.loads(layout.restore_moves.read_text("utf-8"))
    except FileNotFoundError:
        return False
    while moves:
        source, target = moves[0]
        if is_url(source):
            _move_objects(LakeUrl(source), LakeUrl(target))
        # A move that was done has no source any more, or, of what took another's place, a target.
        elif (layout.root / source).exists() and not (layout.root / target).exists():
            (layout.root / target).parent.mkdir(parents=True, exist_ok=True)
            (layout.root / source).rename(layout.root / target)
            sync_to_disk((layout.root / target).parent)
        moves = moves[1:]
        write_whole(layout.restore_moves, json.dumps(moves))
    layout.restore_moves.unlink()
    shutil.rmtree(layout.restoring_folder, ignore_errors=True)
    return True


def _move_objects(source: LakeUrl, target: LakeUrl) -> None:
    """Moves objects out of the lake's folder on a store, or into it. What was set aside or isn't in place stays."""
    into = source.name == RESTORING
    lake = tree_at(target if into else source)
    if into:
        lake.move_path(RESTORING, "")
        return
    for name in lake.names():
        if not name.startswith((RESTORING, REPLACED)):
            lake.move_path(name, f"{target.name}/{name}")


@dataclass(slots=True)
class _Restore:
    settings: Settings
    backup: Location
    manifest: BackupManifest
    present: Present
    beyond: dict[str, int | None]
    clock: Clock
    actor: str
    reason: str
    kept: list[str] = field(default_factory=list)
    redacted_again: int = 0
    redact: list[str] = field(default_factory=list)

    @property
    def layout(self) -> Layout:
        return self.settings.layout

    @property
    def lake(self) -> Location:
        present = self.layout.lake
        return self.layout.restoring_folder / LAKE if isinstance(present, Path) else present / RESTORING

    @property
    def staged_tree(self) -> FileTree:
        return tree_at(self.lake, private=False)

    @property
    def tables(self) -> list[SourceTable]:
        return list_tables(self.settings)

    def run(self, began_s: float) -> RestoreReport:
        self._copy()
        for mode in MODES:
            self._keep_and_redact(stream_of(REDACTIONS, mode))
        for table in self.tables:
            if table.kind in CONTINUES and table.kind != REDACTIONS:
                self._keep_table(table)
        self.staged_tree.remove(KEPT)
        now = self.clock.now()
        self._renew(now)
        aside, gone = f"replaced-{now:%Y%m%dT%H%M%SZ}", self._find_missing_files()
        moves = [[self._format_place(place) for place in move] for move in self._plan_moves(aside)]
        restored = self._build_report(aside, gone, began_s)
        self._record(restored, now)
        for path, target in gone.items():
            target.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            write_whole(target, (self.layout.restoring_folder / FILES / path).read_text("utf-8"))
        write_whole(self.layout.restore_moves, json.dumps(moves))
        finish(self.layout)
        return replace(restored, seconds=self._took_s(began_s))

    def _build_report(self, aside: str, gone: Mapping[str, Path], began_s: float) -> RestoreReport:
        lake = self.layout.lake
        return RestoreReport(
            name=self.backup.name,
            made_at=self.manifest.began_at,
            journals={journal.stream: journal.seq for journal in self.manifest.journals.values()},
            set_aside=self.beyond,
            kept=tuple(sorted(self.kept)),
            redacted_again=self.redacted_again,
            redact=tuple(sorted(self.redact)),
            files=tuple(gone),
            replaced=lake / f"_{aside}" if isinstance(lake, LakeUrl) else self.layout.root / aside,
            seconds=self._took_s(began_s),
        )

    def _took_s(self, began_s: float) -> float:
        return round(self.clock.monotonic_s() - began_s, 3)

    def _copy(self) -> None:
        shutil.rmtree(self.layout.restoring_folder, ignore_errors=True)
        free = shutil.disk_usage(self.layout.root).free
        if isinstance(self.lake, Path) and free < self.manifest.bytes:
            raise RestoreRefused(f"it takes {self.manifest.bytes:,} bytes, and {free:,} are free beside the lake")
        self.layout.restoring_folder.mkdir()
        self.staged_tree.remove("")
        lake, beside, stored = (
            CopyTarget(self.staged_tree),
            CopyTarget(tree_at(self.layout.restoring_folder), FILES),
            tree_at(self.backup),
        )

        def copy(path: str) -> None:
            target = lake if path.startswith(f"{LAKE}/") else beside
            with stored.open(path) as source:
                if target.copy_file(path.removeprefix(f"{LAKE}/"), source) != self.manifest.files[path]:
                    raise RestoreRefused(f"{self.backup / path} isn't what was backed up: its hash differs")

        at_once(copy, self.manifest.files)
        lake.sync()
        flaw = next(find_table_problems(self.lake, self.manifest, self.tables, self.layout.run), None)
        if flaw is not None:
            raise RestoreRefused(f"backup {self.backup.name} isn't good: {flaw}")

    def _renew(self, now: datetime) -> None:
        for table in self.tables:
            if table.kind == JOURNAL and table.path in self.manifest.journals:
                writer = JournalWriter.create_or_open(str(table_location(self.lake, table.path)), table.stream)
                replaced = self.present.get(table.path)
                writer.renew_lineage(now, self.reason, replaced=replaced)

    def _record(self, restored: RestoreReport, now: datetime) -> None:
        act = AuditEntry(
            at=now,
            actor=self.actor,
            action="restore",
            outcome=AuditOutcome.DONE,
            channel="cli",
            what=f"backup {restored.name}",
            reason=self.reason,
            after=restored.as_json(),
        )
        AuditLog(self.lake / self.layout.audit_log.name).record(act)

    def _keep_and_redact(self, path: str) -> None:
        table = next(candidate for candidate in self.tables if candidate.path == path)
        before = len(Redactions(self.lake / path).read_all())
        self._keep_table(table)
        for act, done in Redactions(self.lake / path).list_orders():
            if done is not None and done.number > before:
                self._redact_again(act)

    def _redact_again(self, act: Redaction) -> None:
        journal = self.lake / JOURNAL / act.stream
        path = next((table.path for table in self.tables if (table.kind, table.stream) == (BODIES, act.stream)), "")
        bodies = self.lake / path
        if not path or not has_table(str(bodies)) or not self._has_body(bodies, act.body_sha256):
            # Its record comes after the backup's last row: it is decided again, if Kafka still has it.
            self.redact.append(act.event_key)
            return
        try:
            check_closed(journal, act.event_key, [act.body_sha256])
        except EventOpen:
            self.redact.append(act.event_key)
            return
        purge_bodies(bodies, [act.body_sha256], self.clock)
        self.redacted_again += 1

    def _has_body(self, bodies: Location, sha256: str) -> bool:
        return bool(BodyStore(str(bodies), may_create=False).find_kept([sha256]))

    def _keep_table(self, table: SourceTable) -> None:
        present, copied = table_location(self.layout.lake, table.path), self.lake / table.path
        try:
            before = copied if has_table(str(copied)) else None
            goes_on = has_table(str(present)) and CONTINUES[table.kind](present, before)
            if goes_on:
                fresh = CopyTarget(self.staged_tree, KEPT)
                copy_data(pin_table(present, table.path, fresh, with_state=False), fresh)
        except UNREADABLE:
            return
        if goes_on:
            self.staged_tree.remove(table.path)
            self.staged_tree.move_path(f"{KEPT}/{table.path}", table.path)
            self.kept.append(table.path)

    def _find_missing_files(self) -> dict[str, Path]:
        backed_up = self.manifest.files
        return {path: at for path, at in list_files(self.settings).items() if path in backed_up and not at.exists()}

    def _plan_moves(self, aside: str) -> Iterator[tuple[Location, Location]]:
        layout, lake = self.layout, self.layout.lake
        streams = {table.stream for table in self.tables if table.kind == JOURNAL}
        derived = [
            *(layout.root / "index", layout.root / "checkpoints"),
            *(layout.stream(stream).dead_letter_index for stream in sorted(streams)),
            *(layout.stream(stream).trying_file for stream in sorted(streams)),
        ]
        for place in [*derived, layout.root / LAKE] if isinstance(lake, Path) else derived:
            if place.exists():
                yield place, layout.root / aside / place.relative_to(layout.root)
        if isinstance(lake, LakeUrl):
            yield lake, lake / f"_{aside}"
        yield self.lake, lake

    def _format_place(self, place: Location) -> str:
        return str(place.relative_to(self.layout.root) if isinstance(place, Path) else place)


def _check_unused(settings: Settings) -> None:
    for table in list_tables(settings):
        if table.kind == JOURNAL and is_held(settings.layout.stream(table.stream).index):
            raise RestoreRefused(f"a processor of {table.stream} runs on {settings.data_dir}: stop it first")


def _check_journals(settings: Settings, backup: Location) -> None:
    try:
        check_all_journals(settings, backup / LAKE)
    except IncompleteJournals as wrong:
        raise RestoreRefused(f"backup {backup.name}: {wrong}") from wrong


Continues = Callable[[Location, Location | None], bool]
"""Whether a present table is whole and begins with the backup's, if there is one."""


def _has_all_redactions(present: Location, copied: Location | None) -> bool:
    before = Redactions(copied).read_all() if copied is not None else []
    return Redactions(present).read_all()[: len(before)] == before


def _has_all_acts(present: Location, copied: Location | None) -> bool:
    rows, before = _read_acts(present), _read_acts(copied) if copied is not None else []
    return rows[: len(before)] == before and not any(ChainWalk().find_offenders(rows))


def _has_all_receipts(present: Location, copied: Location | None) -> bool:
    """Checks that it is the same table, at no earlier version, with rows that can be read: receipts aren't chained."""
    table = open_table(str(present))
    for _ in dataset_of(table).to_batches():
        pass
    return copied is None or _is_later_version(table, open_table(str(copied)))


CONTINUES: Mapping[str, Continues] = {REDACTIONS: _has_all_redactions, ACTS: _has_all_acts, RECEIPTS: _has_all_receipts}
"""By kind of table; every other kind is the backup's after a restore."""


def _is_later_version(table: DeltaTable, before: DeltaTable) -> bool:
    return table.metadata().id == before.metadata().id and table.version() >= before.version()


def _read_acts(path: Location) -> list[dict[str, Any]]:
    return read_rows(open_table(str(path))).sort_by("number").to_pylist()  # type: ignore[no-any-return]
