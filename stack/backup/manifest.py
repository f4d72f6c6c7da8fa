"""Lists what is backed up, and keeps the manifest of what a backup holds.

It names every file by its hash, every table's version, every journal's state. It is written last.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path, PurePosixPath
from typing import Any

from core.clock import from_rfc3339, to_rfc3339
from core.errors import PayhookError
from core.location import Location
from core.routing import MODES, stream_of
from stack.backup.trees import CopiedFile, FileTree, read_all, tree_at
from stack.settings import Settings, streams_of

MANIFEST, REJECTED = "manifest.json", "manifest.rejected.json"
PARTIAL = ".partial"
"""After a backup's name: a file beside it, while it is being made or removed. It may be removed by whoever finds it."""
FORMAT = 1
NAME, NAME_FORM = re.compile(r"\d{8}T\d{6}Z"), "%Y%m%dT%H%M%SZ"
"""A backup's folder: when it was begun (UTC), or later where a clock ran ahead; see `name_after`."""

JOURNAL, BODIES, RECEIPTS, REDACTIONS, ACTS = "journal", "bodies", "receipts", "redactions", "acts"
REFERRING = (RECEIPTS, "reconciliation", "reconciliation-runs", "catch-up")
"""Tables of a mode that refer to rows of its journal, which never refers to them."""

_SHA256 = re.compile(r"[0-9a-f]{64}")


class BackupImpossible(PayhookError):
    def __init__(self, problem: str) -> None:
        self.problem = problem
        super().__init__(f"no backup was made: {problem}")


class NoBackup(PayhookError):
    def __init__(self, folder: Location, problem: str) -> None:
        self.folder = folder
        self.problem = problem
        super().__init__(f"{folder}: {problem}")


class RestoreRefused(PayhookError):
    def __init__(self, problem: str) -> None:
        self.problem = problem
        super().__init__(f"nothing was restored: {problem}")


class NewerRows(RestoreRefused):
    def __init__(self, name: str, ahead: Sequence[tuple[str, int]]) -> None:
        self.name = name
        self.ahead = tuple(ahead)
        counts = ", ".join(f"{count:,} of {stream}" for stream, count in ahead)
        super().__init__(
            f"the present journals hold rows that backup {name} doesn't ({counts}). What Kafka still holds of them is "
            "decided again, the rest isn't. --replace-newer sets them aside"
        )


@dataclass(frozen=True, slots=True)
class CopiedTable:
    """A Delta table at one version; ``table_id`` is its own id, which it keeps for life."""

    kind: str
    version: int
    table_id: str


@dataclass(frozen=True, slots=True)
class CopiedJournal:
    stream: str
    epoch: int
    seq: int
    chain: str
    row_hash: str
    lineage: str


@dataclass(frozen=True, slots=True)
class BackupManifest:
    """``files`` are by their path in the backup, ``tables`` and ``journals`` by their path in the lake."""

    began_at: datetime
    files: Mapping[str, CopiedFile]
    tables: Mapping[str, CopiedTable]
    journals: Mapping[str, CopiedJournal]

    @property
    def bytes(self) -> int:
        return sum(file.size for file in self.files.values())

    def to_json(self) -> str:
        fields = {"format": FORMAT, "began_at": to_rfc3339(self.began_at)}
        parts = {name: _to_dicts(getattr(self, name)) for name in ("journals", "tables", "files")}
        return json.dumps({**fields, **parts}, indent=1) + "\n"


@dataclass(frozen=True, slots=True)
class SourceTable:
    kind: str
    path: str
    stream: str = ""


def list_tables(settings: Settings) -> list[SourceTable]:
    """Lists every table that can't be made again, in the order in which versions are pinned.

    What refers to other things comes first, so that what it refers to is in the copy.

    A journal is pinned before the bodies and the acts that it refers to, which were written before its rows; that of a
    stream that reads another's comes before that one's. Redactions and bodies change under the maintenance lock alone.
    Postings, indexes and lists of dead events are made again from the journal.
    """
    streams = sorted(streams_of(settings).values(), key=lambda stream: stream.source_stream is None)
    layout = settings.layout
    journal_names = [name for mode in MODES for stream in streams for name in stream.names(mode)]
    return [
        *(SourceTable(kind, stream_of(kind, mode)) for mode in MODES for kind in REFERRING),
        *(SourceTable(JOURNAL, f"journal/{stream}", stream) for stream in journal_names),
        *(SourceTable(BODIES, layout.stream(stream).bodies_table.name, stream) for stream in journal_names),
        *(SourceTable(REDACTIONS, stream_of(REDACTIONS, mode)) for mode in MODES),
        SourceTable(ACTS, layout.audit_log.name),
    ]


