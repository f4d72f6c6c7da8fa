"""Bodies read again by an adapter that was mended since: what they hold is named as the receiver would have named it.

Only the body is kept. An adapter that names events by a header, or by what it asks its provider for, can't read it
again: the provider must send it once more.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Protocol, cast

from core.errors import PayhookError, Unparseable
from core.event import OWN_TYPES, Event, Mode
from core.money import MoneyFact
from core.routing import of_tenant, scope_event
from providers.port import Adapter, Request, SplittingAdapter
from providers.reconciled import choose_reader


class MoneyReader(Protocol):
    def money(self, body: bytes, event_type: str) -> MoneyFact | None: ...


def reread_events(
    adapter: Adapter, body: bytes, mode: Mode, tenant: str | None = None, zone: str | None = None
) -> list[Event]:
    """Reads the events of a poison's body, with their keys scoped by tenant; none, if the adapter finds nothing to
    tell.

    Of several items those that can't be read are poison of their own.

    :raises Unparseable: it can't be read still, or not as events of that mode; says why
    """
    problem = ""
    try:
        for request_body in _list_request_bodies(adapter, body, mode):
            try:
                events = adapter.events(Request(request_body, ()), mode)
            except PayhookError as unreadable:
                problem = problem or _describe_problem(unreadable)
            else:
                return [scope_event(_check_event(event, body, mode), tenant, zone) for event in events]
    except Unparseable:
        raise
    except Exception as bug:
        raise Unparseable(f"the adapter failed: {type(bug).__name__}") from bug
    raise Unparseable(problem)


def _list_request_bodies(adapter: Adapter, body: bytes, mode: Mode) -> Iterator[bytes]:
    """Yields the body as it is kept, then as the only item of a request."""
    yield body
    if isinstance(adapter, SplittingAdapter):
        yield adapter.request_of(body, mode)


def _check_event(event: Event, body: bytes, mode: Mode) -> Event:
    if not isinstance(event, Event):
        raise TypeError("an adapter gives events")
    if event.poison is not None and event.body == body:
        raise Unparseable(event.poison)
    if event.event_type.startswith(OWN_TYPES):
        raise Unparseable(f"only payhook makes events of a type {OWN_TYPES}…")
    if event.mode != mode:
        raise Unparseable(f"it holds {event.mode} traffic, and this stream decides {mode} events")
    return event


def _describe_problem(unreadable: PayhookError) -> str:
    return unreadable.problem if isinstance(unreadable, Unparseable) else str(unreadable)


@dataclass(frozen=True, slots=True)
class CurrentNames:
    """The names that the adapter as it is now gives an event. ``entity_key`` is None where only a header, or the
    provider itself, could tell it.
    """

    entity_key: str | None
    fact_key: str | None
    fact_sha256: str | None


class OtherKey(Unparseable):
    """The adapter gives the event another key than before: under the new key it would be another event.

    ``names``: its names with its fact, under the key that it has.
    """

    def __init__(self, problem: str, names: CurrentNames) -> None:
        self.names = names
        super().__init__(problem)


def read_current_names(
    adapter: MoneyReader,
    event_key: str,
    event_type: str,
    body: bytes,
    mode: Mode,
    tenant: str | None = None,
) -> CurrentNames:
    """Reads the names of an event that was received before, by its body.

    :raises Unparseable: its body can't be read, or its money can't be known; says why
    :raises OtherKey: it has another key by now
    """
    try:
        fact = choose_reader(adapter, event_type).money(body, event_type)
        fact_key, fact_sha256 = (None, None) if fact is None else (of_tenant(tenant, fact.fact_key), fact.sha256)
    except PayhookError as unreadable:
        raise Unparseable(_describe_problem(unreadable)) from unreadable
    except Exception as bug:
        raise Unparseable(f"the adapter failed: {type(bug).__name__}") from bug
    names = CurrentNames(None, fact_key, fact_sha256)
    keys = None if event_type.startswith(OWN_TYPES) else _read_entity_keys(adapter, body, mode, tenant)
    if keys is None:
        return names
    if event_key not in keys:
        named = ", ".join(sorted(keys)) or "no event"
        raise OtherKey(f"its adapter reads it as {named} now: under that name it is another event", names)
    return replace(names, entity_key=_check_key(keys[event_key]))


def _read_entity_keys(adapter: MoneyReader, body: bytes, mode: Mode, tenant: str | None) -> Mapping[str, str] | None:
    if not hasattr(adapter, "events"):
        return None
    try:
        events = reread_events(cast(Adapter, adapter), body, mode, tenant)
    except Unparseable:
        return None
    return {event.event_key: event.entity_key for event in events}


def _check_key(key: str) -> str:
    try:
        key.encode("utf-8")
    except UnicodeEncodeError as wrong:
        raise Unparseable("the adapter failed: it gives a key that isn't valid UTF-8") from wrong
    return key
