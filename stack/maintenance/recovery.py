"""Finds what disagrees between the journals and Kafka, and carries out what a person decides, the stack up or down."""

from __future__ import annotations

import contextlib
import json
import logging
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path

from core.clock import Clock, to_rfc3339
from core.event import Mode
from core.keys import hash_key
from core.layout import LEDGER, StreamLayout
from core.redis import FAILURES, sync_redis
from core.routing import is_shard_of, is_sparse, mode_of, stream_of, topics_of
from core.settings import KafkaSettings, RedisSettings
from ingest.redis_claims import confirmed_hashes
from journal.anchors import AnchorInvalid, AnchorKeys
from journal.entity_queue import open_beside_its_writer
from journal.errors import IndexUnreadable
from journal.histories import JournalOlder
from journal.journals import Journals
from journal.kafka_log import KafkaLog, TopicLog
from journal.reader import JournalReader
from journal.start_checks import check_index
from journal.state import JournalState
from ledger.receipts import AnsweredEvent, ReceiptsTable, find_undecided, read_answered_since, read_uncollected
from processor.history.losses import Acceptance, Findings, LostEvent, Parting, accept_losses, find_losses
from processor.source.feed import JournalLog
from processor.streams import StreamConfig
from processor.wiring import load_named
from stack.catching_up import list_again
from stack.endpoints import read_endpoints
from stack.journals import check_journals, journals_of
from stack.servers.kafka import kafka_server
from stack.servers.kafka_users import embedded_kafka
from stack.servers.ports import LOOPBACK, free_ports
from stack.servers.redis import redis_server, redis_url
from stack.servers.server import run_server
from stack.settings import Settings, streams_of
from stack.supervisor import sole_supervisor

log_ = logging.getLogger(__name__)

REDIS_TIMEOUT_S = 10.0
"""For one command of the walk through all claims."""
LISTED_MAX = timedelta(days=45)
"""Longer than any provider's list goes back."""
RECEIPTS_BEFORE = timedelta(days=1)
"""Receipts that are older than the journal's last row by more than this were decided, or never published."""


@dataclass(frozen=True, slots=True)
class StreamComparison:
    """A stream compared with Kafka: what disagrees, which events are lost, and the last seq that is anchored there.

    ``events`` and ``claims`` are of the whole ledger, and stand at the first of its journals that disagrees.
    ``claims``: hashes of event keys that Redis says were published, and that neither an index nor Kafka knows; None:
    nothing could be compared. ``older``: what is derived from the journal and knows later rows than it has.
    """

    layout: StreamLayout
    state: JournalState
    findings: Findings
    anchored: int
    events: tuple[AnsweredEvent, ...] = ()
    claims: tuple[bytes, ...] | None = None
    older: tuple[JournalOlder, ...] = ()

    @property
    def has_disagreement(self) -> bool:
        return bool(self.findings.parted or self.older)

    def list_partings(self) -> Iterator[Parting]:
        for parted in self.findings.parted:
            yield from parted.partings


@dataclass(frozen=True, slots=True)
class Servers:
    kafka: KafkaSettings
    redis: RedisSettings


@contextlib.contextmanager
def servers_of(settings: Settings) -> Iterator[Servers]:
    """Yields the servers that the processors use: the running stack's, the ones that are set, or the data folder's own.

    Its own are started for the length of the ``with``.

    :raises AlreadyUp: a stack is starting or stopping just now
    """
    endpoints = read_endpoints(settings.data_dir)
    if endpoints is not None:
        embedded = embedded_kafka(settings.layout.kafka, endpoints.kafka)
        yield Servers(settings.kafka if settings.kafka.is_outside else embedded, RedisSettings(url=endpoints.redis))
    elif settings.kafka.is_outside:
        yield Servers(settings.kafka, settings.redis)
    else:
        layout = settings.layout
        port, controller = free_ports(2)
        kafka = kafka_server(layout.kafka, port, controller, layout.logs_folder / "kafka.log")
        redis = redis_server(layout.redis, layout.logs_folder / "redis.log")
        with sole_supervisor(layout), run_server(kafka), run_server(redis):
            embedded = embedded_kafka(layout.kafka, f"{LOOPBACK}:{port}")
            yield Servers(embedded, RedisSettings(url=redis_url(layout.redis)))


