"""Histories: which life of a topic's log an offset belongs to.

An offset names a record only within one life of its topic's log. An older copy of Kafka's folder or a re-created topic
gives the same numbers to other records. A journal therefore numbers the histories that it has read of each topic, from
1, and each first row says which one it belongs to.

A journal that continues an older copy of itself numbers its next rows as the rows that it gave up were numbered. It
therefore gets a new id, its lineage, and remembers which it came from: what is known of it elsewhere (anchors, dead
letters) under an earlier lineage, beyond the row that it continued from, was given up. Whatever is derived from a
journal keeps its position: the last row that it reflects, that row's hash, and the lineage.
"""

from __future__ import annotations

import json
from bisect import bisect_left
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import TYPE_CHECKING, Any

from core.clock import from_rfc3339, to_rfc3339
from journal.errors import StreamRefused

if TYPE_CHECKING:
    from journal.reader import JournalReader

FIRST = 1
NOWHERE = -1
"""Partition and offset of a row that stands for a lost event: only its key is known."""

HISTORIES_MAX = 1_000
"""Most histories of one topic. Each begins by a person's decision."""


@dataclass(frozen=True, slots=True)
class EndedHistory:
    number: int
    topic_id: str
    start: Mapping[int, int]
    end: Mapping[int, int]


@dataclass(frozen=True, slots=True)
class History:
    """A topic's current history; its offsets go from the journal's ``start`` to its ``marks``.

    ``topic_id`` is Kafka's id of the topic; empty: not known yet, or a journal is read.
    """

    number: int = FIRST
    topic_id: str = ""
    ended: tuple[EndedHistory, ...] = field(default=())

    def of_row(self) -> int | None:
        return None if self.number == FIRST else self.number

    def begin_next(self, topic_id: str, start: Mapping[int, int], end: Mapping[int, int]) -> History:
        over = EndedHistory(self.number, self.topic_id, dict(start), dict(end))
        return History(self.number + 1, topic_id, (*self.ended, over)[-HISTORIES_MAX:])


Histories = Mapping[str, History]


def life_of(topic: str, number: int) -> str:
    """Names a topic's history in one word: its name in the first one, and with the number (``payments.events#2``)
    later."""
    return topic if number == FIRST else f"{topic}#{number}"


def with_ids(histories: Histories, topic_ids: Mapping[str, str]) -> dict[str, History]:
    known = {topic: histories.get(topic, History()) for topic in {**histories, **topic_ids}}
    return {
        topic: replace(history, topic_id=topic_ids.get(topic, "")) if not history.topic_id else history
        for topic, history in known.items()
    }


def histories_to_json(histories: Histories) -> str:
    return json.dumps(
        {
            topic: {
                "number": history.number,
                "id": history.topic_id,
                "ended": [
                    {
                        "number": past.number,
                        "id": past.topic_id,
                        "start": to_texts(past.start),
                        "end": to_texts(past.end),
                    }
                    for past in history.ended
                ],
            }
            for topic, history in sorted(histories.items())
        },
        separators=(",", ":"),
    )


def histories_from_json(text: str) -> dict[str, History]:
    return {topic: _parse_history(tree) for topic, tree in json.loads(text).items()}


def _parse_history(tree: Mapping[str, Any]) -> History:
    ended = (
        EndedHistory(past["number"], past["id"], to_numbers(past["start"]), to_numbers(past["end"]))
        for past in tree["ended"]
    )
    return History(tree["number"], tree["id"], tuple(ended))


def to_texts(partitions: Mapping[int, int]) -> dict[str, int]:
    return {str(number): offset for number, offset in sorted(partitions.items())}


def to_numbers(partitions: Mapping[str, int]) -> dict[int, int]:
    return {int(number): offset for number, offset in partitions.items()}


LINEAGES_NOTE = "lineages"
"""The journal's note of the lineages before its own, oldest first."""

LINEAGES_MAX = 32
"""Each begins by a person's decision, and every commit carries all of them: about 6 KiB."""

