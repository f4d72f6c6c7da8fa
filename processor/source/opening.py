"""Opens what a stream reads, and what it sends back there."""

from __future__ import annotations

from functools import partial

from core.kafka import open_producer
from journal.kafka_log import KafkaLog
from processor.shared import SharedResources
from processor.source.feed import FeedRecords
from processor.source.journal_source import JournalSource
from processor.source.map_stage import MapJob, MapStage
from processor.source.put_back import PutBack
from processor.source.sources import REPUBLISH, KafkaSource, Republisher, StreamSource
from processor.source.starting import parse_starting
from processor.wiring import Wired


def open_source(wired: Wired, shared: SharedResources) -> StreamSource:
    """Makes the source of a stream, which isn't asked for anything yet; the handler knows from now on whom its feed
    names."""
    events, control = wired.events_topic, wired.control_topic
    if wired.reads is None:
        starting = parse_starting(wired.config.starting_offsets)
        stage = _make_map_stage(wired, shared)
        return KafkaSource(shared.session, shared.kafka, events, control, stage, shard=wired.shard, starting=starting)
    receivers = wired.reads.feed.receivers(wired.mode)
    wired.reads.receivers.add(receivers)
    records = FeedRecords(wired.config.name, wired.reads.journals, wired.reads.feed, receivers)
    kafka = KafkaSource(shared.session, shared.kafka, events, control)
    return JournalSource(wired.reads.journals, records, kafka, wired.reads.since)


def _make_map_stage(wired: Wired, shared: SharedResources) -> MapStage:
    # With one task, a call that was abandoned is found again: its Python worker must take no other task in between.
    workers = f"{wired.name} reads" if wired.config.tasks_max == 1 else wired.name
    stage = MapJob(wired.task, wired.mode, wired.control_topic, where=wired.where, foreign=wired.foreign)
    return MapStage(stage, workers, shared.task_counter(wired.config.tasks_max), lambda: wired.event_keys)


def make_republisher(wired: Wired, shared: SharedResources) -> Republisher | None:
    topic = wired.events_topic
    return Republisher(partial(open_producer, shared.kafka, REPUBLISH, shared.record_keys), topic) if topic else None


def make_put_back(wired: Wired, shared: SharedResources) -> PutBack | None:
    if wired.foreign is None:
        return None
    return PutBack(partial(open_producer, shared.kafka, REPUBLISH), partial(KafkaLog, shared.kafka))
