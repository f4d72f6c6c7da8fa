"""The plainest pipeline: Spark reads Kafka and appends to a Delta table. No Python, no look-ups, no order, no retries.

Its latency and payhook's are measured in turns, on one topic of one stack. Both run all the time; the one whose turn it
isn't is paused (SIGSTOP), so that each has the machine to itself and neither starts cold.

``python -m load.bench.plain drain|live`` is one in a process of its own.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import statistics
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from deltalake import DeltaTable
from pyspark.sql import SparkSession
from pyspark.sql.streaming.readwriter import DataStreamWriter

from core.clock import from_rfc3339
from core.kafka import spark_options
from core.routing import topics_of
from core.settings import KafkaSettings
from core.spark import open_spark
from journal.reader import JournalReader, dataset_of
from load.bench.figures import Run
from load.client import NotInTime, RunningStack, wait_for
from load.latency import percentile, seconds_to_decide
from stack.jars import spark_jars
from stack.servers.kafka_users import embedded_kafka
from stack.servers.server import Server, run_server, stopped_by_signal

DRAIN_S_MAX = 600.0
START_S_MAX = 120.0
CAUGHT_UP_S_MAX = 120.0

Post = Callable[[], tuple[datetime, int]]
"""Sends a window's load; when it began, and how many events."""


def drain_plainly(kafka: KafkaSettings, warm_topic: str, topic: str, folder: Path) -> float:
    """Seconds that Spark's batches take for all of a topic, after it has done the same with ``warm_topic``."""
    command = [sys.executable, "-m", "load.bench.plain", "drain", *broker_options(kafka), "--folder", str(folder)]
    command += ["--warm", warm_topic, "--topic", topic]
    done = subprocess.run(
        command, capture_output=True, text=True, timeout=DRAIN_S_MAX, stdin=subprocess.DEVNULL, check=False
    )
    if done.returncode != 0:
        raise RuntimeError(f"the plain drain failed: {done.stderr[-2_000:]}")
    return float(json.loads(done.stdout.splitlines()[-1])["seconds"])


def broker_options(kafka: KafkaSettings) -> tuple[str, ...]:
    """Returns how another process reaches an embedded broker: its address, and the folder with its users."""
    folder = str(Path(kafka.security.credentials_file).parent)
    return ("--kafka", kafka.bootstrap_servers, "--kafka-folder", folder)


class Turns:
    """The two pipelines, of which one runs. ``posted`` counts the events since the plain one reads."""

    def __init__(self, stack: RunningStack, table: Path, plain_pid: int) -> None:
        self._stack = stack
        self._table = table
        self._plain_pid = plain_pid
        self._first_seq = JournalReader(str(stack.journal)).last_seq
        self._posted = 0

    def payhook(self, post: Post) -> float:
        """P99 in seconds of payhook alone."""
        os.killpg(self._plain_pid, signal.SIGSTOP)
        try:
            self._payhook_caught_up()
            before = JournalReader(str(self._stack.journal)).last_seq
            self._posted += post()[1]
            self._payhook_caught_up()
        finally:
            os.killpg(self._plain_pid, signal.SIGCONT)
        return percentile(seconds_to_decide(self._stack.journal, topics_of("live").events, before), 0.99)

    def plain(self, post: Post) -> float:
        """P99 in seconds of the plainest pipeline alone."""
        processor = int(self._stack.endpoints["pids"]["processor"])
        os.killpg(processor, signal.SIGSTOP)
        try:
            _wait_for_rows(self._table, self._posted)
            began, count = post()
            self._posted += count
            _wait_for_rows(self._table, self._posted)
        finally:
            os.killpg(processor, signal.SIGCONT)
        return percentile(_plain_latencies(self._table, began), 0.99)

    def end(self) -> None:
        """Lets payhook decide what came while it was paused: it would count as late in what is measured next."""
        self._payhook_caught_up()

    def _payhook_caught_up(self) -> None:
        wanted = self._first_seq + self._posted
        if not wait_for(lambda: JournalReader(str(self._stack.journal)).state().next_seq > wanted, CAUGHT_UP_S_MAX):
            raise NotInTime(f"decisions up to seq {wanted}", CAUGHT_UP_S_MAX)


def measure_ratio_to_plain(stack: RunningStack, run: Run, post: Post, pairs: int) -> dict[str, float]:
    """The P99s' ratio, the median of pairs of windows."""
    server = live_server(stack.kafka, topics_of("live").events, run.folder)
    ratios = []
    with run_server(server) as plain:
        turns = Turns(stack, run.folder / "table", plain.process_id)
        turns.plain(post)
        for _ in range(pairs):
            own, other = turns.payhook(post), turns.plain(post)
            run.console.print(f"p99: payhook {own:.2f} s, plain {other:.2f} s")
            ratios.append(own / other)
        turns.end()
    return {"e2e.p99_ratio_to_plain": statistics.median(ratios)}


def live_server(kafka: KafkaSettings, topic: str, folder: Path) -> Server:
    """The plainest pipeline from now on, until it is stopped; the table is ``folder/table``."""
    ready = folder / "ready"
    command = (sys.executable, "-m", "load.bench.plain", "live", *broker_options(kafka), "--folder", str(folder))
    return Server(
        name="plain",
        command=(*command, "--topic", topic),
        log=folder / "plain.log",
        answers=ready.exists,
        prepare=lambda: folder.mkdir(parents=True, exist_ok=True),
        start_s=START_S_MAX,
    )


