"""What the engine needs beside itself, in memory: index and journal, and handlers that answer what a test sets."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from core.decision import ErrorKind
from core.work import Applied, Held, Ignored, Outcome, Unknown, WorkItem
from journal import index_changes
from journal.schema import JournalRow
from journal.state import Marks
from journal.writer import CommittedBatch
from processor.decide.handlers import Handlers
from processor.errors.classify import Failure
from processor.workers.execute import Results
from processor.workers.outcomes import add_previous_dead, holds_back, is_passed_dead
from tests.unit.processor.fakes import HandlerCall

RETRY_S = 1
ANSWERS: Mapping[str, Outcome | Failure] = {
    "applied": Applied(),
    "ignored": Ignored("no handler knows the type"),
    "unknown": Unknown("type", "no table knows the type"),
    "held": Held("merchants", RETRY_S),
    "stuck": Failure(ErrorKind.SNBE, "Stuck", None, "no answer", ""),
    "bug": Failure(ErrorKind.NRE, "Bug", None, "division by zero", ""),
    "missing": Failure(ErrorKind.SNBE, "Missing", None, "its capture", "", missing_predecessor=True),
    "after_dead": Failure(ErrorKind.NRE, "PreviousEventDead", None, "its head", "", previous_dead=True),
    "down": Failure(ErrorKind.SBE, "Down", None, "the directory is down", ""),
}


class DictBatch:
    """A write to a `DictStore` in the making."""

    def __init__(self, raw_mode: bool = True) -> None:
        self.changes: dict[bytes, bytes | None] = {}

    def put(self, key: bytes, value: bytes, family: object = None) -> None:
        if family is None:
            self.changes[key] = value

    def delete(self, key: bytes, family: object = None) -> None:
        if family is None:
            self.changes[key] = None


class DictStore:
    """What the index keeps in RocksDB; an open item has its body here, so nothing is kept apart."""

    apart = "apart"

    def __init__(self, kept: Mapping[bytes, bytes]) -> None:
        self.kept = dict(kept)

    def get(self, key: bytes) -> bytes | None:
        return self.kept.get(key)

    def get_apart(self, _key: bytes) -> bytes | None:
        return None

    def get_many(self, keys: Iterable[bytes]) -> list[bytes | None]:
        return [self.kept.get(key) for key in keys]

    def read_keys(self, prefix: bytes, since: bytes = b"") -> Iterator[bytes]:
        return iter(sorted(key for key in self.kept if key.startswith(prefix) and key >= prefix + since))

    def write(self, batch: DictBatch) -> None:
        for key, value in batch.changes.items():
            if value is None:
                self.kept.pop(key, None)
            else:
                self.kept[key] = value

    def close(self) -> None:
        """Nothing is open."""

    def memory_bytes(self) -> int:
        return 0


@dataclass
class UnwrittenJournal:
    """Takes a batch's rows and writes nothing."""

    rows: list[JournalRow] = field(default_factory=list)
    marks: Marks = field(default_factory=dict)
    notes: dict[str, str] = field(default_factory=dict)

    def commit(
        self, rows: Sequence[JournalRow], marks: Marks, published_upto: int, notes: Mapping[str, str]
    ) -> CommittedBatch:
        for row in rows:
            row.row_hash = f"{row.seq:064x}"
        self.rows += rows
        self.marks, self.notes = marks, {**self.notes, **notes}
        return CommittedBatch(1, rows[0].seq, rows[-1].seq, "")

    def append(self, bodies: Sequence[tuple[str, bytes]]) -> None:
        """Bodies stay in the index."""


class Forgetful(Handlers):
    """Remembers nothing of what is tried: every batch is decided by a new process here."""

    def begin(self, seq: int) -> None: ...
    def _note_tried(self, seq: int) -> None: ...


class Oracle:
    """Answers calls by a list of words, in the order in which a single worker makes them; then by one word."""

    def __init__(self, words: Sequence[str], then: str, *, stop_on_dead: bool) -> None:
        self._words = list(words)
        self._then = then
        self._stop_on_dead = stop_on_dead
        self.log: list[HandlerCall] = []

    def run(self, groups: Sequence[list[WorkItem]], *, suspect: bool = False) -> Results:
        results = Results("test-1")
        for group in groups:
            dead = None
            for waiting in group:
                item = add_previous_dead(waiting, dead)
                result = self._call(item)
                if isinstance(result, Applied):
                    for seq, before in results.by_item.items():
                        if isinstance(before, Failure) and before.is_blocking:
                            results.by_item[seq] = replace(before, own=True)
                results.by_item[item.item_seq] = result
                if holds_back(item, result, stop_on_dead=self._stop_on_dead):
                    break
                dead = item if is_passed_dead(item, result) else dead
        return results

    def _call(self, item: WorkItem) -> Outcome | Failure:
        word = self._words[len(self.log)] if len(self.log) < len(self._words) else self._then
        self.log.append(HandlerCall(item.event_key, item.entity_key, item.previous is not None, word))
        return ANSWERS[word]


def use_memory(replace_attribute: Callable[[object, str, object], None]) -> None:
    """The index writes to a dict, and open items into it as they are."""
    replace_attribute(index_changes, "WriteBatch", DictBatch)
    replace_attribute(index_changes, "unpack_item", lambda item, _body: item)
    replace_attribute(index_changes, "pack_item", lambda item: item)
