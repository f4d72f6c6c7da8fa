"""Adapters that fail, and records and commands that nobody should send: each costs itself alone."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from core.event import Event
from core.money import Money, MoneyFact, Movement
from providers.fields import ContentVersionUnknown
from tests.events import make_event
from tests.unit.processor.fakes import Same
from tests.unit.processor.hostile import HALF, HUGE, NAN, Awkward


class OddAdapter(Same):
    """Does what the test says of any body."""

    def __init__(self, act: Callable[[], Any]) -> None:
        super().__init__()
        self.act = act

    def content_sha256(self, body: bytes, version: int) -> str:
        return self.act()  # type: ignore[no-any-return]

    def money(self, body: bytes, event_type: str) -> MoneyFact | None:
        return self.act()  # type: ignore[no-any-return]

    def events(self, request: object, mode: str) -> list[Event]:
        return self.act()  # type: ignore[no-any-return]


def failing(error: BaseException) -> Callable[[], Any]:
    def act() -> Any:
        raise error

    return act


ODD_HASHES: dict[str, Callable[[], Any]] = {
    "a newer version": failing(ContentVersionUnknown("stripe", 9)),
    "a bug": failing(KeyError("data")),
    "the end of the process": failing(SystemExit(1)),
    "half a pair": failing(ValueError(HALF)),
    "a huge text": failing(ValueError(HUGE)),
    "nothing": lambda: None,
    "a number": lambda: 7,
    "no hex": lambda: "zz" * 32,
    "a hash of half pairs": lambda: HALF * 64,
    "something awkward": Awkward,
}


def odd_event(**changes: Any) -> Callable[[], Any]:
    """What an adapter makes of a poison: one event, with something odd in it."""
    return lambda: [replace(make_event("evt_9", content_sha256="ab" * 32), **changes)]


ODD_EVENTS: dict[str, Callable[[], Any]] = {
    "a bug": failing(KeyError("data")),
    "the end of the process": failing(SystemExit(1)),
    "half a pair": failing(ValueError(HALF)),
    "nothing": lambda: None,
    "events that are none": lambda: [None],
    "something awkward": Awkward,
    "a key that is half a pair": odd_event(event_key=HALF),
    "an entity that is half a pair": odd_event(entity_key=HALF),
    "an account of another type": odd_event(account=7),
    "a huge key": odd_event(event_key=HUGE),
    "a hash that is none": odd_event(content_sha256="zz"),
    "a body that is a text": odd_event(body="{}"),
    "a version beyond a byte": odd_event(content_version=1_000),
}


def odd_fact(**changes: Any) -> Callable[[], Any]:
    fact = MoneyFact("stripe:re_1:refund", next(iter(Movement)), "acct_1", "pi_1", Money(5, "EUR"))
    for name, value in changes.items():
        object.__setattr__(fact, name, value)
    return lambda: fact


ODD_FACTS: dict[str, Callable[[], Any]] = {
    "a bug": failing(KeyError("data")),
    "the end of the process": failing(SystemExit(1)),
    "half a pair": failing(ValueError(HALF)),
    "a number": lambda: 7,
    "something awkward": Awkward,
    "a key that is half a pair": odd_fact(fact_key=HALF),
    "a key of another type": odd_fact(fact_key=7),
    "money that is none": odd_fact(money=None),
    "money of NaN": odd_fact(money=NAN),
    "awkward money": odd_fact(money=Awkward()),
}


ODD_COMMANDS: dict[str, bytes] = {
    "no JSON": b"\xff{",
    "nested too deeply": b"[" * 200_000,
    "a number beyond all": b'{"command_id": ' + b"9" * 10_000 + b"}",
    "a field that is half a pair": b'{"\\ud800": 1}',
    "an action that is half a pair": b'{"action": "\\ud800"}',
    "a time before all others": json.dumps(
        {
            "command_id": "c-odd",
            "stream": "ledger",
            "action": "replay",
            "targets": [[1, 1]],
            "actor": "ada",
            "reason": "mended",
            "at": "0001-01-01T00:00:00+23:59",
        }
    ).encode(),
}


ODD_HEADERS: dict[str, tuple[str, bytes]] = {
    "a huge key": ("event_key", HUGE.encode()),
    "a huge entity": ("entity_key", HUGE.encode()),
    "a huge mode": ("mode", HUGE.encode()),
    "a time before all others": ("received_at", b"0001-01-01T00:00:00+23:59"),
    "a time in words": ("ce_time", HUGE.encode()),
    "a hash that is none": ("original_sha256", b"\xff"),
    "a version in other digits": ("content_version", "٣".encode()),
}
