"""What texts for people say happens next, done: each test reads the text and does what it says."""

from __future__ import annotations

import asyncio
import contextlib
import json
from pathlib import Path
from typing import Any

import fakeredis
import pytest

from alerts.settings import AlertsSettings
from console.details import figures_of
from core.decision import Decision
from core.work import Applied, Held, Ignored, MissingPredecessor, Outcome, Unknown, WorkItem
from dead_letters.stats import give_advice
from ingest.claims import ClaimKey, ClaimState, RedisGate
from ingest.redis_claims import RedisClaims
from ledger.directory import FileDirectory
from ledger.handler import LedgerHandler
from operations.command import approve
from operations.commands import CommandNotSent, encode
from operations.selection.model import SelectionEmpty
from processor.workers.payload import PayloadTooLarge, make_decoder
from providers.port import Request
from providers.registry import build_adapters
from providers.settings import ProvidersSettings
from stack.services.dead_letters import open_dead_letter_index
from stack.settings import Settings
from tests.dead_items import DeadItems
from tests.unit.processor.fakes import booked
from tests.unit.processor.harness import CONTROL, EVENTS, NOW, Engine
from tests.unit.processor.ordering import close, command, decided, last, order, run_order, target

ADAPTERS = build_adapters(ProvidersSettings())


def asking(engine: Engine, key: str, directory: FileDirectory) -> None:
    """The event's handler asks a merchant directory."""

    def act(item: WorkItem) -> Outcome:
        directory.lookup("stripe", item.account)
        return booked()

    engine.handler.script[key] = act


def died_of_an_unknown_merchant(tmp_path: Path) -> tuple[Engine, str, Path]:
    engine, merchants = Engine(tmp_path), tmp_path / "merchants.toml"
    merchants.write_text('[stripe]\n"acct_other" = "m-1"\n', "utf-8")
    key = engine.post("evt_1")
    asking(engine, key, FileDirectory(merchants))
    engine.batch()
    return engine, key, merchants


def test_an_unknown_merchant_is_applied_by_its_retries_once_it_is_in_the_directory(tmp_path: Path) -> None:
    engine, key, merchants = died_of_an_unknown_merchant(tmp_path)
    merchants.write_text('[stripe]\n"acct_1" = "m-1"\n', "utf-8")
    engine.advance(60)
    assert engine.decisions(key) == ["retry", "applied"]


def test_a_dead_unknown_merchant_is_tried_by_nothing_but_a_replay_as_every_text_says(tmp_path: Path) -> None:
    engine, key, merchants = died_of_an_unknown_merchant(tmp_path)
    for _ in range(10):
        engine.advance(60)
    assert engine.decisions(key)[-1] == "dead"
    message = last(engine, key).error_message or ""
    assert "'acct_1': add it to the merchant directory; an event that is dead by then needs a replay" in message
    assert "then replay them all: no dead event is retried by itself" in give_advice("MerchantUnknown", None)
    merchants.write_text('[stripe]\n"acct_1" = "m-1"\n', "utf-8")
    before = len(engine.journal.rows)
    for _ in range(20):
        engine.advance(3_600)
    assert len(engine.journal.rows) == before, "nothing tries it again"
    assert order(engine, "replay", key).reason == "1 of 1 accepted"
    engine.advance(0)
    assert engine.decisions(key)[-1] == "applied"


def stripe_charge(event_type: str, captured: object, amount_captured: int) -> WorkItem:
    """An event about one charge of 99.00 EUR, as the receiver names it."""
    charge: dict[str, Any] = {"id": "ch_1", "object": "charge", "payment_intent": "pi_1", "amount": 9_900}
    charge |= {"amount_captured": amount_captured, "currency": "eur", "captured": captured}
    document = {"id": f"evt_{event_type}", "type": event_type, "account": "acct_1", "livemode": True, "created": 1}
    before = {"amount_captured": 0} if event_type == "charge.captured" else {}
    document["data"] = {"object": charge, **({"previous_attributes": before} if before else {})}
    if captured is None:
        del charge["captured"]
    body = json.dumps(document).encode()
    [event] = ADAPTERS["stripe"].events(Request(body, ()), "live")
    names = (event.event_key, event.entity_key, "stripe", event.account, event.event_type, event.body)
    return WorkItem(1, *names, event.fact_key, 0, fact_sha256=event.fact_sha256)


