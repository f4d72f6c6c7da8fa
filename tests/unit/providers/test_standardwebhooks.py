"""Standard Webhooks: what is signed here, and the settings that describe a sender's body."""

from __future__ import annotations

from datetime import datetime
from typing import Any

import pytest
from pydantic import ValidationError

from core.money import MovementUnknown
from load.samples import sign
from providers import Adapter, ProvidersSettings, Request, StandardWebhooksSettings, build_adapters
from tests.unit.providers.samples.standardwebhooks import BODY, OWN, RULE, SECRET, SIGNED, own


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


SUFFIXED = ("payment.fee", "payment.fee2", "payment.withheld")
"""Types of a sender's own that end as payhook's types of fees and of withheld money do."""


def suffixed(*types: str) -> dict[str, Any]:
    """Settings with a rule for ``payment``, and for each of these types."""
    rules = [{**RULE, "event_type": name, "movement": "capture"} for name in ("payment", *types)]
    return {"standardwebhooks": {**OWN["standardwebhooks"], "money": rules}}


@pytest.mark.parametrize("event_type", SUFFIXED)
def test_a_type_that_ends_as_payhooks_own_do_books_by_its_rule(event_type: str) -> None:
    adapter = build_adapters(ProvidersSettings.model_validate(suffixed(event_type)))["standardwebhooks"]
    (event,) = adapter.events(own(**{"event/name": event_type}), "live")
    assert (event.event_type, event.fact_key) == (event_type, "standardwebhooks:s1:p1:capture")


@pytest.mark.parametrize("event_type", SUFFIXED)
def test_a_type_that_ends_as_payhooks_own_do_and_has_no_rule_is_unknown(event_type: str) -> None:
    adapter = build_adapters(ProvidersSettings.model_validate(suffixed()))["standardwebhooks"]
    (event,) = adapter.events(own(**{"event/name": event_type}), "live")
    assert (event.event_type, event.fact_key) == (event_type, None)
    with pytest.raises(MovementUnknown, match=f"the type '{event_type}'"):
        adapter.money(event.body, event.event_type)


@pytest.mark.parametrize("event_type", SUFFIXED)
def test_a_type_whose_beginning_moves_nothing_books_by_its_rule(event_type: str) -> None:
    settings = suffixed(event_type)["standardwebhooks"]
    settings = {**settings, "money": settings["money"][1:], "moves_nothing": ["payment"]}
    adapter = build_adapters(ProvidersSettings.model_validate({"standardwebhooks": settings}))["standardwebhooks"]
    (event,) = adapter.events(own(**{"event/name": event_type}), "live")
    assert event.fact_key == "standardwebhooks:s1:p1:capture"