def compare_streams(settings: Settings, servers: Servers) -> list[StreamComparison]:
    """Compares every stream that has a journal, live and test, with Kafka.

    :raises IncompleteJournals: other journals' partitions would look lost
    :raises TopicMissing, KafkaSilent: Kafka doesn't tell
    :raises JournalBroken: a journal can't be read
    """
    keys = AnchorKeys.read(Path(settings.processor.anchor_key_file))
    comparisons: list[StreamComparison] = []
    for mode in settings.ingest.taken_modes:
        for config in streams_of(settings).values():
            journals = journals_of(settings, config, mode)
            check_journals(journals)
            of_stream = []
            for layout in journals.find_begun():
                reads = partial(_reads_partition, journals, layout, config.events_topic(mode))
                with contextlib.closing(KafkaLog(servers.kafka, reads)) as log:
                    of_stream.append(_compare_stream(settings, layout, config, log, keys))
            if config.name == LEDGER:
                of_stream = _add_losses(of_stream, servers, mode)
            comparisons += of_stream
    return comparisons


def _reads_partition(journals: Journals, layout: StreamLayout, events: str, topic: str, partition: int) -> bool:
    return topic != events or journals.is_read_for(layout, partition)


def accept_stream_losses(comparisons: Sequence[StreamComparison], acceptance: Acceptance) -> list[JournalState]:
    """Accepts what was found, stream by stream; returns where their journals stand.

    :raises MovedOn: rows came meanwhile
    :raises Fenced, StorageDown, CommitUnknown: as `JournalWriter`
    """
    # Receivers claim in the highest generation of all journals: the next one is higher than each of them.
    generations: Counter[Mode] = Counter()
    for comparison in comparisons:
        mode = mode_of(comparison.layout.stream)
        generations[mode] = max(generations[mode], comparison.state.generation)
    return [
        accept_losses(
            comparison.layout.journal,
            comparison.findings,
            [LostEvent(event.event_key, event.provider, event.at, event.content_sha256) for event in comparison.events],
            comparison.anchored,
            acceptance,
            generation=generations[mode_of(comparison.layout.stream)],
            is_older=bool(comparison.older),
        )
        for comparison in comparisons
        if comparison.has_disagreement
    ]


def have_listed_again(
    settings: Settings, comparisons: Sequence[StreamComparison], accepted_at: datetime
) -> datetime | None:
    """Has the providers' lists read again from where the accepted losses begin; None: no ledger lost anything.

    The next catch-up brings in what they still have: the claims of what is lost are void by then.
    """
    begins = []
    for mode in settings.ingest.taken_modes:
        ledgers = [
            comparison for comparison in comparisons if is_shard_of(comparison.layout.stream, stream_of(LEDGER, mode))
        ]
        if any(comparison.has_disagreement for comparison in ledgers):
            begins.append(max(_find_receipts_start(ledgers), accepted_at - LISTED_MAX))
            list_again(settings.layout, mode, begins[-1], accepted_at)
    return min(begins, default=None)


def export_losses(comparisons: Sequence[StreamComparison], clock: Clock, file: Path) -> int:
    """Writes what is lost, a JSON object a line: ranges of offsets, and events by their key; returns how many lines."""
    lines = [line for comparison in comparisons for line in _list_losses(comparison)]
    head = {"what": "payhook recover", "at": to_rfc3339(clock.now()), "lines": len(lines)}
    file.write_text("".join(json.dumps(line) + "\n" for line in [head, *lines]), "utf-8")
    return len(lines)


def _compare_stream(
    settings: Settings, layout: StreamLayout, config: StreamConfig, log: KafkaLog, keys: AnchorKeys
) -> StreamComparison:
    mode = mode_of(layout.stream)
    reader = JournalReader(str(layout.journal))
    state = reader.state()
    topics = {topic for topic in (config.events_topic(mode), topics_of(mode).control) if topic}
    read = {topic for topic in state.marks if is_sparse(topic)}
    source_log: TopicLog = log
    if config.source_stream is not None and read:
        sources = journals_of(settings, streams_of(settings)[config.source_stream], mode)
        source_log = JournalLog(log, config.name, {place.stream: place.journal for place in sources.places})
    findings = find_losses(
        layout.stream, state, reader, source_log, sorted(topics | read), settings.kafka.transactional
    )
    anchored = _find_anchored_seq(log, keys, layout.stream, topics_of(mode).anchors)
    return StreamComparison(layout, state, findings, anchored, older=tuple(_find_older(layout, config)))


