"""What disagrees between the journals and Kafka, and a person's decision about it; with the stack up or down."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path

from core.clock import Clock, to_rfc3339
from core.event import Mode
from core.routing import stream_of, topics_of
from journal.anchors import AnchorInvalid, AnchorKeys
from journal.lake import has_table
from journal.reader import JournalReader
from journal.state import JournalState
from ledger.undecided import Answered, undecided
from processor.history.accept import Acceptance, LostEvent, accept
from processor.history.find import Findings, Parting, find
from processor.history.kafka_log import KafkaLog
from processor.streams import StreamConfig
from stack.endpoints import read_endpoints
from stack.kafka import kafka_server
from stack.layout import LEDGER, StreamLayout
from stack.ports import LOOPBACK, free_ports
from stack.server import running
from stack.settings import Settings, streams_of
from stack.supervisor import sole_supervisor

RECEIPTS_BEFORE = timedelta(days=1)
"""Receipts that are older than the journal's last row by more than this were decided, or never published."""


@dataclass(frozen=True, slots=True)
class Look:
    """One stream: what disagrees, which events are known to be lost, and the last seq of which Kafka has an anchor."""

    layout: StreamLayout
    findings: Findings
    events: tuple[Answered, ...]
    anchored: int

    @property
    def disagrees(self) -> bool:
        return bool(self.findings.parted)

    def partings(self) -> Iterator[Parting]:
        """The partitions of every topic that goes on in another history."""
        for parted in self.findings.parted:
            yield from parted.partings


@contextlib.contextmanager
def kafka_of(settings: Settings) -> Iterator[str]:
    """The address of the Kafka that the processors read: the running stack's, the one that is set, or the data folder's
    own, which is started for the length of the ``with``.

    :raises AlreadyUp: a stack is starting or stopping just now
    """
    endpoints = read_endpoints(settings.data_dir)
    if endpoints is not None:
        yield endpoints.kafka
    elif "bootstrap_servers" in settings.kafka.model_fields_set:
        yield settings.kafka.bootstrap_servers
    else:
        layout = settings.layout
        port, controller = free_ports(2)
        server = kafka_server(layout.kafka, port, controller, layout.logs / "kafka.log")
        with sole_supervisor(layout), running(server):
            yield f"{LOOPBACK}:{port}"


def look(settings: Settings, bootstrap: str) -> list[Look]:
    """Every stream that has a journal, live and test.

    :raises TopicMissing, KafkaSilent: Kafka doesn't tell
    :raises JournalBroken: a journal can't be read
    """
    keys = AnchorKeys.read(Path(settings.processor.anchor_key_file))
    with contextlib.closing(KafkaLog(bootstrap)) as log:
        return [
            _look(settings, config, mode, log, keys)
            for mode in settings.ingest.modes
            for config in streams_of(settings).values()
            if has_table(str(settings.layout.stream(stream_of(config.name, mode)).journal))
        ]


def decide(looks: Sequence[Look], acceptance: Acceptance) -> list[JournalState]:
    """Accepts what was found, stream by stream; returns where their journals stand.

    :raises MovedOn: rows came meanwhile
    :raises Fenced, StorageDown, CommitUnknown: as `JournalWriter`
    """
    return [
        accept(
            one.layout.journal,
            one.findings,
            [LostEvent(event.event_key, event.provider, event.at, event.content_sha256) for event in one.events],
            one.anchored,
            acceptance,
        )
        for one in looks
        if one.disagrees
    ]


def export(looks: Sequence[Look], clock: Clock, file: Path) -> int:
    """Writes what is lost, a JSON object a line: ranges of offsets, and events by their key; returns how many lines."""
    lines = [line for one in looks for line in _lines(one)]
    head = {"what": "payhook recover", "at": to_rfc3339(clock.now()), "lines": len(lines)}
    file.write_text("".join(json.dumps(line) + "\n" for line in [head, *lines]), "utf-8")
    return len(lines)


def _look(settings: Settings, config: StreamConfig, mode: Mode, log: KafkaLog, keys: AnchorKeys) -> Look:
    layout = settings.layout.stream(stream_of(config.name, mode))
    reader = JournalReader(str(layout.journal))
    state = reader.state()
    topics = [topic for topic in (config.events_topic(mode), topics_of(mode).control) if topic]
    findings = find(layout.stream, state, reader, log, topics, settings.kafka.transactional)
    events: list[Answered] = []
    if findings.parted and config.name == LEDGER:
        events = _lost(layout, reader, state, findings, log, topics_of(mode).events)
    return Look(layout, findings, tuple(events), _anchored(log, keys, layout.stream, topics_of(mode).anchors))


def _lost(
    layout: StreamLayout, reader: JournalReader, state: JournalState, findings: Findings, log: KafkaLog, topic: str
) -> list[Answered]:
    if state.next_seq == 1:
        return []
    [last] = reader.rows_of([state.next_seq - 1])
    waiting = {
        raw.decode("utf-8", "replace")
        for parted in findings.parted
        for one in parted.partings
        if parted.topic == topic
        for record in log.records(topic, one.partition, one.begins, one.high)
        for name, raw in record.headers
        if name == "event_key" and raw is not None
    }
    return undecided(layout.derived("receipts"), layout.journal, last.decided_at - RECEIPTS_BEFORE, waiting)


def _anchored(log: KafkaLog, keys: AnchorKeys, stream: str, topic: str) -> int:
    newest = 0
    for number, (low, high) in log.held([topic])[topic].items():
        for record in log.records(topic, number, low, high):
            with contextlib.suppress(AnchorInvalid):
                anchor = keys.decode(record.value or b"")
                if anchor.stream == stream:
                    newest = max(newest, anchor.seq)
    return newest


def _lines(one: Look) -> Iterator[dict[str, object]]:
    stream = one.layout.stream
    for parting in one.partings():
        if parting.lost is not None:
            place = {"topic": parting.topic, "partition": parting.partition}
            yield {"lost": "offsets", "stream": stream, **place, "from": parting.lost[0], "before": parting.lost[1]}
    for event in one.events:
        at = None if event.at is None else to_rfc3339(event.at)
        yield {
            "lost": "event",
            "stream": stream,
            "event_key": event.event_key,
            "provider": event.provider,
            "answered_at": at,
        }
