"""A stream is a table in a file and a handler: on real Kafka, Spark and Delta, with a handler of the test's own."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, TopicPartition

from core.clock import SystemClock, to_rfc3339
from core.keys import join_key
from core.routing import topics_of
from journal.schema import JournalRow
from journal.target import ItemTarget
from load.subscriber import Reply, Subscriber
from notify.handler import NotifyDriverSide
from notify.settings import Allowance, NotifySettings
from notify.signature import new_secret
from notify.subscribers import SubscribersFile, missed_items
from operations.command import PROPOSE_REVERSAL, Command, approve
from tests.integration.processor.own_streams import OwnStreams, says

pytestmark = pytest.mark.more(reason="half a minute each on Spark and Kafka; tests/unit/processor has it on the engine")


def names(count: int, since: int = 0) -> list[str]:
    return [f"guest-{number}" for number in range(since, since + count)]


def test_a_stream_of_ones_own_decides_and_another_one_reads_what_it_applied(streams: OwnStreams) -> None:
    with streams.running() as wait_for:
        wait_for(lambda: says(streams, "retell").get("state") == "running", "the reader, once there is a journal")
        streams.post("lonely", kind="stranger")
        streams.post("bad", kind="breaks")
        streams.post(*names(10))
        wait_for(lambda: len(streams.applied("retell")) == 10, "what was applied since the reader began")
        status = says(streams, "retell")
    assert (status["ready"], status["restarts"]) == (True, 0)
    with streams.running("greet") as wait_for:
        for number in range(10, 13):
            streams.post(*names(1, since=number))
            wait_for(partial(applied_are, streams, number + 1), "one commit more while nobody reads")
    with streams.running() as wait_for:
        streams.post(*names(5, since=13))
        wait_for(lambda: len(streams.applied("retell")) == 18, "what it missed, and what came then")
    # Other tests' orders may be on the broker's control topic: each stream decides them.
    reported = [row for row in streams.rows("retell") if row.first and row.topic != topics_of("live").control]
    sources = {row.seq: row.event_key or "" for row in streams.rows("greet") if row.decision == "applied"}
    assert [row.offset for row in reported] == sorted(sources), "each once, in seq order"
    assert [row.event_key for row in reported] == [
        join_key("retell", "retell", sources[row.offset]) for row in reported
    ]
    assert {row.topic for row in reported} == {"journal.greet/retell"}
    [dead] = [row.seq for row in streams.rows("greet") if row.error_class == "LookupError"]
    assert dead_letter(streams) == (None, None, dead)


@pytest.mark.parametrize("starting", ["latest", "a time"])
def test_a_new_stream_begins_where_it_is_set_and_goes_on_there(streams: OwnStreams, starting: str) -> None:
    streams.post(*names(3))
    time.sleep(0.05)  # Kafka's times are milliseconds
    text = to_rfc3339(SystemClock().now()) if starting == "a time" else starting
    streams.post(*names(2, since=3))
    taken = 2 if starting == "a time" else 0
    file = streams.folder / "streams.toml"
    file.write_text(file.read_text().replace("[greet]\n", f'[greet]\nstarting_offsets = "{text}"\n'))
    with streams.running("greet") as wait_for:
        wait_for(lambda: says(streams, "greet").get("state") == "running", "the stream")
        waits = "2 records wait, 3 are left out" if taken else "no record waits, 5 are left out"
        assert says(streams, "greet")["begun"] == f"begins in {streams.topic} at {text} (starting_offsets): {waits}"
        streams.post(*names(1, since=5))
        wait_for(lambda: len(streams.applied("greet")) == taken + 1, "what comes from there on")
    streams.post(*names(1, since=6))
    with streams.running("greet") as wait_for:
        wait_for(lambda: len(streams.applied("greet")) == taken + 2, "what came while it was down")
        wait_for(lambda: "begun" not in says(streams, "greet"), "it began before: it is said once")


def test_a_reversal_reaches_a_subscriber_and_a_stream_without_a_feed(streams: OwnStreams, tmp_path: Path) -> None:
    """One while the readers run, and one from their backlog after a start."""
    secret, clock = new_secret(), SystemClock()
    with Subscriber([secret], clock) as shop:
        subscribe(streams, tmp_path, shop, secret)
        with streams.running("greet", "retell", "notify") as wait_for:
            wait_for(lambda: says(streams, "notify").get("state") == "running", "the subscriber's stream")
            streams.post("paid", "paid-too", kind="pays")
            wait_for(lambda: shop.counts.taken == 2, "both facts")
            reverse(streams, wait_for, "paid")
            wait_for(lambda: shop.counts.taken == 3, "the reversal")
        with streams.running("greet") as wait_for:
            reverse(streams, wait_for, "paid-too")
        with streams.running("greet", "retell", "notify") as wait_for:
            wait_for(lambda: shop.counts.taken == 4, "the other reversal")
            wait_for(lambda: len(streams.applied("retell")) == 4, "both reversals by the stream without a feed")
        facts = {one["fact"]["event_key"]: one for one in shop.envelopes if "fact" in one}
        reversals = [one for one in shop.envelopes if "reversal" in one]
    assert [one["type"] for one in reversals] == ["payhook.reversed"] * 2
    assert [one["reversal"]["event_key"] for one in reversals] == ["door:paid:pays", "door:paid-too:pays"]
    assert [one["reversal"]["of"] for one in reversals] == [
        facts[one["reversal"]["event_key"]]["id"] for one in reversals
    ]
    for one in reversals:
        booked = facts[one["reversal"]["event_key"]]["fact"]["postings"]
        assert [line["side"] for line in one["reversal"]["postings"]] == ["credit", "debit"]
        assert [line["account"] for line in one["reversal"]["postings"]] == [line["account"] for line in booked]
    assert len({one["id"] for one in shop.envelopes}) == 4
    assert (shop.counts.repeated, shop.counts.forged, shop.counts.out_of_order) == (0, 0, 0)


def test_a_subscriber_that_is_down_costs_two_rows_an_event_and_gets_what_it_missed(
    streams: OwnStreams, tmp_path: Path, record_property: Callable[[str, object], None]
) -> None:
    """Down for a while with a hundred waiting, then gone with a 410; it is sent everything in the end, once each."""
    secret, clock, answers, requests = new_secret(), SystemClock(), [500], list[int]()

    def reply(number: int) -> Reply | None:
        requests.append(number)
        return Reply(answers[0]) if answers else None

    with Subscriber([secret], clock, replies=reply) as shop:
        subscribe(streams, tmp_path, shop, secret)

        def shop_is() -> dict[str, Any]:
            found: dict[str, Any] = says(streams, "notify").get("downstreams", {}).get("subscriber:shop", {})
            return found

        with streams.running("greet", "retell", "notify") as wait_for:
            wait_for(lambda: says(streams, "notify").get("state") == "running", "the subscriber's stream")
            streams.post(*names(100), kind="pays")
            wait_for(lambda: shop_is().get("since"), "its breaker")
            wait_for(lambda: says(streams, "notify").get("open") == 100, "all wait")
            time.sleep(20)
            status, asked = says(streams, "notify"), len(requests)
            assert (status["ready"], status["state"], status["blocked"]) == (True, "running", None)
            assert "answered 500" in shop_is()["why"] and shop_is()["next_try_at"] and shop_is()["failing_since"]
            rows = [row for row in streams.rows("notify") if row.topic == "journal.greet/shop"]
            assert len(rows) <= 110, "a row an event, and the retries before the breaker opened"
            answers.clear()
            wait_for(lambda: shop.counts.taken == 100, "all of them")
            wait_for(lambda: says(streams, "notify").get("open") == 0, "nothing waits")
            wait_for(lambda: shop_is()["since"] is None and shop_is()["failing_since"] is None, "it is over")
            answers.append(410)
            streams.post(*names(5, since=100), kind="pays")
            rows = wait_for(partial(of_kind, streams, "ignored", 5), "what it doesn't get")
            answers.clear()
            driver_side = NotifyDriverSide(streams.sections[NotifySettings])  # type: ignore[arg-type]
            driver_side._disabled.enable_subscriber("shop", "2026-01-31T12:00:00Z")
            [subscriber] = SubscribersFile(tmp_path / "subscribers.toml").read_all().values()
            journal = streams.layout.stream("notify").journal
            items = missed_items(journal, subscriber, rows[0].decided_at)
            assert items == [row.item_seq for row in rows]
            for _ in range(2):
                for row in rows:
                    streams.order("notify", "replay", row)
            wait_for(lambda: shop.counts.taken == 105, "what it missed")
            time.sleep(3)
        decided = Counter(row.item_seq for row in streams.rows("notify") if row.topic == "journal.greet/shop")
    record_property("requests while it was down, rows an event at most", (asked, max(decided.values())))
    assert sum(decided.values()) <= 2 * 100 + 10 + 3 * 5
    assert (shop.counts.taken, shop.counts.repeated, shop.counts.forged) == (105, 0, 0)


def of_kind(streams: OwnStreams, decision: str, count: int) -> list[JournalRow]:
    """The rows of the subscriber's stream with a decision, once there are so many."""
    found = [row for row in streams.rows("notify") if row.decision == decision and row.topic == "journal.greet/shop"]
    return found if len(found) == count else []


