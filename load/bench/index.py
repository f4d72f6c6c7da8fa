"""What a long journal costs every batch: time, disk and memory of the index.

``python -m load.bench.index INDEX ROWS`` prints the memory of an index, from a process of its own.
"""

from __future__ import annotations

import gc
import hashlib
import random
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

import psutil
import pyarrow as pa

from core.clock import SystemClock
from core.event import Dedupe, Event, to_headers
from core.layout import Layout, StreamLayout
from core.work import Applied, WorkItem
from journal.bodies import BodyStore
from journal.index import Index
from journal.reader import JournalReader
from journal.schema import JournalRow
from journal.writer import JournalWriter
from load.bench.figures import Run
from load.bench.history import STREAM, HistoryEvent, made_history
from processor.decide.admit import BatchLookups
from processor.decide.batch import Batches
from processor.decide.commit import Derived, Journal
from processor.decide.handlers import Handlers
from processor.decide.rereads import Rereads
from processor.rules import StreamRules
from processor.settings import DeadHead, RetrySettings
from processor.spark import calm_collector, pause_collection
from processor.streams import StreamConfig
from processor.workers.execute import Results

EVENTS, CONTROL = "payments.events", "payments.control"
EVENTS_PER_BATCH = 400
"""A third of a second at 1,200 events/s."""

ROUNDS = 40
WARM_ROUNDS = 5
OLD_SHARE = 0.1
REST_S_MAX, REST_LOOK_S, REST_PERCENT_MAX = 60.0, 1.0, 5.0
LOOKUPS = 200_000
KEYS_PER_ROW = 2
"""Each row of the history holds an event key and a fact."""

MEMORY_S_MAX = 600.0


def measure_index(run: Run) -> dict[str, float]:
    """Batches of two streams in turns, one with a long journal and one that began with none; no Spark in between."""
    layout, count = made_history(run)
    began = time.monotonic()
    full = _Engine(layout.ledger())
    _await_rest()
    run.console.print(f"the index has caught up, and is at rest, after {time.monotonic() - began:.0f} s")
    empty = _Engine(Layout(run.folder / "empty").ledger())
    calm_collector()
    new, alone = partial(full.batch_s, 0, count), partial(empty.batch_s, 0, count)
    growth = _ratio(f"{count:,} rows ÷ none", new, alone, run)
    old = _ratio("with old redeliveries ÷ without", partial(full.batch_s, OLD_SHARE, count), new, run)
    full.close()
    empty.close()
    return {
        "index.batch_growth_10m": growth,
        "index.batch_growth_old_redeliveries": old,
        "index.disk_bytes_per_key": _bytes_of(layout.ledger().index) / (KEYS_PER_ROW * count),
        "index.memory_mb_at_10m": _memory_mb(layout.ledger().index, count),
    }


def _ratio(name: str, one: Callable[[], float], other: Callable[[], float], run: Run) -> float:
    """Median of quotients, the first ones left out.

    A quotient is of two batches each, in the order one, other, other, one: going first is not the same as going second.
    """
    fours = [(one(), other(), other(), one()) for _ in range(ROUNDS)][WARM_ROUNDS:]
    ones_ms, others_ms = ([500 * (four[i] + four[j]) for four in fours] for i, j in ((0, 3), (1, 2)))
    run.console.print(f"a batch, {name}: {statistics.median(ones_ms):.1f} ms ÷ {statistics.median(others_ms):.1f} ms")
    return statistics.median(its / others for its, others in zip(ones_ms, others_ms, strict=True))


def _await_rest() -> None:
    """Waits until the store has put in order what it took: its threads are this process's."""
    process, until = psutil.Process(), time.monotonic() + REST_S_MAX
    while process.cpu_percent(REST_LOOK_S) > REST_PERCENT_MAX and time.monotonic() < until:
        pass


def _bytes_of(folder: Path) -> int:
    return sum(file.stat().st_size for file in folder.rglob("*") if file.is_file())


