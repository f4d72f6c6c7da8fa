"""Publishes dead rows to the DLQ topic: never waits, never gives up, and says how far it got."""

from __future__ import annotations

import heapq
import itertools
import logging
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, Protocol

from confluent_kafka import KafkaError, KafkaException

from core.clock import Clock, doubled_s
from core.decision import Decision
from core.log import event_fields
from dlq.record import DeadLetterTopic
from journal import anchors
from journal.schema import JournalRow

log = logging.getLogger(__name__)

MISSING_NAMED_MAX = 5
"""Dead letters without bytes that one line names."""

RETRY_S_FIRST, RETRY_S_MAX = 0.5, 30.0
IN_MEMORY_MAX = 2_000
"""Unpublished dead letters that are held in memory; more are read again from the journal."""


class DlqProducer(anchors.AnchorProducer, Protocol):
    @property
    def purge(self) -> Callable[[], None]: ...


class Watcher(Protocol):
    """Hooks for each dead row on its way, called on the publisher's thread. They raise nothing, and return at once.

    What it ``holds`` isn't produced yet; `settle` waits for so long until it holds nothing.
    """

    def on_taken(self, row: JournalRow) -> None: ...
    def is_held(self, row: JournalRow) -> bool: ...
    def settle(self, timeout_s: float) -> None: ...
    def on_published(self, row: JournalRow, topic: str, partition: int, offset: int) -> None: ...
    def on_refused(self, row: JournalRow, error: Exception) -> None: ...
    def close(self, timeout_s: float) -> None: ...


@dataclass(slots=True)
class Tally:
    """Counts of what publishing did. A tally may outlive a publisher, so that its counts only grow.

    ``requests``: records handed to Kafka's client; ``failed``: those that weren't acknowledged, and are tried again.
    """

    requests: int = 0
    written: int = 0
    failed: int = 0


@dataclass(slots=True)
class _Letter:
    row: JournalRow
    body: bytes
    taken_at: float
    by_reference: bool = False
    tries: int = 0


