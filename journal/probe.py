"""Whether a place gives each name to one writer only: what every commit of the lake rests on."""

from __future__ import annotations

import contextlib
import threading
import uuid
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from core.location import Location, make_folder
from journal.stores import open_storage

WRITERS = 4
NAMES = 50
WAIT_S_MAX = 120.0


@dataclass(frozen=True, slots=True)
class Race:
    """What came of it. ``winners``: by writer, how many names it was told it has. ``twice``: names that several were
    told so, or that hold another writer's file; ``nobody``: names that all were refused.
    """

    winners: tuple[int, ...]
    twice: int
    nobody: int

    @property
    def holds(self) -> bool:
        return not self.twice and not self.nobody


def race(lake: Location, writers: int = WRITERS, names: int = NAMES) -> Race:
    """Lets writers put different files under the same names at the same moments; nothing of it stays.

    :raises OSError: the place can't be reached, or refuses
    """
    folder = lake / f"_probe-{uuid.uuid4().hex}"
    make_folder(str(folder))
    together = threading.Barrier(writers)
    with ThreadPoolExecutor(writers) as pool:
        won = list(pool.map(lambda writer: _put_all(folder, writer, names, together), range(writers)))
    told = _told(folder, won, names)
    _remove(folder, names)
    return told


def _put_all(folder: Location, writer: int, names: int, together: threading.Barrier) -> frozenset[int]:
    storage, won = open_storage(folder), set()
    try:
        for name in range(names):
            together.wait(WAIT_S_MAX)
            with contextlib.suppress(FileExistsError):
                storage.put_new(str(name), str(writer).encode())
                won.add(name)
    except threading.BrokenBarrierError as other_failed:
        raise OSError(f"{folder}: another writer failed") from other_failed
    except OSError:
        together.abort()
        raise
    return frozenset(won)


def _told(folder: Location, won: Sequence[frozenset[int]], names: int) -> Race:
    storage, twice, nobody = open_storage(folder), 0, 0
    for name in range(names):
        having = [writer for writer, its in enumerate(won) if name in its]
        nobody += not having
        twice += len(having) > 1 or (len(having) == 1 and storage.read(str(name)) != str(having[0]).encode())
    return Race(tuple(map(len, won)), twice, nobody)


def _remove(folder: Location, names: int) -> None:
    storage = open_storage(folder)
    for name in range(names):
        storage.delete(str(name))
    if isinstance(folder, Path):
        folder.rmdir()