def ledger_handler(tmp_path: Path) -> LedgerHandler:
    merchants = tmp_path / "merchants.toml"
    merchants.write_text('[stripe]\n"acct_1" = "m-1"\n', "utf-8")
    return LedgerHandler(ADAPTERS, FileDirectory(merchants))


def test_a_charge_that_is_not_captured_says_so_and_its_capture_books_as_it_says(tmp_path: Path) -> None:
    handler = ledger_handler(tmp_path)
    told = handler(stripe_charge("charge.succeeded", captured=False, amount_captured=0))
    assert told == Ignored("charge.succeeded: the charge is not captured: its capture is reported by itself, and books")
    booked_later = handler(stripe_charge("charge.captured", captured=True, amount_captured=9_900))
    assert isinstance(booked_later, Applied) and booked_later.postings[0].money.amount_minor == 9_900


def test_a_charge_that_does_not_say_whether_it_is_captured_is_unknown_and_not_passed_over(tmp_path: Path) -> None:
    told = ledger_handler(tmp_path)(stripe_charge("charge.succeeded", captured=None, amount_captured=9_900))
    assert isinstance(told, Unknown) and told.code == "captured='None'"


@pytest.mark.row("G8")
def test_300_dead_in_a_minute_are_300_in_and_nobody_says_0_an_hour(tmp_path: Path) -> None:
    items = DeadItems(tmp_path)
    items.deaths(300, decided_at=items.now)
    items.commit()
    items.clock.advance(30)
    stats = items.followed().stats()
    said = [rate.full_sentence for rate in stats.rates]
    assert said == [
        f"300 in, 0 out in the last {window} (time to clear: never, at this rate)"
        for window in ("15 minutes", "hour", "24 hours")
    ]
    shown = {one.name: (one.value, one.note) for one in figures_of(stats)}
    assert shown["last hour"][0] == "300 in, 0 out"
    assert shown["last hour"][1].startswith("time to clear: never, at this rate; ")


def test_ages_on_pages_are_those_of_the_alerts_settings(tmp_path: Path) -> None:
    items = DeadItems(tmp_path)
    items.dead(decided_at=items.now)
    items.commit()
    settings = Settings(data_dir=tmp_path, alerts=AlertsSettings(age_h_max=2, escalate_h=5))
    items.clock.advance(3 * 3_600)
    index = open_dead_letter_index(items.layout, settings, items.clock)
    index.follow()
    shown = {one.name: one for one in figures_of(index.stats())}
    assert (shown["past 2 h"].value, shown["past 2 h"].note, shown["past 2 h"].level) == ("1", "0 past 5 h", "warn")
    items.clock.advance(3 * 3_600)
    later = {one.name: one for one in figures_of(index.stats())}
    assert (later["past 2 h"].note, later["oldest"].level) == ("1 past 5 h", "bad")


def test_a_closed_merchant_is_booked_by_a_replay_once_it_is_open_without_a_restart(tmp_path: Path) -> None:
    engine, merchants = Engine(tmp_path), tmp_path / "merchants.toml"
    merchants.write_text('[stripe]\n"acct_1" = {account = "m-1", closed = true}\n', "utf-8")
    key = engine.post("evt_1")
    asking(engine, key, FileDirectory(merchants))
    engine.batch()
    assert "open it in the merchant directory and replay the event" in (last(engine, key).error_message or "")
    merchants.write_text('[stripe]\n"acct_1" = "m-1"\n', "utf-8")
    order(engine, "replay", key)
    engine.advance(0)
    assert engine.decisions(key)[-1] == "applied"


