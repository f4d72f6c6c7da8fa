"""Opens a stream that is wired, over and over: its epoch first, then everything that follows its journal catches up."""

from __future__ import annotations

import contextlib
import logging
import uuid
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from pyspark.sql import SparkSession

from core.clock import Clock
from core.durability import RECORD_BYTES_MAX
from core.generation import Announcement
from core.kafka import open_admin, open_producer
from core.location import Location
from core.record_keys import RecordKeys
from core.routing import topics_of
from core.settings import KafkaSettings, TopicsSettings
from core.topics import check_topics
from dlq.publisher import DlqPublisher
from dlq.record import DeadLetterTopic
from dlq.topic import DlqTopics
from journal.anchors import Anchoring, AnchorKeys, Head, anchored_before
from journal.bodies import BodyStore
from journal.errors import StreamRefused
from journal.index import Index
from journal.kafka_log import Held, KafkaLog, TopicLog, translate_kafka_errors
from journal.lake import has_table
from journal.lease import Lease
from journal.reader import JournalReader
from journal.rocksdb_store import is_held
from journal.schema import JournalRow
from journal.shards import check_shard, shard_note
from journal.snapshots import Snapshots, load_newest
from journal.start_checks import check_index, check_whole
from journal.state import JournalState
from journal.writer import JournalWriter, Tenure
from operations.done_alone import DoneAlone, given_since
from operations.frozen import SelectionFiles
from processor.backlog.catch_up import EndsWatch, JournalEnds, KafkaEnds, StreamCatchUp
from processor.backlog.pace import BATCH_S, Pace, PaceLimits
from processor.backlog.sizing import Executors
from processor.calls.downstreams import Downstreams
from processor.claims import ReceiverClaims
from processor.decide.batch import Batches
from processor.decide.commit import Journal
from processor.decide.derive import Derived
from processor.decide.hooks import HookRunner
from processor.decide.item import BatchItem
from processor.decide.ports import AdapterReader, BatchLookups, DerivedTable, FreeClaims, no_claims
from processor.decide.run import Handlers
from processor.history.check import (
    PARTITIONS_NOTE,
    HistoryWatch,
    check_history,
    check_partitions,
    read_decided_partitions,
)
from processor.reporting.status import StreamStatus
from processor.rules import BYTES_PER_BATCH_MAX
from processor.run.execute import Executor
from processor.settings import SHARDS_MAX
from processor.source.feed import FeedRecords
from processor.source.journal_source import RECORDS_PER_BATCH_MAX as JOURNAL_RECORDS_PER_BATCH_MAX
from processor.source.journal_source import JournalSource
from processor.source.map_stage import MapJob, MapStage
from processor.source.put_back import PutBack
from processor.source.sources import REPUBLISH, KafkaSource, Republisher, StreamSource, warm_up
from processor.source.starting import parse_starting
from processor.source.stream import Stream
from processor.wiring import Wired

log = logging.getLogger(__name__)

ANCHOR_TIMEOUT_MS = 30_000
"""An anchor that Kafka hasn't taken by then is replaced by a newer one."""

RECORDS_MIN = 100
"""A batch may always take so many records, however slow its handlers are."""

RECORDS_FIRST = 2_000
"""At most, before anything is known of what a batch costs: about what one takes in half a second."""

RECORDS_PER_BATCH_MAX = 32_000
"""Of Kafka's, however fast batches are."""


FOLLOW_EVERY_S = 10.0
"""How often the index of a stream that stands by follows the journal; the rest is read in a moment at a takeover."""


@dataclass(frozen=True, slots=True)
class SharedResources:
    """The things that the streams of one Spark application share. ``executors`` run its tasks.

    ``record_keys``: sign and check events and commands. ``claims``: of the receivers that publish their events.
    """

    session: SparkSession
    kafka: KafkaSettings
    topics: TopicsSettings
    adapters: Mapping[str, AdapterReader]
    clock: Clock
    executors: Executors
    anchor_keys: AnchorKeys
    record_keys: RecordKeys | None
    claims: ReceiverClaims | None = None