def _wait_for_rows(table: Path, count: int) -> None:
    """
    :raises NotInTime: fewer rows are there
    """

    def there() -> bool:
        return DeltaTable.is_deltatable(str(table)) and dataset_of(DeltaTable(table)).count_rows() >= count

    if not wait_for(there, CAUGHT_UP_S_MAX):
        raise NotInTime(f"{count} rows of the plain pipeline", CAUGHT_UP_S_MAX)


def _plain_latencies(table: Path, since: datetime) -> list[float]:
    """Seconds from receipt (the header) to the commit of each row that was received at ``since`` or later."""
    seconds: list[float] = []
    for committed_at, file in _files(table):
        if committed_at < since:
            continue
        for received_at in _received_at(pq.read_table(table / file, columns=["headers"])["headers"]):
            if received_at >= since:
                seconds.append((committed_at - received_at).total_seconds())
    return seconds


def _files(table: Path) -> Iterator[tuple[datetime, str]]:
    """Each data file, and when its commit's log entry was on disk."""
    for entry in sorted((table / "_delta_log").glob("*.json")):
        committed_at = datetime.fromtimestamp(entry.stat().st_mtime, UTC)
        for line in entry.read_text("utf-8").splitlines():
            added = json.loads(line).get("add")
            if added is not None:
                yield committed_at, str(added["path"])


def _received_at(column: pa.ChunkedArray) -> Iterator[datetime]:
    for headers in column.to_pylist():
        text = next(header["value"] for header in headers if header["key"] == "received_at")
        yield from_rfc3339(text.decode("ascii"))


def _session(folder: Path) -> SparkSession:
    conf = {
        "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
        "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
        # As shipped Delta works out a table's state in 50 tasks with each commit: all of two cores at 120 events/s, and
        # a P99 of 10 s and more that any pipeline would look good beside.
        "spark.databricks.delta.snapshotPartitions": "1",
        "spark.sql.shuffle.partitions": "2",
        "spark.sql.adaptive.enabled": "true",
    }
    return open_spark("plain", "local[2]", "1g", spark_jars(), folder / "scratch", conf)


def _append(session: SparkSession, kafka: KafkaSettings, topic: str, start: str, folder: Path) -> DataStreamWriter:
    """``kafka.fetch.max.wait.ms`` is payhook's own setting: without it the tail would be Kafka's, and flatter us."""
    records = (
        session.readStream.format("kafka")
        .options(**spark_options(kafka))
        .option("subscribe", topic)
        .option("startingOffsets", start)
        .option("includeHeaders", "true")
        .option("kafka.fetch.max.wait.ms", "20")
        .load()
        .select("topic", "partition", "offset", "key", "value", "headers")
    )
    return records.writeStream.format("delta").option("checkpointLocation", str(folder / "checkpoint"))


def _drain(session: SparkSession, kafka: KafkaSettings, topic: str, folder: Path) -> float:
    writer = _append(session, kafka, topic, "earliest", folder).trigger(availableNow=True)
    query = writer.start(str(folder / "table"))
    query.awaitTermination()
    return batches_s(query.recentProgress)


def batches_s(progress: Sequence[Mapping[str, Any]]) -> float:
    """Seconds from the first batch's start to the last one's end, by what a query says of its batches (Spark's
    ``StreamingQueryProgress``). Starting and ending the query isn't draining; payhook's time leaves both out too.

    :raises RuntimeError: it doesn't say how its first batch went, or none took anything
    """
    batches = [one for one in progress if one["numInputRows"]]
    if not batches or batches[0]["batchId"] != 0:
        raise RuntimeError(f"a query's progress doesn't begin with its first batch: {list(progress)[:1]}")
    took = timedelta(milliseconds=batches[-1]["durationMs"]["triggerExecution"])
    ended_at = from_rfc3339(batches[-1]["timestamp"]) + took
    return (ended_at - from_rfc3339(batches[0]["timestamp"])).total_seconds()


def _live(session: SparkSession, kafka: KafkaSettings, topic: str, folder: Path) -> None:
    with stopped_by_signal() as stop:
        query = _append(session, kafka, topic, "latest", folder).start(str(folder / "table"))
        while query.lastProgress is None and query.isActive and not stop.wait(0.1):
            pass
        (folder / "ready").touch()
        while query.isActive and not stop.wait(0.1):
            pass
        os._exit(0 if query.isActive else 1)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("what", choices=("drain", "live"))
    parser.add_argument("--kafka", required=True)
    parser.add_argument("--kafka-folder", type=Path, required=True)
    parser.add_argument("--folder", type=Path, required=True)
    parser.add_argument("--topic", required=True)
    parser.add_argument("--warm", default="")
    wanted = parser.parse_args()
    kafka = embedded_kafka(wanted.kafka_folder, wanted.kafka)
    session = _session(wanted.folder)
    if wanted.what == "live":
        _live(session, kafka, wanted.topic, wanted.folder)
    else:
        _drain(session, kafka, wanted.warm, wanted.folder / "warm")
        seconds = _drain(session, kafka, wanted.topic, wanted.folder / "drain")
        print(json.dumps({"seconds": seconds}))
    return 0


if __name__ == "__main__":
    sys.exit(main())
