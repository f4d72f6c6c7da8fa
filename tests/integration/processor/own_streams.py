"""Work streams that nobody ships, in a folder of a test's own: two files, no line of the engine's."""

from __future__ import annotations

import json
import time
import uuid
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from threading import Thread
from typing import Any

from confluent_kafka import Producer
from deltalake import DeltaTable
from pydantic import BaseModel
from pyspark.sql import SparkSession

from core.clock import SystemClock
from core.event import Dedupe, to_headers
from core.layout import Layout
from core.settings import KafkaSettings, TopicsSettings
from journal.anchors import AnchorKeys
from journal.reader import JournalReader, lineage_of
from journal.schema import JournalRow
from journal.target import ItemTarget
from operations.command import Command
from operations.commands import encode
from processor.application import Application
from processor.backlog.sizing import FixedExecutors
from processor.opening import OpenableStream
from processor.reporting.metrics import ProcessorMetrics
from processor.reporting.status import StatusFile, StreamStatus
from processor.streams import list_enabled, load_streams
from processor.topics import SharedResources
from processor.wiring import wire_stream
from stack.topics import Topic, make_topics
from tests.events import make_event

WAIT_S_MAX = 240.0
"""A start takes 10 s, and five times that beside busy loops."""
DAY_MS = 86_400_000

HANDLER = '''
"""A handler that somebody wrote."""
from core.decision import ErrorKind
from core.money import Money
from core.work import Applied, Ignored, Posting
from pydantic import BaseModel


class Refused(Exception):
    kind = ErrorKind.SBE


class GreetSettings(BaseModel):
    greeting: str
    shy_of: str = ""


class Greeter:
    version = "greeter-1"

    def __init__(self, settings):
        self.settings = settings

    def __call__(self, item):
        if item.event_type == "breaks":
            raise LookupError(f"{self.settings.greeting}, nobody")
        if item.event_type == "refused":
            raise Refused("401 Unauthorized")
        if item.event_type == "pays":
            paid = Money(500, "EUR")
            return Applied((Posting("door:cash", "debit", paid), Posting("door:income", "credit", paid)))
        return Ignored("shy") if item.event_type == self.settings.shy_of else Applied()


def build(settings: GreetSettings):
    return Greeter(settings)


class Broken:
    version = "broken-1"

    def __init__(self):
        raise RuntimeError("it can't be built")


def build_broken():
    return Broken()
'''


def streams_file(topic: str) -> str:
    """Four streams: one on a topic of Kafka, two on its journal (one is the shipped `notify`), one fails."""
    return f"""
[ledger]
enabled = false
[notify]
source = "journal:greet"
dlq = {{ create_topic = true }}
downstreams = {{ "subscriber:*" = {{ reset_s = 0.5, reset_s_max = 4.0 }} }}

[greet]
source = "kafka:{topic}"
handler = "greeting:build"
settings = {{ greeting = "hello", shy_of = "stranger" }}
retry = "fixed(100ms x1)"
dead_head = "continue"
dlq = {{ create_topic = true, copy_record = false }}

[retell]
source = "journal:greet"
handler = "greeting:build"
settings = {{ greeting = "I heard" }}
dlq = {{ create_topic = true }}
tasks_max = 1

[broken]
source = "kafka:{topic}"
handler = "greeting:build_broken"
dlq = {{ create_topic = true }}
"""


