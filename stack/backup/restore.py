"""Puts a backup in the place of a data folder's lake. The present tables are moved aside; nothing is deleted.

Everything is put together in a folder beside the lake, by hashes, and checked there. Only then is anything moved; the
moves are written down first, so that a restore that is interrupted can go on where it was.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

import pyarrow as pa
from deltalake.exceptions import DeltaError

from core.clock import Clock
from core.errors import PayhookError
from core.layout import Layout
from core.place import Place
from core.routing import MODES, stream_of
from journal.bodies import BodyStore
from journal.errors import problem_of
from journal.files import sync
from journal.lake import has_table
from journal.reader import JournalReader
from journal.rocksdb_store import is_held
from journal.state import JournalState
from journal.writer import JournalWriter
from ledger.maintain.lock import sole_maintenance
from ledger.maintain.redact import EventOpen, check_closed, purge
from ledger.redactions import Redaction, Redactions
from stack.backup.check import LAKE, table_problems
from stack.backup.copying import Target, copy_data, new_file, pin
from stack.backup.errors import NewerRows, RestoreRefused
from stack.backup.kept import CONTINUES
from stack.backup.manifest import Manifest, chosen, read_manifest
from stack.backup.sources import BODIES, JOURNAL, REDACTIONS, SourceTable, files, place_of, tables
from stack.settings import Settings
from stack.supervisor import sole_supervisor

UNREADABLE = (PayhookError, DeltaError, OSError, pa.ArrowException, ValueError, KeyError)
"""What a damaged table raises."""


@dataclass(frozen=True, slots=True)
class Restored:
    """``journals``: the last row of each stream's; ``set_aside``: rows of it beyond that, None where the present
    journal couldn't be read. ``kept``: tables that are the present ones. ``redacted_again``: bodies that were removed
    after the backup, and are removed from it; ``redact``: events whose bodies a person must remove again, because an
    open event needs them, or because Kafka brings them again. ``files``: those that weren't there and are now.
    """

    name: str
    made_at: datetime
    journals: dict[str, int]
    set_aside: dict[str, int | None]
    kept: tuple[str, ...]
    redacted_again: int
    redact: tuple[str, ...]
    files: tuple[str, ...]
    replaced: Path
    seconds: float


def restore(
    settings: Settings,
    folder: Path,
    clock: Clock,
    *,
    name: str | None = None,
    replace_newer: bool = False,
    reason: str = "",
) -> Restored | None:
    """Puts back the newest backup of a folder, or the one that is named, and begins a new lineage of each journal.

    None: an earlier restore was interrupted while it moved tables; that one is done now, and no other was begun.

    :raises RestoreRefused: nothing was changed; `NewerRows`: present journals go on after the backup's
    :raises NoBackup: there is none
    :raises AlreadyUp: the stack is up
    :raises MaintenanceRunning: maintenance, or a backup, is at the tables
    """
    began_s, layout = clock.monotonic(), settings.layout
    if not isinstance(layout.lake, Path):
        problem = f"the lake is {layout.lake}, and tables can only be put back into a folder of this machine"
        raise RestoreRefused(f"{problem}; a backup's tables are whole Delta tables, which any tool copies there")
    with sole_supervisor(layout), sole_maintenance(layout.run, clock.now()):
        if finish(layout):
            return None
        _check_unused(settings)
        backup = chosen(folder.expanduser().absolute(), name)
        manifest = read_manifest(backup)
        present = _present(settings)
        ahead = {stream: count for stream, count in _set_aside(settings, manifest, present).items() if count}
        if ahead and not replace_newer:
            raise NewerRows(backup.name, sorted(ahead.items()))
        try:
            return _Restore(settings, backup, manifest, present, clock, reason).run(began_s)
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
    for source, target in moves:
        # A move that was done has no source any more, or, of what took another's place, a target.
        if (layout.root / source).exists() and not (layout.root / target).exists():
            (layout.root / target).parent.mkdir(parents=True, exist_ok=True)
            (layout.root / source).rename(layout.root / target)
            sync((layout.root / target).parent)
    layout.restore_moves.unlink()
    shutil.rmtree(layout.restoring, ignore_errors=True)
    return True


class _Restore:
    """One restore, before anything is moved."""

    def __init__(
        self,
        settings: Settings,
        backup: Path,
        manifest: Manifest,
        present: dict[str, JournalState | None],
        clock: Clock,
        reason: str,
    ) -> None:
        self._settings = settings
        self._layout = settings.layout
        self._backup = backup
        self._manifest = manifest
        self._present = present
        self._clock = clock
        self._reason = reason
        self._tables = tables(settings)
        self._target = Target(self._layout.restoring, private=False)
        self._lake = self._layout.restoring / LAKE
        self._kept: list[str] = []
        self._redacted_again = 0
        self._redact: list[str] = []

    def run(self, began_s: float) -> Restored:
        self._copy()
        for mode in MODES:
            self._keep_and_redact(stream_of(REDACTIONS, mode))
        for table in self._tables:
            if table.kind in CONTINUES and table.kind != REDACTIONS:
                self._keep(table)
        now = self._clock.now()
        self._renew(now)
        replaced = self._layout.root / f"replaced-{now:%Y%m%dT%H%M%SZ}"
        given = self._files()
        root = self._layout.root
        moves = [[str(one.relative_to(root)) for one in move] for move in self._moves(replaced)]
        fresh = self._layout.restore_moves.with_suffix(".new")
        with new_file(fresh) as file:
            file.write(json.dumps(moves).encode())
        fresh.rename(self._layout.restore_moves)
        sync(self._layout.restoring)
        finish(self._layout)
        return Restored(
            name=self._backup.name,
            made_at=self._manifest.began_at,
            journals={one.stream: one.seq for one in self._manifest.journals.values()},
            set_aside=_set_aside(self._settings, self._manifest, self._present),
            kept=tuple(sorted(self._kept)),
            redacted_again=self._redacted_again,
            redact=tuple(sorted(self._redact)),
            files=tuple(given),
            replaced=replaced,
            seconds=round(self._clock.monotonic() - began_s, 3),
        )

    def _copy(self) -> None:
        """The backup's tables, each file by its hash; and all of it as a processor would read it."""
        shutil.rmtree(self._layout.restoring, ignore_errors=True)
        free = shutil.disk_usage(self._layout.root).free
        if free < self._manifest.bytes:
            raise RestoreRefused(f"it takes {self._manifest.bytes:,} bytes, and {free:,} are free beside the lake")
        self._layout.restoring.mkdir()
        for path, expected in self._manifest.files.items():
            if not path.startswith(f"{LAKE}/"):
                continue
            with (self._backup / path).open("rb", buffering=0) as source:
                if self._target.take(path, source) != expected:
                    raise RestoreRefused(f"{self._backup / path} isn't what was backed up: its hash differs")
        found = next(table_problems(self._lake, self._manifest, self._tables, self._layout.run), None)
        if found is not None:
            raise RestoreRefused(f"backup {self._backup.name} isn't good: {found}")

    def _renew(self, now: datetime) -> None:
        """A new lineage of each journal."""
        for one in self._tables:
            if one.kind == JOURNAL and one.path in self._manifest.journals:
                writer = JournalWriter.create_or_open(str(self._lake / one.path), one.stream)
                replaced = self._present.get(one.path)
                writer.renew_lineage(now, self._reason, replaced=replaced)

    def _keep_and_redact(self, path: str) -> None:
        """Keeps the present redactions, and does again what was done after the backup."""
        table = next(one for one in self._tables if one.path == path)
        before = len(Redactions(self._lake / path).all())
        self._keep(table)
        for act, done in Redactions(self._lake / path).orders():
            if done is not None and done.number > before:
                self._redact_again(act)

    def _redact_again(self, act: Redaction) -> None:
        journal = self._lake / JOURNAL / act.stream
        found = next((one.path for one in self._tables if (one.kind, one.stream) == (BODIES, act.stream)), "")
        bodies = self._lake / found
        if not found or not has_table(str(bodies)) or not self._holds(bodies, act.body_sha256):
            # Its record comes after the backup's last row: it is decided again, if Kafka still has it.
            self._redact.append(act.event_key)
            return
        try:
            check_closed(journal, act.event_key, [act.body_sha256])
        except EventOpen:
            self._redact.append(act.event_key)
            return
        purge(bodies, [act.body_sha256], self._clock)
        self._redacted_again += 1

    def _holds(self, bodies: Path, sha256: str) -> bool:
        return bool(BodyStore(str(bodies), may_create=False).held([sha256]))

    def _keep(self, table: SourceTable) -> None:
        """Takes the present table in the place of the backup's, if it goes on from that."""
        present, copied = place_of(self._layout.lake, table.path), self._lake / table.path
        assert isinstance(present, Path)
        try:
            goes_on = has_table(str(present)) and CONTINUES[table.kind](present, copied if copied.exists() else None)
            if goes_on:
                fresh = Target(self._layout.restoring / "kept", private=False)
                copy_data(pin(present, table.path, fresh, with_state=False), fresh)
        except UNREADABLE:
            return
        if goes_on:
            shutil.rmtree(copied, ignore_errors=True)
            copied.parent.mkdir(parents=True, exist_ok=True)
            (self._layout.restoring / "kept" / table.path).rename(copied)
            self._kept.append(table.path)

    def _files(self) -> list[str]:
        """What people edit stays as it is; where it is gone, it is the backup's."""
        given = []
        for path, target in files(self._settings).items():
            if path in self._manifest.files and not target.exists():
                target.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
                with new_file(target) as file:
                    file.write((self._backup / path).read_bytes())
                given.append(path)
        return given

    def _moves(self, replaced: Path) -> Iterator[tuple[Path, Path]]:
        """The present lake and what was derived from it go aside; the restored one takes its place."""
        layout = self._layout
        streams = {one.stream for one in self._tables if one.kind == JOURNAL}
        derived = [
            *(layout.root / "index", layout.root / "checkpoints"),
            *(layout.stream(stream).board for stream in sorted(streams)),
            *(layout.stream(stream).trying for stream in sorted(streams)),
        ]
        for one in [*derived, layout.root / LAKE]:
            if one.exists():
                yield one, replaced / one.relative_to(layout.root)
        yield self._lake, layout.root / LAKE