def _add_losses(comparisons: list[StreamComparison], servers: Servers, mode: Mode) -> list[StreamComparison]:
    """Adds the events that are lost, if a journal disagrees.

    An event's key doesn't tell whose it is: it is lost where no journal decided it, nor will.
    """
    at = next((at for at, comparison in enumerate(comparisons) if comparison.has_disagreement), None)
    if at is None:
        return comparisons
    table = comparisons[0].layout.shared_table("receipts")
    with contextlib.closing(KafkaLog(servers.kafka)) as log:
        # Those of the last minutes are in the topic alone: a round of maintenance collects them.
        newer = read_uncollected(log, topics_of(mode).receipts, ReceiptsTable(str(table)))
        receipts = read_answered_since(table, _find_receipts_start(comparisons), newer)
        # After the receipts: what was answered is in Kafka by now, decided or not.
        waiting = _find_waiting_keys(comparisons, log, topics_of(mode).events)
    events = find_undecided(receipts, [comparison.layout.journal for comparison in comparisons], waiting)
    claims = _find_unknown_claims(comparisons, servers.redis, mode, {hash_key(key) for key in waiting})
    return [*comparisons[:at], replace(comparisons[at], events=tuple(events), claims=claims), *comparisons[at + 1 :]]


def _find_receipts_start(comparisons: Sequence[StreamComparison]) -> datetime:
    lasts = []
    for comparison in comparisons:
        if comparison.has_disagreement and comparison.state.next_seq > 1:
            [last] = JournalReader(str(comparison.layout.journal)).rows_of([comparison.state.next_seq - 1])
            lasts.append(last.decided_at - RECEIPTS_BEFORE)
    return min(lasts, default=datetime.min.replace(tzinfo=UTC))


def _find_older(layout: StreamLayout, config: StreamConfig) -> Iterator[JournalOlder]:
    journal = str(layout.journal)
    checks: list[Callable[[], None]] = [partial(check_index, layout.index, journal)]
    for table, kept in config.derived.items():
        kept_by, path = load_named(f"[{config.name}] derived.{table}", kept), str(layout.derived_table(table))
        checks.append(partial(kept_by.check, path, JournalReader(journal)))
    for check in checks:
        try:
            check()
        except JournalOlder as older:
            yield older


def _find_unknown_claims(
    comparisons: Sequence[StreamComparison], redis: RedisSettings, mode: Mode, waiting: Collection[bytes]
) -> tuple[bytes, ...] | None:
    # Receivers claim in the highest generation of all journals.
    generation = max(comparison.state.generation for comparison in comparisons)
    unknown: set[bytes] = set()
    try:
        with contextlib.ExitStack() as opened:
            indexes = [
                opened.enter_context(contextlib.closing(open_beside_its_writer(comparison.layout.index)))
                for comparison in comparisons
            ]
            client = opened.enter_context(contextlib.closing(sync_redis(redis, REDIS_TIMEOUT_S)))
            for part in confirmed_hashes(client, mode, generation):
                for index in indexes:
                    part = index.unknown_hashes(part)
                unknown.update(part)
    except (IndexUnreadable, *FAILURES) as unreadable:
        log_.warning("claims aren't compared: %s", unreadable)
        return None
    return tuple(sorted(unknown.difference(waiting)))


def _find_waiting_keys(comparisons: Sequence[StreamComparison], log: KafkaLog, topic: str) -> set[str]:
    begins = {
        number: mark for comparison in comparisons for number, mark in comparison.state.marks.get(topic, {}).items()
    }
    partings = [
        parting for comparison in comparisons for parting in comparison.list_partings() if parting.topic == topic
    ]
    begins |= {parting.partition: parting.begins for parting in partings}
    return {
        raw.decode("utf-8", "replace")
        for number, (low, high) in log.read_held_offsets([topic])[topic].items()
        for record in log.records(topic, number, max(low, begins.get(number, 0)), high)
        for name, raw in record.headers
        if name == "event_key" and raw is not None
    }


def _find_anchored_seq(log: KafkaLog, keys: AnchorKeys, stream: str, topic: str) -> int:
    newest = 0
    for number, (low, high) in log.read_held_offsets([topic])[topic].items():
        for record in log.records(topic, number, low, high):
            with contextlib.suppress(AnchorInvalid):
                anchor = keys.decode(record.value or b"")
                if anchor.stream == stream:
                    newest = max(newest, anchor.seq)
    return newest


def _list_losses(comparison: StreamComparison) -> Iterator[dict[str, object]]:
    stream = comparison.layout.stream
    for parting in comparison.list_partings():
        if parting.lost_range is not None:
            place = {"topic": parting.topic, "partition": parting.partition}
            yield {
                "lost": "offsets",
                "stream": stream,
                **place,
                "from": parting.lost_range[0],
                "before": parting.lost_range[1],
            }
    for event in comparison.events:
        at = None if event.at is None else to_rfc3339(event.at)
        yield {
            "lost": "event",
            "stream": stream,
            "event_key": event.event_key,
            "provider": event.provider,
            "answered_at": at,
        }
    for digest in comparison.claims or ():
        yield {"lost": "claim", "stream": stream, "event_key_hash": digest.hex()}
