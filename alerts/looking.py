"""Looks at the stack from outside, whatever is down: status files, metrics pages, journals, Kafka's replicas."""

from __future__ import annotations

import logging
import shutil
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import httpx2
import pyarrow as pa
import pyarrow.compute as pc
from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient
from deltalake.exceptions import DeltaError

from alerts.observation import DeadSummary, Observation, Replicas, Series, samples_of
from alerts.readings import WANTED
from core.clock import Clock, from_micros, to_micros
from core.decision import Decision
from core.location import Location
from core.memory import memory_used
from core.routing import WHOLE, Shard
from core.settings import IN_SYNC
from core.status_file import StreamStatuses, each_address, fresh_status, past_moment_of, read_said
from core.topics import read_topic_config
from dead_letters.rates import WINDOWS, Rate
from journal.errors import JournalBroken
from journal.histories import ReflectedPosition
from journal.journals import is_of, shard_in
from journal.lake import has_table
from journal.open_item import Life, life_after
from journal.reader import JournalFollower, JournalReader
from operations.command import BOOK_ENTRY

log = logging.getLogger(__name__)

ASK_TIMEOUT_S = 2.0
MINUTE_US = 60_000_000
READ_S_MAX = 5.0
"""Most seconds of one look at a long journal; the next look continues there."""

_COLUMNS = (
    *("seq", "item_seq", "first", "topic", "partition", "offset", "decision", "decided_at", "entity_key"),
    *("provider", "event_type", "error_code", "reason", "pair", "row_hash"),
)
UNKNOWN_MAX = 100
"""Most types and values that are counted apart; of more the first ones."""


@dataclass(frozen=True, slots=True)
class RoundReport:
    """The report that a scheduled round leaves. ``every_s``: seconds from one round to the next; 0 if none is
    scheduled."""

    report: Path
    every_s: float

    def done_at(self, now: datetime) -> datetime | None:
        """Returns when the last round that was done ended: its report names it (``since``), or is that round's own
        (``ended_at``). None if that isn't known."""
        report = read_said(self.report) or {}
        if "since" in report:
            return past_moment_of(report, "since", now)
        return past_moment_of(report, "ended_at", now) if report.get("ok") else None


@dataclass(frozen=True, slots=True)
class WatchedPlaces:
    """The places that are observed. ``statuses`` and ``journals`` are by stream, ``metrics`` maps a process to its
    page's URL.

    ``ready_url``: the receiver's readiness; empty: it isn't asked. ``rounds``: those that may be made by schedule, by
    the rule that watches each. ``disks``: places whose disks could fill up, by name. ``caught_up``: what providers' own
    lists came to. ``verified``: what `payhook verify` last found (`ledger.verify.report`). ``replicas`` asks Kafka,
    None: it doesn't say. ``subscribers``: those that events are sent to, and when they answered 410; None: that can't
    be read.
    """

    ready_url: str
    statuses: Mapping[str, Path]
    journals: Mapping[str, Location]
    metrics: Mapping[str, str]
    rounds: Mapping[str, RoundReport] = field(default_factory=dict)
    disks: Mapping[str, Path] = field(default_factory=dict)
    verified: Path | None = None
    replicas: Callable[[], Replicas | None] = lambda: None
    status_urls: Sequence[str] = ()
    caught_up: Path | None = None
    subscribers: Callable[[], Mapping[str, datetime | None] | None] = dict