def list_files(settings: Settings) -> dict[str, Path]:
    """Lists the files that people's work is in, by their path in a backup. Secrets aren't among them."""
    return {
        "console/users.json": settings.layout.users,
        "merchants.toml": Path(settings.ledger.merchants_file),
        "subscribers.toml": Path(settings.notify.subscribers_file),
    }


def table_location(lake: Location, table: str) -> Location:
    for part in table.split("/"):
        lake = lake / part
    return lake


def read_manifest(backup: Location) -> BackupManifest:
    """Reads the manifest of a backup's folder.

    :raises NoBackup: there is none, it isn't whole, or newer code wrote it
    """
    try:
        with tree_at(backup).open(MANIFEST) as file:
            fields = json.loads(read_all(file))
        if fields["format"] != FORMAT:
            raise NoBackup(backup, f"its manifest is of format {fields['format']}, this version reads {FORMAT}")
        files = {_check_inside(path): CopiedFile(**entry) for path, entry in fields["files"].items()}
        if any(not _SHA256.fullmatch(entry.sha256) or type(entry.size) is not int for entry in files.values()):
            raise ValueError("a file without its hash or size")
        tables = {_check_inside(path): CopiedTable(**entry) for path, entry in fields["tables"].items()}
        journals = {_check_inside(path): CopiedJournal(**entry) for path, entry in fields["journals"].items()}
        if not journals or journals.keys() != {path for path, entry in tables.items() if entry.kind == JOURNAL}:
            raise ValueError("no journal, or one without its table or its state")
        return BackupManifest(from_rfc3339(fields["began_at"]), files, tables, journals)
    except FileNotFoundError:
        raise NoBackup(backup, "it has no manifest: no backup, or one that was never completed") from None
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as broken:
        raise NoBackup(backup, f"its manifest isn't whole: {broken!r}") from broken


def list_backups(backups: FileTree) -> list[str]:
    """Lists the folders of backups, complete or not, oldest first.

    :raises OSError: they can't be listed
    """
    return [name for name in backups.names() if NAME.fullmatch(name)]


def name_after(earlier: Sequence[str], began_at: datetime) -> str:
    """Names a new backup later than all that are there, whatever the clock says: the newest ones are kept.

    :param earlier: as `list_backups` has them
    """
    if earlier:
        newest = datetime.strptime(earlier[-1], NAME_FORM).replace(tzinfo=UTC)
        began_at = max(began_at, newest + timedelta(seconds=1))
    return f"{began_at:{NAME_FORM}}"


def list_complete_backups(backups: FileTree) -> list[str]:
    return [name for name in list_backups(backups) if backups.has_file(f"{name}/{MANIFEST}")]


def choose_backup(folder: Location, name: str | None) -> Location:
    """Finds a backup by its name, else the newest complete one.

    :raises NoBackup: there is none
    """
    try:
        present = list_complete_backups(tree_at(folder))
    except OSError as unreadable:
        raise NoBackup(folder, f"it can't be read: {unreadable}") from unreadable
    if name is None and not present:
        raise NoBackup(folder, "it holds no complete backup")
    if name is not None and name not in present:
        raise NoBackup(folder, f"it holds no complete backup {name}; there is {', '.join(present[-5:]) or 'none'}")
    return folder / (name or present[-1])


def _check_inside(path: str) -> str:
    if PurePosixPath(path).is_absolute() or ".." in PurePosixPath(path).parts:
        raise ValueError(f"a path that leads out of the backup: {path}")
    return path


def _to_dicts(entries: Mapping[str, Any]) -> dict[str, Any]:
    return {name: asdict(entry) for name, entry in sorted(entries.items())}
