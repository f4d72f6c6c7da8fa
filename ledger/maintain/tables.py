"""The tables that are maintained, the lock of a maintenance, and where files lie before they are part of a table."""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import shutil
import tempfile
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Literal, TypeAlias

from deltalake import DeltaTable

from core.clock import to_rfc3339
from core.errors import PayhookError
from core.location import Location
from core.routing import JOURNAL_TOPIC
from journal.reader import JournalReader
from ledger.postings import mark_of

Kind: TypeAlias = Literal[
    "journal",
    "bodies",
    "postings",
    "receipts",
    "redactions",
    "acts",
    "reconciliation",
    "reconciliation-runs",
    "catch-up",
]

ORDERED_BY: dict[Kind, str] = {"journal": "seq", "postings": "seq", "redactions": "number", "acts": "number"}
"""The column in whose order files follow one another; those without one do by their age."""

SORTED_BY: dict[Kind, tuple[str, ...]] = {
    "journal": ("seq",),
    # A look-up by hash then reads one row group of a file instead of all.
    "bodies": ("body_sha256",),
    "postings": ("seq", "line"),
    "receipts": ("partition", "offset", "line"),
    "redactions": ("number",),
    "acts": ("number",),
    # A page shows one run, kind by kind.
    "reconciliation": ("run_id", "kind", "line", "seq"),
    "reconciliation-runs": ("at", "run_id"),
    "catch-up": ("at", "event_key"),
}

OF_A_STREAM: frozenset[Kind] = frozenset({"journal", "bodies", "postings"})
"""Their writer lives as long as a processor and removes its log's old entries itself: one that it hasn't seen must not
be gone when it comes back. Writers of the other tables open them each time, so maintenance clears their logs."""


@dataclass(frozen=True, slots=True)
class LakeTable:
    stream: str
    kind: Kind
    path: Location

    @property
    def name(self) -> str:
        return self.kind if self.stream else self.path.name


@dataclass(frozen=True, slots=True)
class StreamTables:
    """The tables of a work stream. ``postings``: None where it has none.

    ``readers``: the journals of streams that read its journal. ``redactions``: the record of who had bodies removed.
    """

    stream: str
    journal: Location
    bodies: Location
    postings: Location | None = None
    readers: tuple[Location, ...] = ()
    redactions: Location | None = None

    def list_tables(self) -> Iterator[LakeTable]:
        named: tuple[tuple[Kind, Location | None], ...] = (
            ("journal", self.journal),
            ("bodies", self.bodies),
            ("postings", self.postings),
        )
        for kind, path in named:
            if path is not None and DeltaTable.is_deltatable(str(path)):
                yield LakeTable(self.stream, kind, path)


def list_other_tables(places: Iterable[tuple[Kind, Location]]) -> Iterator[LakeTable]:
    for kind, path in places:
        if DeltaTable.is_deltatable(str(path)):
            yield LakeTable("", kind, path)


def find_behind_since(stream: StreamTables) -> datetime | None:
    """Returns when the first row was decided that a derived stream hasn't taken; None: all have everything.

    A running stream reads rows from the files in which they were committed, so those must stay for it. At its start it
    reads them by seq, whatever files hold them.
    """
    reader = JournalReader(str(stream.journal))
    marks = [_find_first_unread(journal, stream.stream) for journal in stream.readers]
    if stream.postings is not None and DeltaTable.is_deltatable(str(stream.postings)):
        marks.append(mark_of(DeltaTable(str(stream.postings))) + 1)
    following = min((mark for mark in marks if mark is not None), default=None)
    if following is None or not 0 < following <= reader.last_seq:
        return None
    return reader.rows_of([following])[0].decided_at


def _find_first_unread(journal: Location, read: str) -> int | None:
    if not DeltaTable.is_deltatable(str(journal)):
        return None
    marks = JournalReader(str(journal)).state().marks
    first_untaken = [offsets[0] for topic, offsets in marks.items() if topic.startswith(f"{JOURNAL_TOPIC}{read}/")]
    return min(first_untaken, default=None)


LOCK = "maintain.lock"


class MaintenanceRunning(PayhookError):
    def __init__(self, run_dir: Path, holder: str) -> None:
        self.run_dir = run_dir
        self.holder = holder
        super().__init__(
            f"maintenance is running already ({holder}); this one ends and has changed nothing. Run it again later."
        )


@contextlib.contextmanager
def hold_maintenance_lock(run_dir: Path, now: datetime) -> Iterator[None]:
    """Holds the data folder's lock for this process; its file stays, and names its last holder.

    :raises MaintenanceRunning: a living process holds it
    """
    run_dir.mkdir(parents=True, exist_ok=True)
    with (run_dir / LOCK).open("a+", encoding="utf-8") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise MaintenanceRunning(run_dir, _describe_lock_holder(run_dir / LOCK)) from None
        lock.truncate(0)
        lock.write(json.dumps({"pid": os.getpid(), "since": to_rfc3339(now)}))
        lock.flush()
        yield


def _describe_lock_holder(lock: Path) -> str:
    try:
        holder = json.loads(lock.read_text("utf-8"))
        return f"process {holder['pid']}, since {holder['since']}"
    except (OSError, ValueError, KeyError, TypeError):
        return "a process that has only just begun"


MAINTAIN, REBUILD = "_maintain", "_rebuild"
"""In a table's folder, one for each kind of work; a name with this beginning is no part of a table."""


@contextlib.contextmanager
def open_staging(table: Location, name: str) -> Iterator[Path]:
    """Makes a folder of this machine for a table's files before they are part of it; it is gone afterwards.

    A table on a disk has it in its own folder, so that a rename takes a file out of it. What a killed run left there is
    removed first.
    """
    if not isinstance(table, Path):
        with tempfile.TemporaryDirectory(prefix=f"payhook{name}-") as folder:
            yield Path(folder)
        return
    clear_staging(table, name)
    try:
        (table / name).mkdir()
        yield table / name
    finally:
        clear_staging(table, name)


def clear_staging(table: Location, name: str) -> None:
    if isinstance(table, Path):
        shutil.rmtree(table / name, ignore_errors=True)
