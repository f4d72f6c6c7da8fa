"""Opens a stream that is wired, and begins it over and over: its epoch first, then everything catches up by seq."""

from __future__ import annotations

import contextlib
import logging
import uuid
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Protocol

from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient
from pyspark.sql import SparkSession

from core.clock import Clock
from core.durability import RECORD_BYTES_MAX, Durability, replicas_min
from core.place import Place
from core.routing import topics_of
from core.topics import check_topics
from dlq.done_alone import given_since
from dlq.frozen import SelectionFiles
from dlq.publisher import DlqPublisher
from dlq.topic import DlqTopics
from journal.anchoring import Anchoring, Head, anchored_before
from journal.anchors import AnchorKeys
from journal.bodies import BodyStore
from journal.entries import last_number
from journal.errors import Refused
from journal.index import Index
from journal.kafka_log import Held, Log
from journal.lake import has_table
from journal.reader import JournalReader
from journal.schema import JournalRow
from journal.state import JournalState, read_state
from journal.stores import open_storage
from journal.whole import check_index, check_whole
from journal.writer import JournalWriter, Tenure
from processor.backlog.catch_up import CatchUp
from processor.backlog.lag import EndsWatch, JournalEnds, KafkaEnds
from processor.backlog.pace import Pace, PaceLimits
from processor.calls.downstreams import Downstreams
from processor.decide.batch import Batches, Reader
from processor.decide.hooks import HookRunner
from processor.history.check import check
from processor.history.watch import HistoryWatch
from processor.lasting import LastingStream
from processor.run.execute import Executor
from processor.source.feed import FeedRecords
from processor.source.journal_source import JournalSource
from processor.source.map_stage import MapStage, Pass
from processor.source.orders import ControlTopic
from processor.source.republish import Republisher, republish_settings
from processor.source.sources import KafkaSource, Source
from processor.source.stream import Stream
from processor.source.warming import warm_up
from processor.tell.metrics import ProcessorMetrics
from processor.tell.telling import Telling
from processor.wiring import Wired

log = logging.getLogger(__name__)

ANCHOR_TIMEOUT_MS = 30_000
"""An anchor that Kafka hasn't taken by then is replaced by a newer one."""

RECORDS_MIN = 100
"""A batch may always take so many records, however slow its handlers are."""

RECORDS_FIRST = 2_000
"""At most, before anything is known of what a batch costs: about what one takes in half a second."""


class Derived(Protocol):
    """A table that follows a journal's rows by seq, made by its class's ``open(path)``. Before an epoch begins its
    class's ``check(path, reader)`` raises `Refused` if the table is ahead of its journal.
    """

    def catch_up(self, reader: JournalReader) -> None: ...
    def follow(self, rows: Any) -> None: ...


@dataclass(frozen=True, slots=True)
class Shared:
    """What the streams of one Spark application share. ``cores``: tasks at a time of a stream without a bound."""

    session: SparkSession
    bootstrap: str
    adapters: Mapping[str, Reader]
    clock: Clock
    cores: int
    anchor_keys: AnchorKeys
    anchor_every_s: float
    durability: Durability
    transactional: Collection[str] = ()


def open_source(wired: Wired, shared: Shared) -> Source:
    """The source of a stream, not asked for anything yet; who its feed names is told to the handler from now on."""
    config = wired.config
    kafka = KafkaSource(
        shared.session,
        shared.bootstrap,
        _kafka_topics(wired),
        config.tick_s,
    )
    if wired.reads is None:
        return kafka
    receivers = wired.reads.feed.receivers(wired.mode)
    wired.reads.receivers.add(receivers)
    records = FeedRecords(config.name, wired.reads.stream, wired.reads.feed, receivers)
    since, rows_max = wired.reads.since, config.offsets_per_batch_max
    return JournalSource(shared.session, wired.reads.journal, records, kafka, rows_max, since)


def _kafka_topics(wired: Wired) -> list[str]:
    return [topic for topic in (wired.rules.events_topic, wired.rules.control_topic) if topic]