class DlqPublisher:
    """Takes dead rows in seq order and produces each until Kafka acknowledges it; repeats are possible, gaps aren't.

    `publish`, `on_passed` and `poll` return at once whatever Kafka does, and belong to one thread. At most
    `IN_MEMORY_MAX` letters are held: what comes beyond is read again from the journal once there is room.
    """

    def __init__(
        self,
        producer_factory: Callable[[], DlqProducer],
        topic: DeadLetterTopic,
        published_upto: int,
        clock: Clock,
        watcher: Watcher | None = None,
        tally: Tally | None = None,
    ) -> None:
        self._producer_factory = producer_factory
        self._producer: DlqProducer | None = None
        self._topic = topic
        self._clock = clock
        self._watcher = watcher
        self._taken_upto = self._passed = published_upto
        self._unacknowledged: dict[int, _Letter] = {}
        self._waiting: deque[_Letter] = deque()
        self._later: list[tuple[float, int, _Letter]] = []
        self._order = itertools.count()
        self._catching_up: DeadLetterCatchUp | None = None
        self._behind = False
        self._replace_producer = False
        self.tally = tally or Tally()

    @property
    def published_upto(self) -> int:
        """Returns the highest seq up to which every dead row is acknowledged."""
        oldest = next(iter(self._unacknowledged), None)
        return self._taken_upto if oldest is None else min(self._taken_upto, oldest - 1)

    @property
    def unacknowledged(self) -> int:
        return len(self._unacknowledged)

    @property
    def waiting_s(self) -> float:
        """Returns how long the oldest unacknowledged letter has been held; 0 when there is none."""
        oldest = next(iter(self._unacknowledged.values()), None)
        return 0.0 if oldest is None else self._clock.monotonic_s() - oldest.taken_at

    def catch_up(self, reader: JournalRows, bodies: Bodies, reopen: Callable[[], JournalRows] | None = None) -> None:
        """Takes in what the journal holds after `published_upto`; doesn't wait for Kafka.

        ``reopen`` opens the journal again later, to read the rows that memory couldn't hold. Without it these rows wait
        for the next start, and so does `published_upto`.
        """
        source = DeadLetterCatchUp(bodies, reopen)
        read = source.read(reader, self._taken_upto, self._free_room)
        self._take_read(read)
        self._behind = not read.whole
        self._catching_up = source if reopen is not None else None
        self._produce_waiting()

    def publish(self, rows: Sequence[tuple[JournalRow, bytes]]) -> None:
        """Takes dead rows with their bodies, in seq order."""
        for row, body in rows:
            if row.decision is not Decision.DEAD or row.seq <= self._taken_upto:
                continue
            if self._behind or self._free_room <= 0:
                self._fall_behind()
                break
            self._take_letter(row, body)
        self._produce_waiting()

    def on_passed(self, seq: int) -> None:
        """Takes note that every dead row up to ``seq`` was given to `publish`."""
        self._passed = max(self._passed, seq)
        if not self._behind:
            self._taken_upto = self._passed

    def poll(self) -> None:
        """Serves acknowledgements, tries again what is due, and reads on where it fell behind."""
        if self._producer is not None:
            self._producer.poll(0)
        if self._replace_producer:
            self._renew()
        if self._behind and self._catching_up is not None:
            self._read_on(self._catching_up)
        now = self._clock.monotonic_s()
        while self._later and self._later[0][0] <= now:
            self._waiting.append(heapq.heappop(self._later)[2])
        self._produce_waiting()

    def close(self, timeout_s: float) -> None:
        """Gives hooks and acknowledgements a last chance; what misses it is published after the next start."""
        if self._watcher is not None:
            self._watcher.settle(timeout_s)
            self._produce_waiting()
        if self._producer is not None:
            self._producer.flush(timeout_s)
            # Letters on their way hold this publisher, which holds the producer: its threads would live on.
            self._producer = None
        if self._catching_up is not None:
            self._catching_up.close()
        if self._watcher is not None:
            self._watcher.close(timeout_s)

    @property
    def _free_room(self) -> int:
        return IN_MEMORY_MAX - len(self._unacknowledged)

    def _take_letter(self, row: JournalRow, body: bytes) -> None:
        letter = _Letter(row, body, self._clock.monotonic_s())
        self._unacknowledged[row.seq] = letter
        self._waiting.append(letter)
        self._taken_upto = row.seq
        if self._watcher is not None:
            self._watcher.on_taken(row)

    def _fall_behind(self) -> None:
        if not self._behind:
            self._behind = True
            log.warning("%s: %d dead letters wait; more are left in the journal", self._topic.name, self.unacknowledged)

    def _read_on(self, source: DeadLetterCatchUp) -> None:
        read = source.take_result()
        if read is not None:
            self._take_read(read)
            self._behind = not read.whole or self._taken_upto < self._passed
        elif not source.is_busy and self._free_room * 2 >= IN_MEMORY_MAX:
            source.begin(self._taken_upto, self._free_room)

    def _take_read(self, read: DeadRowBatch) -> None:
        for row, body in read.letters:
            self._take_letter(row, body)
        self._taken_upto = max(self._taken_upto, read.upto)
        self._passed = max(self._passed, read.upto)

    def _produce_waiting(self) -> None:
        while self._waiting and not self._replace_producer:
            letter = self._waiting[0]
            if self._watcher is not None and self._watcher.is_held(letter.row):
                return
            try:
                self._produce(letter)
            except BufferError:
                return
            except KafkaException as refused:
                self._waiting.popleft()
                self._on_refused(letter, refused.args[0])
            else:
                self._waiting.popleft()

    def _produce(self, letter: _Letter) -> None:
        if self._producer is None:
            self._producer = self._producer_factory()
        record = self._topic.make_record(letter.row, letter.body, by_reference=letter.by_reference)

        def on_delivery(error: KafkaError | None, message: Any) -> None:
            if error is None:
                self._unacknowledged.pop(letter.row.seq, None)
                self.tally.written += 1
                if self._watcher is not None:
                    self._watcher.on_published(letter.row, self._topic.name, message.partition(), message.offset())
            else:
                self._on_refused(letter, error)

        self._producer.produce(
            self._topic.name,
            key=record.key,
            value=record.value,
            partition=record.partition,
            headers=record.headers,
            on_delivery=on_delivery,
        )
        self.tally.requests += 1

    def _on_refused(self, letter: _Letter, error: KafkaError) -> None:
        self.tally.failed += 1
        letter.tries += 1
        if self._watcher is not None:
            self._watcher.on_refused(letter.row, KafkaException(error))
        if error.fatal():
            self._replace_producer = True
        if error.code() == KafkaError.MSG_SIZE_TOO_LARGE and not letter.by_reference:
            reason = "is too large for its topic: it goes by reference"
            log.warning("dead row %d %s", letter.row.seq, reason, extra=event_fields(letter.row.event_key))
            letter.by_reference = True
            self._waiting.append(letter)
            return
        delay_s = doubled_s(RETRY_S_FIRST, letter.tries - 1, RETRY_S_MAX)
        heapq.heappush(self._later, (self._clock.monotonic_s() + delay_s, next(self._order), letter))
        log.error(
            "dead row %d isn't on %s yet (%s); next try in %.1f s",
            *(letter.row.seq, self._topic.name, error, delay_s),
            extra=event_fields(letter.row.event_key),
        )

    def _renew(self) -> None:
        """Drops the producer after a fatal error: an idempotent one takes nothing more. What it holds comes back,
        refused."""
        if self._producer is not None:
            self._producer.purge()
            self._producer.poll(0)
        self._producer = None
        self._replace_producer = False


