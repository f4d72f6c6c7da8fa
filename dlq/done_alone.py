"""What each hand was behind within a day without a second person: read from the rows of commands."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import reduce
from operator import or_
from typing import TypeAlias

import pyarrow.compute as pc

from core.location import Location
from dlq.limits import Kind, Volume, people
from journal.reader import rows_where
from journal.schema import JournalRow

DAY = timedelta(days=1)

GivenSince: TypeAlias = Callable[[datetime], Sequence[JournalRow]]
"""The rows of commands that were decided at a moment or later."""


@dataclass(frozen=True, slots=True)
class _Done:
    """What one command did. ``hands``: of its actor, and who else could have given it."""

    hands: frozenset[str]
    at: datetime
    kind: Kind
    volume: Volume


class DoneAlone:
    """What was done alone within the last day, read from a journal when first asked for. Not thread-safe.

    The journal's writer adds its own (`add`), so that no order reads the journal again while the stream waits.
    """

    def __init__(self, given_since: GivenSince) -> None:
        self._given_since = given_since
        self._done: list[_Done] | None = None

    def of(self, hands: Iterable[str], kind: Kind, now: datetime) -> Volume:
        """The most that any of these hands was behind within the day before ``now``: each has one day, by however many
        users it acts."""
        if self._done is None:
            self._done = list(_of_rows(self._given_since(now - DAY)))
        self._done = [one for one in self._done if one.at >= now - DAY]
        behind = dict.fromkeys(people(hands), Volume())
        for one in self._done:
            if one.kind is kind:
                for hand in one.hands & behind.keys():
                    behind[hand] += one.volume
        return reduce(or_, behind.values(), Volume())

    def add(self, row: JournalRow) -> None:
        """A command's row that is decided and about to be committed, once `of` was asked."""
        assert self._done is not None
        self._done += _of_rows([row])


def _of_rows(rows: Iterable[JournalRow]) -> Iterable[_Done]:
    for row in rows:
        if row.headers is None or row.actor is None:
            continue
        for kind in Kind:
            if (held := json.loads(row.headers).get(kind.value)) is not None:
                volume = Volume(held["items"], Counter(held["amounts_minor"]))
                # Rows of before hands were noted have none.
                yield _Done(people([row.actor, *held.get("hands", ())]), row.decided_at, kind, volume)


def given_since(journal: Location | str, control_topic: str, since: datetime) -> list[JournalRow]:
    """The rows of commands that a journal decided at a moment or later, those of runs' portions among them; none of a
    journal that hasn't begun."""
    # By the topic first: statistics pass over every file and row group that holds no command.
    return rows_where(journal, (pc.field("topic") == control_topic) & (pc.field("decided_at") >= since))
