"""Limits of what one account may do alone in a day; beyond them another account must approve."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Any, TypeAlias

import pyarrow.compute as pc
from pydantic import Field, NonNegativeInt, field_validator

from core.location import Location
from dlq.settings import DeadLetterTopicSettings
from journal.reader import rows_where
from journal.schema import JournalRow
from operations.command import REPLAY

_CURRENCY = re.compile(r"[A-Z]{3}")


class DlqSettings(DeadLetterTopicSettings):
    """The place of a stream's dead letters, and limits on operators' acts. Times in seconds."""

    replays_max: int = Field(
        5,
        ge=1,
        le=1_000,
        description="failed replays of an item after which it is replayed only by force",
    )
    alone_items_max: int = Field(
        100,
        ge=1,
        le=5_000,
        description="most items that one person may purge or resolve within 24 hours; of this, and of the three below, "
        "each of several shards allows its part",
    )
    alone_amounts_minor_max: dict[str, NonNegativeInt] = Field(
        default_factory=lambda: {EVERY_CURRENCY: 1_000_000},
        description="most money, in minor units by currency, whose events one person may purge or resolve within "
        "24 hours; * stands for currencies that aren't named, none for no limit",
    )
    alone_replay_items_max: int = Field(
        100_000, ge=1, description="most items that one person may replay within 24 hours"
    )
    alone_replay_amounts_minor_max: dict[str, NonNegativeInt] = Field(
        default_factory=lambda: {"EUR": 1_000_000_000, "GBP": 1_000_000_000, "USD": 1_000_000_000},
        description="most money, as above, whose events one person may replay within 24 hours",
    )
    alone_redactions_max: int = Field(
        100, ge=1, description="most bodies that one person may have removed (`payhook ledger redact`) within 24 hours"
    )

    @field_validator("alone_amounts_minor_max", "alone_replay_amounts_minor_max")
    @classmethod
    def _check_currencies(cls, amounts: dict[str, int]) -> dict[str, int]:
        wrong = [name for name in amounts if name != EVERY_CURRENCY and not _CURRENCY.fullmatch(name)]
        if wrong:
            raise ValueError(f"{wrong[0]!r} isn't a currency: expected three capital letters, or * for every other one")
        return amounts

    @property
    def alone_limits(self) -> AloneLimits:
        return AloneLimits(
            self.alone_items_max,
            self.alone_amounts_minor_max,
            self.alone_replay_items_max,
            self.alone_replay_amounts_minor_max,
        )


EVERY_CURRENCY = "*"


class LimitKind(StrEnum):
    """Actions that count together. The value names them in the ``headers`` of a command's row."""

    CLOSED = "closed_alone"
    """Purges and resolves."""
    REPLAYED = "replayed_alone"
    """Replays, of ignored events too."""


def kind_of(action: str) -> LimitKind:
    return LimitKind.REPLAYED if action == REPLAY else LimitKind.CLOSED


@dataclass(frozen=True, slots=True)
class AloneLimits:
    """Limits of what one person does alone within 24 hours.

    ``items_max``: items that are purged and resolved; ``amounts_minor_max``: the money of all of them, in minor units
    by currency; `EVERY_CURRENCY` is for those that aren't named, and without it those have no limit.
    ``replay_items_max``, ``replay_amounts_minor_max``: the same of what is replayed.
    """

    items_max: int = 100
    amounts_minor_max: Mapping[str, int] = field(default_factory=dict)
    replay_items_max: int = 100_000
    replay_amounts_minor_max: Mapping[str, int] = field(default_factory=dict)

    def of_each(self, shards: int) -> AloneLimits:
        """Divides the limits among shards, which count by themselves: together they allow no more than this."""

        def parts(amounts: Mapping[str, int]) -> dict[str, int]:
            return {currency: amount // shards for currency, amount in amounts.items()}

        return AloneLimits(
            self.items_max // shards,
            parts(self.amounts_minor_max),
            self.replay_items_max // shards,
            parts(self.replay_amounts_minor_max),
        )

    def amount_minor_max(self, kind: LimitKind, currency: str) -> int | None:
        amounts = self.amounts_minor_max if kind is LimitKind.CLOSED else self.replay_amounts_minor_max
        return amounts.get(currency, amounts.get(EVERY_CURRENCY))

    def why_beyond(self, kind: LimitKind, wanted: Volume, before: Volume) -> str | None:
        """Says why this takes a second person, after what was done within a day; None: it doesn't."""
        items_max, done = (
            (self.items_max, "closed") if kind is LimitKind.CLOSED else (self.replay_items_max, "replayed")
        )
        if wanted.items + before.items > items_max:
            items = f"{wanted.items:,} item{'' if wanted.items == 1 else 's'}"
            after = f" after {before.items:,} {done} in the last 24 hours" if before.items else ""
            return f"needs approval: {items}{after} (limit {items_max:,} a day)"
        for currency in sorted(wanted.amounts_minor):
            amount, most = (
                wanted.amounts_minor[currency] + before.amounts_minor[currency],
                self.amount_minor_max(kind, currency),
            )
            if most is not None and amount > most:
                span = f" {done} in the last 24 hours, with these" if before.items else ""
                return f"needs approval: {amount:,} minor units of {currency}{span} (limit {most:,} a day)"
        return None


@dataclass(frozen=True, slots=True)
class Volume:
    items: int = 0
    amounts_minor: Counter[str] = field(default_factory=Counter)

    def __add__(self, other: Volume) -> Volume:
        return Volume(self.items + other.items, self.amounts_minor + other.amounts_minor)

    def to_json(self, kind: LimitKind) -> str:
        done: dict[str, Any] = {"items": self.items, "amounts_minor": dict(sorted(self.amounts_minor.items()))}
        return json.dumps({kind.value: done}, separators=(",", ":"))


def account_of(actor: str) -> str:
    """Returns the account's name, the same however it was typed."""
    return actor.casefold().strip()


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
