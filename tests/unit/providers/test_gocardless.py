"""GoCardless: the signature, and the bytes of each event of a batch."""

from __future__ import annotations

import hashlib
import hmac
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from core.errors import Unparseable
from core.event import POISON_TYPE
from load.samples import sign
from providers import Adapter, ProvidersSettings, Request, build_adapters
from tests.unit.providers.samples.gocardless import MOVES_NOTHING, spoilt
from tests.unit.providers.shapes import NOW

ADAPTER = build_adapters(ProvidersSettings())["gocardless"]


def signed(body: bytes, secret: str) -> bytes:
    return sign(ADAPTER, body, secret, NOW).headers["Webhook-Signature"].encode()


@given(st.binary(max_size=200), st.text(min_size=1, max_size=60))
def test_what_is_signed_is_the_raw_body_with_the_secrets_text(body: bytes, secret: str) -> None:
    assert signed(body, secret) == hmac.new(secret.encode(), body, hashlib.sha256).hexdigest().encode()


def test_a_bad_signature_is_answered_with_the_status_that_gocardless_wants(adapter: Adapter) -> None:
    assert adapter.signature_status == 498


def test_each_event_of_a_batch_keeps_its_own_bytes(adapter: Adapter) -> None:
    first = '{ "id":"EV1","resource_type":"payments", "action":"confirmed","links":{"payment":"PM1"},"n":1.50 }'
    second = '{"id":"EV2","resource_type":"payments","action":"failed","links":{"payment":"PM\\u0032"}}'
    body = f'{{"meta":{{"webhook_id":"WB1"}},\n"events" : [ {first} ,\t{second}] }}'.encode()
    events = adapter.events(Request(body, []), "live")
    assert [event.body for event in events] == [first.encode(), second.encode()]
    assert [event.entity_key for event in events] == ["gocardless::PM1", "gocardless::PM2"]


def test_a_bad_event_of_a_good_batch_is_named_by_its_bytes(adapter: Adapter) -> None:
    body = spoilt("links", "PM1")
    good, bad, last = adapter.events(Request(body, []), "live")
    assert (good.event_id, last.event_id) == ("EV0", "EV2")
    assert (bad.event_type, bad.event_id) == (POISON_TYPE, hashlib.sha256(bad.body).hexdigest())
    assert json.loads(bad.body) == json.loads(body)["events"][1]


@pytest.mark.parametrize("event_type", MOVES_NOTHING)
def test_a_body_that_is_no_event_is_unreadable_whatever_its_type(adapter: Adapter, event_type: str) -> None:
    with pytest.raises(Unparseable):
        adapter.money(b"1250", event_type)