def subscribe(streams: OwnStreams, folder: Path, shop: Subscriber, secret: str) -> None:
    """One subscriber, on the loopback address."""
    (folder / "secrets").mkdir(mode=0o700)
    (folder / "secrets" / "notify.shop").write_text(secret + "\n")
    file = folder / "subscribers.toml"
    file.write_text(f'[shop]\nurl = "{shop.url}"\ntypes = ["pays"]\n')
    allowed = Allowance(networks=("127.0.0.0/8",), ports=(shop.port,), http=True)
    streams.sections = {NotifySettings: NotifySettings(subscribers_file=str(file), allow={"shop": allowed})}


def reverse(streams: OwnStreams, wait_for: Callable[[Callable[[], Any], str], Any], event_id: str) -> None:
    """Two people take back what an event booked; returns once the journal says so."""
    key, now = f"door:{event_id}:pays", SystemClock().now()
    (booked,) = [row for row in streams.rows("greet") if row.event_key == key and row.decision == "applied"]
    wanted = Command.with_new_id(
        "greet",
        streams.lineage("greet"),
        PROPOSE_REVERSAL,
        [ItemTarget.of_row(booked)],
        "ada",
        "paid at another door",
        now,
    )
    streams.command(wanted)
    resolved = join_key("payhook", wanted.command_id, wanted.action)
    wait_for(lambda: any(row.event_key == resolved for row in streams.rows("greet")), "the proposal")
    streams.command(approve(wanted, "bob", "checked", now))
    entry = (booked.item_seq, "reversed")
    wait_for(lambda: any((row.item_seq, row.decision) == entry for row in streams.rows("greet")), "the reversing entry")