class StackObserver:
    """Observes the stack again and again. ``done_at``: times of scheduled rounds that were known before a restart."""

    def __init__(
        self, places: WatchedPlaces, client: httpx2.Client, clock: Clock, done_at: Mapping[str, datetime] | None = None
    ) -> None:
        self._places = places
        self._statuses = StreamStatuses(places.statuses, places.status_urls)
        self._client = client
        self._clock = clock
        self._done_at = {**dict.fromkeys(places.rounds, clock.now()), **(done_at or {})}
        self._found_broken: Mapping[str, int] = {}
        self._dead = {stream: DeadItems(journal, clock) for stream, journal in places.journals.items()}

    def observe_stack(self) -> Observation:
        now = self._clock.now()
        rounds = self._measure_rounds(now)
        return Observation(
            receiver_ready=self._receiver_ready(),
            statuses=self._read_statuses(now),
            dead={stream: _read_dead(stream, items) for stream, items in self._dead.items()},
            samples={
                series: value
                for process, url in each_address(self._places.metrics).items()
                for series, value in self._read_samples(process, url).items()
            },
            rounds=rounds,
            done_at={rule: at for rule, at in self._done_at.items() if rule in rounds},
            disks={name: disk_used(path) for name, path in self._places.disks.items()},
            memory=memory_used(),
            broken=self._count_broken(),
            replicas=self._places.replicas(),
            subscribers=self._places.subscribers(),
            caught_up=self._read_catch_up(),
        )

    def _read_catch_up(self) -> Mapping[str, Mapping[str, Any]]:
        report = None if self._places.caught_up is None else read_said(self._places.caught_up)
        sources = None if report is None else report.get("sources")
        if not isinstance(sources, dict):
            return {}
        return {name: source for name, source in sources.items() if isinstance(source, dict)}

    def _read_statuses(self, now: datetime) -> dict[str, Mapping[str, Any] | None]:
        return {stream: fresh_status(status, now) for stream, status in self._statuses.read_all(now).items()}

    def _measure_rounds(self, now: datetime) -> dict[str, float | None]:
        return {
            rule: self._age_s(rule, left.done_at(now), now) / left.every_s
            for rule, left in self._places.rounds.items()
            if left.every_s
        }

    def _age_s(self, rule: str, done_at: datetime | None, now: datetime) -> float:
        """Measures the time since the last round that was done, or since observing began. ``done_at`` is None if the
        round failed, its report can't be read, or a clock that ran ahead wrote it."""
        self._done_at[rule] = min(done_at or self._done_at[rule], now)
        return (now - self._done_at[rule]).total_seconds()

    def _count_broken(self) -> Mapping[str, int]:
        report = None if self._places.verified is None else read_said(self._places.verified)
        if report is not None:
            with suppress(KeyError, TypeError):
                self._found_broken = {stream: len(result["wrong"]) for stream, result in report.items()}
        return self._found_broken

    def _receiver_ready(self) -> bool | None:
        if not self._places.ready_url:
            return None
        try:
            return self._client.get(self._places.ready_url, timeout=ASK_TIMEOUT_S).status_code == 200
        except httpx2.HTTPError:
            return False

    def _read_samples(self, process: str, url: str) -> dict[Series, float]:
        try:
            answer = self._client.get(url, timeout=ASK_TIMEOUT_S)
            answer.raise_for_status()
            return samples_of(process, answer.text, WANTED)
        except (httpx2.HTTPError, ValueError) as failed:
            log.debug("the metrics of %s can't be read: %s", process, failed)
            return {}


def disk_used(path: Path) -> float | None:
    """Returns the used share of its disk, without what only root may use; None if it can't be read."""
    try:
        usage = shutil.disk_usage(path)
    except OSError:
        return None
    return 1 - usage.free / (usage.used + usage.free)


def _read_dead(stream: str, items: DeadItems) -> DeadSummary | None:
    try:
        return items.read()
    except (JournalBroken, DeltaError, OSError) as unread:
        log.warning("the journal of %s can't be read: %s", stream, unread)
        return None


@dataclass(frozen=True, slots=True)
class UnknownItem:
    """An event that no table explains. ``what``: the part of it that isn't known.

    An event that undoes another has a ``pair``, without its sign, and an ``entity_key``.
    """

    decided_us: int
    what: str
    pair: str | None
    entity_key: str | None


