"""A dry run asks the adapter and a handler that calls nobody, within a bounded time, and what it says comes true."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

import pytest

from console.dead_letters import StreamDeadLetters as DeadLettersOfStream
from core.clock import ManualClock
from core.event import Dedupe, to_headers
from dead_letters.listing import Filter
from ledger.directory import FileDirectory
from ledger.handler import LedgerHandler
from ledger.settings import LedgerSettings
from load.samples.stripe import stripe_event
from operations.selection import dry_run
from operations.selection.dry_run import ForecastRequest, Verdict
from operations.selection.rehearsal import ask_events
from providers.port import Request
from providers.registry import build_adapters
from providers.settings import ProvidersSettings
from stack.rehearsal import CALLS_OUT, NO_ADAPTER, StreamRehearsal
from stack.services.dead_letters import open_dead_letters
from stack.settings import Settings
from tests.dead_letters import DeadLetters, Rejected
from tests.unit.processor.harness import EVENTS, NOW

ADAPTERS = build_adapters(ProvidersSettings())


def nobody() -> Any:
    raise AssertionError("a dry run sends nothing")


def charge(letters: DeadLetters, event_id: str, account: str) -> str:
    """A charge of 99.00 EUR in Kafka, that dies whatever its handler would say."""
    body = stripe_event(
        event_id,
        "charge.succeeded",
        payment=f"pi_{event_id}",
        account=account,
        amount_minor=9_900,
        currency="eur",
        created=NOW,
        object_id=None,
    )
    [event] = ADAPTERS["stripe"].events(Request(body, ()), "live")
    letters.send(EVENTS, body, to_headers(event, letters.clock.now(), Dedupe.CLAIMED))
    letters.dies(event.event_key, Rejected("no"), 1)
    return event.event_key


def opened(settings: Settings) -> DeadLettersOfStream:
    return open_dead_letters(settings, "ledger", ManualClock(NOW), "cli", nobody)


@pytest.fixture
def letters(tmp_path: Path) -> DeadLetters:
    """Three dead ones: of a known merchant, of an unknown one, and a body that no adapter can read."""
    data = tmp_path / "data"
    letters = DeadLetters(data)
    (data / "merchants.toml").write_text('[stripe]\n"acct_known" = "m-1"\n', "utf-8")
    charge(letters, "evt_1", "acct_known")
    charge(letters, "evt_2", "acct_unknown")
    letters.dies(letters.receive("evt_3", event_type="charge.succeeded"), Rejected("no"), 1)
    letters.batch()
    return letters


def settings_of(tmp_path: Path, **ledger: str) -> Settings:
    data = tmp_path / "data"
    ledger = {"merchants_file": str(data / "merchants.toml"), **ledger}
    return Settings(data_dir=data, ledger=LedgerSettings(**ledger))


def test_the_forecast_is_what_the_handler_then_says(letters: DeadLetters, tmp_path: Path) -> None:
    dead = opened(settings_of(tmp_path))
    dead.selections.freeze(Filter(), "ada")
    made = dead.dry_runs.make(1, ForecastRequest())
    found = dead.dry_runs.page(1)
    assert [one.verdict for one in found] == [Verdict.IN_PLACE, Verdict.DIES, Verdict.DIES]
    assert (made.runnable_count, made.applied, made.unasked, made.limits) == (1, 1, 0, "")
    assert found[1].why.startswith("MerchantUnknown (SNBE): no merchant for the stripe account 'acct_unknown'")
    assert "Unparseable" in found[2].why

    letters.adapters.update(ADAPTERS)
    handler = LedgerHandler(ADAPTERS, FileDirectory(tmp_path / "data" / "merchants.toml"))
    letters.handler.script = dict.fromkeys(letters.handler.script, handler)
    letters.replay([(1, 1), (2, 2), (3, 3)], "c1")
    letters.batch()
    for _ in range(8):
        letters.advance(60)
    last = {row.item_seq: row.decision.value for row in letters.journal.rows if row.topic == EVENTS}
    assert last == {1: "applied", 2: "dead", 3: "dead"}


def test_a_handler_that_calls_out_is_not_asked_and_the_dry_run_says_so(letters: DeadLetters, tmp_path: Path) -> None:
    dead = opened(settings_of(tmp_path, merchants_url="http://127.0.0.1:9/nobody-may-call-this"))
    dead.selections.freeze(Filter(), "ada")
    made = dead.dry_runs.make(1, ForecastRequest())
    assert [one.verdict for one in dead.dry_runs.page(1)] == [Verdict.IN_PLACE, Verdict.IN_PLACE, Verdict.DIES]
    assert (made.applied, made.unasked, made.limits) == (0, 2, CALLS_OUT)
    assert len(letters.journal.rows) == 3


def test_of_notifications_nobody_is_asked(tmp_path: Path) -> None:
    assert StreamRehearsal(Settings(data_dir=tmp_path), "notify").left_out == NO_ADAPTER


def test_a_call_that_hangs_ends_the_dry_run_in_time_and_the_others_are_said_to_be_unasked(
    letters: DeadLetters, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(dry_run, "ASK_S_MAX", 0.5)
    ended = threading.Event()
    monkeypatch.setattr(StreamRehearsal, "answer", lambda *_: ended.wait())
    dead = opened(settings_of(tmp_path))
    dead.selections.freeze(Filter(), "ada")
    try:
        made = dead.dry_runs.make(1, ForecastRequest())
    finally:
        ended.set()
    assert (made.applied, made.unasked, made.limits) == (0, len(letters.journal.rows), "the time of 0.5 s was over")


def test_a_handler_that_can_not_be_made_is_named() -> None:
    def broken() -> Any:
        raise ValueError("no such module")

    asked = ask_events(broken, lambda seqs: {}, [1], 5.0)
    assert (asked.problem, asked.answers) == ("the handler couldn't be asked: ValueError: no such module", {})
