"""Histories: which life of a topic's log an offset belongs to.

An offset names a record only within one life of its topic's log. An older copy of Kafka's folder or a re-created topic
gives the same numbers to other records. A journal therefore numbers the histories that it has read of each topic, from
1, and each first row says which one it belongs to.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

FIRST = 1
NOWHERE = -1
"""Partition and offset of a row that stands for a lost event: only its key is known."""

HISTORIES_MAX = 1_000
"""Of one topic. Each begins by a person's decision."""


@dataclass(frozen=True, slots=True)
class Ended:
    """A history that is over: offsets from ``start`` to before ``end``, by partition."""

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
    ended: tuple[Ended, ...] = field(default=())

    def of_row(self) -> int | None:
        """What a first row's ``history`` says: NULL in the first one."""
        return None if self.number == FIRST else self.number

    def next(self, topic_id: str, start: Mapping[int, int], end: Mapping[int, int]) -> History:
        """The history after this one, which went from ``start`` to ``end``."""
        over = Ended(self.number, self.topic_id, dict(start), dict(end))
        return History(self.number + 1, topic_id, (*self.ended, over)[-HISTORIES_MAX:])


Histories = Mapping[str, History]
"""Each topic's current history."""


def life_of(topic: str, number: int) -> str:
    """A topic's history in one word: its name in the first one, and with the number (``payments.events#2``) later."""
    return topic if number == FIRST else f"{topic}#{number}"


def with_ids(histories: Histories, topic_ids: Mapping[str, str]) -> dict[str, History]:
    """``histories`` with the ids of topics that had none yet."""
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
                    {"number": one.number, "id": one.topic_id, "start": _texts(one.start), "end": _texts(one.end)}
                    for one in history.ended
                ],
            }
            for topic, history in sorted(histories.items())
        },
        separators=(",", ":"),
    )


def histories_from_json(text: str) -> dict[str, History]:
    return {topic: _history(tree) for topic, tree in json.loads(text).items()}


def _history(tree: Mapping[str, Any]) -> History:
    ended = (Ended(one["number"], one["id"], _numbers(one["start"]), _numbers(one["end"])) for one in tree["ended"])
    return History(tree["number"], tree["id"], tuple(ended))


def _texts(partitions: Mapping[int, int]) -> dict[str, int]:
    return {str(number): offset for number, offset in sorted(partitions.items())}


def _numbers(partitions: Mapping[str, int]) -> dict[int, int]:
    return {int(number): offset for number, offset in partitions.items()}
