"""What takes two people beyond a day's limit, split by one person into many small acts: batches, commands, restarts."""

from __future__ import annotations

import uuid
from datetime import timedelta
from pathlib import Path
from typing import Any

import httpx2
import pytest
from click.testing import CliRunner, Result
from fastapi import FastAPI

from cli.acting import this_account
from cli.main import main
from console.access import accounts
from console.access.roles import Role
from console.api import mount_api
from console.bookings import Bookings
from console.dead_letters import Streams
from core.clock import ManualClock, SystemClock
from core.decision import Decision
from core.layout import Layout
from core.money import Money, MoneyFact, Movement
from journal.bodies import BodyStore
from journal.schema import JournalRow
from journal.target import ItemTarget
from ledger.maintain.redact import AnotherPersonRedacts, RedactionOrder, redact_bodies
from ledger.maintain.tables import StreamTables
from ledger.redactions import ORDERED, Redactions
from operations.command import REPLAY, Command
from operations.commands import send
from operations.limits import AloneLimits
from operations.orders import DeltaView, OrderSender, OrderService
from operations.recorder import Recorder
from processor.decide.two_people import HAVE_IT_APPROVED
from tests.dead_letters import DeadLetters, Rejected, ToTheEngine
from tests.unit.console.listening import ADA, BOB, PASSWORD, Listener
from tests.unit.console.places import bookings_at, dead_letters
from tests.unit.ingest.idempotency.guarded_app import BreakableAnswers
from tests.unit.journal.rows import begin_journal, marks, row, sha
from tests.unit.processor.fakes import ignored
from tests.unit.processor.harness import CONTROL

AMY = "amy"
EACH_MINOR = 400
LIMITS = {
    "items": AloneLimits(replay_items_max=3),
    "money": AloneLimits(replay_amounts_minor_max={"EUR": 3 * EACH_MINOR + 1}),
}
DEAD = 5


class Night:
    """Five payments died in an outage. Three of them one person may have tried again in a day."""

    def __init__(self, data: Path, limits: AloneLimits) -> None:
        self.limits, self.letters = limits, DeadLetters(data)
        letters = self.letters
        letters.limit_one_person(limits)
        letters.start()
        self.keys = [self.dies(f"evt_{number}") for number in range(DEAD)]
        letters.batch()
        clock, kafka, layout = letters.clock, ToTheEngine(letters), letters.layout
        self.kafka = kafka
        app = FastAPI(openapi_url=None)
        self.listener = Listener(app, data, clock, producer=kafka)
        acts = self.listener.audit_log
        service = OrderService(
            "ledger",
            DeltaView(layout.journal, CONTROL),
            OrderSender(lambda: kafka, CONTROL, Recorder(acts, clock, "api"), self.listener.users.check_signed_in),
            clock,
        )
        bookings: Bookings = {"live": bookings_at(data, acts, clock, "api", kafka)}
        dead = dead_letters(data, clock, acts, limits, kafka, lambda _: letters.batch(), amounts=self.amount_of)
        mount_api(app, {"ledger": service}, bookings, BreakableAnswers(clock), Streams({"ledger": dead}))
        accounts.add_user(self.listener.users, AMY, frozenset({Role.ADMIN}), PASSWORD, lambda *_: None)
        token = accounts.make_token(self.listener.users, AMY, "more", clock.now(), lambda *_: None)
        self.listener.tokens = {**self.listener.tokens, AMY: token}

    def dies(self, event_id: str) -> str:
        key = self.letters.receive(event_id, body=event_id.encode())
        self.letters.dies(key, Rejected("not now"), then=(EACH_MINOR, "EUR"))
        self.moves(event_id)
        return key

    def moves(self, event_id: str) -> None:
        """Its adapter says what it moved."""
        fact = MoneyFact(f"f_{event_id}", Movement.CAPTURE, "acct_1", event_id, Money(EACH_MINOR, "EUR"))
        self.letters.adapter.facts[event_id.encode()] = fact

    def amount_of(self, provider: str, event_type: str, body: bytes) -> Money | None:
        fact = self.letters.adapter.facts.get(body)
        return None if fact is None else fact.money

    def row_of(self, key: str) -> JournalRow:
        return [one for one in self.letters.journal.rows if one.event_key == key][-1]

    def post(self, path: str, user: str, **body: Any) -> httpx2.Response:
        headers = {"idempotency-key": f'"{uuid.uuid4()}"'}
        return self.listener.request("POST", f"/api/{path}", user, json=body, headers=headers)

    def replays(self, user: str, *keys: str) -> None:
        seen = [ItemTarget.of_row(self.row_of(key)) for key in keys]
        items = [{"item_seq": one.item_seq, "seen_seq": one.seen_seq, "seen_hash": one.seen_hash} for one in seen]
        answer = self.post("dlq/replay", user, items=items, reason="mended")
        assert answer.status_code == 202, answer.text

    def round(self) -> None:
        for _ in range(4):
            self.letters.batch()
            self.letters.advance(1)

    def applied(self) -> int:
        self.letters.advance(0)
        return sum(one.decision is Decision.APPLIED and one.provider == "stripe" for one in self.letters.journal.rows)


@pytest.fixture(params=sorted(LIMITS))
def night(request: pytest.FixtureRequest, tmp_path: Path) -> Night:
    return Night(tmp_path / "data", LIMITS[request.param])


