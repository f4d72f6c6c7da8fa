"""Opens a stream that is wired, over and over: its epoch first, then everything that follows its journal catches up."""

from __future__ import annotations

import contextlib
import logging
import uuid
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial

from core.generation import Announcement
from core.kafka import open_producer
from core.location import Location
from core.routing import topics_of
from dlq.publisher import DlqPublisher
from dlq.record import DeadLetterTopic
from journal.anchors import Anchoring, Head, anchored_before
from journal.bodies import BodyStore
from journal.errors import StreamRefused
from journal.index import Index
from journal.journals import check_shard, shard_note
from journal.kafka_log import TopicLog
from journal.lake import has_table
from journal.lease import Lease
from journal.reader import JournalReader
from journal.rocksdb_store import is_held
from journal.schema import JournalRow
from journal.snapshots import Snapshots, load_newest
from journal.start_checks import check_index, check_whole
from journal.state import JournalState
from journal.writer import JournalWriter, Tenure
from operations.done_alone import DoneAlone, given_since
from operations.frozen import SelectionFiles
from processor.backlog.catch_up import EndsWatch, JournalEnds, KafkaEnds, StreamCatchUp
from processor.backlog.pace import BATCH_S, Pace, PaceLimits
from processor.calls.downstreams import Downstreams
from processor.decide.admit import BatchLookups
from processor.decide.batch import Batches
from processor.decide.commit import Derived, DerivedTable, Journal
from processor.decide.handlers import Handlers
from processor.decide.item import BatchItem
from processor.decide.rereads import Rereads
from processor.history.check import (
    PARTITIONS_NOTE,
    HistoryWatch,
    check_history,
    check_partitions,
    read_decided_partitions,
)
from processor.reporting.hooks import HookRunner
from processor.reporting.status import StreamStatus
from processor.rules import BYTES_PER_BATCH_MAX
from processor.settings import SHARDS_MAX
from processor.source.journal_source import RECORDS_PER_BATCH_MAX as JOURNAL_RECORDS_PER_BATCH_MAX
from processor.source.opening import make_put_back, make_republisher, open_source
from processor.source.sources import KafkaSource, StreamSource, warm_up
from processor.source.stream import Stream
from processor.topics import SharedResources, check_dead_letter_topic, check_own_topics, make_dead_letter_producer
from processor.wiring import Wired
from processor.workers.execute import Executor

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