def _check_unused(settings: Settings) -> None:
    """
    :raises RestoreRefused: a processor that no supervisor knows of runs on the data folder
    """
    for one in tables(settings):
        if one.kind == JOURNAL and is_held(settings.layout.stream(one.stream).index):
            raise RestoreRefused(f"a processor of {one.stream} runs on {settings.data_dir}: stop it first")


def _present(settings: Settings) -> dict[str, JournalState | None]:
    """The states of the journals that are there, by their path; None of one that can't be read."""
    journals = {one.path: place_of(settings.layout.lake, one.path) for one in tables(settings) if one.kind == JOURNAL}
    return {path: _state(place) for path, place in journals.items() if has_table(str(place))}


def _state(journal: Place) -> JournalState | None:
    try:
        return JournalReader(str(journal)).state()
    except UNREADABLE:
        return None


def _set_aside(
    settings: Settings, manifest: Manifest, present: dict[str, JournalState | None]
) -> dict[str, int | None]:
    """How many rows each present journal has beyond the backup's; None where it can't be read."""
    streams = {one.path: one.stream for one in tables(settings) if one.kind == JOURNAL}
    restored = {path: one.seq for path, one in manifest.journals.items()}
    return {
        streams[path]: None if state is None else max(0, state.next_seq - 1 - restored.get(path, 0))
        for path, state in present.items()
    }
