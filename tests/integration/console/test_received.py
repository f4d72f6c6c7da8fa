"""What a real receiver answered shows within seconds, counted from Kafka's end of its receipts."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator

import pytest

from console.received import NOT_READ, ReceiptTail, ReceivedSummary
from core.clock import SystemClock
from core.settings import KafkaSettings
from tests.integration.ingest.conftest import ReceiverUnderTest, receiver, servers, shared_receiver
from tests.integration.ingest.wire import head

__all__ = ["receiver", "servers", "shared_receiver"]
SHOWN_S = 20.0


@pytest.fixture
def tail(receiver: ReceiverUnderTest) -> Iterator[ReceiptTail]:
    kafka = KafkaSettings(bootstrap_servers=receiver.servers.bootstrap)
    opened = ReceiptTail(kafka, {"live": "payments.receipts"}, SystemClock())
    yield opened
    opened.close()


def shown(tail: ReceiptTail, wanted: Callable[[ReceivedSummary], bool]) -> ReceivedSummary:
    """What came in once it is as wanted."""
    until = time.monotonic() + SHOWN_S
    while True:
        tail.read_new_receipts()
        if wanted(tail.get_last_hour("live")) or time.monotonic() > until:
            return tail.get_last_hour("live")


def test_answers_and_refusals_of_every_kind_are_counted(receiver: ReceiverUnderTest, tail: ReceiptTail) -> None:
    assert tail.get_last_hour("live").problem == NOT_READ
    tail.read_new_receipts()
    before = tail.get_last_hour("live")
    for number in range(3):
        assert receiver.post(receiver.stripe(f"counted-{number}")).status_code == 200
    body, _ = receiver.stripe("unsigned")
    assert receiver.post((body, {})).status_code == 401
    with receiver.wire() as wire:
        wire.send(head(host=None))
        assert wire.answer() is not None
    said = shown(tail, lambda hour: hour.total >= before.total + 5)
    assert (said.total, said.refused, said.problem) == (before.total + 5, before.refused + 2, None)
    claimed = [one for one in said.arrived if one.type == "charge.succeeded" and one.status == 200]
    assert sum(one.count for one in claimed) >= 3
    assert {("signature_missing", "stripe"), ("wrong_host", "unknown")} <= {
        (reason.code, reason.provider) for reason in said.reasons
    }
    assert {one.code for one in said.newest[:2]} == {"signature_missing", "wrong_host"}


def test_a_second_reader_finds_the_same_hour(receiver: ReceiverUnderTest, tail: ReceiptTail) -> None:
    assert receiver.post(receiver.stripe("again")).status_code == 200
    first = shown(tail, lambda hour: hour.total > 0)
    other = ReceiptTail(
        KafkaSettings(bootstrap_servers=receiver.servers.bootstrap), {"live": "payments.receipts"}, SystemClock()
    )
    other.read_new_receipts()
    assert other.get_last_hour("live").total >= first.total > 0
    other.close()


@pytest.mark.more(reason="a broker that is away in real time")
def test_while_kafka_is_away_the_figures_stay_and_say_so(receiver: ReceiverUnderTest, tail: ReceiptTail) -> None:
    assert receiver.post(receiver.stripe("before")).status_code == 200
    before = shown(tail, lambda hour: hour.total > 0)
    with receiver.servers.paused(receiver.servers.kafka):
        tail.read_new_receipts()
        away = tail.get_last_hour("live")
    assert away.problem is not None and "Kafka doesn't say" in away.problem
    assert away.total == before.total
    assert shown(tail, lambda hour: hour.problem is None).problem is None
