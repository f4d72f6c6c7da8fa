"""The lease of one stream: which of several processes decides it, while the others stand by.

It only keeps processes out of each other's way. What keeps the journal safe is its fence (`journal.writer`): a process
that continues without the lease has its next commit refused.

The lease is a row of numbered files in the lake, each put where none is: one to take it, one for each renewal, one to
give it up. The highest number says whose it is. No clocks of two machines are compared: a process that stands by takes
the lease once it has seen no higher number for `LAPSES_S` by its own monotonic clock.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import logging
import os
import socket
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from core.clock import Clock, from_rfc3339, to_rfc3339
from core.location import make_folder
from journal.errors import StorageDown, problem_of
from journal.storage import make_numbered_name, numbers_in, open_storage

log = logging.getLogger(__name__)

RENEW_S = 2.0
LAPSES_S = 12.0
"""Six renewals. A holder whose process or store pauses for up to `LAPSES_S` - `RENEW_S` keeps its lease; a takeover
within 30 s leaves more than as long again for what the new holder opens."""

KEPT_FILES = 20
"""40 s of renewals: who has just read a number still finds its file."""

WHAT = "the lease"


@dataclass(frozen=True, slots=True)
class Holder:
    """The holder of a lease, its host, and when it took it by that host's clock (to be shown, not compared).

    ``released``: it gave the lease up. ``here``: it lives and works on this very data folder.
    """

    owner: str
    host: str
    since: datetime
    released: bool = False
    here: bool = False


class Lease:
    """A process's part in the lease of a stream.

    ``place`` is the lease's folder in the lake. ``lock`` is a file on this machine that the holder keeps locked. So a
    process on the same data folder knows at once that the holder is dead, and needn't wait.

    All methods but the renewals run on one thread.
    """

    def __init__(self, place: str, owner: str, clock: Clock, lock: Path) -> None:
        self._place = place
        self._owner = owner
        self._clock = clock
        self._lock = _Lock(lock)
        self._number = 0
        self._held: Holder | None = None
        self._seen: tuple[int, float] | None = None
        self._keeping: _RenewalThread | None = None
        self.holder: Holder | None = None

    @property
    def is_held(self) -> bool:
        return self._held is not None

    def take_lease(self) -> bool:
        """Looks once, and takes the lease if it is free; returns whether this process has it now, else `holder` has it.

        :raises StorageDown: the place can't be reached. The wait for a silent holder begins again
        """
        if self.is_held:
            return True
        try:
            return self._check_lease()
        except OSError as failed:
            self._seen = None
            raise StorageDown(WHAT, self._place, problem_of(failed)) from failed

    def renew(self) -> bool:
        """Renews the lease; returns whether it is still this process's: another one may have taken it.

        :raises StorageDown: the place can't be reached
        """
        held = self._held
        try:
            # A process that was paused for long may have had the file when this one took the lease.
            self._lock.lock_for_owner(self._owner)
            return held is not None and self._put(held)
        except OSError as failed:
            raise StorageDown(WHAT, self._place, problem_of(failed)) from failed

    def keep_renewing(self, on_lost: Callable[[], None]) -> None:
        """Renews it from a thread of its own, until `release`, `drop`, or another process has taken it."""
        self._keeping = _RenewalThread(self.renew, lambda: self._handle_loss(on_lost))

    def release(self) -> None:
        held = self._held
        self.drop()
        if held is not None:
            try:
                self._put(Holder(held.owner, held.host, held.since, released=True))
            except OSError as failed:
                log.warning("the lease can't be given up, it lapses in %.0f s: %s", LAPSES_S, problem_of(failed))

    def drop(self) -> None:
        """Stops renewing it, and no longer counts on it."""
        self._held = None
        self._seen = None
        if self._keeping is not None:
            self._keeping.close()
            self._keeping = None
        self._lock.release_file()

    def _handle_loss(self, on_lost: Callable[[], None]) -> None:
        self._held = None
        on_lost()

    def _check_lease(self) -> bool:
        before = self._clock.monotonic_s()
        number, newest = self._read_newest()
        if newest is None or newest.released or newest.owner == self._owner or self._lock.is_of_the_dead(newest.owner):
            return self._take_after(number)
        self.holder = Holder(newest.owner, newest.host, newest.since, here=self._lock.names_owner(newest.owner))
        if self._seen is None or self._seen[0] != number:
            self._seen = number, self._clock.monotonic_s()
        elif before - self._seen[1] >= LAPSES_S:
            log.warning("the lease of %s has not been renewed for %.0f s", newest.host, before - self._seen[1])
            return self._take_after(number)
        return False

    def _take_after(self, after: int) -> bool:
        make_folder(self._place)
        self._lock.lock_for_owner(self._owner)
        self._number = after
        held = Holder(self._owner, f"{socket.gethostname()} (pid {os.getpid()})", self._clock.now())
        if self._put(held):
            self._held = self.holder = held
            return True
        self._lock.release_file()
        return False

    def _put(self, holder: Holder) -> bool:
        """Puts the next number; returns whether the newest one is this process's afterwards.

        A process that slept can put a removed number again, so only the newest counts.
        """
        storage, next_number = open_storage(self._place), self._number + 1
        tree = {
            "owner": holder.owner,
            "host": holder.host,
            "since": to_rfc3339(holder.since),
            "released": holder.released,
        }
        is_put = False
        with contextlib.suppress(FileExistsError):  # this process's, of which it didn't hear, or another one's
            storage.put_new(make_numbered_name(next_number), json.dumps(tree).encode())
            is_put = True
        numbers = numbers_in(storage)
        newest = max(numbers, default=0)
        if not (is_put and newest == next_number) and self._read(newest).owner != self._owner:
            return False
        self._number = newest
        if len(numbers) > 2 * KEPT_FILES:
            with contextlib.suppress(OSError):
                storage.delete([make_numbered_name(number) for number in numbers if number <= newest - KEPT_FILES])
        return True

    def _read_newest(self) -> tuple[int, Holder | None]:
        number = max(numbers_in(open_storage(self._place)), default=0)
        return number, self._read(number) if number else None

    def _read(self, number: int) -> Holder:
        data = open_storage(self._place).read(make_numbered_name(number))
        try:
            tree = json.loads(data)
            return Holder(tree["owner"], tree["host"], from_rfc3339(tree["since"]), tree["released"])
        except (ValueError, KeyError, TypeError) as wrong:
            raise OSError(f"{self._place}/{make_numbered_name(number)} isn't a lease: {wrong}") from wrong


class _RenewalThread:
    def __init__(self, renew: Callable[[], bool], on_lost: Callable[[], None]) -> None:
        self._renew = renew
        self._on_lost = on_lost
        self._ends = threading.Event()
        self._thread = threading.Thread(target=self._renew_until_closed, name="lease", daemon=True)
        self._thread.start()

    def close(self) -> None:
        self._ends.set()
        if self._thread is not threading.current_thread():
            self._thread.join(LAPSES_S)

    def _renew_until_closed(self) -> None:
        began = time.monotonic()
        while not self._ends.wait(max(0.0, began + RENEW_S - time.monotonic())):
            began = time.monotonic()
            try:
                if not self._renew():
                    break
            except StorageDown as failed:
                log.warning("the lease isn't renewed: %s", failed.problem)
        if not self._ends.is_set():
            self._on_lost()


class _Lock:
    def __init__(self, path: Path) -> None:
        self._path = path
        self._descriptor: int | None = None

    def lock_for_owner(self, owner: str) -> None:
        if self._try_lock() and self._descriptor is not None and not self.names_owner(owner):
            os.ftruncate(self._descriptor, 0)
            os.pwrite(self._descriptor, owner.encode(), 0)

    def names_owner(self, owner: str) -> bool:
        try:
            return self._path.read_text("utf-8") == owner
        except (OSError, ValueError):
            return False

    def is_of_the_dead(self, owner: str) -> bool:
        """Returns whether the owner worked on this data folder and has died; then this process holds the file."""
        if not self.names_owner(owner) or not self._try_lock():
            return False
        if self.names_owner(owner):
            return True
        self.release_file()
        return False

    def release_file(self) -> None:
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None

    def _try_lock(self) -> bool:
        if self._descriptor is not None:
            return True
        try:
            self._path.parent.mkdir(parents=True, exist_ok=True)
            descriptor = os.open(self._path, os.O_RDWR | os.O_CREAT, 0o600)
        except OSError as failed:
            log.warning("%s can't be locked: %s", self._path, failed)
            return False
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            os.close(descriptor)
            return False
        self._descriptor = descriptor
        return True
