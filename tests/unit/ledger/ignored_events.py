"""A ledger on disk with real Stripe events that were ignored, as an older handler left them."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Any

from core.decision import Decision
from core.layout import Layout
from core.money import Movement
from journal.bodies import BodyStore
from journal.schema import JournalRow
from load.samples.stripe import stripe_event
from providers import Request
from providers.registry import build_adapters
from providers.settings import ProvidersSettings
from tests.small_ledger import START, SmallLedger

ADAPTERS = build_adapters(ProvidersSettings())
REFUND = "refund.created"
MERCHANTS = '[stripe]\n"acct_1" = "m-1"\n'


class IgnoredLedger(SmallLedger):
    """`ignored` adds one; `commit` writes. Bodies are Stripe's."""

    def __init__(self, data: Path) -> None:
        super().__init__(data)
        self._raw: list[tuple[str, bytes]] = []
        Layout(data).merchants_file.parent.mkdir(parents=True, exist_ok=True)
        Layout(data).merchants_file.write_text(MERCHANTS, "utf-8")

    def ignored(
        self,
        event_id: str,
        event_type: str = REFUND,
        amount_minor: int = 700,
        payment: str = "pi_1",
        account: str = "acct_1",
        object_id: str | None = None,
        **changes: Any,
    ) -> JournalRow:
        body = stripe_event(
            event_id,
            event_type,
            payment=payment,
            account=account,
            amount_minor=amount_minor,
            currency="EUR",
            created=START,
            object_id=object_id,
        )
        [event] = ADAPTERS["stripe"].events(Request(body, ()), "live")
        digest = hashlib.sha256(body).hexdigest()
        self._raw.append((digest, body))
        names = {"event_key": event.event_key, "event_type": event_type, "entity_key": event.entity_key}
        return self.add(None, account=account, body_sha256=digest, **(names | changes))

    def applied(self, of: JournalRow, **changes: Any) -> JournalRow:
        """A later event of the same entity."""
        return self.add(Movement.CAPTURE, 5_000, entity_key=of.entity_key, **changes)

    def reopened(self, of: JournalRow, decision: Decision) -> JournalRow:
        """Taken up again, and what came of it."""
        self.later(of, Decision.REPLAYED, actor="ada", handler_version=None)
        return self.later(of, decision, handler_version="ledger-2")

    def write(self) -> None:
        self.commit(with_bodies=False)
        BodyStore(self.bodies).append(self._raw)
        self._raw = []
