"""Poison read again names its events as the receiver would have, or says why it can't."""

from __future__ import annotations

import pytest

from core.errors import Unparseable
from core.event import Event, Mode, poison_event
from core.routing import scope_event
from load.samples import sign
from load.samples.sender import NOW, Sample
from providers import Request
from providers.reread import reread_events
from tests.contract.adapter_cases import CASES
from tests.unit.providers.samples.table import UNSAID, Webhook, request_of
from tests.unit.providers.test_sample_tables import WEBHOOKS, adapter_of

BY_BODY = [case for case in CASES.values() if case.name not in ("standardwebhooks", "mollieclassic")]
"""Those that name an event by its body alone."""
TOLD = Sample("1")


@pytest.mark.parametrize("case", BY_BODY, ids=lambda case: case.name)
def test_a_request_is_read_again_as_it_was_first(case) -> None:
    body = case.body(TOLD)
    if case.name == "braintree":
        body = sign(case.adapter(), body, case.secrets[0], NOW).body
    first = case.adapter().events(Request(body, ()), "live")
    again = reread_events(case.adapter(), body, "live", "shop-a", "eu")
    assert again == [scope_event(event, "shop-a", "eu") for event in first]
    assert again


@pytest.mark.parametrize("name", ["adyen", "gocardless"])
def test_one_item_of_a_request_is_read_again_by_itself(name: str) -> None:
    case = next(case for case in CASES.values() if case.name == name)
    body = case.batch([Sample("1"), Sample("2", movement="m2")])
    assert body is not None
    whole = case.adapter().events(Request(body, ()), "live")
    assert [reread_events(case.adapter(), event.body, "live") for event in whole] == [[event] for event in whole]


TELLING_FEES = [row for row in WEBHOOKS if row.values[1].fees not in (UNSAID, ()) and row.values[0] != "mollieclassic"]


@pytest.mark.parametrize(("provider", "row"), TELLING_FEES)
def test_the_fees_are_told_by_what_is_kept_of_the_webhook(provider: str, row: Webhook) -> None:
    adapter = adapter_of(provider, row.settings)
    told = adapter.events(request_of(row.body), row.endpoint)
    again = reread_events(adapter, told[0].body, told[0].mode)
    assert [event for event in told if event.body == told[0].body] == again


class Broken:
    """An adapter that answers as the test wants."""

    def __init__(self, answer: list[Event] | Exception) -> None:
        self._answer = answer

    def events(self, request: Request, mode: Mode) -> list[Event]:
        if isinstance(self._answer, Exception):
            raise self._answer
        return self._answer


def named(**changes: str) -> Event:
    event = poison_event("stripe", b"{}", "live", "")
    values = {name: getattr(event, name) for name in event.__dataclass_fields__} | {"poison": None} | changes
    return Event(**values)


@pytest.mark.parametrize(
    ("answer", "problem"),
    [
        (Unparseable("no 'id'"), "no 'id'"),
        (KeyError("id"), "the adapter failed: KeyError"),
        ([poison_event("stripe", b"{}", "live", "no type")], "no type"),
        ([named(mode="test")], "it holds test traffic, and this stream decides live events"),
        ([named(event_type="payhook.reconciled")], "only payhook makes events"),
    ],
)
def test_what_cannot_be_read_still_says_why(answer: list[Event] | Exception, problem: str) -> None:
    with pytest.raises(Unparseable, match=problem):
        reread_events(Broken(answer), b"{}", "live")  # type: ignore[arg-type]


def test_an_item_that_is_poison_doesnt_keep_the_others_back() -> None:
    answer = [named(), poison_event("stripe", b"[]", "live", "no object")]
    assert reread_events(Broken(answer), b"{}", "live") == answer  # type: ignore[arg-type]


@pytest.mark.parametrize("name", ["standardwebhooks", "mollieclassic"])
def test_what_a_header_or_the_provider_must_tell_is_not_made_up(name: str) -> None:
    case = next(case for case in CASES.values() if case.name == name)
    with pytest.raises(Unparseable):
        reread_events(case.adapter(), case.body(TOLD), "live")
