"""The suite that every adapter passes refuses adapters that break what it promises."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import replace
from typing import Any, cast

import pytest

from core.event import Event, Mode
from core.keys import join_key
from providers import Adapter, Request
from providers.razorpay import ID_HEADER
from tests.contract.adapter_cases.case import Case
from tests.contract.adapter_cases.promises import named_alike

DELIVERY = b"x-sample-delivery"
"""A header that no adapter knows but the planted one, and that no request of the suite's cases has."""


class NamingAdapter:
    """An adapter that names something of its events by a header."""

    def __init__(self, adapter: Adapter, header: bytes, renamed: Callable[[Event, str], Event]) -> None:
        self._adapter = adapter
        self._header = header
        self._renamed = renamed

    def __getattr__(self, name: str) -> Any:
        return getattr(self._adapter, name)

    def events(self, request: Request, mode: Mode) -> list[Event]:
        value = dict(request.headers).get(self._header, b"").decode("latin-1")
        return [self._renamed(event, value) for event in self._adapter.events(request, mode)]


def by_key(event: Event, value: str) -> Event:
    return replace(event, event_key=join_key(event.provider, value or event.event_id, event.event_type))


def by_entity(event: Event, value: str) -> Event:
    return replace(event, entity_key=join_key(event.provider, value or event.account))


def by_content(event: Event, value: str) -> Event:
    return replace(event, content_sha256=hashlib.sha256(event.body + value.encode("latin-1")).hexdigest())


def planted(name: str, header: bytes, renamed: Callable[[Event, str], Event]) -> Case:
    class PlantedCase(Case):
        def adapter(self, **settings: Any) -> Adapter:
            return cast(Adapter, NamingAdapter(super().adapter(**settings), header, renamed))

    return PlantedCase(name)


@pytest.mark.parametrize("renamed", [by_key, by_entity, by_content])
@pytest.mark.parametrize(("name", "header"), [("checkout", DELIVERY), ("razorpay", ID_HEADER)])
def test_an_adapter_that_names_events_by_an_unsigned_header_is_refused(
    name: str, header: bytes, renamed: Callable[[Event, str], Event]
) -> None:
    with pytest.raises(AssertionError):
        named_alike(planted(name, header, renamed))


def test_an_adapter_that_reads_a_header_and_names_nothing_by_it_is_taken() -> None:
    named_alike(planted("razorpay", ID_HEADER, lambda event, value: replace(event, event_id=value or event.event_id)))
