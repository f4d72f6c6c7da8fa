"""Counts what came in within the last hour: the receivers' answers, from the end of their receipts' topics.

The counts are kept by minute, so memory and an answer's time don't grow with traffic.
"""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections import Counter, deque
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, NamedTuple, TypeAlias

import orjson
from confluent_kafka import KafkaError, KafkaException, Message, TopicPartition

from core.clock import Clock, from_rfc3339
from core.event import Mode
from core.kafka import open_consumer
from core.settings import KafkaSettings
from ingest.errors import REFUSALS, REMEDIES, runbook_of

HOUR = timedelta(hours=1)
MINUTE_S = 60
KINDS_MAX = 500
"""The most kinds of one minute, by provider, type, outcome and status. Types are a sender's own words: beyond it
`MORE`."""
MORE = "(more types)"
REFUSED_KEPT = 50
"""The newest refused requests that are listed."""
RECORDS_MAX = 20_000
"""The most records of one partition's end when the reading begins; at 50 receipts each a million, which take
seconds."""
EVERY_S = 5.0
AT_ONCE = 500
ANSWER_S_MAX = 2.0
POLL_S = 0.5
NOT_READ = "the receipts weren't read yet; look again in a few seconds"


class AnswerKind(NamedTuple):
    """Counts answers together. ``outcome``: what became of an event, or why the request was refused."""

    provider: str
    type: str
    outcome: str
    status: int

    @property
    def code(self) -> str | None:
        """Says why the request was refused; None where it wasn't, or where another event of it says why."""
        return self.outcome if self.status >= 400 and self.outcome in REFUSALS else None


@dataclass(frozen=True, slots=True)
class ArrivedCount:
    """Counts the answers of a `AnswerKind`."""

    provider: str
    type: str
    outcome: str
    status: int
    count: int


@dataclass(frozen=True, slots=True)
class RefusedReason:
    """Says why requests of a provider were refused, how many, when last, and what an operator does about it."""

    code: str
    provider: str
    status: int
    count: int
    last_at: datetime
    remedy: str
    runbook: str | None


@dataclass(frozen=True, slots=True)
class RefusedRequest:
    """Names a refused request; ``type`` is known of what was verified."""

    at: datetime
    provider: str
    type: str
    code: str
    status: int


@dataclass(frozen=True, slots=True)
class ReceivedSummary:
    """Sums up the last hour. ``since``: the first moment that was looked at; ``problem``: why it isn't as of now."""

    since: datetime | None
    until: datetime | None
    problem: str | None
    total: int
    refused: int
    arrived: list[ArrivedCount]
    reasons: list[RefusedReason]
    newest: list[RefusedRequest]


Partition: TypeAlias = tuple[str, int]
"""Its topic and its number."""
AskReceived: TypeAlias = Callable[[Mode], ReceivedSummary]
"""Holds what is known of a mode's last hour."""


def not_read(_mode: Mode) -> ReceivedSummary:
    return ReceivedSummary(None, None, NOT_READ, 0, 0, [], [], [])


def refusal_counts(received: ReceivedSummary) -> dict[str, int]:
    counts: Counter[str] = Counter()
    for reason in received.reasons:
        counts[reason.code] += reason.count
    return dict(counts.most_common())


class ReceivedHour:
    """Counts receipts by minute; what is older than an hour is dropped."""

    def __init__(self) -> None:
        self._minutes: dict[int, Counter[AnswerKind]] = {}
        self._last: dict[tuple[str, str], datetime] = {}
        self._newest: deque[RefusedRequest] = deque(maxlen=REFUSED_KEPT)

    def add(self, receipt: Mapping[str, Any]) -> datetime:
        """Counts a receipt; returns when it was.

        :raises KeyError, TypeError, ValueError: it isn't one
        """
        at, count = from_rfc3339(receipt["at"]), int(receipt.get("count", 1))
        provider, outcome, status = str(receipt["provider"]), str(receipt["outcome"]), int(receipt["status"])
        kind = AnswerKind(provider, str(receipt.get("type", "")), outcome, status)
        kinds = self._minutes.setdefault(_minute_of(at), Counter())
        if kind not in kinds and len(kinds) >= KINDS_MAX:
            kind = AnswerKind(provider, MORE, outcome, status)
        kinds[kind] += count
        if (code := kind.code) is not None:
            self._last[code, provider] = max(at, self._last.get((code, provider), at))
            self._newest.append(RefusedRequest(at, provider, kind.type, code, status))
        return at

    def drop_old(self, now: datetime) -> None:
        first = _minute_of(now - HOUR)
        self._minutes = {minute: kinds for minute, kinds in self._minutes.items() if minute >= first}
        self._last = {key: at for key, at in self._last.items() if _minute_of(at) >= first}
        while self._newest and _minute_of(self._newest[0].at) < first:
            self._newest.popleft()

    def summary(self, since: datetime | None, until: datetime, problem: str | None) -> ReceivedSummary:
        answers: Counter[AnswerKind] = Counter()
        for kinds in self._minutes.values():
            answers.update(kinds)
        reasons: Counter[tuple[str, str, int]] = Counter()
        for kind, count in answers.items():
            if (code := kind.code) is not None:
                reasons[code, kind.provider, kind.status] += count
        return ReceivedSummary(
            since=since,
            until=until,
            problem=problem,
            total=answers.total(),
            refused=sum(count for kind, count in answers.items() if kind.status >= 400),
            arrived=[ArrivedCount(*kind, count) for kind, count in answers.most_common()],
            reasons=[
                RefusedReason(
                    code, provider, status, count, self._last[code, provider], REMEDIES[code], runbook_of(code)
                )
                for (code, provider, status), count in reasons.most_common()
            ],
            newest=list(reversed(self._newest)),
        )


