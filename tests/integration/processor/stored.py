"""The engine on a real journal, bodies, postings and index; Kafka is a file, the executors are this process.

As a program it decides what Kafka holds and ends: ``python -m tests.integration.processor.stored FOLDER``. With
``PAYHOOK_CRASH_AT`` it dies on the way.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import signal
import subprocess
import sys
import threading
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
from confluent_kafka import KafkaError
from deltalake import DeltaTable

from core.clock import Clock, SystemClock
from core.event import Dedupe, Event, to_headers
from core.money import Money
from core.work import Applied, Posting
from dlq.publisher import DlqPublisher
from dlq.record import DeadLetterTopic
from journal.bodies import BodyStore
from journal.index import Index
from journal.lease import Holder, Lease
from journal.reader import JournalReader
from journal.schema import JournalRow
from journal.start_checks import check_whole
from journal.writer import JournalWriter, Tenure
from ledger.postings import POSTINGS_SCHEMA, PostingsWriter, flatten_postings
from processor.decide.admit import BatchLookups
from processor.decide.batch import Batches
from processor.decide.commit import Derived, Journal
from processor.decide.handlers import Handlers
from processor.decide.rereads import Rereads
from processor.rules import StreamRules
from processor.settings import DeadHead
from tests.unit.journal.rows import event_count
from tests.unit.processor.fakes import InlineExecutor, Same, ScriptedHandler
from tests.unit.processor.harness import CONTROL, EVENTS, NOW, stream_config, table

CHECKOUT = Path(__file__).parents[3]
RECORDS_PER_BATCH = 4
PROCESS_S_MAX = 60.0
BOOKED = Applied(
    (
        Posting("provider:stripe:receivable", "debit", Money(5, "EUR")),
        Posting("merchant:shop:payable", "credit", Money(5, "EUR")),
    )
)
IDLE_S = 0.01


def event_of(event_id: str, entity: str = "", content: str = "") -> Event:
    """An event of its own entity, unless one is named. One whose id begins with ``dead`` dies in the handler."""
    body = (event_id + content).encode()
    return Event(
        provider="stripe",
        event_id=event_id,
        event_type="charge.captured",
        event_key=f"stripe:{event_id}:charge.captured",
        entity_key=entity or event_id,
        content_sha256=hashlib.sha256(body).hexdigest(),
        content_version=1,
        body=body,
        mode="live",
        account="acct_1",
    )


class FileKafka:
    """One partition in a file, a record a line."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self.shown: int | None = None
        """How many records there are as yet; None for all."""
        self.batch_max = RECORDS_PER_BATCH

    def post(self, event_id: str, entity: str = "", content: str = "") -> str:
        """An event; its key."""
        event = event_of(event_id, entity, content)
        self.append(event.body, to_headers(event, NOW, Dedupe.CLAIMED))
        return event.event_key

    def append(self, body: bytes, headers: Iterable[tuple[str, bytes]]) -> None:
        """A record as the receiver publishes it."""
        texts = [(name, value.decode("latin-1")) for name, value in headers]
        with self._path.open("a") as file:
            file.write(json.dumps({"value": body.decode(), "headers": texts}) + "\n")

    def lose(self, count: int) -> None:
        """The last records are gone, as from an older copy."""
        lines = self._lines()
        self._path.write_text("".join(f"{line}\n" for line in lines[: len(lines) - count]), "utf-8")

    def read(self, since: int) -> pa.Table:
        """A batch of the records from an offset on."""
        records = [_record(offset, line) for offset, line in enumerate(self._lines())]
        return table(records[since:][: self.batch_max])

    @property
    def end(self) -> int:
        return len(self._lines())

    def _lines(self) -> list[str]:
        return self._path.read_text("utf-8").splitlines()[: self.shown] if self._path.exists() else []


