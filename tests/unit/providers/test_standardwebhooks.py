"""Standard Webhooks: what is signed here, and the settings that describe a sender's body."""

from __future__ import annotations

from datetime import datetime

import pytest
from pydantic import ValidationError

from load.samples import sign
from providers import Adapter, Request, StandardWebhooksSettings
from tests.unit.providers.samples.standardwebhooks import BODY, SECRET, SIGNED


def test_the_secret_that_signed_is_told_by_its_index(adapter: Adapter, now: datetime) -> None:
    assert adapter.verify(SIGNED, [adapter.new_secret(), SECRET], now) == 1


def test_what_is_signed_here_is_accepted_here(adapter: Adapter, now: datetime) -> None:
    secret = adapter.new_secret()
    for event_id in (None, "msg_7"):
        signed = sign(adapter, BODY, secret, now, event_id)
        headers = [(name.lower().encode(), value.encode()) for name, value in signed.headers.items()]
        of = Request(signed.body, headers)
        assert adapter.verify(of, [secret], now) == 0
        (event,) = adapter.events(of, "live")
        assert event_id is None or event.event_id == event_id
        assert event.body == BODY


@pytest.mark.parametrize("pointer", ["", "type", "/a~2b", "/a~"])
def test_a_wrong_pointer_is_found_at_start(pointer: str) -> None:
    with pytest.raises(ValidationError):
        StandardWebhooksSettings(type=pointer)