def _minute_of(at: datetime) -> int:
    return int(at.timestamp()) // MINUTE_S


class ReceiptTail:
    """Follows the ends of the receipts' topics, by mode. `read_new_receipts` blocks: call it off the event loop."""

    def __init__(self, kafka: KafkaSettings, topics: Mapping[Mode, str], clock: Clock) -> None:
        self._topics = topics
        self._modes = {topic: mode for mode, topic in topics.items()}
        self._clock = clock
        config = {"group.id": "payhook-received", "enable.auto.commit": False, "auto.offset.reset": "earliest"}
        self._consumer = open_consumer(kafka, {**config, "log_level": 0})
        self._next: dict[Partition, int] = {}
        self._stopping = threading.Event()
        self._looking = threading.Lock()
        self._hours = {mode: ReceivedHour() for mode in topics}
        self._since: datetime | None = None
        self._received = {mode: not_read(mode) for mode in topics}

    def get_last_hour(self, mode: Mode) -> ReceivedSummary:
        return self._received[mode]

    async def follow(self) -> None:
        while True:
            await asyncio.to_thread(self.read_new_receipts)
            await asyncio.sleep(EVERY_S)

    def read_new_receipts(self) -> None:
        with self._looking:
            if not self._stopping.is_set():
                self._read_new_receipts()

    def close(self) -> None:
        self._stopping.set()
        with self._looking:
            self._consumer.close()

    def _read_new_receipts(self) -> None:
        problem = None
        try:
            if not self._next:
                self._begin()
            # Up to the ends of now: while more comes a look ends too.
            ends = {partition: self._end(partition) for partition in self._next}
            if any(end < self._next[partition] for partition, end in ends.items()):
                self._begin()  # the topic was made again
            while any(self._next[partition] < end for partition, end in ends.items()) and not self._stopping.is_set():
                if not (messages := self._consumer.consume(AT_ONCE, POLL_S)):
                    break
                self._count_messages(messages)
        except KafkaException as silent:
            problem = f"Kafka doesn't say what came in: {silent}"
        now = self._clock.now()
        since = None if self._since is None else max(self._since, now - HOUR)
        for mode, hour in self._hours.items():
            hour.drop_old(now)
            self._received[mode] = hour.summary(since, now, problem)

    def _begin(self) -> None:
        begins, partitions = self._clock.now() - HOUR, []
        self._hours = {mode: ReceivedHour() for mode in self._topics}
        for topic in self._topics.values():
            topic_known = self._consumer.list_topics(topic, timeout=ANSWER_S_MAX).topics[topic]
            if topic_known.error is not None:
                raise KafkaException(topic_known.error)
            partitions += [
                TopicPartition(topic, number, int(begins.timestamp() * 1000)) for number in topic_known.partitions
            ]
        beginnings = self._consumer.offsets_for_times(partitions, timeout=ANSWER_S_MAX)
        starts = [self._start(partition) for partition in beginnings]
        is_cut = any(start.offset > partition.offset >= 0 for start, partition in zip(starts, beginnings, strict=True))
        self._since = None if is_cut else begins
        self._consumer.assign(starts)
        self._next = {(str(start.topic), start.partition): start.offset for start in starts}

    def _start(self, wanted: TopicPartition) -> TopicPartition:
        end = self._end((str(wanted.topic), wanted.partition))
        start = end if wanted.offset < 0 else max(wanted.offset, end - RECORDS_MAX)
        return TopicPartition(wanted.topic, wanted.partition, start)

    def _end(self, partition: Partition) -> int:
        marks = self._consumer.get_watermark_offsets(TopicPartition(*partition), timeout=ANSWER_S_MAX)
        if marks is None:
            raise KafkaException(KafkaError(KafkaError._TIMED_OUT))  # noqa: SLF001  the library's public name
        return marks[1]

    def _count_messages(self, messages: Iterable[Message]) -> None:
        wrong = None
        for message in messages:
            if message.error() is not None:
                wrong = message.error()
                continue
            self._next[str(message.topic()), int(message.partition() or 0)] = int(message.offset() or 0) + 1
            hour = self._hours[self._modes[str(message.topic())]]
            for line in (message.value() or b"").split(b"\n"):
                with contextlib.suppress(KeyError, TypeError, ValueError):  # a line that isn't a receipt
                    at = hour.add(orjson.loads(line))
                    self._since = self._since or at
        if wrong is not None:
            raise KafkaException(wrong)
