"""The present journals, and what they hold beyond a backup."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping

from core.location import Location
from journal.histories import JournalOlder, ReflectedPosition, common_rows, may_follow
from journal.lake import has_table
from journal.reader import JournalReader
from journal.state import JournalState
from stack.backup.check import LAKE
from stack.backup.copying import UNREADABLE
from stack.backup.manifest import JOURNAL, BackupManifest, RestoreRefused, list_tables, table_location
from stack.settings import Settings

Present = Mapping[str, JournalState | None]
"""What each journal that is there says of itself, by its path in the lake; None of one that can't be read."""


def present_journals(settings: Settings) -> Present:
    lake = settings.layout.lake
    journals = {
        table.path: table_location(lake, table.path) for table in list_tables(settings) if table.kind == JOURNAL
    }
    return {path: _read_state(journal) for path, journal in journals.items() if has_table(str(journal))}


def rows_beyond(
    settings: Settings, present: Present, backup: Location, manifest: BackupManifest
) -> dict[str, int | None]:
    """How many rows each present journal has, by its stream, that aren't the backup's: those after the last row that
    both have. None where it can't be read.

    :raises RestoreRefused: the backup's journal can't be read
    """
    streams = {table.path: table.stream for table in list_tables(settings) if table.kind == JOURNAL}
    return {
        streams[path]: None
        if state is None
        else _count_rows_beyond(settings.layout.lake, path, state, backup, manifest)
        for path, state in present.items()
    }


def _read_state(journal: Location) -> JournalState | None:
    try:
        return JournalReader(str(journal)).state()
    except UNREADABLE:
        return None


def _count_rows_beyond(
    lake: Location, path: str, state: JournalState, backup: Location, manifest: BackupManifest
) -> int:
    last_seq = state.next_seq - 1
    if path not in manifest.journals:
        return last_seq
    try:
        copied = JournalReader(str(table_location(backup / LAKE, path)), manifest.tables[path].version)
        with contextlib.suppress(JournalOlder):
            if may_follow("the present journal", ReflectedPosition(state.lineage, last_seq, state.row_hash), copied):
                return 0
    except UNREADABLE as broken:
        raise RestoreRefused(f"backup {backup.name}: {broken}") from broken
    try:
        return last_seq - common_rows(JournalReader(str(table_location(lake, path))), copied)
    except UNREADABLE:
        # Where they part can't be seen; that they do is known.
        return max(1, last_seq - manifest.journals[path].seq)
