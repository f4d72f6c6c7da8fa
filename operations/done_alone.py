"""Sums what each account did within a day without a second person, from the rows of commands."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import TypeAlias

import pyarrow.compute as pc

from core.location import Location
from journal.reader import rows_where
from journal.schema import JournalRow
from operations.limits import LimitKind, Volume, account_of

DAY = timedelta(days=1)

GivenSince: TypeAlias = Callable[[datetime], Sequence[JournalRow]]
"""The rows of commands that were decided at a moment or later."""


@dataclass(frozen=True, slots=True)
class _Done:
    account: str
    at: datetime
    kind: LimitKind
    volume: Volume


class DoneAlone:
    """The acts that needed no second person within the last day, read from a journal when first asked for. Not
    thread-safe.

    The journal's writer adds its own (`add`), so that no order reads the journal again while the stream waits.
    """

    def __init__(self, given_since: GivenSince) -> None:
        self._given_since = given_since
        self._done: list[_Done] | None = None

    def sum_volume(self, actor: str, kind: LimitKind, now: datetime) -> Volume:
        if self._done is None:
            self._done = list(_of_rows(self._given_since(now - DAY)))
        self._done = [done for done in self._done if done.at >= now - DAY]
        account = account_of(actor)
        volumes = (done.volume for done in self._done if done.kind is kind and done.account == account)
        return sum(volumes, Volume())

    def add(self, row: JournalRow) -> None:
        """Adds a command's row that is decided and about to be committed, once `sum_volume` was asked."""
        assert self._done is not None
        self._done += _of_rows([row])


def _of_rows(rows: Iterable[JournalRow]) -> Iterable[_Done]:
    for row in rows:
        if row.headers is None or row.actor is None:
            continue
        for kind in LimitKind:
            if (held := json.loads(row.headers).get(kind.value)) is not None:
                volume = Volume(held["items"], Counter(held["amounts_minor"]))
                yield _Done(account_of(row.actor), row.decided_at, kind, volume)


def given_since(journal: Location | str, control_topic: str, since: datetime) -> list[JournalRow]:
    """Reads the rows of commands that a journal decided at a moment or later, with those of runs' portions. A journal
    that hasn't begun has none."""
    # By the topic first: statistics pass over every file and row group that holds no command.
    return rows_where(journal, (pc.field("topic") == control_topic) & (pc.field("decided_at") >= since))
