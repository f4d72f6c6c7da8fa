"""What every reader of a settlement report does, and the words it does it with."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Protocol, TypeAlias

from core.money import MoneyFact, Movement
from providers.settlement.row import Row

ALWAYS: frozenset[Movement] = frozenset(set(Movement) - {Movement.PAYOUT_PAID, Movement.PAYOUT_FAILED})
"""What a report holds in any case; payouts are in some files and not in others."""


@dataclass(frozen=True, slots=True)
class SettlementLine:
    """One movement of money. ``line`` is its number in the file, the header's is 1.

    ``fact`` is what the provider's adapter makes of the same movement's webhook, and ``entity_key`` the adapter's too;
    None where the file doesn't tell all that the adapter would know, so that the event can't be made from it.
    ``adds``: the line belongs to a fact that another line reports, and its amount is part of that one's.
    ``or_fact_key``: the name that the fact has instead where one object moves money several times.
    """

    line: int
    fact: MoneyFact
    occurred_at: datetime
    entity_key: str | None
    adds: bool = False
    or_fact_key: str | None = None


@dataclass(frozen=True, slots=True)
class NotCompared:
    """A line that the ledger has no movement for: fees, transfers, reserves."""

    line: int
    category: str


ReportLine: TypeAlias = SettlementLine | NotCompared


class SettlementReport(Protocol):
    """One kind of report of one provider."""

    @property
    def provider(self) -> str:
        """As the adapter is named."""

    @property
    def title(self) -> str:
        """What the provider calls the report."""

    @property
    def names_account(self) -> bool:
        """Whether each line says whose it is; if not, whoever gives the report must."""

    @property
    def columns(self) -> Mapping[str, tuple[str, ...]]:
        """Our name of each column that is read: what the provider may call it, in small letters."""

    @property
    def required(self) -> frozenset[str]:
        """Those of `columns` without which it isn't this report."""

    @property
    def wanted_to_repair(self) -> str:
        """What the file must hold for events to be made of its lines, in words."""

    def read(self, row: Row) -> ReportLine:
        """
        :raises RowUnreadable: names line and column
        """
