"""Snapshots of a stream's index in the lake: a processor without an index begins with one, and reads the rest.

A snapshot is a manifest, numbered, and the files that it names. RocksDB never changes a file with keys, and each is
named by its content: a further snapshot puts only the files that came since. Bodies aren't in it; they are fetched from
their own table, where redaction and retention reach them.
"""

from __future__ import annotations

import hashlib
import json
import logging
import shutil
import threading
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass, replace
from datetime import timedelta
from pathlib import Path

from core.clock import Clock
from core.location import make_folder
from journal.errors import IndexBroken, problem_of
from journal.index import Index, IndexCopy, table_name
from journal.reader import JournalReader
from journal.rocksdb_store import CURRENT
from journal.storage import make_numbered_name, numbers_in, open_storage

log = logging.getLogger(__name__)

FIRST_S, EVERY_S = 60.0, 600.0
"""After a start, and from one to the next: what ten minutes bring is read from the journal in some seconds."""

ROWS_MIN = 10_000
"""So few rows are read from the journal as quickly as from a snapshot."""

KEPT = 2
GRACE = timedelta(hours=1)
"""A manifest goes when `KEPT` newer ones have been there for this long: a processor may be reading its files. A file
that no manifest names goes after as long: a snapshot that is being made may be about to name it."""

READERS = 3
"""Files that are read at once, each up to 64 MB in memory."""

HASHES = "hashes.json"
"""In the index's folder: its files' hashes, so that a process needn't read all of them for its first snapshot."""


@dataclass(frozen=True, slots=True)
class SnapshotManifest:
    table: str
    lineage: str
    seq: int
    row_hash: str
    files: Mapping[str, str]

    def why_unfit(self, reader: JournalReader) -> str | None:
        if self.table != table_name(reader).decode():
            return "it is of another table, or of another version"
        if self.lineage != reader.lineage:
            return "it is of another lineage: the journal was restored since"
        if self.seq > reader.last_seq:
            return f"it is ahead of the journal, which ends with row {reader.last_seq}"
        if self.row_hash != reader.row_hash_at(self.seq):
            return "the journal holds another row there"
        return None


def load_newest(index: Index, place: str, reader: JournalReader) -> int | None:
    """Lets the index continue from the newest snapshot that fits the journal, if that saves reading `ROWS_MIN` rows.

    Returns the snapshot's row; None where none was taken. What doesn't fit is reported and passed over.

    :raises JournalOlder: as `Index.catch_up`
    """
    here = index.seq if index.can_follow(reader) else 0
    if reader.last_seq - here < ROWS_MIN:
        return None
    for number, manifest in _read_manifests(place):
        if why := manifest.why_unfit(reader):
            log.warning("the index's snapshot %d at row %d isn't used: %s", number, manifest.seq, why)
        elif manifest.seq - here >= ROWS_MIN:
            try:
                index.restore_from_copy(lambda folder, files=manifest.files: _fetch_files(place, files, folder))  # type: ignore[misc]
            except (OSError, IndexBroken) as failed:
                log.warning("the index's snapshot %d can't be used: %s", number, problem_of(failed))
                here = index.seq
            else:
                log.info("the index begins with the snapshot at row %d", index.seq)
                return index.seq
    return None


def copy_for(place: str, other: str, lineage: str) -> None:
    """Copies the newest snapshot that can be copied to another place, as one of a journal with that lineage, which
    holds the same rows. One that can't be copied is reported and passed over.

    Whatever is at the other place goes first: nobody but the caller uses it yet.
    """
    for number, manifest in _read_manifests(place):
        try:
            for folder in (other, _locate_files(other)):
                make_folder(folder)
                storage = open_storage(folder)
                storage.delete([file.name for file in storage.files()])
            source, target = open_storage(_locate_files(place)), open_storage(_locate_files(other))
            for name in sorted(set(manifest.files.values())):
                target.put_file(name, source.read(name))
            open_storage(other).put_new(make_numbered_name(1), _encode_manifest(replace(manifest, lineage=lineage)))
        except OSError as failed:
            log.warning("the index's snapshot %d isn't copied: %s", number, problem_of(failed))
        else:
            return


class StopSignal:
    def __init__(self) -> None:
        self.ended = threading.Event()
        self.reading = threading.Lock()

    def end(self) -> None:
        self.ended.set()
        with self.reading:
            pass