@pytest.mark.row("B5")
def test_one_streams_failure_is_reported_and_leaves_the_other_alone(streams: OwnStreams) -> None:
    with streams.running("greet", "broken") as wait_for:
        wait_for(lambda: says(streams, "broken").get("restarts", 0) >= 1, "a second start of the broken one")
        streams.post(*names(5))
        wait_for(lambda: len(streams.applied("greet")) == 5, "the other stream's work")
        status = says(streams, "broken")
        assert (status["ready"], status["state"]) == (False, "failed")
        assert "it can't be built" in status["last_failure"]
        wait_for(lambda: says(streams, "greet").get("ready") is True, "the other stream to say that it is ready")
        assert says(streams, "greet")["restarts"] == 0


def test_an_order_is_obeyed_while_a_stream_is_blocked(streams: OwnStreams) -> None:
    """Nothing else has come that could tell whose failure it is; a restart changes nothing of that."""
    streams.post("bad", kind="refused")
    with streams.running("greet") as wait_for:
        wait_for(lambda: says(streams, "greet").get("blocked"), "the stream to be blocked")
        streams.post(*names(1))
        wait_for(partial(applied_are, streams, 1), "another event, which tells")
        wait_for(lambda: "dead" in decisions(streams, "bad"), "the end of its tries")
    streams.post("worse", kind="refused")
    with streams.running("greet") as wait_for:
        wait_for(lambda: decisions(streams, "worse")[:1] == ["parked"], "its first try, with nothing else to try")
        wait_for(lambda: says(streams, "greet").get("blocked"), "the block, which costs no row a probe")
    with streams.running("greet") as wait_for:
        wait_for(lambda: says(streams, "greet").get("blocked"), "the stream to be blocked still")
        dead = rows_of(streams, "bad")[-1]
        streams.order("greet", "replay", dead)
        wait_for(lambda: "replayed" in decisions(streams, "bad"), "the order to be obeyed")
        assert says(streams, "greet").get("blocked")
        streams.post(*names(10, since=1))
        wait_for(lambda: says(streams, "greet").get("blocked", "?") is None, "the end of the block")
        wait_for(partial(applied_are, streams, 11), "what comes then")
        streams.order("greet", "replay", dead)
        wait_for(lambda: any("moved on" in (row.reason or "") for row in streams.rows("greet")), "an order by Spark")
    first = [(row.topic, row.partition, row.offset) for row in streams.rows("greet") if row.first]
    assert len(first) == len(set(first))
    assert decisions(streams, "bad").count("replayed") == 1


def rows_of(streams: OwnStreams, event_id: str) -> list[JournalRow]:
    return [row for row in streams.rows("greet") if (row.event_key or "").startswith(f"door:{event_id}:")]


def decisions(streams: OwnStreams, event_id: str) -> list[str]:
    return [row.decision.value for row in rows_of(streams, event_id)]


def applied_are(streams: OwnStreams, count: int) -> bool:
    return len(streams.applied("greet")) == count


def dead_letter(streams: OwnStreams) -> tuple[bytes | None, bytes | None, int]:
    """Key, value and seq of the one record on the stream's dead-letter topic, which copies nothing."""
    consumer = Consumer({"bootstrap.servers": streams.bootstrap, "group.id": "t", "enable.auto.commit": False})
    consumer.assign([TopicPartition("dlq.greet", number, 0) for number in (0, 1)])
    message = consumer.poll(60)
    consumer.close()
    assert message is not None and message.error() is None
    headers = dict(message.headers() or [])
    assert all(name.startswith("__dlq.errors.") for name in headers)
    seq = headers["__dlq.errors.payhook.seq"]
    assert isinstance(seq, bytes)
    return message.key(), message.value(), int(seq)