REASON_CHARS_MAX = 120


@dataclass(frozen=True, slots=True)
class AbandonedLineage:
    """A lineage that was given up beyond row ``after``, at a moment (UTC), and why.

    ``after`` is 0 where none of its own rows is in this journal.
    """

    lineage: str
    after: int
    at: datetime
    reason: str = ""


def read_abandoned(notes: Mapping[str, str]) -> tuple[AbandonedLineage, ...]:
    fields = json.loads(notes.get(LINEAGES_NOTE, "[]"))
    return tuple(
        AbandonedLineage(lineage["lineage"], lineage["after"], from_rfc3339(lineage["at"]), lineage["reason"])
        for lineage in fields
    )


def to_note(lineages: Sequence[AbandonedLineage]) -> str:
    fields = [
        {
            "lineage": lineage.lineage,
            "after": lineage.after,
            "at": to_rfc3339(lineage.at),
            "reason": lineage.reason[:REASON_CHARS_MAX],
        }
        for lineage in lineages[-LINEAGES_MAX:]
    ]
    return json.dumps(fields, separators=(",", ":"))


def is_given_up(notes: Mapping[str, str], lineage: str, seq: int) -> bool:
    return any(earlier.lineage == lineage and seq > earlier.after for earlier in read_abandoned(notes))


def find_cuts(notes: Mapping[str, str]) -> list[tuple[int, datetime]]:
    """Lists each time that the journal continued from an older row: later rows that were decided before then are given
    up.
    """
    last: dict[datetime, int] = {}
    for lineage in read_abandoned(notes):
        last[lineage.at] = max(lineage.after, last.get(lineage.at, 0))
    return [(after, at) for at, after in sorted(last.items())]


@dataclass(frozen=True, slots=True)
class ReflectedPosition:
    """The last row that is reflected, its hash, and the lineage of its journal.

    A lineage or a hash that isn't known is empty.
    """

    lineage: str
    seq: int
    row_hash: str


class JournalOlder(StreamRefused):
    """Something that was derived from this journal knows rows that the journal lacks: an older copy was put back.

    ``ahead``: how many; 0: the journal has as many, and they are others.
    """

    def __init__(self, what: str, seq: int, last_seq: int) -> None:
        self.what = what
        self.seq = seq
        self.last_seq = last_seq
        self.ahead = max(0, seq - last_seq)
        problem = (
            f"is {self.ahead} rows ahead of its journal: it reflects row {seq}, the journal ends with {last_seq}"
            if self.ahead
            else f"reflects another row {seq} than its journal holds"
        )
        self.problem = f"{what} {problem}"
        super().__init__(
            f"{self.problem}. An older copy of the journal was put back, or commits were lost: put the newest back, "
            "or see `payhook recover`."
        )


def may_follow(what: str, position: ReflectedPosition, journal: JournalReader) -> bool:
    """Returns whether ``what`` may continue from its position; if not, it is of another journal and is made again.

    A row's hash covers its number, its commit and its time: where it agrees, all rows before are the same.

    :raises JournalOlder: it is of this very journal, which has lost rows or has others now
    """
    if position.seq == 0:
        return True
    if position.seq <= journal.last_seq and position.row_hash in ("", journal.row_hash_at(position.seq)):
        return True
    if position.lineage and position.lineage == journal.lineage:
        raise JournalOlder(what, position.seq, journal.last_seq)
    return False


def common_rows(copy_a: JournalReader, copy_b: JournalReader) -> int:
    """Counts the equal rows with which two copies of a journal begin; their hashes say so, as in `may_follow`.

    :raises JournalBroken: a row of one can't be read
    """

    def differ(seq: int) -> bool:
        return copy_a.row_hash_at(seq) != copy_b.row_hash_at(seq)

    shorter = min(copy_a.last_seq, copy_b.last_seq)
    if shorter == 0 or not differ(shorter):
        return shorter
    return bisect_left(range(1, shorter), True, key=differ)
