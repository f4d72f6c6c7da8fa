"""A ledger to which providers' requests are delivered."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from core.event import Dedupe, to_headers
from core.work import Outcome, WorkItem
from ledger.directory import MerchantDirectory
from ledger.handler import LedgerHandler
from ledger.postings import flatten_postings
from providers.port import Adapter, Request
from providers.registry import build_adapters
from providers.settings import ProvidersSettings
from tests.one_merchant import OneMerchant
from tests.unit.processor.fakes import ScriptedHandler
from tests.unit.processor.harness import EVENTS, Engine

PROMISES = (
    *("balanced", "bookings_are_reported", "one_effect_per_event_key", "one_effect_per_fact_key"),
    "undos_follow_movements",
)

VERSION = "ledger-3.00000000"
"""As it is in a real journal."""


@dataclass(frozen=True)
class ProviderRequest:
    """What a provider sent: the adapter that reads it, and the request."""

    provider: str
    request: Request


class RealHandler(ScriptedHandler):
    """The ledger's own, in the harness's place for one. Remembers its items."""

    def __init__(
        self, adapters: Mapping[str, Adapter], version: str = "test-1", directory: MerchantDirectory | None = None
    ) -> None:
        super().__init__()
        self._real = LedgerHandler(adapters, directory or OneMerchant(), version)
        self.version = version
        self.items: list[WorkItem] = []

    def __call__(self, item: WorkItem) -> Outcome:
        self.items.append(item)
        return self._real(item)


class Ledger(Engine):
    """A stream of the ledger's that reads by ``adapters``."""

    def __init__(self, folder: Path, settings: Mapping[str, Any]) -> None:
        self.known = build_adapters(ProvidersSettings.model_validate(settings))
        super().__init__(folder)

    def start(self, *, keeps_index: bool = False) -> None:
        self.handler = RealHandler(self.known, VERSION)
        super().start(keeps_index=keeps_index)

    def deliver(self, told: ProviderRequest) -> None:
        for event in self.known[told.provider].events(told.request, "live"):
            self.send(EVENTS, event.body, to_headers(event, self.clock.now(), Dedupe.CLAIMED))
        self.batch()

    def balances(self) -> Counter[str]:
        """Debits less credits by account."""
        balances: Counter[str] = Counter()
        for line in flatten_postings(self.journal.rows).to_pylist():
            balances[line["account"]] += line["amount_minor"] if line["side"] == "debit" else -line["amount_minor"]
        return balances