class FileProducer:
    """A DLQ topic in a file: acknowledges at once, or says that it couldn't."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def produce(self, _topic: str, *, value: bytes | None, on_delivery: Callable[..., None], **_: Any) -> None:
        try:
            with self._path.open("a") as file:
                file.write((value or b"").decode() + "\n")
        except OSError:
            on_delivery(KafkaError(KafkaError._TRANSPORT), None)
        else:
            on_delivery(None, None)

    def poll(self, _timeout_s: float) -> int:
        return 0

    def flush(self, _timeout_s: float) -> int:
        return 0

    def purge(self) -> None:
        """Nothing is held."""


class Loop:
    """Runs batches of what Kafka holds until it is to stop, as `processor.source.stream.Stream` does."""

    def __init__(self, stored: Stored, batches: Batches) -> None:
        self._stored = stored
        self._batches = batches
        self._stop = threading.Event()

    @property
    def has_decided(self) -> bool:
        return self._batches.progress.batches > 0

    def run(self) -> None:
        try:
            while not self._stop.wait(IDLE_S):
                self._stored.decide(self._batches, self._stop.is_set)
        except BaseException:
            self._batches.release()
            raise
        self._batches.close()

    def stop(self) -> None:
        self._stop.set()


def lease_of(stored: Stored, owner: str, clock: Clock | None = None) -> Lease:
    """The stream's lease, for one process of a data folder of its own."""
    place = stored.folder / "lake" / "leases" / "ledger"
    return Lease(str(place), owner, clock or SystemClock(), stored.folder / f"{owner}.lock")


class StoredStream:
    """The stream as `processor.application.StreamLoop` begins it again and again, and what that loop reports of it."""

    name = "ledger"

    def __init__(self, stored: Stored, owner: str = "ours") -> None:
        self.outages: list[str] = []
        self.failures: list[BaseException] = []
        self.holders: list[Holder] = []
        self._stored = stored
        self._tenure = Tenure(owner)
        self.lease = lease_of(stored, owner)

    def idle_because(self) -> str | None:
        return None

    def begin(self) -> Loop:
        return Loop(self._stored, self._stored.open(self._tenure))

    def follow(self) -> None:
        self._tenure.follow(str(self._stored.journal))

    def prepare(self) -> None:
        """Nothing is made ready."""

    def release_executors(self) -> None:
        """There are none."""

    def stand_by(self) -> None:
        """Nothing is made ready."""

    def report_standby(self, holder: Holder) -> None:
        self.holders.append(holder)

    def report_outage(self, reason: str, tries: int) -> None:
        self.outages.append(reason)

    def report_failed(self, failure: BaseException) -> None:
        self.failures.append(failure)

    def report_off(self, why: str) -> None:
        raise AssertionError(why)

    def report_refused(self, why: str) -> None:
        raise AssertionError(why)

    def count_restart(self) -> None:
        """Not asked for."""


class DyingHandler(ScriptedHandler):
    """Books everything but what is to die by its event's id."""

    def __call__(self, item: Any) -> Any:
        if item.event_key.startswith("stripe:dead"):
            raise ZeroDivisionError("division by zero")
        return BOOKED


