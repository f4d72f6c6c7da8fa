"""Stripe: one event in two API versions is one event, and a copy with other money is none."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from typing import Any

import pytest

from core.event import Event
from core.money import MoneyInvalid
from providers import Adapter, Request
from tests.contract.adapter_cases import CASES

RENDERINGS = CASES["stripe"].renderings()


def named(adapter: Adapter, body: bytes) -> Event:
    (event,) = adapter.events(Request(body, []), "live")
    return event


def changed(body: bytes, fields: Mapping[str, Any], of: str = "object") -> bytes:
    document = json.loads(body)
    part = document if of == "event" else document["data"][of]
    part |= fields
    return json.dumps(document).encode()


def rendered(event_type: str) -> tuple[bytes, bytes]:
    return next(pair for pair in RENDERINGS if json.loads(pair[0])["type"] == event_type)


@pytest.mark.parametrize(("older", "newer"), RENDERINGS)
def test_the_first_version_of_the_content_still_covers_the_rendering(
    adapter: Adapter, older: bytes, newer: bytes
) -> None:
    """Rows of older code are compared by it: all but ``pending_webhooks``, keys sorted, no blanks."""
    hashes = [adapter.content_sha256(body, 1) for body in (older, newer)]
    assert hashes[0] != hashes[1]
    left = {name: value for name, value in json.loads(older).items() if name != "pending_webhooks"}
    assert hashes[0] == hashlib.sha256(json.dumps(left, sort_keys=True, separators=(",", ":")).encode()).hexdigest()


def test_a_refund_is_one_content_though_one_version_alone_names_its_fact(adapter: Adapter) -> None:
    older, newer = (named(adapter, body) for body in rendered("charge.refunded"))
    assert older.fact_key is not None
    assert newer.fact_key is None
    assert older.content_sha256 == newer.content_sha256
    with pytest.raises(MoneyInvalid, match=r"refund\.created"):
        adapter.money(newer.body, newer.event_type)


@pytest.mark.parametrize(("older", "newer"), RENDERINGS)
@pytest.mark.parametrize(
    ("of", "fields"),
    [
        ("object", {"amount": 1_251}),
        ("object", {"currency": "usd"}),
        ("object", {"id": "another"}),
        ("event", {"account": "acct_2"}),
        ("event", {"livemode": False}),
        ("event", {"created": 1}),
    ],
)
def test_a_copy_in_another_version_with_something_else_to_say_is_other_content(
    adapter: Adapter, older: bytes, newer: bytes, of: str, fields: Mapping[str, Any]
) -> None:
    first, other = named(adapter, older), named(adapter, changed(newer, fields, of))
    assert first.event_key == other.event_key
    assert first.content_sha256 != other.content_sha256


@pytest.mark.parametrize(
    ("event_type", "of", "fields"),
    [
        ("charge.refunded", "object", {"amount_refunded": 1_249}),
        ("charge.refunded", "previous_attributes", {"amount_refunded": 1}),
        ("charge.succeeded", "object", {"amount_captured": 1_249}),
        ("charge.succeeded", "object", {"captured": False}),
    ],
)
def test_other_money_beside_the_amount_is_other_content(
    adapter: Adapter, event_type: str, of: str, fields: Mapping[str, Any]
) -> None:
    older, newer = rendered(event_type)
    first, other = named(adapter, older), named(adapter, changed(newer, fields, of))
    assert first.content_sha256 != other.content_sha256


def test_all_of_a_thin_event_counts(adapter: Adapter) -> None:
    thin = {"id": "evt_1", "type": "v1.billing.meter.error_report_triggered", "related_object": {"id": "mtr_1"}}
    first, other = (named(adapter, json.dumps({**thin, "reason": one}).encode()) for one in ("a", "b"))
    assert first.content_sha256 != other.content_sha256