@pytest.mark.parametrize("split", ["one batch", "many batches", "restarts"])
def test_a_replay_in_small_orders_ends_at_the_days_limit(night: Night, split: str) -> None:
    for key in night.keys:
        night.replays(BOB, key)
        if split != "one batch":
            night.letters.batch()
            night.letters.advance(3_600)
        if split == "restarts":
            night.letters.start(keeps_index=False)
    night.letters.batch()
    assert night.applied() == 3
    refused = [one for one in night.letters.journal.rows if one.event_type == "replay"][3:]
    assert [one.decision for one in refused] == [Decision.IGNORED] * 2
    assert all(HAVE_IT_APPROVED in str(one.reason) for one in refused)


def test_a_selection_is_proposed_where_the_processor_would_refuse_it(night: Night) -> None:
    night.replays(BOB, *night.keys[:3])
    night.letters.batch()
    night.letters.advance(0)
    frozen = night.post("dlq/selections", BOB, filter={}, note="the rest").json()["number"]
    begun = night.post(f"dlq/selections/{frozen}/replay", BOB, reason="mended").json()
    # Of these bodies' money only the processor knows: there it refuses each item.
    assert begun["state"] == ("running" if night.limits.replay_amounts_minor_max else "proposed")
    night.round()
    assert night.applied() == 3


def test_it_goes_on_with_a_second_person_or_a_day_later(night: Night) -> None:
    night.replays(BOB, *night.keys[:3])
    night.letters.batch()
    frozen = night.post("dlq/selections", BOB, filter={}, note="the rest").json()["number"]
    # Of these bodies' money only the processor knows: there the operator asks for a second person.
    propose = bool(night.limits.replay_amounts_minor_max)
    begun = night.post(f"dlq/selections/{frozen}/replay", BOB, reason="mended", propose=propose).json()
    assert begun["state"] == "proposed", begun
    night.round()
    assert night.applied() == 3
    assert night.post(f"dlq/selections/{frozen}/approve", BOB, reason="mine").status_code == 403
    assert night.post(f"dlq/selections/{frozen}/approve", AMY, reason="compared").status_code == 200
    night.round()
    assert night.applied() == 5
    late = night.dies("evt_late")
    night.letters.advance(86_400)
    night.replays(BOB, late)
    night.letters.batch()
    assert night.applied() == 6


def test_ignored_events_are_no_way_around_it(night: Night) -> None:
    letters = night.letters
    key = letters.receive("evt_new", body=b"evt_new")
    letters.handler.script[key] = ignored
    letters.batch()
    night.moves("evt_new")
    letters.books(key, EACH_MINOR, "EUR")
    night.replays(ADA, *night.keys[:3])
    letters.batch()
    target, at = ItemTarget.of_row(night.row_of(key)), letters.clock.now()
    send(night.kafka, Command.with_new_id("ledger", letters.lineage, REPLAY, [target], ADA, "its type is known", at))
    letters.batch()
    assert night.applied() == 3
    frozen = night.post("dlq/selections", ADA, filter={"states": ["ignored"]}, note="known now").json()["number"]
    assert night.post(f"dlq/selections/{frozen}/replay", ADA, reason="its type is known").json()["state"] == "proposed"
    assert night.post(f"dlq/selections/{frozen}/approve", ADA, reason="mine").status_code == 409
    assert night.post(f"dlq/selections/{frozen}/approve", AMY, reason="compared").status_code == 200
    night.round()
    assert night.applied() == 4


# Redaction


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A journal of four applied events."""
    places = Layout(tmp_path).ledger()
    writer = begin_journal(str(places.journal))
    BodyStore(str(places.bodies_table)).append([(sha(f"body {n}"), f"body {n}".encode()) for n in range(4)])
    writer.commit([row(number) for number in range(1, 5)], marks(4), 0)
    return tmp_path


def event(number: int) -> str:
    return f"stripe:evt_{number}:charge.succeeded"


def test_bodies_are_redacted_one_by_one_up_to_the_days_limit(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each a process of its own, as on the command line."""
    monkeypatch.setenv("PAYHOOK_STREAMS__LEDGER__DLQ__ALONE_REDACTIONS_MAX", "2")

    def payhook(number: int) -> Result:
        words = ["ledger", "redact", event(number), "--reason", "asked", "--data", str(folder)]
        return CliRunner().invoke(main, words)

    assert [payhook(number).exit_code for number in range(3)] == [0, 0, 1]
    said = payhook(3)
    assert said.exit_code == 1
    for words in (this_account(), "limit is 2 a day (dlq.alone_redactions_max)", "Have someone else do it"):
        assert words in said.output.replace("\n", " ")
    acts = Redactions(Layout(folder).ledger().derived_table("redactions"))
    assert [one.event_key for one in acts.read_all() if one.act == ORDERED] == [event(0), event(1)]
    assert payhook(0).exit_code == 0, "what is gone already costs nothing"


def test_each_person_has_a_day_of_their_own_to_redact(folder: Path) -> None:
    places, clock = Layout(folder).ledger(), ManualClock(SystemClock().now())
    redactions = Redactions(places.derived_table("redactions"))
    tables = StreamTables("ledger", places.journal, places.bodies_table, None, (), places.derived_table("redactions"))

    def order(number: int, actor: str) -> None:
        redact_bodies([tables], redactions, RedactionOrder(event(number), actor, "asked"), clock, 1)

    order(0, "ada")
    for name in ("ada", " ADA"):
        with pytest.raises(AnotherPersonRedacts):
            order(1, name)
    order(1, "bob")
    clock.advance(timedelta(days=1).total_seconds())
    with pytest.raises(AnotherPersonRedacts):
        order(2, "ada")
    clock.advance(1)
    order(2, "ada")
    assert [one.actor for one in redactions.read_all() if one.act == ORDERED] == ["ada", "bob", "ada"]
