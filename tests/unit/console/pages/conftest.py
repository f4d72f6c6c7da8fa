"""A listener over a ledger that the engine decided, with what strangers put into everything that is shown."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from console.app import Watched, create_app
from core.clock import Clock
from core.money import Movement
from tests.dead_letters import HOSTILE, DeadLetters, Rejected, UnknownMerchant
from tests.unit.console.listening import Browser, Listener


class Desk:
    """The pages over ``letters``: `browser` of somebody who signed in."""

    def __init__(self, data: Path, letters: DeadLetters, clock: Clock) -> None:
        self.data, self.letters = data, letters
        watched = Watched("http://127.0.0.1:9/readyz", letters.layout.status, {}, lambda _: None)
        self.listener = Listener(create_app(watched, httpx.AsyncClient(trust_env=False), clock), data, clock)

        self._signed_in: dict[str, Browser] = {}

    def browser(self, name: str = "ada") -> Browser:
        """Signed in once: passwords take their time, and so does who signs in too often."""
        if name not in self._signed_in:
            self._signed_in[name] = Browser(self.listener)
            assert self._signed_in[name].sign_in(name).status_code == 303
        return self._signed_in[name]


@pytest.fixture(scope="package")
def desk(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Desk]:
    """Bookings in three currencies, three dead of one cause, one stuck with a follower, poison, bytes, a hostile one
    for each of `HOSTILE`. Read it; who changes it takes `own_desk`.
    """
    yield made(tmp_path_factory.mktemp("desk") / "data")


@pytest.fixture
def own_desk(tmp_path: Path) -> Desk:
    return made(tmp_path / "data")


def made(data: Path) -> Desk:
    letters = DeadLetters(data)
    for number, currency in enumerate(("EUR", "JPY", "KWD")):
        letters.books(letters.receive(f"evt_paid{number}", payment=f"pi_{number}"), 123_450, currency)
    letters.books(letters.receive("evt_back", payment="pi_0"), 450, "EUR", Movement.REFUND)
    for number in range(3):
        letters.dies(letters.receive(f"evt_bug{number}"), ZeroDivisionError("division by zero"))
    letters.dies(letters.receive("evt_stuck", payment="pi_stuck"), UnknownMerchant("no merchant for acct_1"), 99)
    letters.receive("evt_behind", payment="pi_stuck")
    letters.poison(b"\xff\xfe{ not an event")
    letters.dies(letters.receive("evt_bytes", body=b"\xff\xfe{ no text"), Rejected("unreadable"))
    for number, text in enumerate(HOSTILE):
        body = json.dumps({"id": text, text: [text, {"deep": text}], "long": "<b>" * 30}).encode()
        key = letters.receive(
            f"evt_hostile{number}{text}",
            event_type=f"type {text}",
            payment=f"pi_hostile{text}",
            body=body,
            headers=[("x-hostile", text.encode("utf-8", "replace"))],
        )
        letters.dies(key, Rejected(f"{text} and {'A' * 100_000 if number == 0 else ''}"))
    letters.batch()
    for _ in range(7):
        letters.advance(30)
    return Desk(data, letters, letters.clock)