class OpenableStream:
    """A stream of the application, which may be begun over and over, always by the same tenure
    (`processor.application.WorkStream`)."""

    def __init__(self, wired: Wired, shared: SharedResources, status: StreamStatus) -> None:
        self._wired = wired
        self._shared = shared
        self._status = status
        self._tenure = Tenure(uuid.uuid4().hex)
        self._lease = Lease(str(wired.places.lease), self._tenure.owner, shared.clock, wired.places.lease_lock)
        self._catch_up = _make_catch_up(wired, shared)
        self._is_warm = False
        self._index: Index | None = None
        self._follows_at = 0.0

    @property
    def name(self) -> str:
        return self._wired.name

    def idle_because(self) -> str | None:
        reads = self._wired.reads
        return None if reads is None else reads.idle_because(self._wired.mode)

    @property
    def lease(self) -> Lease:
        return self._lease

    def follow(self) -> None:
        """Lets the next run take the journal over from whichever process began its last epoch.

        :raises StorageDown: the journal can't be reached
        :raises JournalBroken: its last entry isn't whole
        """
        self._tenure.follow(str(self._wired.places.journal))

    def prepare(self) -> None:
        """Tries Python, the JVM and a query beforehand. The stream's jobs are in a pool of its own, so that no stream's
        jobs queue behind another's.
        """
        wired, shared = self._wired, self._shared
        shared.session.sparkContext.setLocalProperty("spark.scheduler.pool", wired.name)
        if not self._is_warm:
            self._warm_workers(open_source(wired, shared))

    def stand_by(self) -> None:
        """Lets an index on a disk of its own follow the journal."""
        now = self._shared.clock.monotonic_s()
        if now < self._follows_at:
            return
        try:
            self._follow_journal()
        except Exception:
            log.warning("%s: standing by, the index isn't followed", self.name, exc_info=True)
            self._close_index()
        self._follows_at = self._shared.clock.monotonic_s() + FOLLOW_EVERY_S

    def _follow_journal(self) -> None:
        places = self._wired.places
        if not has_table(str(places.journal)) or (self._index is None and is_held(places.index)):
            return
        reader = JournalReader(str(places.journal))
        bodies = BodyStore(str(places.bodies_table), may_create=False)
        if self._index is None:
            self._index = Index.open(places.index, reader.state().epoch)
            load_newest(self._index, str(places.snapshots_folder), reader)
        self._index.catch_up(reader, bodies)

    def _close_index(self) -> None:
        if self._index is not None:
            self._index.close()
            self._index = None

    def begin(self) -> Stream:
        wired, shared = self._wired, self._shared
        self._close_index()
        source = open_source(wired, shared)
        batches = self._open_batches(source)
        return Stream(
            batches,
            source,
            self._catch_up,
            shared.clock,
            wired.places.checkpoint,
            lambda: self._status.report_batch(batches, self._catch_up),
        )

    def _warm_workers(self, source: StreamSource) -> None:
        Executor(self._shared.session, self._wired.task, _make_task_counter(self._wired, self._shared)).warm_workers()
        if isinstance(source, KafkaSource):
            if source.map_stage is not None:
                source.map_stage.warm_workers(self._shared.session)
            checkpoint = self._wired.places.checkpoint
            warm_up(source, checkpoint.with_name(f"{checkpoint.name}-{self._tenure.owner}"))
        self._is_warm = True

    def _open_batches(self, source: StreamSource) -> Batches:
        """Commits the epoch first, then everything catches up by seq. After an error nothing is held."""
        wired, shared, metrics = self._wired, self._shared, self._status.metrics
        stream, places = wired.name, wired.places
        with contextlib.closing(source.log()) as source_log:
            held = source_log.read_held_offsets(source.topics)
            check_dead_letter_topic(wired, shared, held)
            check_own_topics(wired, shared)
            places.trying_file.parent.mkdir(parents=True, exist_ok=True)
            before = self._check_positions(source, source_log)
            ids = source_log.topic_ids(source.topics)
        writer = JournalWriter.create_or_open(str(places.journal), stream, self._tenure)
        marks = source.find_start_marks(before, held)
        state = writer.begin_epoch(marks, self._tenure, ids, shard_note(wired.shard))
        if (begun := source.describe_start(before, held, marks)) is not None:
            log.info("%s is new: it %s", stream, begun)
            self._status.begun = begun
        log.info("%s: epoch %d begins after seq %d", stream, state.epoch, state.next_seq - 1)
        self._catch_up.restore_notes(state.notes)
        downstreams = Downstreams(
            wired.config.downstreams,
            shared.clock,
            tries=wired.rules.tries_min,
            notes=state.notes,
            on_round=metrics.count_calls,
            on_forgotten=metrics.downstream_forgotten,
        )
        reader = JournalReader(str(places.journal), state.version)
        bodies = BodyStore(str(places.bodies_table), may_create=state.next_seq == 1)
        with contextlib.ExitStack() as undo:
            index = Index.open(places.index, state.epoch)
            undo.callback(index.close)
            check_whole(str(places.journal), reader, state, index.seq)
            self._status.announce_generation(
                Announcement(state.generation, shared.kafka.events_partitions, shard=wired.shard)
            )
            load_newest(index, str(places.snapshots_folder), reader)
            index.catch_up(reader, bodies)
            hooks = None if wired.build_hooks is None else HookRunner(wired.build_hooks(), metrics.hook_failed)
            dead_letters = self._open_dead_letters(state.published_upto, hooks)
            undo.callback(dead_letters.close, 0)
            dead_letters.catch_up(reader, bodies, lambda: JournalReader(str(places.journal)))
            anchors = self._open_anchors(state)
            undo.callback(anchors.close, 0)
            watch = HistoryWatch(stream, lambda: journal.position, source.log, source.topics)
            journal = Journal(
                state,
                writer,
                bodies,
                lambda: {
                    **downstreams.make_notes(),
                    **self._catch_up.make_notes(),
                    **anchors.make_notes(),
                    **self._make_partition_notes(),
                },
                watch,
            )
            known = BatchLookups(
                index,
                shared.adapters,
                partial(_read_rows, places.journal),
                bodies.fetch,
                partial(_read_applied_upto, places.journal),
                DoneAlone(partial(given_since, places.journal, wired.rules.control_topic)),
                SelectionFiles(places.selections).read,
                lambda: self._catch_up.backlog_s,
                self._make_free_claims(state.generation),
            )
            executor = Executor(shared.session, wired.task, _make_task_counter(wired, shared), downstreams)
            republish, put_back = _make_republisher(wired, shared), _make_put_back(wired, shared)
            handlers = Handlers(executor, places.trying_file, shared.clock, republish, downstreams, put_back)
            snapshots = Snapshots(index, str(places.snapshots_folder), shared.clock)
            decided = (
                self._status.report_decided
                if hooks is None
                else partial(_report_decided, self._status.report_decided, hooks)
            )
            derived = Derived(index, self._open_followers(reader), dead_letters, anchors, decided, snapshots)
            rules = replace(wired.rules, transactional=shared.kafka.transactional, record_keys=shared.record_keys)
            batches = Batches(rules, journal, known, handlers, derived, shared.clock)
            watch.start()
            snapshots.start()
            undo.pop_all()
            return batches

    def _make_free_claims(self, generation: int) -> FreeClaims:
        """Only a stream that reads what receivers publish has claims to free."""
        claims = self._shared.claims
        if claims is None or self._own_partitions is None:
            return no_claims
        return partial(claims.free_claims, generation=generation)

    @property
    def _own_partitions(self) -> int | None:
        ours = self._wired.rules.events_topic == topics_of(self._wired.mode).events
        return self._shared.kafka.events_partitions if ours else None

    def _make_partition_notes(self) -> dict[str, str]:
        return {} if self._own_partitions is None else {PARTITIONS_NOTE: str(self._own_partitions)}

    def _check_positions(self, source: StreamSource, source_log: TopicLog) -> JournalState | None:
        """Returns where the journal stands before an epoch begins; None where there is none yet.

        :raises Refused: its positions are of another history than what the source holds, or what is derived from it is
            ahead of it
        """
        wired, journal = self._wired, str(self._wired.places.journal)
        places = [wired.places.of_shard(number).journal for number in range(SHARDS_MAX)]
        check_shard(wired.name, wired.shard, places[0], wired.places.journal, places)
        if not has_table(journal):
            return None
        reader = JournalReader(journal)
        state = reader.state()
        try:
            check_history(wired.name, state, reader, source_log, source.topics, self._shared.kafka.transactional)
            if self._own_partitions is not None:
                check_partitions(wired.name, state, source_log, wired.rules.events_topic, self._own_partitions)
            check_index(wired.places.index, journal)
            for table, kept_by in wired.derived.items():
                kept_by.check(str(wired.places.derived_table(table)), JournalReader(journal))
        except StreamRefused:
            partitions = read_decided_partitions(state) or self._shared.kafka.events_partitions
            self._status.announce_generation(
                Announcement(state.generation, partitions, refused=True, shard=wired.shard)
            )
            raise
        return state

    def _open_followers(self, reader: JournalReader) -> list[DerivedTable]:
        places, derived = self._wired.places, self._wired.derived
        followers: list[DerivedTable] = [
            kept_by.open(str(places.derived_table(table))) for table, kept_by in derived.items()
        ]
        for follower in followers:
            follower.catch_up(reader)
        return followers

    def _open_dead_letters(self, published_upto: int, hooks: HookRunner | None) -> DlqPublisher:
        wired, metrics = self._wired, self._status.metrics
        return DlqPublisher(
            make_dead_letter_producer(self._shared.kafka),
            DeadLetterTopic(wired.dlq_topic, f"payhook-{wired.name}", wired.config.dlq.copy_record),
            published_upto,
            self._shared.clock,
            watcher=hooks,
            tally=metrics.dead_letters,
        )

    def _open_anchors(self, state: JournalState) -> Anchoring:
        """Anchors what the writer before this one could not anchor."""
        shared = self._shared
        settings = {"acks": "all", "message.timeout.ms": ANCHOR_TIMEOUT_MS}
        anchors = Anchoring(
            self._wired.name,
            topics_of(self._wired.mode).anchors,
            shared.anchor_keys,
            open_producer(shared.kafka, settings),
            shared.clock,
            anchored_before(state.notes),
        )
        anchors.on_commit(Head(state.epoch, state.next_seq - 1, state.chain, state.lineage))
        return anchors