def test_other_content_of_a_booked_event_can_only_be_discarded_as_the_texts_say(tmp_path: Path) -> None:
    engine = Engine(tmp_path)
    key = engine.post("evt_1")
    engine.batch()
    engine.post("evt_1", content="other")
    engine.batch()
    told = last(engine, key)
    assert "If the first was booked, it stays booked: discard this one." in (told.error_message or "")
    assert "If the first was booked, it stays booked: discard this one" in give_advice("EventConflict", None)
    refused = run_order(engine, "purge", engine.target(1, 1)).refusals
    assert "item 1 is not open" in refused, "what was booked can't be discarded"
    refused = order(engine, "replay", key).reason or ""
    assert "if it was booked, it stays booked: discard this" in refused
    close(engine, "purge", key)
    assert engine.decisions(key) == ["applied", "dead", "purged"]


def test_a_report_that_differs_dies_again_even_after_the_other_one_was_reversed(tmp_path: Path) -> None:
    engine = Engine(tmp_path)
    first = engine.post("evt_1", fact="stripe:ch_1:capture")
    second = engine.post("evt_2", "e2", fact="stripe:ch_1:capture", fact_sha256="bb" * 32)
    engine.batch()
    assert "a replay dies again" in (last(engine, second).error_message or "")
    assert "book this one by hand and resolve it: a replay dies again" in give_advice("FactConflict", None)
    seen = target(engine, first)
    proposed = command(engine, "propose_reversal", seen)
    decided(engine)
    engine.send(CONTROL, encode(approve(proposed, "grace", "checked", NOW)), [])
    assert decided(engine).decision is Decision.REVERSED
    order(engine, "replay", second)
    engine.advance(0)
    assert last(engine, second).error_class == "FactConflict"
    close(engine, "resolve", second)
    assert last(engine, second).decision is Decision.RESOLVED


def test_a_forged_event_is_booked_once_its_provider_sends_it_again(tmp_path: Path) -> None:
    assert "have the provider send the event again" in give_advice("Forged", None)
    engine = Engine(tmp_path)
    engine.send(EVENTS, b"not of payhook", [("event_key", b"stripe:evt_1:charge.captured")])
    engine.batch()
    assert [row.decision for row in engine.journal.rows] == [Decision.DEAD]
    key = engine.post("evt_1")
    engine.batch()
    assert engine.decisions(key)[-1] == "applied"


def test_a_claimed_event_that_the_journal_lost_is_a_duplicate_until_the_loss_is_accepted_as_the_runbook_says() -> None:
    runbook = (Path(__file__).parents[2] / "docs" / "runbook.md").read_text("utf-8")
    entry = runbook.split("`verify` says NO to `receipts_have_decisions`")[1].split("\n## ")[0]
    assert "a copy that comes sooner is answered as a duplicate" in entry and "which voids the claims" in entry

    async def states() -> list[ClaimState]:
        async with contextlib.aclosing(fakeredis.FakeAsyncRedis()) as client:
            claims = RedisClaims(client, RedisGate(30.0), 60.0, 1_000.0)
            found = []
            for generation in (0, 0, 1):
                key = ClaimKey.for_event("stripe:evt_1:charge", "11" * 32, "live", generation)
                found += await claims.claim([key], b"a" * 16)
                claims.settle([key], [], b"a" * 16)
                await claims.await_settlements()
            return found

    assert asyncio.run(states()) == [ClaimState.CLAIMED, ClaimState.DUPLICATE, ClaimState.CLAIMED]


def test_bytes_that_a_raised_limit_takes_are_read_by_a_decoder_that_is_made_anew_as_the_text_says() -> None:
    """A limit is read when the processor starts: the running decoder refuses whatever the setting says by now."""
    small, large = (make_decoder("json", bytes_max=most, setting="payload") for most in (10, 1_000))
    body = b'{"amount": 12345678}'
    with pytest.raises(PayloadTooLarge, match="start the processor again and replay the event"):
        small(body)
    large(body)
    assert "restart, replay" in give_advice("PayloadTooLarge", None)