def save_snapshot(index: Index, place: str, clock: Clock, going: StopSignal | None = None) -> int | None:
    """Makes a snapshot, unless the newest one has nearly as many rows; returns its row.

    :raises OSError: the place can't be written
    """
    known = _read_manifests(place)
    if index.seq - _find_reached_row(known, index) < ROWS_MIN:
        return None
    going = going or StopSignal()
    folder = index.folder / "copy"
    try:
        with going.reading:
            if going.ended.is_set():
                return None
            shutil.rmtree(folder, ignore_errors=True)
            copy = index.copy(folder)
        return _write_snapshot(copy, folder.with_name(HASHES), place, clock, known, going)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _write_snapshot(
    copy: IndexCopy,
    hashes: Path,
    place: str,
    clock: Clock,
    known: Sequence[tuple[int, SnapshotManifest]],
    going: StopSignal,
) -> int | None:
    make_folder(_locate_files(place))
    storage = open_storage(_locate_files(place))
    stored_files = {(stored.name, stored.size) for stored in storage.files()}
    before, files = _read_hashes(hashes), dict[str, str]()
    for file in copy.files:
        if going.ended.is_set():
            return None
        size = file.stat().st_size
        name = before.get(file.name) if file.suffix == ".sst" else None
        files[file.name] = name = name or _hash_of(file)
        if (name, size) not in stored_files:
            storage.adopt_file(file, name)
    _write_hashes(hashes, files)
    manifest = SnapshotManifest(
        copy.table.decode(), copy.position.lineage, copy.position.seq, copy.position.row_hash, files
    )
    number = known[0][0] + 1 if known else 1
    open_storage(place).put_new(make_numbered_name(number), _encode_manifest(manifest))
    _remove_old(place, [(number, manifest), *known], clock)
    return manifest.seq


def _encode_manifest(manifest: SnapshotManifest) -> bytes:
    return json.dumps(asdict(manifest)).encode()


def _find_reached_row(known: Sequence[tuple[int, SnapshotManifest]], index: Index) -> int:
    if not known or known[0][1].lineage != index.position.lineage or known[0][1].seq > index.seq:
        return 0
    return known[0][1].seq


def _remove_old(place: str, known: Sequence[tuple[int, SnapshotManifest]], clock: Clock) -> None:
    """Deletes old manifests first: none that is there names a file that is gone."""
    manifests, storage, until = open_storage(place), open_storage(_locate_files(place)), clock.now() - GRACE
    old = {file.name for file in manifests.files() if file.at < until}
    gone = [name for number in numbers_in(manifests) if (name := make_numbered_name(number)) in old][:-KEPT]
    manifests.delete(gone)
    named = {
        name for number, manifest in known if make_numbered_name(number) not in gone for name in manifest.files.values()
    }
    storage.delete([file.name for file in storage.files() if file.name not in named and file.at < until])


def _read_manifests(place: str) -> list[tuple[int, SnapshotManifest]]:
    manifests = []
    try:
        storage = open_storage(place)
        numbers = numbers_in(storage)
    except OSError as failed:
        log.warning("snapshots of the index can't be listed: %s", problem_of(failed))
        return []
    for number in reversed(numbers):
        try:
            manifests.append((number, SnapshotManifest(**json.loads(storage.read(make_numbered_name(number))))))
        except (OSError, ValueError, TypeError) as failed:
            log.warning("the index's snapshot %d can't be read: %s", number, problem_of(failed))
    return manifests


def _fetch_files(place: str, files: Mapping[str, str], folder: Path) -> None:
    storage = open_storage(_locate_files(place))

    def fetch(name: str) -> None:
        data = storage.read(files[name])
        if hashlib.sha256(data).hexdigest() != files[name]:
            raise OSError(f"{_locate_files(place)}/{files[name]} isn't what its name says")
        (folder / Path(name).name).write_bytes(data)

    with ThreadPoolExecutor(READERS) as pool:
        list(pool.map(fetch, [name for name in files if name != CURRENT]))
    fetch(CURRENT)
    _write_hashes(folder / HASHES, files)


def _locate_files(place: str) -> str:
    return f"{place.rstrip('/')}/files"


def _hash_of(file: Path) -> str:
    with file.open("rb") as opened:
        return hashlib.file_digest(opened, "sha256").hexdigest()


def _write_hashes(file: Path, files: Mapping[str, str]) -> None:
    file.write_text(json.dumps({name: of for name, of in files.items() if name.endswith(".sst")}), "utf-8")


def _read_hashes(file: Path) -> dict[str, str]:
    try:
        read = json.loads(file.read_text("utf-8"))
    except (OSError, ValueError):
        return {}
    return read if isinstance(read, dict) else {}


class Snapshots:
    """Makes snapshots of an index that is written to, from a thread of its own, until `close`."""

    def __init__(self, index: Index, place: str, clock: Clock) -> None:
        self._index = index
        self._place = place
        self._clock = clock
        self._going = StopSignal()
        self._thread = threading.Thread(target=self._save_repeatedly, name="snapshots", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def close(self) -> None:
        """Returns when the index is read no more. A snapshot under way is given up."""
        self._going.end()

    def _save_repeatedly(self) -> None:
        wait_s = FIRST_S
        while not self._going.ended.wait(wait_s):
            wait_s = EVERY_S
            try:
                seq = save_snapshot(self._index, self._place, self._clock, self._going)
            except (OSError, IndexBroken) as failed:
                log.warning("no snapshot of the index is made: %s", problem_of(failed))
            else:
                if seq is not None:
                    log.info("the index has a snapshot at row %d", seq)
