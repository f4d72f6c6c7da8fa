"""Dead rows read again from the journal: after a start, and where memory couldn't hold them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from typing import Protocol

from core.decision import Decision
from journal.schema import JournalRow


class Rows(Protocol):
    """A journal that can be read by seq (`journal.reader.JournalReader`)."""

    def rows_after(self, seq: int, columns: Sequence[str] | None = None) -> Iterator[list[JournalRow]]: ...


class Bodies(Protocol):
    """A store of bodies by hash (`journal.bodies.BodyStore`)."""

    def fetch(self, hashes: Sequence[str]) -> Mapping[str, bytes]: ...


@dataclass(frozen=True, slots=True)
class Read:
    """Dead rows with bodies; every dead row up to ``upto`` is among them or came before.

    ``whole``: the journal had no more.
    """

    letters: list[tuple[JournalRow, bytes]]
    upto: int
    whole: bool


class CatchUp:
    """Reads dead rows from the journal, beside the caller's thread where asked to."""

    def __init__(self, bodies: Bodies, reopen: Callable[[], Rows] | None) -> None:
        self._bodies = bodies
        self._reopen = reopen
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="dlq-catch-up")
        self._future: Future[Read] | None = None

    @property
    def busy(self) -> bool:
        return self._future is not None

    def begin(self, after: int, letters_max: int) -> None:
        reopen = self._reopen
        if reopen is not None:
            self._future = self._thread.submit(lambda: self.read(reopen(), after, letters_max))

    def finished(self) -> Read | None:
        if self._future is None or not self._future.done():
            return None
        future, self._future = self._future, None
        return future.result()

    def read(self, reader: Rows, after: int, letters_max: int) -> Read:
        """The next dead rows after ``after``, at most so many."""
        dead: list[JournalRow] = []
        upto, whole = after, True
        for rows in reader.rows_after(after):
            found = [row for row in rows if row.decision is Decision.DEAD]
            taken = found[: letters_max - len(dead)]
            dead += taken
            if len(taken) < len(found):
                upto, whole = max(upto, taken[-1].seq if taken else rows[0].seq - 1), False
                break
            upto = rows[-1].seq
        hashes = [row.body_sha256 for row in dead if row.body_sha256 is not None]
        bodies = self._bodies.fetch(hashes) if hashes else {}
        return Read([(row, bodies.get(row.body_sha256 or "", b"")) for row in dead], upto, whole)

    def close(self) -> None:
        self._thread.shutdown(wait=False, cancel_futures=True)