def open_stream(
    wired: Wired,
    shared: Shared,
    source: Source,
    metrics: ProcessorMetrics,
    telling: Telling,
    catch_up: CatchUp,
    tenure: Tenure,
) -> Batches:
    """One stream, ready to run: the epoch is committed first, then everything catches up by seq.

    After an error nothing of it is held, and it may be called again with the same ``tenure``.
    """
    stream, places = wired.name, wired.places
    with contextlib.closing(source.log()) as there:
        held = there.held(source.topics)
        _check_dead_letters(wired, shared, held)
        _check_topics(wired, shared)
        places.trying.parent.mkdir(parents=True, exist_ok=True)
        before = _check_positions(wired, shared, source, there, telling)
        ids = there.topic_ids(source.topics)
    writer = JournalWriter.create_or_open(str(places.journal), stream, tenure)
    state = writer.begin_epoch(source.starts(before, held), tenure, ids)
    log.info("%s: epoch %d begins after seq %d", stream, state.epoch, state.next_seq - 1)
    catch_up.knew(state.notes)
    downstreams = Downstreams(
        wired.config.downstreams,
        shared.clock,
        tries=wired.rules.policy.tries,
        notes=state.notes,
        on_round=metrics.downstream,
    )
    reader = JournalReader(str(places.journal), state.version)
    bodies = BodyStore(str(places.bodies), may_create=state.next_seq == 1)
    with contextlib.ExitStack() as undo:
        index = Index.open(places.index, state.epoch)
        undo.callback(index.close)
        check_whole(str(places.journal), reader, state, index.seq)
        telling.generation(state.generation)
        index.catch_up(reader, bodies)
        dead_letters = _dead_letters(wired, shared, state.published_upto, metrics)
        undo.callback(dead_letters.close, 0)
        dead_letters.catch_up(reader, bodies, lambda: JournalReader(str(places.journal)))
        anchors = _anchors(wired, shared, state)
        undo.callback(anchors.close, 0)
        watch = HistoryWatch(stream, lambda: batches.position, source.log, source.topics)
        batches = Batches(
            rules=wired.rules,
            state=state,
            writer=writer,
            index=index,
            bodies=bodies,
            followers=_followers(wired, reader),
            dead_letters=dead_letters,
            executor=Executor(shared.session, wired.task, _tasks(wired, shared), downstreams),
            adapters=shared.adapters,
            clock=shared.clock,
            trying=places.trying,
            anchors=anchors,
            rows_of=partial(_rows_of, places.journal),
            given_since=partial(given_since, places.journal, wired.rules.control_topic),
            applied_upto=partial(_applied_upto, places.journal),
            republish=_republisher(wired, shared),
            on_rows=metrics.committed,
            notes=lambda: {**downstreams.notes(), **catch_up.notes(), **anchors.notes()},
            downstreams=downstreams.status,
            transactional=shared.transactional,
            watch=watch,
            selections=SelectionFiles(places.selections).read,
            backlog_s=lambda: catch_up.backlog_s,
        )
        watch.start()
        undo.pop_all()
        return batches


def _check_positions(wired: Wired, shared: Shared, source: Source, there: Log, telling: Telling) -> JournalState | None:
    """Where the journal stands before an epoch begins; None where there is none yet.

    :raises Refused: its positions are of another history than what the source holds, or what is derived from it is
        ahead of it
    """
    journal = str(wired.places.journal)
    if not has_table(journal):
        return None
    reader = JournalReader(journal)
    state = reader.state()
    try:
        check(wired.name, state, reader, there, source.topics, shared.transactional)
        check_index(wired.places.index, journal)
        for table, kept_by in wired.derived.items():
            kept_by.check(str(wired.places.derived(table)), JournalReader(journal))
    except Refused:
        telling.generation(state.generation, refused=True)
        raise
    return state


class Starter:
    """One stream of the application, which may be begun over and over: always by the same tenure."""

    def __init__(self, wired: Wired, shared: Shared, metrics: ProcessorMetrics, telling: Telling) -> None:
        self._wired = wired
        self._shared = shared
        self._metrics = metrics
        self._telling = telling
        self._tenure = Tenure(uuid.uuid4().hex)
        self._catch_up = _catch_up(wired, shared)
        self._is_warm = False

    @property
    def name(self) -> str:
        return self._wired.name

    def idle_because(self) -> str | None:
        reads = self._wired.reads
        return None if reads is None else reads.idle_because(self._wired.mode)

    def journal_head(self) -> tuple[int, int]:
        """Epoch and last seq of its journal, whoever writes it now.

        :raises JournalBroken, OSError: it can't be read
        """
        path = str(self._wired.places.journal)
        state = read_state(path, last_number(open_storage(path)))
        return state.epoch, state.next_seq - 1

    def follow(self, epoch: int) -> None:
        """The next run may take the journal over from the process that began this epoch."""
        self._tenure.epoch = epoch

    def begin(self) -> LastingStream:
        """One run of the stream. Its jobs are in a pool of its own, so that no stream's jobs queue behind another's."""
        wired, shared = self._wired, self._shared
        shared.session.sparkContext.setLocalProperty("spark.scheduler.pool", wired.name)
        source, map_stage = open_source(wired, shared), _map_stage(wired, shared)

        def run_on(batches: Batches) -> Stream:
            return Stream(
                batches,
                shared.clock,
                wired.places.checkpoint,
                lambda: self._telling.batch(batches, self._catch_up),
                source,
                self._catch_up,
                partial(ControlTopic, shared.bootstrap, wired.rules.control_topic),
                map_stage,
            )

        def open_batches(tenure: Tenure) -> Batches:
            if not self._is_warm:
                Executor(shared.session, wired.task, _tasks(wired, shared)).warm()
                if map_stage is not None:
                    map_stage.warm(shared.session)
                    if isinstance(source, KafkaSource):
                        warm_up(source, map_stage, wired.places.checkpoint)
                self._is_warm = True
            return open_stream(wired, shared, source, self._metrics, self._telling, self._catch_up, tenure)

        return LastingStream(
            open_batches,
            run_on,
            self._telling.outage,
            self._telling.refused,
            tenure=self._tenure,
        )