class Stored:
    """One stream's folders, and processes that work on them one after the other."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.kafka = FileKafka(folder / "kafka")
        self.journal, self.bodies = folder / "lake" / "journal", folder / "lake" / "bodies"
        self.postings, self.index = folder / "lake" / "postings", folder / "index"
        self.dlq = folder / "dlq"
        self.handler = DyingHandler()
        self.producer: Callable[[], Any] = lambda: FileProducer(self.dlq)

    def open(self, tenure: Tenure | None = None, transactional: Sequence[str] = ()) -> Batches:
        """A new writer and all that is derived, in the order in which the processor opens them."""
        clock = SystemClock()
        with contextlib.ExitStack() as undo:
            writer = JournalWriter.create_or_open(str(self.journal), "ledger", tenure)
            state = writer.begin_epoch({EVENTS: {0: 0}, CONTROL: {0: 0}}, tenure)
            reader = JournalReader(str(self.journal), state.version)
            bodies = BodyStore(str(self.bodies), may_create=state.next_seq == 1)
            index = Index.open(self.index, state.epoch)
            undo.callback(index.close)
            check_whole(str(self.journal), reader, state, index.seq)
            index.catch_up(reader, bodies)
            postings = PostingsWriter.open(str(self.postings))
            postings.catch_up(reader)
            topic = DeadLetterTopic("dlq.ledger", "payhook-ledger")
            dead_letters = DlqPublisher(self.producer, topic, state.published_upto, clock)
            dead_letters.catch_up(reader, bodies)
            undo.pop_all()
        config = stream_config(dead_head=DeadHead.CONTINUE, policy="fixed(1s x1)")
        rules = StreamRules(config=config, transactional=transactional, due_per_batch_max=100, drain_per_entity_max=100)
        executor = InlineExecutor(self.handler, stop_on_dead=False)
        return Batches(
            rules,
            Journal(state, writer, bodies),
            BatchLookups(index, {"stripe": Same()}),  # type: ignore[dict-item]
            Handlers(executor, self.folder / "trying.json", clock),
            Derived(index, [postings], dead_letters),
            Rereads("ledger", {}),
            clock,
        )

    def decide(self, batches: Batches, is_stopped: Callable[[], bool] = lambda: False) -> None:
        """Batches until Kafka holds nothing more."""
        while not is_stopped() and batches.committed_marks[EVENTS][0] < self.kafka.end:
            batches.run(self.kafka.read(batches.committed_marks[EVENTS][0]))

    def decide_all(self) -> None:
        """One process's life, without a crash."""
        batches = self.open()
        self.decide(batches)
        batches.close()

    def killed_at(self, point: str) -> None:
        """A process's life that ends by SIGKILL at a named point."""
        environment = {**os.environ, "PAYHOOK_TESTING": "1", "PAYHOOK_CRASH_AT": point}
        command = [sys.executable, "-m", "tests.integration.processor.stored", str(self.folder)]
        ended = subprocess.run(
            command, cwd=CHECKOUT, env=environment, capture_output=True, timeout=PROCESS_S_MAX, check=False
        )
        assert ended.returncode == -signal.SIGKILL, ended.stderr.decode()[-2_000:]

    def rows(self) -> list[JournalRow]:
        return [row for rows in JournalReader(str(self.journal)).rows_after(0) for row in rows]

    def decisions(self) -> dict[str, list[str]]:
        """By event id, in seq order."""
        found: dict[str, list[str]] = {}
        for row in self.rows():
            found.setdefault((row.event_key or "").split(":")[1], []).append(row.decision.value)
        return found

    def dead_letters(self) -> Counter[str]:
        """How often each event id is on the DLQ topic."""
        return Counter(self.dlq.read_text("utf-8").split()) if self.dlq.exists() else Counter()

    def check(self) -> None:
        """Every offset has one first row, no event two effects, and all that is derived says what the journal says."""
        rows = self.rows()
        assert [row.offset for row in rows if row.first] == list(range(self.kafka.end))
        applied = Counter(row.event_key for row in rows if row.decision.value == "applied")
        assert set(applied.values()) <= {1}, applied
        assert self._booked() == flatten_postings(rows).to_pylist()
        dead = {(row.event_key or "").split(":")[1] for row in rows if row.decision.value == "dead"}
        assert set(self.dead_letters()) == dead
        with self._index() as index:
            assert index.seq == rows[-1].seq
            assert event_count(index) == len({row.event_key for row in rows})
        held = BodyStore(str(self.bodies)).fetch(row.body_sha256 or "" for row in rows)
        assert held.keys() == {row.body_sha256 for row in rows}

    def is_booked(self) -> bool:
        """Whether the postings have followed the journal to its end."""
        return bool(self._booked() == flatten_postings(self.rows()).to_pylist())

    def _booked(self) -> list[dict[str, object]]:
        table = DeltaTable(str(self.postings)).to_pyarrow_table()
        rows: list[dict[str, object]] = (
            table.sort_by([("seq", "ascending"), ("line", "ascending")]).select(POSTINGS_SCHEMA.names).to_pylist()
        )
        return rows

    @contextlib.contextmanager
    def _index(self) -> Iterator[Index]:
        index = Index.open(self.index, 1_000)
        try:
            yield index
        finally:
            index.close()


def _record(offset: int, line: str) -> Mapping[str, object]:
    read = json.loads(line)
    headers = [{"key": name, "value": value.encode("latin-1")} for name, value in read["headers"]]
    return {
        "topic": EVENTS,
        "partition": 0,
        "offset": offset,
        "value": read["value"].encode(),
        "headers": headers,
    }


if __name__ == "__main__":
    Stored(Path(sys.argv[1])).decide_all()
