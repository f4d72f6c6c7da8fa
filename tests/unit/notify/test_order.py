"""The handler under the engine: order per entity and subscriber, at least once, and a dead event delays nobody."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from journal.schema import JournalRow
from load.subscriber import Reply, Subscriber
from notify.facts import build
from notify.settings import NotifySettings
from processor.settings import DeadHead
from processor.source.feed import FeedRecords
from tests.unit.notify.place import SubscribersFolder, reversal, row
from tests.unit.processor.harness import EVENTS, Engine

UNWELL = Reply(503)


def engine_of(folder: Path, place: SubscribersFolder) -> Engine:
    engine = Engine(folder, dead_head=DeadHead.CONTINUE)
    engine.handler = place.handler()  # type: ignore[assignment]
    engine.start()
    return engine


def notify(engine: Engine, subscriber: str, number: int, entity: str) -> str:
    """An applied row of the ledger, as the stream's own feed hands it over; returns its event's key."""
    return hand_over(engine, subscriber, row(f"evt_{number}", seq=number, entity_key=entity))


def hand_over(engine: Engine, subscriber: str, changed: JournalRow) -> str:
    feed = build(NotifySettings(subscribers_file="subscribers.toml"))
    (record,) = FeedRecords("notify", ["ledger"], feed, [subscriber]).make_table("ledger", [changed]).to_pylist()
    headers = [(header["key"], header["value"]) for header in record["headers"]]
    engine.send(EVENTS, record["value"], headers)
    return str(dict(headers)["event_key"], "ascii")


def seqs(subscriber: Subscriber, entity: str) -> list[int]:
    return [envelope["fact"]["seq"] for envelope in subscriber.envelopes if envelope["fact"]["entity"] == entity]


def subscribed(place: SubscribersFolder, name: str, failing: Any = lambda _: None) -> Subscriber:
    """A receiver of its own for a new subscriber."""
    receiver = Subscriber([], place.clock, replies=failing)
    receiver.trust(place.add(name, receiver.port))
    return receiver


def test_every_entity_is_reported_in_order_though_every_third_request_fails(
    tmp_path: Path, place: SubscribersFolder
) -> None:
    with subscribed(place, "shop", lambda number: UNWELL if number % 3 == 0 else None) as shop:
        engine = engine_of(tmp_path / "engine", place)
        for number in range(1, 13):
            notify(engine, "shop", number, f"e{number % 2}")
        for _ in range(30):
            engine.advance(20)
        assert seqs(shop, "e0") == [2, 4, 6, 8, 10, 12]
        assert seqs(shop, "e1") == [1, 3, 5, 7, 9, 11]
        assert (shop.counts.taken, shop.counts.forged, shop.counts.out_of_order) == (12, 0, 0)
        assert shop.counts.refused > 3


def test_a_reversal_follows_what_it_reverses(tmp_path: Path, place: SubscribersFolder) -> None:
    """The subscriber is unwell: both wait, and come in order, each under its own id."""
    with subscribed(place, "shop", lambda number: UNWELL if number == 0 else None) as shop:
        engine = engine_of(tmp_path / "engine", place)
        booked = row("evt_1", seq=1)
        keys = [hand_over(engine, "shop", one) for one in (booked, reversal(booked))]
        engine.batch()
        assert shop.envelopes == []
        engine.advance(20)
        first, second = shop.envelopes
        assert (first["fact"]["seq"], second["reversal"]["seq"]) == (1, 3)
        assert (second["type"], second["reversal"]["of"]) == ("payhook.reversed", first["id"])
        assert first["id"] != second["id"]
        assert [engine.decisions(key)[-1] for key in keys] == ["applied"] * 2
        assert (shop.counts.taken, shop.counts.repeated) == (2, 0)


def test_an_event_that_dies_lets_its_followers_pass(tmp_path: Path, place: SubscribersFolder) -> None:
    """Five retries after the first try; what it blocked goes out in order, and the dead one never does."""
    with subscribed(place, "shop", lambda number: Reply(422) if number < 6 else None) as shop:
        engine = engine_of(tmp_path / "engine", place)
        dead, *followers = [notify(engine, "shop", number, "e1") for number in (1, 2, 3)]
        for _ in range(6):
            assert shop.envelopes == []
            engine.advance(20)
        assert engine.decisions(dead) == ["retry"] * 5 + ["dead"]
        engine.advance(20)
        assert seqs(shop, "e1") == [2, 3]
        assert [engine.decisions(key)[-1] for key in followers] == ["applied"] * 2


def test_one_subscriber_that_is_down_holds_up_no_other(tmp_path: Path, place: SubscribersFolder) -> None:
    with subscribed(place, "shop", lambda _: UNWELL) as shop, subscribed(place, "bank") as bank:
        engine = engine_of(tmp_path / "engine", place)
        keys = [notify(engine, name, number, "e1") for number in range(1, 4) for name in ("shop", "bank")]
        engine.batch()
        assert seqs(bank, "e1") == [1, 2, 3]
        assert shop.envelopes == []
        assert [engine.decisions(key)[-1] for key in keys[1::2]] == ["applied"] * 3
        assert engine.decisions(keys[0])[-1] == "retry"


def test_a_fact_that_is_sent_again_after_a_crash_is_taken_once(tmp_path: Path, place: SubscribersFolder) -> None:
    """Handlers run before the commit: what was sent and not committed is sent again, under the same id."""
    with subscribed(place, "shop") as shop:
        for attempt in range(2):
            engine = engine_of(tmp_path / f"engine-{attempt}", place)
            notify(engine, "shop", 1, "e1")
            engine.batch()
        assert (shop.counts.taken, shop.counts.repeated) == (1, 1)


def test_retry_after_is_waited_for(tmp_path: Path, place: SubscribersFolder) -> None:
    busy = Reply(429, (("retry-after", "300"),))
    with subscribed(place, "shop", lambda number: busy if number == 0 else None) as shop:
        engine = engine_of(tmp_path / "engine", place)
        key = notify(engine, "shop", 1, "e1")
        engine.batch()
        engine.advance(299)
        assert (engine.decisions(key), shop.counts.taken) == (["retry"], 0)
        engine.advance(2)
        assert (engine.decisions(key), shop.counts.taken) == (["retry", "applied"], 1)


def test_410_turns_waiting_events_into_ignored_ones(tmp_path: Path, place: SubscribersFolder) -> None:
    with subscribed(place, "shop", lambda number: Reply(503 if number == 0 else 410)) as shop:
        engine = engine_of(tmp_path / "engine", place)
        keys = [notify(engine, "shop", number, "e1") for number in (1, 2, 3)]
        engine.batch()
        engine.advance(20)
        assert [engine.decisions(key)[-1] for key in keys] == ["ignored"] * 3
        assert shop.counts.refused == 2
        assert engine.dead_letters.published == []
