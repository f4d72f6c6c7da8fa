"""Braintree's events in the tests: an event's bytes are XML, a request's the form around it."""

from __future__ import annotations

from typing import TypeAlias

from core.errors import Unparseable
from core.event import Event
from core.money import MoneyInvalid
from load.samples import sign
from providers import Adapter, ProvidersSettings, Request, build_adapters
from tests.unit.providers.shapes import NOW

SECRET = "public:private"
ADAPTER = build_adapters(ProvidersSettings())["braintree"]
Moved: TypeAlias = tuple[str, str, int, str, str | None]
"""Fact, movement, amount in minor units, currency, payment."""


def only(xml: bytes, adapter: Adapter = ADAPTER) -> Event:
    *_, event = adapter.events(Request(sign(adapter, xml, SECRET, NOW).body, []), "live")
    assert event.body == xml
    return event


def moved(event: Event) -> Moved | None:
    """What the event's own bytes say that moved. It is named with just that, and without where it can't be told."""
    try:
        fact = ADAPTER.money(event.body, event.event_type)
    except (MoneyInvalid, Unparseable):
        assert (event.fact_key, event.fact_sha256) == (None, None)
        raise
    assert (event.fact_key, event.fact_sha256) == ((fact.fact_key, fact.sha256) if fact else (None, None))
    if fact is None:
        return None
    return fact.fact_key, fact.movement.value, fact.money.amount_minor, fact.money.currency, fact.payment
