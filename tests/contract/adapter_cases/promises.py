"""What the port promises of every adapter, as the tests of all of them check it."""

from __future__ import annotations

import contextlib
import pickle
import re
from datetime import timedelta
from typing import Any, get_args

from core.errors import PayhookError, SettingError, Unparseable
from core.event import POISON_TYPE, Dedupe, Event, Mode, to_headers
from core.keys import PART_CHARS_MAX
from core.money import MoneyInvalid
from providers import (
    Adapter,
    ModeMismatch,
    ProvidersSettings,
    Request,
    SignatureInvalid,
    SignatureReason,
    build_adapters,
)
from tests.contract.adapter_cases.case import NOW, Case, Told

NAMES = sorted(build_adapters(ProvidersSettings()))
FROM_VERIFY = (SignatureInvalid, SettingError)
FROM_MONEY = (MoneyInvalid, Unparseable)
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


def only(case: Case, request: Request, mode: Mode = "live", **settings: Any) -> Event:
    (event,) = case.adapter(**settings).events(request, mode)
    return event


def told(case: Case, what: Told) -> Event:
    """The event of a valid request."""
    return only(case, case.valid(what))


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
    for key in keys:
        assert PRINTABLE.fullmatch(key), key
        parts = key.split(":")
        assert parts[0] == adapter.name == event.provider
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