class OpenableStream:
    def __init__(self, wired: Wired, shared: SharedResources, status: StreamStatus) -> None:
        self._wired = wired = replace(wired, transactional=shared.kafka.transactional, record_keys=shared.record_keys)
        self._shared = shared
        self._status = status
        self._tenure = Tenure(uuid.uuid4().hex)
        self.lease = Lease(str(wired.places.lease), self._tenure.owner, shared.clock, wired.places.lease_lock)
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

    def release_executors(self) -> None:
        self._catch_up.release_executors()

    def stand_by(self) -> None:
        now = self._shared.clock.monotonic_s()
        if now < self._follows_at:
            return
        try:
            self._follow_journal()
        except Exception:
            log.warning("%s: standing by, but the index can't follow the journal", self.name, exc_info=True)
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
        tasks = self._shared.task_counter(self._wired.config.tasks_max)
        Executor(self._shared.session, self._wired.task, tasks).warm_workers()
        if isinstance(source, KafkaSource):
            if source.map_stage is not None:
                source.map_stage.warm_workers(self._shared.session)
            checkpoint = self._wired.places.checkpoint
            warm_up(source, checkpoint.with_name(f"{checkpoint.name}-{self._tenure.owner}"))
        self._is_warm = True

    def _open_batches(self, source: StreamSource) -> Batches:
        """Commits the epoch first, then everything catches up by seq. After an error nothing is held."""
        wired, shared = self._wired, self._shared
        writer, state = self._begin_epoch(source)
        self._catch_up.restore_notes(state.notes)
        downstreams = self._make_downstreams(state)
        reader = JournalReader(str(wired.places.journal), state.version)
        bodies = BodyStore(str(wired.places.bodies_table), may_create=state.next_seq == 1)
        with contextlib.ExitStack() as undo:
            index = self._open_index(state, reader, bodies, undo)
            hook_failed = self._status.metrics.hook_failed
            hooks = None if wired.build_hooks is None else HookRunner(wired.build_hooks(), hook_failed)
            dead_letters = self._open_dead_letters(state.published_upto, hooks)
            undo.callback(dead_letters.close, 0)
            dead_letters.catch_up(reader, bodies, lambda: JournalReader(str(wired.places.journal)))
            anchors = self._open_anchors(state)
            undo.callback(anchors.close, 0)
            watch = HistoryWatch(wired.name, lambda: journal.position, source.log, source.topics)
            journal = Journal(state, writer, bodies, lambda: self._make_notes(downstreams, anchors), watch)
            snapshots = Snapshots(index, str(wired.places.snapshots_folder), shared.clock)
            derived = Derived(
                index, self._open_followers(reader), dead_letters, anchors, self._report_decided_to(hooks), snapshots
            )
            batches = Batches(
                wired,
                journal,
                self._make_lookups(index, bodies, state.generation),
                self._make_handlers(downstreams),
                derived,
                self._make_rereads(),
                shared.clock,
            )
            watch.start()
            snapshots.start()
            undo.pop_all()
            return batches

    def _begin_epoch(self, source: StreamSource) -> tuple[JournalWriter, JournalState]:
        wired, shared, stream = self._wired, self._shared, self._wired.name
        with contextlib.closing(source.log()) as source_log:
            held = source_log.read_held_offsets(source.topics)
            check_dead_letter_topic(wired, shared, held)
            check_own_topics(wired, shared)
            wired.places.trying_file.parent.mkdir(parents=True, exist_ok=True)
            before = self._check_positions(source, source_log)
            ids = source_log.topic_ids(source.topics)
        writer = JournalWriter.create_or_open(str(wired.places.journal), stream, self._tenure)
        marks = source.find_start_marks(before, held)
        state = writer.begin_epoch(marks, self._tenure, ids, shard_note(wired.shard))
        if (begun := source.describe_start(before, held, marks)) is not None:
            log.info("%s is new: it %s", stream, begun)
            self._status.begun = begun
        log.info("%s: epoch %d begins after seq %d", stream, state.epoch, state.next_seq - 1)
        return writer, state

    def _make_downstreams(self, state: JournalState) -> Downstreams:
        return Downstreams(
            self._wired.config.downstreams,
            self._shared.clock,
            tries=self._wired.config.retry.tries_min,
            notes=state.notes,
            on_round=self._status.metrics.count_calls,
            on_forgotten=self._status.metrics.downstream_forgotten,
        )

    def _open_index(
        self, state: JournalState, reader: JournalReader, bodies: BodyStore, undo: contextlib.ExitStack
    ) -> Index:
        places = self._wired.places
        index = Index.open(places.index, state.epoch)
        undo.callback(index.close)
        check_whole(str(places.journal), reader, state, index.seq)
        self._status.announce_generation(
            Announcement(state.generation, self._shared.kafka.events_partitions, shard=self._wired.shard)
        )
        load_newest(index, str(places.snapshots_folder), reader)
        index.catch_up(reader, bodies)
        return index

    def _make_notes(self, downstreams: Downstreams, anchors: Anchoring) -> dict[str, str]:
        partitions = {} if self._own_partitions is None else {PARTITIONS_NOTE: str(self._own_partitions)}
        return {**downstreams.make_notes(), **self._catch_up.make_notes(), **anchors.make_notes(), **partitions}

    def _make_lookups(self, index: Index, bodies: BodyStore, generation: int) -> BatchLookups:
        wired, journal = self._wired, self._wired.places.journal
        known = BatchLookups(
            index,
            self._shared.adapters,
            partial(_read_rows, journal),
            bodies.fetch,
            partial(_read_applied_upto, journal),
            DoneAlone(partial(given_since, journal, wired.control_topic)),
            SelectionFiles(wired.places.selections).read,
            lambda: self._catch_up.backlog_s,
        )
        claims = self._shared.claims
        if claims is None or self._own_partitions is None:
            # Only a stream that reads what receivers publish has claims to free.
            return known
        return replace(known, free_claims=partial(claims.free_claims, generation=generation))

    def _make_handlers(self, downstreams: Downstreams) -> Handlers:
        wired, shared = self._wired, self._shared
        executor = Executor(shared.session, wired.task, shared.task_counter(wired.config.tasks_max), downstreams)
        return Handlers(executor, wired.places.trying_file, shared.clock, downstreams)

    def _make_rereads(self) -> Rereads:
        wired, shared = self._wired, self._shared
        republish, put_back = make_republisher(wired, shared), make_put_back(wired, shared)
        return Rereads(wired.name, shared.adapters, republish, put_back)

    def _report_decided_to(self, hooks: HookRunner | None) -> Callable[[Sequence[BatchItem]], None]:
        def report_items(items: Sequence[BatchItem]) -> None:
            self._status.report_decided(items)
            if hooks is not None:
                hooks.on_scheduled(item.row for item in items)

        return report_items

    @property
    def _own_partitions(self) -> int | None:
        ours = self._wired.events_topic == topics_of(self._wired.mode).events
        return self._shared.kafka.events_partitions if ours else None

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
                check_partitions(wired.name, state, source_log, wired.events_topic, self._own_partitions)
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


def _make_catch_up(wired: Wired, shared: SharedResources) -> StreamCatchUp:
    records_max = RECORDS_PER_BATCH_MAX if wired.reads is None else JOURNAL_RECORDS_PER_BATCH_MAX
    first = min(RECORDS_FIRST, max(1, BYTES_PER_BATCH_MAX // wired.config.payload_bytes_max))
    limits = PaceLimits(BATCH_S, min(RECORDS_MIN, first), records_max, first, BYTES_PER_BATCH_MAX)
    ends = EndsWatch(KafkaEnds(shared.kafka) if wired.reads is None else JournalEnds(wired.reads.journals))
    return StreamCatchUp(wired.name, Pace(limits), ends, shared.executors, shared.clock, wired.config.tasks_max)


def _read_rows(journal: Location, seqs: Sequence[int]) -> dict[int, JournalRow]:
    reader = JournalReader(str(journal))
    last_seq = reader.last_seq
    return {row.seq: row for row in reader.rows_of([seq for seq in sorted(seqs) if 0 < seq <= last_seq])}


def _read_applied_upto(journal: Location, after: Mapping[str, int]) -> Mapping[str, int]:
    return JournalReader(str(journal)).applied_upto(after)