class UnknownItems:
    """Keeps unknown events: those that undo another until they are settled, others for 24 hours.

    A replay settles an event. One that undoes another is also settled when the movement that it undoes comes, or by an
    entry by hand for its entity.
    """

    def __init__(self) -> None:
        self._items: dict[int, UnknownItem] = {}

    def take_rows(self, rows: pa.Table, part: Shard) -> None:
        is_unknown = pc.equal(rows["decision"], Decision.UNKNOWN.value)
        came = pc.and_(pc.is_valid(rows["reason"]), pc.starts_with(pc.fill_null(rows["pair"], ""), "+"))
        # One that is unknown in these rows may be retried in them.
        items = {*self._items, *rows["item_seq"].filter(is_unknown).to_pylist()}
        again = pc.is_in(rows["item_seq"], value_set=pa.array(items, pa.int64()))
        entered = pc.equal(pc.fill_null(rows["event_type"], ""), BOOK_ENTRY)
        some = rows.filter(pc.or_(pc.or_(is_unknown, came), pc.or_(again, entered)))
        for row in some.to_pylist():
            if row["decision"] == Decision.UNKNOWN.value:
                if is_of(part, row["entity_key"], row["partition"]):
                    self._items[row["item_seq"]] = _unknown_item(row)
            elif row["item_seq"] in self._items:
                del self._items[row["item_seq"]]
            elif row["event_type"] == BOOK_ENTRY and row["decision"] == Decision.APPLIED.value:
                self._settle_entity(row["entity_key"])
            elif row["reason"] is not None and (row["pair"] or "").startswith("+"):
                self._settle_pair(row["pair"][1:])

    def count_unknown(self, now_us: int) -> dict[str, int]:
        day_us = 24 * 60 * MINUTE_US
        self._items = {
            item_seq: item
            for item_seq, item in self._items.items()
            if item.pair is not None or now_us - item.decided_us < day_us
        }
        return dict(Counter(item.what for item in self._items.values()).most_common(UNKNOWN_MAX))

    def _settle_pair(self, pair: str) -> None:
        waiting = next((item_seq for item_seq, item in self._items.items() if item.pair == pair), None)
        if waiting is not None:
            del self._items[waiting]

    def _settle_entity(self, entity_key: str | None) -> None:
        for item_seq in [seq for seq, item in self._items.items() if item.pair and item.entity_key == entity_key]:
            del self._items[item_seq]


def _unknown_item(row: Mapping[str, Any]) -> UnknownItem:
    pair = None if row["pair"] is None else row["pair"][1:]
    return UnknownItem(to_micros(row["decided_at"]), _describe_unknown(row), pair, row["entity_key"])


def _describe_unknown(row: Mapping[str, Any]) -> str:
    code = row["error_code"] or "type"
    return f"{row['provider']}: {row['event_type']}" + ("" if code == "type" else f", {code}")