@dataclass
class OwnStreams:
    """A data folder with those streams, on a real broker and a real Spark."""

    session: SparkSession
    bootstrap: str
    topic: str
    folder: Path
    names: tuple[str, ...] = ("greet", "retell")
    sections: Mapping[type, BaseModel] = field(default_factory=dict)
    metrics: dict[str, ProcessorMetrics] = field(default_factory=dict)

    def __post_init__(self) -> None:
        (self.folder / "streams.toml").write_text(streams_file(self.topic))
        make_topics(
            KafkaSettings(bootstrap_servers=self.bootstrap),
            [Topic(name, 1, DAY_MS) for name in ("payments.control", "payments.anchors")],
            1,
        )
        self._producer = Producer({"bootstrap.servers": self.bootstrap, "log_level": 0})

    @property
    def layout(self) -> Layout:
        return Layout(self.folder)

    def post(self, *event_ids: str, kind: str = "guest", tenant: str | None = None, entity: str | None = None) -> None:
        for event_id in event_ids:
            body, key = event_id.encode(), f"door:{entity or event_id}"
            event = make_event(event_id, kind, "door", entity_key=key, body=body, account="", tenant=tenant)
            headers = to_headers(event, SystemClock().now(), Dedupe.CLAIMED)
            self._producer.produce(self.topic, body, key=event.entity_key, headers=dict(headers))
        assert self._producer.flush(60) == 0

    def order(self, stream: str, action: str, row: JournalRow) -> None:
        """An operator's command about an item whose last row is given."""
        lineage, now = self.lineage(stream), SystemClock().now()
        reason = "it can't be handled"
        self.command(Command(uuid.uuid4().hex, stream, lineage, action, (ItemTarget.of_row(row),), "ada", reason, now))

        assert self._producer.flush(10) == 0

    def lineage(self, stream: str) -> str:
        return lineage_of(str(self.layout.stream(stream).journal))

    def command(self, *commands: Command) -> None:
        for command in commands:
            self._producer.produce("payments.control", encode(command))
        assert self._producer.flush(10) == 0

    @contextmanager
    def running(self, *names: str) -> Iterator[Callable[[Callable[[], Any], str], Any]]:
        """The streams in this process, a thread each; stopped in order at the end. What it gives waits for something,
        as long as they run.
        """
        application = Application(self._streams(names or self.names), SystemClock())
        ended: list[bool] = []
        thread = Thread(target=lambda: ended.append(application.run()))
        thread.start()

        def wait_for(what: Callable[[], Any], reported: str) -> Any:
            until = time.monotonic() + WAIT_S_MAX
            while time.monotonic() < until and not ended:
                if found := what():
                    return found
                time.sleep(0.1)
            raise AssertionError(f"not within {WAIT_S_MAX:g} s: {reported}; ended: {ended}")

        try:
            yield wait_for
        finally:
            application.stop()
            thread.join(WAIT_S_MAX)
            assert ended, "the application must end"

    def _streams(self, names: tuple[str, ...]) -> list[tuple[OpenableStream, StreamStatus]]:
        clock = SystemClock()
        configs = [c for c in list_enabled(load_streams(str(self.folder / "streams.toml")), "live") if c.name in names]
        kafka = KafkaSettings(bootstrap_servers=self.bootstrap, durability="single")
        shared = SharedResources(
            self.session, kafka, TopicsSettings(), {}, clock, FixedExecutors(1, 2), AnchorKeys(["k" * 32]), None
        )
        found = []
        for config in configs:
            wired = wire_stream(config, "live", self.layout.stream, self.sections)
            metrics = self.metrics[config.name] = ProcessorMetrics(clock)
            status = StreamStatus(wired.name, StatusFile(wired.places.status, clock), metrics)
            found.append((OpenableStream(wired, shared, status), status))
        return found

    def rows(self, stream: str) -> list[JournalRow]:
        path = str(self.layout.stream(stream).journal)
        if not DeltaTable.is_deltatable(path):
            return []
        return [row for chunk in JournalReader(path).rows_after(0) for row in chunk]

    def applied(self, stream: str) -> list[str]:
        """Keys of what a stream applied, in the journal's order."""
        return [row.event_key or "" for row in self.rows(stream) if row.decision == "applied"]


def says(streams: OwnStreams, stream: str) -> dict[str, Any]:
    try:
        found: dict[str, Any] = json.loads(streams.layout.stream(stream).status.read_text())
    except FileNotFoundError:
        return {}
    return found