def open_source(wired: Wired, shared: SharedResources) -> StreamSource:
    """Makes the source of a stream, which isn't asked for anything yet; the handler knows from now on whom its feed
    names."""
    events, control = wired.rules.events_topic, wired.rules.control_topic
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
    stage = MapJob(wired.task, wired.mode, wired.rules.control_topic, where=wired.rules.where, foreign=wired.foreign)
    rules = replace(wired.rules, record_keys=shared.record_keys)
    return MapStage(stage, workers, _make_task_counter(wired, shared), lambda: rules.event_keys)


def _make_task_counter(wired: Wired, shared: SharedResources) -> Callable[[], int]:
    """Makes a function that says how many tasks of the stream's handlers run at a time now."""
    executors = shared.executors
    return lambda: wired.config.tasks_max or executors.tasks


def _make_catch_up(wired: Wired, shared: SharedResources) -> StreamCatchUp:
    records_max = RECORDS_PER_BATCH_MAX if wired.reads is None else JOURNAL_RECORDS_PER_BATCH_MAX
    first = min(RECORDS_FIRST, max(1, BYTES_PER_BATCH_MAX // wired.config.payload_bytes_max))
    limits = PaceLimits(BATCH_S, min(RECORDS_MIN, first), records_max, first, BYTES_PER_BATCH_MAX)
    ends = EndsWatch(KafkaEnds(shared.kafka) if wired.reads is None else JournalEnds(wired.reads.journals))
    return StreamCatchUp(wired.name, Pace(limits), ends, shared.executors, shared.clock)


def check_dead_letter_topic(wired: Wired, shared: SharedResources, held: Held) -> None:
    """
    :raises DlqTopicRefused: the topic can't take the stream's dead letters
    :raises KafkaSilent: Kafka doesn't tell
    """
    dlq = wired.config.dlq
    partitions = max((max(numbers) + 1 for numbers in held.values() if numbers), default=1)
    replication = shared.topics.count_replicas(shared.kafka.durability)
    topics = DlqTopics(open_admin(shared.kafka), shared.kafka)
    topic = wired.dlq_topic
    with translate_kafka_errors():
        topics.check(
            *(wired.config.name, topic, partitions),
            create=dlq.create_topic,
            replication=replication,
            prefix=dlq.prefix,
        )


def check_own_topics(wired: Wired, shared: SharedResources) -> None:
    """Checks payhook's own topics; a source of other records is its owner's to look after.

    :raises TopicsUnfit: one of them could lose records
    :raises KafkaSilent: Kafka doesn't tell
    """
    names = topics_of(wired.mode)
    record_bytes = {names.control: 0, wired.dlq_topic: 0}
    if wired.rules.events_topic == names.events:
        record_bytes[names.events] = RECORD_BYTES_MAX
    with translate_kafka_errors():
        check_topics(open_admin(shared.kafka), shared.kafka, record_bytes)


def make_dead_letter_producer(kafka: KafkaSettings) -> Callable[[], Any]:
    """Makes a producer that never creates a missing topic by asking for it.

    Such a topic would have the broker's number of partitions, and no mark.
    """
    settings: dict[str, Any] = {
        "acks": "all",
        "enable.idempotence": True,
        "allow.auto.create.topics": False,
    }
    return partial(open_producer, kafka, settings)


def _make_republisher(wired: Wired, shared: SharedResources) -> Republisher | None:
    topic = wired.rules.events_topic
    return Republisher(partial(open_producer, shared.kafka, REPUBLISH, shared.record_keys), topic) if topic else None


def _make_put_back(wired: Wired, shared: SharedResources) -> PutBack | None:
    if wired.foreign is None:
        return None
    return PutBack(partial(open_producer, shared.kafka, REPUBLISH), partial(KafkaLog, shared.kafka))


def _report_decided(
    report: Callable[[Sequence[BatchItem]], None], hooks: HookRunner, items: Sequence[BatchItem]
) -> None:
    report(items)
    hooks.on_scheduled(item.row for item in items)


def _read_rows(journal: Location, seqs: Sequence[int]) -> dict[int, JournalRow]:
    reader = JournalReader(str(journal))
    last_seq = reader.last_seq
    return {row.seq: row for row in reader.rows_of([seq for seq in sorted(seqs) if 0 < seq <= last_seq])}


def _read_applied_upto(journal: Location, after: Mapping[str, int]) -> Mapping[str, int]:
    return JournalReader(str(journal)).applied_upto(after)
