"""What the port promises of every adapter, as the tests of all of them check it."""

from __future__ import annotations

import ast
import contextlib
import inspect
import pickle
import re
from collections.abc import Iterator
from dataclasses import replace
from datetime import timedelta
from typing import Any, get_args

from core.errors import PayhookError, SettingError, Unparseable
from core.event import POISON_TYPE, Dedupe, Event, Mode, to_headers
from core.keys import PART_CHARS_MAX
from core.money import MoneyInvalid, MovementUnknown
from load.samples.sender import NOW, Sample
from providers import (
    Adapter,
    ModeMismatch,
    Request,
    SignatureInvalid,
    SignatureReason,
)
from tests.contract.adapter_cases.case import Case, with_header

FROM_VERIFY = (SignatureInvalid, SettingError)
FROM_MONEY = (MoneyInvalid, MovementUnknown, Unparseable)
KEY_PARTS_MAX = 6
PRINTABLE = re.compile(r"[ -~]+")
HOSTILE = ("a\x00b", "a\r\nX-Forged: 1", "\ud800", "é\u202e:%3A", "x" * 65_536, "\n", ":", " ")
UNSIGNED: tuple[list[bytes], ...] = (
    [],
    [b""],
    [b" "],
    [b"\xff\xfe"],
    ["é".encode()],
    [b"\x00"],
    [b"="],
    [b",,,="],
    [b"0" * 64],
    [b"x" * 9_000],
)
DELIVERY_HEADERS = (b"x-request-id", b"x-delivery-id", b"x-event-id", b"idempotency-key", b"date", b"user-agent")
"""What deliveries of any sender may have; none of them is signed."""
HEADER_NAME = re.compile(r"[a-z][a-z0-9]*(-[a-z0-9]+)*", re.I)


def only(case: Case, request: Request, mode: Mode = "live", **settings: Any) -> Event:
    (event,) = case.adapter(**settings).events(request, mode)
    return event


def event_of(case: Case, sample: Sample) -> Event:
    """The event of a valid request."""
    return only(case, case.valid(sample))


def refusal(case: Case, request: Request, secrets: tuple[str, ...] | None = None) -> str | None:
    """Why a request is refused, None if it is proven. Every refusal can go to another process and keeps its words."""
    try:
        case.adapter().verify(request, case.secrets if secrets is None else secrets, NOW)
    except SignatureInvalid as invalid:
        assert invalid.reason in get_args(SignatureReason)
        travels(invalid)
        return invalid.reason
    return None


def travels(error: PayhookError) -> None:
    back = pickle.loads(pickle.dumps(error))
    assert (type(back), str(back), vars(back)) == (type(error), str(error), vars(error))


def events_of(adapter: Adapter, request: Request) -> list[Event]:
    """The events of a proven request; nothing but the port's two errors may come instead."""
    for mode in get_args(Mode):
        try:
            return [checked(adapter, event) for event in adapter.events(request, mode)]
        except (Unparseable, ModeMismatch) as error:
            travels(error)
    return []


def events_unproven(adapter: Adapter, request: Request) -> None:
    """The receiver gives no such request to `events`; it doesn't fall over one all the same."""
    with contextlib.suppress(SignatureInvalid):
        events_of(adapter, request)


def checked(adapter: Adapter, event: Event) -> Event:
    """The event, which is as the port promises."""
    keys = [event.event_key, event.entity_key] + ([event.fact_key] if event.fact_key is not None else [])
    # Payments and movements are of the ledger's provider, which two adapters may share; events are the adapter's own.
    ledger = getattr(adapter, "ledger", None) or adapter.name
    for key in keys:
        assert PRINTABLE.fullmatch(key), key
        parts = key.split(":")
        assert parts[0] == (adapter.name if key == event.event_key or event.poison is not None else ledger)
        assert adapter.name == event.provider
        assert 2 <= len(parts) <= KEY_PARTS_MAX
        assert max(map(len, parts)) <= PART_CHARS_MAX
    for name, value in to_headers(event, NOW, Dedupe.CLAIMED):
        assert PRINTABLE.fullmatch(value.decode("ascii") or " "), name
    assert event.body
    assert event.content_sha256 == adapter.content_sha256(event.body, event.content_version)
    assert (event.fact_key is None) == (event.fact_sha256 is None)
    assert event.occurred_at is None or event.occurred_at.utcoffset() == timedelta(0)
    if event.poison is None:
        assert event.content_version == adapter.content_version
        assert agrees(adapter, event)
    else:
        assert (event.event_type, event.fact_key) == (POISON_TYPE, None)
    return event


def agrees(adapter: Adapter, event: Event) -> bool:
    """What `money` reads from the event's own bytes is what the event was named with."""
    try:
        fact = adapter.money(event.body, event.event_type)
    except FROM_MONEY as error:
        travels(error)
        return event.fact_key is None
    return (event.fact_key, event.fact_sha256) == ((fact.fact_key, fact.sha256) if fact else (None, None))


def named_alike(case: Case) -> None:
    """A request's events are named alike whatever its unsigned headers say, or it is refused and leaves nothing.

    Each redelivery would be a new event otherwise, and whoever has seen one request could make any number of events.

    :raises AssertionError: an unsigned header makes another event
    """
    bodies = (case.body(Sample()), *case.others())
    for request in (case.request(body, case.secrets[0]) for body in bodies):
        expected = names_of(case, request)
        assert expected
        for other in other_deliveries(case, request):
            with contextlib.suppress(SignatureInvalid, ModeMismatch):
                case.adapter().verify(other, case.secrets, NOW)
                assert names_of(case, other) == expected, other.headers


def names_of(case: Case, request: Request) -> list[tuple[str | None, ...]]:
    return [
        (event.event_key, event.entity_key, event.content_sha256, event.fact_key, event.fact_sha256)
        for event in case.adapter().events(request, "live")
    ]


def other_deliveries(case: Case, request: Request) -> Iterator[Request]:
    """The request with each unsigned header in turn taken away, changed or added, and with all of them at once."""
    sent = {name for name, _ in request.headers}
    unsigned = sorted((sent | read_headers(case) | {*DELIVERY_HEADERS}) - {*case.signature_headers})
    all_gone = all_changed = request.headers
    for name in unsigned:
        for values in ((), (b"redelivery-2",), (b"redelivery-2", b"redelivery-3")):
            yield replace(request, headers=with_header(request.headers, name, *values))
        all_gone = with_header(all_gone, name)
        all_changed = with_header(all_changed, name, b"redelivery-2")
    yield replace(request, headers=all_gone)
    yield replace(request, headers=all_changed)


def read_headers(case: Case) -> set[bytes]:
    """The names of headers that the adapter may read: every constant of its module that can be one."""
    module = inspect.getmodule(type(case.adapter()))
    assert module is not None
    constants = [
        node.value for node in ast.walk(ast.parse(inspect.getsource(module))) if isinstance(node, ast.Constant)
    ]
    texts = [value.decode("latin-1") if isinstance(value, bytes) else value for value in constants]
    return {text.lower().encode() for text in texts if isinstance(text, str) and HEADER_NAME.fullmatch(text)}
