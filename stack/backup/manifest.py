"""What a backup holds: every file by its hash, every table's version, every journal's state. Written last."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from datetime import datetime
from pathlib import Path, PurePosixPath
from typing import Any

from core.clock import from_rfc3339, to_rfc3339
from stack.backup.errors import NoBackup

MANIFEST, REJECTED = "manifest.json", "manifest.rejected.json"
FORMAT = 1
NAME = re.compile(r"\d{8}T\d{6}Z")
"""A backup's folder: when it was begun (UTC)."""

_SHA256 = re.compile(r"[0-9a-f]{64}")


@dataclass(frozen=True, slots=True)
class CopiedFile:
    """``size`` in bytes; ``sha256`` is hexadecimal."""

    size: int
    sha256: str


@dataclass(frozen=True, slots=True)
class CopiedTable:
    """A Delta table at one version; ``table_id`` is its own id, which it keeps for life."""

    kind: str
    version: int
    table_id: str


@dataclass(frozen=True, slots=True)
class CopiedJournal:
    """What a journal says of itself at the version that was copied (`journal.state.JournalState`)."""

    stream: str
    epoch: int
    seq: int
    chain: str
    row_hash: str
    lineage: str


@dataclass(frozen=True, slots=True)
class Manifest:
    """``files`` are by their path in the backup, ``tables`` and ``journals`` by their path in the lake."""

    began_at: datetime
    files: Mapping[str, CopiedFile]
    tables: Mapping[str, CopiedTable]
    journals: Mapping[str, CopiedJournal]

    @property
    def bytes(self) -> int:
        return sum(one.size for one in self.files.values())

    def to_json(self) -> str:
        fields = {"format": FORMAT, "began_at": to_rfc3339(self.began_at)}
        parts = {name: _dicts(getattr(self, name)) for name in ("journals", "tables", "files")}
        return json.dumps({**fields, **parts}, indent=1) + "\n"


def read_manifest(backup: Path) -> Manifest:
    """The manifest of a backup's folder.

    :raises NoBackup: there is none, it isn't whole, or newer code wrote it
    """
    try:
        fields = json.loads((backup / MANIFEST).read_text("utf-8"))
        if fields["format"] != FORMAT:
            raise NoBackup(backup, f"its manifest is of format {fields['format']}, this version reads {FORMAT}")
        files = {_inside(path): CopiedFile(**one) for path, one in fields["files"].items()}
        if any(not _SHA256.fullmatch(one.sha256) or type(one.size) is not int for one in files.values()):
            raise ValueError("a file without its hash or size")
        tables = {_inside(path): CopiedTable(**one) for path, one in fields["tables"].items()}
        journals = {_inside(path): CopiedJournal(**one) for path, one in fields["journals"].items()}
        return Manifest(from_rfc3339(fields["began_at"]), files, tables, journals)
    except FileNotFoundError:
        raise NoBackup(backup, "it has no manifest: no backup, or one that was never completed") from None
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as broken:
        raise NoBackup(backup, f"its manifest isn't whole: {broken!r}") from broken


def names(folder: Path) -> list[str]:
    """The folders of backups, complete or not, oldest first.

    :raises OSError: the folder can't be read
    """
    return sorted(one.name for one in folder.iterdir() if NAME.fullmatch(one.name) and one.is_dir())


def complete(folder: Path) -> list[str]:
    """Those of `names` with a manifest."""
    return [name for name in names(folder) if (folder / name / MANIFEST).is_file()]


def chosen(folder: Path, name: str | None) -> Path:
    """A backup by its name, else the newest complete one.

    :raises NoBackup: there is none
    """
    try:
        there = complete(folder)
    except OSError as unreadable:
        raise NoBackup(folder, f"it can't be read: {unreadable}") from unreadable
    if name is None and not there:
        raise NoBackup(folder, "it holds no complete backup")
    if name is not None and name not in there:
        raise NoBackup(folder, f"it holds no complete backup {name}; there is {', '.join(there[-5:]) or 'none'}")
    return folder / (name or there[-1])


def _inside(path: str) -> str:
    """
    :raises ValueError: it leads out of its folder
    """
    if PurePosixPath(path).is_absolute() or ".." in PurePosixPath(path).parts:
        raise ValueError(f"a path that leads out of the backup: {path}")
    return path


def _dicts(found: Mapping[str, Any]) -> dict[str, Any]:
    return {name: asdict(one) for name, one in sorted(found.items())}