class DeadItems(JournalFollower):
    """Follows one journal. Memory grows with the events that are dead or being replayed, 300 bytes each; what came and
    went in a day is counted by the minute.

    Of one that was divided, only what it keeps (`journal.journals.is_item_of`).
    """

    what = "the count of dead items"

    def __init__(self, journal: Location, clock: Clock) -> None:
        self._journal = journal
        self._clock = clock
        self._table_id: str | None = None
        self._position = ReflectedPosition("", 0, "")
        self._part = WHOLE
        self._lives: dict[int, Life[int]] = {}
        """Lives of the items that died and are open; times in microseconds."""
        self._died: Counter[int] = Counter()
        self._closed: Counter[int] = Counter()
        """Counts by the minute, over the longest of the rates' windows."""
        self._unknown = UnknownItems()

    def read(self) -> DeadSummary | None:
        """Reads the journal as it is now; None while there is more of it than one look takes.

        :raises JournalBroken, DeltaError, OSError: it can't be read
        """
        if not has_table(str(self._journal)):
            return DeadSummary(0, None, self._compute_rates(0))
        until = self._clock.monotonic_s() + READ_S_MAX
        if not self.follow_journal(JournalReader(str(self._journal)), lambda: self._clock.monotonic_s() > until):
            return None
        died_at = [life.died_at for life in self._lives.values() if life.is_dead and life.died_at is not None]
        oldest_at = from_micros(min(died_at)) if died_at else None
        unknown = self._unknown.count_unknown(to_micros(self._clock.now()))
        return DeadSummary(len(died_at), oldest_at, self._compute_rates(len(died_at)), unknown)

    @property
    def position(self) -> ReflectedPosition:
        return self._position

    def is_of(self, journal: JournalReader) -> bool:
        is_same = (journal.table_id, shard_in(journal.state().notes)) == (self._table_id, self._part)
        return is_same and super().is_of(journal)

    def begin_again(self, journal: JournalReader) -> None:
        self._table_id, self._part = journal.table_id, shard_in(journal.state().notes)
        self._position, self._lives = ReflectedPosition("", 0, ""), {}
        self._died, self._closed, self._unknown = Counter(), Counter(), UnknownItems()

    def take_windows(self, journal: JournalReader) -> Iterator[None]:
        for rows in journal.tables_after(self._position.seq, _COLUMNS):
            self._take_rows(rows)
            self._position = ReflectedPosition("", rows["seq"][-1].as_py(), rows["row_hash"][-1].as_py())
            yield

    def _take_rows(self, rows: pa.Table) -> None:
        self._unknown.take_rows(rows, self._part)
        died = pc.equal(rows["decision"], Decision.DEAD.value)
        some = rows.filter(pc.or_(died, pc.invert(rows["first"])))
        columns = (some["item_seq"], some["decision"], some["decided_at"].cast(pa.int64()))
        places = (some["entity_key"], some["partition"])
        for item, decision, at, *place in zip(*(column.to_pylist() for column in (*columns, *places)), strict=True):
            known = self._lives.get(item)
            if known is None and (decision != Decision.DEAD.value or not is_of(self._part, *place)):
                continue
            life = self._lives[item] = life_after(known, Decision(decision), at)
            if known is None:
                self._died[at // MINUTE_US] += 1
            if not life.is_open:
                self._closed[at // MINUTE_US] += 1
                del self._lives[item]

    def _compute_rates(self, depth: int) -> tuple[Rate, ...]:
        """Computes rates over whole minutes, the current one included: a window is up to a minute longer than it
        says."""
        now = self._clock.now()
        first = {window_s: to_micros(now - timedelta(seconds=window_s)) // MINUTE_US for window_s in WINDOWS}
        for counts in (self._died, self._closed):
            for minute in [minute for minute in counts if minute < min(first.values())]:
                del counts[minute]
        return tuple(
            Rate.from_counts(window_s, _sum_since(self._died, minute), _sum_since(self._closed, minute), depth)
            for window_s, minute in first.items()
        )


def _sum_since(counts: Mapping[int, int], minute: int) -> int:
    return sum(n for at, n in counts.items() if at >= minute)


class ReplicaWatch:
    """Asks Kafka with each look. A topic's ``min.insync.replicas`` is asked for once: only people change it."""

    def __init__(self, client: AdminClient, topics: Collection[str]) -> None:
        self._client = client
        self._topics = topics
        self._min: dict[str, int] = {}

    def check_replicas(self) -> Replicas | None:
        try:
            known = self._client.list_topics(timeout=ASK_TIMEOUT_S).topics
            partitions = {topic: known[topic].partitions for topic in self._topics if topic in known}
            for topic in partitions.keys() - self._min.keys():
                self._min[topic] = int(read_topic_config(self._client, topic)[IN_SYNC].value)
        except KafkaException as silent:
            log.debug("Kafka's replicas can't be read: %s", silent)
            return None
        return count_replicas(partitions, self._min)


def count_replicas(partitions: Mapping[str, Mapping[int, Any]], least: Mapping[str, int]) -> Replicas:
    """
    :param partitions: by topic, each with ``replicas`` and those in sync, ``isrs``
    :param least: ``min.insync.replicas`` by topic
    """
    every = [(topic, partition) for topic, of_it in partitions.items() for partition in of_it.values()]
    out_of_sync = sum(len(partition.isrs) < len(partition.replicas) for _, partition in every)
    return Replicas(out_of_sync, sum(len(partition.isrs) < least[topic] for topic, partition in every))
