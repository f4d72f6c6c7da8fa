"""Poison read again by an adapter that was mended since: what it holds is named as the receiver would have named it.

Only the body is kept. An adapter that names events by a header, or by what it asks its provider for, can't read it
again: the provider must send it once more.
"""

from __future__ import annotations

from collections.abc import Iterator

from core.errors import PayhookError, Unparseable
from core.event import OWN_TYPES, Event, Mode
from core.routing import scoped
from providers.port import Adapter, Request, SplittingAdapter


def reread(
    adapter: Adapter, body: bytes, mode: Mode, tenant: str | None = None, zone: str | None = None
) -> list[Event]:
    """The events of a poison's body, with their keys scoped by tenant; none, if the adapter finds nothing to tell.

    Of several items those that can't be read are poison of their own.

    :raises Unparseable: it can't be read still, or not as events of that mode; says why
    """
    problem = ""
    for whole in _requests(adapter, body, mode):
        try:
            events = adapter.events(Request(whole, ()), mode)
        except PayhookError as unreadable:
            problem = problem or _told(unreadable)
        except Exception as bug:
            raise Unparseable(f"the adapter failed: {type(bug).__name__}") from bug
        else:
            return [scoped(_checked(event, body, mode), tenant, zone) for event in events]
    raise Unparseable(problem)


def _requests(adapter: Adapter, body: bytes, mode: Mode) -> Iterator[bytes]:
    """The body as it came, then as the one item of a request."""
    yield body
    if isinstance(adapter, SplittingAdapter):
        yield adapter.request_of(body, mode)


def _checked(event: Event, body: bytes, mode: Mode) -> Event:
    if event.poison is not None and event.body == body:
        raise Unparseable(event.poison)
    if event.event_type.startswith(OWN_TYPES):
        raise Unparseable(f"only payhook makes events of a type {OWN_TYPES}…")
    if event.mode != mode:
        raise Unparseable(f"it holds {event.mode} traffic, and this stream decides {mode} events")
    return event


def _told(unreadable: PayhookError) -> str:
    return unreadable.problem if isinstance(unreadable, Unparseable) else str(unreadable)
