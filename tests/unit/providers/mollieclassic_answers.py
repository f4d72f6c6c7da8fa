"""What Mollie answers about a payment, and what its classic adapter makes of a delivery."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any

from core.event import Event, Mode
from load.samples import mollie as own
from providers import Adapter, Request
from providers.port import Fetched
from tests.unit.providers.shapes import NO_MONEY, NOW

KEY = "live_" + "A1b2C3d4E5" * 3
OLD = "test_" + "Z9y8X7w6V5" * 3
LATER = NOW + timedelta(days=2)
TIME, LATER_TIME = "2026-01-31T12:00:00+00:00", "2026-02-02T12:00:00+00:00"
ClassicRow = tuple[str, str, str | None, str | None, int | None, str | None, str | None]
"""event_key, entity_key, fact_key, movement, amount_minor, currency, occurred_at."""


def payment(**reported: Any) -> dict[str, Any]:
    return own.payment("tr_1", **{"amount_minor": 1_000, "currency": "EUR", "created": NOW, **reported})


def refund(reference: str = "re_1", status: str = "refunded", amount_minor: int = 400) -> dict[str, Any]:
    return own.refund(reference, of="tr_1", amount_minor=amount_minor, currency="EUR", created=LATER, status=status)


def chargeback(reversed_at: datetime | None = None) -> dict[str, Any]:
    return own.chargeback("chb_1", of="tr_1", amount_minor=700, currency="EUR", created=NOW, reversed_at=reversed_at)


def capture(reference: str = "cpt_1", status: str = "succeeded") -> dict[str, Any]:
    return own.capture(reference, of="tr_1", amount_minor=250, currency="EUR", created=NOW, status=status)


def delivery(fetched: bytes, reference: str = "tr_1", status: int = 200, bearer: int = 0) -> Request:
    return Request(own.classic_delivery(reference), [], fetched=Fetched(status, fetched, bearer))


def events(adapter: Adapter, resource: dict[str, Any], mode: Mode = "live", **embedded: list[Any]) -> list[Event]:
    """The events of a delivery, which is proven first."""
    request = delivery(own.fetched(resource, **embedded), resource["id"])
    assert adapter.verify(request, [KEY], NOW) == 0
    reported = adapter.events(request, mode)
    for event in reported:
        assert event.content_sha256 == adapter.content_sha256(event.body, event.content_version)
        assert request.fetched is not None
        assert event.body in request.fetched.body
    return reported


def row(adapter: Adapter, event: Event) -> ClassicRow:
    fact = adapter.money(event.body, event.event_type)
    assert (event.fact_key, event.fact_sha256) == ((fact.fact_key, fact.sha256) if fact else (None, None))
    moved = (fact.fact_key, fact.movement.value, fact.money.amount_minor, fact.money.currency) if fact else NO_MONEY
    return event.event_key, event.entity_key, *moved, event.occurred_at.isoformat() if event.occurred_at else None


def keys(reported: list[Event]) -> list[str]:
    return [event.event_key.removeprefix("mollieclassic:") for event in reported]
