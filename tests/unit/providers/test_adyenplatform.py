"""Adyen's platform webhooks: those without a number are named by their content, and whose balance a payout lowers."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

import pytest

from load.samples.adyen import AdyenItem, adyen_notification
from providers import Adapter, ProvidersSettings, build_adapters
from tests.unit.providers.samples.adyenplatform import SETTINGS, payout
from tests.unit.providers.samples.public import public_events
from tests.unit.providers.shapes import NOW, changed, money, only


def test_the_hash_that_names_a_webhook_without_a_number_is_of_its_content(samples: Path, adapter: Adapter) -> None:
    """Keys sorted, no blanks: how it is spelled doesn't matter."""
    body = (samples / "adyen/vector_php_banking_header.json").read_bytes()
    [listed] = public_events()["adyen/vector_php_banking_header"]
    canonical = json.dumps(json.loads(body), sort_keys=True, separators=(",", ":")).encode()
    assert hashlib.sha256(canonical).hexdigest() in listed.event_key
    again = json.dumps(json.loads(body), indent=4).encode()
    assert only(adapter, again).event_key == only(adapter, body).event_key
    other = changed(body, "data", "sweep", "status", to="inactive")
    assert only(adapter, other).event_key != only(adapter, body).event_key
    assert only(adapter, other).entity_key == only(adapter, body).entity_key


def test_who_is_concerned_is_no_part_of_an_events_key(adapter: Adapter) -> None:
    """Redeliveries across an upgrade stay duplicates."""
    data = b'{"accountHolder":{"legalEntityId":"LE1"},"balancePlatform":"Platform"}'
    body = b'{"data":%b,"type":"balancePlatform.x.updated"}' % data
    named = hashlib.sha256(json.dumps(json.loads(body), sort_keys=True, separators=(",", ":")).encode()).hexdigest()
    assert only(adapter, body).event_key == f"adyenplatform::{named}:balancePlatform.x.updated"


@pytest.mark.row("G3")
def test_its_balance_is_the_one_that_the_standard_notifications_fill() -> None:
    adapters = build_adapters(ProvidersSettings.model_validate(SETTINGS))
    item = AdyenItem("P1", "R1", "SampleShop", "order-1", "CAPTURE", 700, "EUR", NOW)
    standard = only(adapters["adyen"], adyen_notification([item], live=True))
    captured = adapters["adyen"].money(standard.body, "CAPTURE")
    paid = money(adapters["adyenplatform"], payout(status="booked"))
    assert captured is not None and paid is not None and paid.holder is not None
    assert paid.holder == ("adyen", captured.account)