class JournalRows(Protocol):
    def rows_after(self, seq: int, columns: Sequence[str] | None = None) -> Iterator[list[JournalRow]]: ...


class Bodies(Protocol):
    def fetch(self, hashes: Sequence[str]) -> Mapping[str, bytes]: ...


@dataclass(frozen=True, slots=True)
class DeadRowBatch:
    """Dead rows with their bodies. Every dead row up to ``upto`` is among them or came before.

    ``whole``: the journal had no more.
    """

    letters: list[tuple[JournalRow, bytes]]
    upto: int
    whole: bool


class DeadLetterCatchUp:
    def __init__(self, bodies: Bodies, reopen: Callable[[], JournalRows] | None) -> None:
        self._bodies = bodies
        self._reopen = reopen
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="dlq-catch-up")
        self._future: Future[DeadRowBatch] | None = None

    @property
    def is_busy(self) -> bool:
        return self._future is not None

    def begin(self, after: int, letters_max: int) -> None:
        reopen = self._reopen
        if reopen is not None:
            self._future = self._thread.submit(lambda: self.read(reopen(), after, letters_max))

    def take_result(self) -> DeadRowBatch | None:
        if self._future is None or not self._future.done():
            return None
        future, self._future = self._future, None
        return future.result()

    def read(self, reader: JournalRows, after: int, letters_max: int) -> DeadRowBatch:
        dead: list[JournalRow] = []
        upto, is_whole = after, True
        for rows in reader.rows_after(after):
            dead_rows = [row for row in rows if row.decision is Decision.DEAD]
            taken = dead_rows[: letters_max - len(dead)]
            dead += taken
            if len(taken) < len(dead_rows):
                upto, is_whole = max(upto, taken[-1].seq if taken else rows[0].seq - 1), False
                break
            upto = rows[-1].seq
        hashes = [row.body_sha256 for row in dead if row.body_sha256 is not None]
        bodies = self._bodies.fetch(hashes) if hashes else {}
        if missing := [row for row in dead if row.body_sha256 is not None and row.body_sha256 not in bodies]:
            named = ", ".join(f"{row.body_sha256} (row {row.seq})" for row in missing[:MISSING_NAMED_MAX])
            without = "%d dead letters go to their topic without their bytes, which aren't kept: %s"
            log.warning(without, len(missing), named)
        return DeadRowBatch([(row, bodies.get(row.body_sha256 or "", b"")) for row in dead], upto, is_whole)

    def close(self) -> None:
        self._thread.shutdown(wait=False, cancel_futures=True)