class _Engine:
    """A stream's batches on real tables and a real index; handlers answer at once, Kafka is a list."""

    def __init__(self, places: StreamLayout) -> None:
        writer = JournalWriter.create_or_open(str(places.journal), STREAM)
        state = writer.begin_epoch({EVENTS: {0: 0}, CONTROL: {0: 0}})
        bodies = BodyStore(str(places.bodies_table))
        index = Index.open(places.index, state.epoch)
        index.catch_up(JournalReader(str(places.journal), state.version), bodies)
        places.trying_file.parent.mkdir(parents=True, exist_ok=True)
        retry = RetrySettings(default="fixed(1s x1)")
        config = StreamConfig(name=STREAM, handler="load.bench.index:none", retry=retry, dead_head=DeadHead.CONTINUE)
        rules = StreamRules(config=config, due_per_batch_max=100, drain_per_entity_max=100)
        self._offset = state.marks[EVENTS][0]
        # Another one each time that a history is opened: what was new to it once is known then.
        self._random = random.Random(state.epoch)
        clock = SystemClock()
        self._batches = Batches(
            rules,
            Journal(state, writer, bodies),
            BatchLookups(index, {}),
            Handlers(_Applying(), places.trying_file, clock),
            Derived(index, [], _NoDeadLetters()),
            Rereads(STREAM, {}),
            clock,
        )

    def batch_s(self, old_share: float, history: int) -> float:
        """Seconds of one batch of events, of which so many are events of the history again."""
        old = round(EVENTS_PER_BATCH * old_share)
        events = [_old_event(self._random.randint(1, history)) for _ in range(old)]
        events += [_new_event(self._random.getrandbits(128)) for _ in range(EVENTS_PER_BATCH - old)]
        self._random.shuffle(events)
        table = _table(events, self._offset)
        self._offset += len(events)
        gc.collect()
        with pause_collection():
            began = time.perf_counter()
            self._batches.run(table)
            return time.perf_counter() - began

    def close(self) -> None:
        self._batches.close()


class _Applying:
    """An executor whose handlers answer at once."""

    def run(self, groups: Sequence[list[WorkItem]], **_: object) -> Results:
        return Results("bench", {item.item_seq: Applied() for group in groups for item in group})


class _NoDeadLetters:
    """Nothing dies here."""

    published_upto = 0
    unacknowledged = 0
    waiting_s = 0.0

    def publish(self, rows: Sequence[tuple[JournalRow, bytes]]) -> None:
        assert not rows

    def on_passed(self, seq: int) -> None:
        """Nothing is to be published."""

    def poll(self) -> None:
        """Nothing is under way."""

    def close(self, timeout_s: float) -> None:
        """Nothing is held."""


def _old_event(number: int) -> Event:
    known = HistoryEvent(number)
    return _event(known.event_key, known.entity_key, known.content_sha256)


def _new_event(number: int) -> Event:
    digest = hashlib.sha256(number.to_bytes(16, "big")).hexdigest()
    return _event(f"stripe:evt_{digest[:24]}:charge.succeeded", f"stripe:acct_main:pi_{digest[24:48]}", digest)


def _event(event_key: str, entity_key: str, content_sha256: str) -> Event:
    return Event(
        provider="stripe",
        event_id=event_key.split(":")[1],
        event_type="charge.succeeded",
        event_key=event_key,
        entity_key=entity_key,
        content_sha256=content_sha256,
        content_version=1,
        body=content_sha256.encode() * 17,
        mode="live",
        account="acct_main",
    )


_HEADERS = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))


def _table(events: Sequence[Event], offset: int) -> pa.Table:
    now = SystemClock().now()
    headers = [
        [{"key": name, "value": value} for name, value in to_headers(event, now, Dedupe.CLAIMED)] for event in events
    ]
    return pa.table(
        {
            "topic": pa.array([EVENTS] * len(events), pa.string()),
            "partition": pa.array([0] * len(events), pa.int32()),
            "offset": pa.array(range(offset, offset + len(events)), pa.int64()),
            "value": pa.array([event.body for event in events], pa.binary()),
            "headers": pa.array(headers, _HEADERS),
            "key": pa.array([event.entity_key.encode() for event in events], pa.binary()),
            "at_ms": pa.array([int(now.timestamp() * 1_000)] * len(events), pa.int64()),
        }
    )


def _memory_mb(index: Path, rows: int) -> float:
    """Returns what opening the index and looking up in it adds to a process, in MB (10^6 bytes)."""
    command = [sys.executable, "-m", "load.bench.index", str(index), str(rows)]
    said = subprocess.run(command, capture_output=True, text=True, timeout=MEMORY_S_MAX, check=True).stdout
    return float(said) / 1e6


def _print_memory(root: Path, rows: int) -> None:
    process, chance = psutil.Process(), random.Random(11)
    before = _own_bytes(process)
    epoch = max(int(folder.name.partition("-")[2]) for folder in root.glob("epoch-*"))
    index = Index.open(root, epoch + 1)
    for number in range(LOOKUPS):
        known = HistoryEvent(chance.randint(1, rows))
        assert index.known_event(known.event_key) is not None
        assert index.known_event(f"stripe:evt_{number}:charge.succeeded") is None
    sys.stdout.write(f"{_own_bytes(process) - before}\n")
    index.close()


def _own_bytes(process: psutil.Process) -> int:
    """Returns what it holds for itself. Pages of files aren't counted: the kernel takes them back as it likes."""
    held = process.memory_info()
    return int(held.rss - held.shared)


if __name__ == "__main__":
    _print_memory(Path(sys.argv[1]), int(sys.argv[2]))