def _catch_up(wired: Wired, shared: Shared) -> CatchUp:
    config, reads = wired.config, wired.reads
    records_max = config.offsets_per_batch_max
    first = min(RECORDS_FIRST, records_max, max(1, config.bytes_per_batch_max // config.payload_bytes_max))
    limits = PaceLimits(
        config.batch_s, min(RECORDS_MIN, first), records_max, first, bytes_max=config.bytes_per_batch_max
    )
    ends = EndsWatch(KafkaEnds(shared.bootstrap) if reads is None else JournalEnds(reads.journal))
    executors = int(shared.session.conf.get("spark.executor.instances", "1") or 1)
    return CatchUp(Pace(limits), ends, executors, max(1, shared.cores // executors), shared.clock)


def _tasks(wired: Wired, shared: Shared) -> int:
    """Tasks of the stream's handlers at a time."""
    return wired.config.tasks_max or shared.cores


def _followers(wired: Wired, reader: JournalReader) -> list[Derived]:
    followers: list[Derived] = [
        kept_by.open(str(wired.places.derived(table))) for table, kept_by in wired.derived.items()
    ]
    for follower in followers:
        follower.catch_up(reader)
    return followers


def _check_dead_letters(wired: Wired, shared: Shared, held: Held) -> None:
    """
    :raises DlqTopicRefused: the topic can't take the stream's dead letters
    """
    dlq = wired.config.dlq
    partitions = max((max(numbers) + 1 for numbers in held.values() if numbers), default=1)
    topics = DlqTopics(AdminClient({"bootstrap.servers": shared.bootstrap, "log_level": 0}), shared.bootstrap)
    topic = wired.config.dlq_topic(wired.mode)
    replication = max(dlq.replication, replicas_min(shared.durability))
    topics.check(wired.config.name, topic, partitions, create=dlq.create_topic, replication=replication)


def _check_topics(wired: Wired, shared: Shared) -> None:
    """payhook's own topics; a source of other records is its owner's to look after.

    :raises TopicsUnfit: one of them could lose records
    """
    names = topics_of(wired.mode)
    wanted = {names.control: 0, wired.config.dlq_topic(wired.mode): 0}
    if wired.rules.events_topic == names.events:
        wanted[names.events] = RECORD_BYTES_MAX
    client = AdminClient({"bootstrap.servers": shared.bootstrap, "log_level": 0})
    check_topics(client, shared.bootstrap, wanted, shared.durability)


def _dead_letters(wired: Wired, shared: Shared, published_upto: int, metrics: ProcessorMetrics) -> DlqPublisher:
    hooks = HookRunner(wired.build_hooks(), metrics.hook_failed) if wired.build_hooks is not None else None
    return DlqPublisher(
        _producer(shared.bootstrap),
        wired.config.dlq_topic(wired.mode),
        published_upto,
        group=f"payhook-{wired.name}",
        settings=wired.config.dlq,
        clock=shared.clock,
        watcher=hooks,
        tally=metrics.dead_letters,
    )


def _rows_of(journal: Place, seqs: Sequence[int]) -> dict[int, JournalRow]:
    reader = JournalReader(str(journal))
    last_seq = reader.last_seq
    return {row.seq: row for row in reader.rows_of([seq for seq in sorted(seqs) if 0 < seq <= last_seq])}


def _applied_upto(journal: Place, after: Mapping[str, int]) -> Mapping[str, int]:
    return JournalReader(str(journal)).applied_upto(after)


def _anchors(wired: Wired, shared: Shared, state: JournalState) -> Anchoring:
    """What the writer before this one could not anchor is anchored now."""
    anchors = Anchoring(
        wired.name,
        topics_of(wired.mode).anchors,
        shared.anchor_keys,
        Producer({"bootstrap.servers": shared.bootstrap, "acks": "all", "message.timeout.ms": ANCHOR_TIMEOUT_MS}),
        shared.anchor_every_s,
        shared.clock,
        anchored_before(state.notes),
        state.lineage,
    )
    anchors.committed(Head(state.epoch, state.next_seq - 1, state.chain))
    return anchors


def _producer(bootstrap: str) -> Callable[[], Any]:
    """Of dead letters. A topic that is gone isn't made anew by asking for it: it would have the broker's number of
    partitions, and nobody's mark.
    """
    settings: dict[str, Any] = {
        "bootstrap.servers": bootstrap,
        "acks": "all",
        "enable.idempotence": True,
        "allow.auto.create.topics": False,
    }
    return partial(Producer, settings)


def _republisher(wired: Wired, shared: Shared) -> Republisher | None:
    topic = wired.rules.events_topic
    return Republisher(partial(Producer, republish_settings(shared.bootstrap)), topic) if topic else None


def _map_stage(wired: Wired, shared: Shared) -> MapStage | None:
    """For what comes from Kafka; whether the handler runs in it is the handler's to say."""
    if wired.reads is not None:
        return None
    # With one task, a call that was abandoned is found again: its Python worker must take no other task in between.
    workers = f"{wired.name} reads" if wired.config.tasks_max == 1 else wired.name
    return MapStage(Pass(wired.task, wired.mode, wired.rules.control_topic), workers, _tasks(wired, shared))