def test_a_filter_that_matches_nothing_says_no_more_than_that() -> None:
    assert str(SelectionEmpty()) == "no events match the filter; nothing was frozen"


def test_what_was_never_tried_waits_behind_another_or_for_what_it_calls_and_goes_on_without_anybody(
    tmp_path: Path,
) -> None:
    told = "nothing: they were never tried; each waits behind another event or for a failing downstream"
    assert give_advice(None, None) == told
    engine = Engine(tmp_path)
    held, behind = engine.post("evt_1"), engine.post("evt_2")
    waits = [Held("bank", 5.0)]
    engine.handler.script[held] = lambda _: waits.pop() if waits else booked()
    engine.batch()
    assert [last(engine, key).decision for key in (held, behind)] == [Decision.PARKED] * 2
    assert [last(engine, key).error_class for key in (held, behind)] == [None, None]
    engine.advance(10)
    engine.advance(10)
    assert [engine.decisions(key)[-1] for key in (held, behind)] == ["applied", "applied"]


@pytest.mark.parametrize("comes", ["while it is retried", "once it is dead"])
def test_what_misses_another_event_is_applied_by_a_retry_and_dead_only_by_a_replay(tmp_path: Path, comes: str) -> None:
    engine = Engine(tmp_path)
    capture = "stripe:evt_2:charge.captured"
    key = engine.post("evt_1")

    def act(_: WorkItem) -> Outcome:
        if capture not in engine.handler.calls:
            raise MissingPredecessor(key, "its capture")
        return booked()

    engine.handler.script[key] = act
    engine.batch()
    told = last(engine, key).error_message or ""
    assert "its retries wait for that; once it is dead, replay it when that has come" in told
    if comes == "once it is dead":
        for _ in range(8):
            engine.advance(60)
        assert engine.decisions(key)[-1] == "dead"
    assert engine.post("evt_2") == capture
    engine.batch()
    for _ in range(8):
        engine.advance(60)
    assert engine.decisions(key)[-1] == ("dead" if comes == "once it is dead" else "applied")
    if comes == "once it is dead":
        order(engine, "replay", key)
        engine.advance(0)
        assert engine.decisions(key)[-1] == "applied"


def test_of_a_worn_out_item_only_a_forced_replay_is_taken_as_its_refusal_says(tmp_path: Path) -> None:
    engine = Engine(tmp_path)
    key = engine.post("evt_1")
    engine.handler.fails(key, ZeroDivisionError("division by zero"))
    engine.batch()
    for _ in range(engine.rules.config.dlq.replays_max):
        order(engine, "replay", key)
        engine.advance(0)
    engine.handler.script.clear()
    assert "died each time: fix its cause, then replay it with force" in (order(engine, "replay", key).reason or "")
    close(engine, "replay", key, force=True)
    engine.advance(0)
    assert engine.decisions(key)[-1] == "applied"


def test_a_command_that_was_not_acknowledged_has_one_effect_when_it_is_sent_again(tmp_path: Path) -> None:
    assert "send it again, it has one effect" in str(CommandNotSent("c1", "no answer"))
    engine = Engine(tmp_path)
    key = engine.post("evt_1")
    engine.handler.fails(key, ZeroDivisionError("division by zero"), times=1)
    engine.batch()
    sent = command(engine, "replay", target(engine, key))
    engine.send(CONTROL, encode(sent), [])
    engine.batch()
    engine.advance(0)
    assert engine.decisions(key) == ["dead", "replayed", "applied"]
    command(engine, "replay", engine.target(1, 1))
    assert decided(engine).decision is Decision.IGNORED, "given anew it names what isn't there any more"
