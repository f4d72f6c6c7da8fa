"""Whatever keeps a subscriber from taking events shows in the stream's status, and is over when it takes one."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from core.clock import to_rfc3339
from core.status_file import waits_of
from core.work import Applied, Outcome, WorkItem, calling
from notify.errors import AddressRefused, FileUnusable, NotTaken, SubscriberGone, Unreachable
from processor.settings import DeadHead, DownstreamSettings
from processor.workers.deadlines import Deadlines
from tests.unit.processor.harness import NOW
from tests.unit.processor.limited import LimitedEngine

NAME = "subscriber:shop"
SETTINGS = {NAME: DownstreamSettings(quiet_s_max=3_600.0, reset_s_max=3_600.0)}


def within(error: Exception) -> Callable[[WorkItem], Outcome]:
    """As the sender raises what keeps requests from a subscriber altogether."""

    def fail(_: WorkItem) -> Outcome:
        with calling(NAME):
            raise error

    return fail


def answers(error: Exception) -> Callable[[WorkItem], Outcome]:
    """As the handler raises an answer that the subscriber gave in good health."""

    def fail(_: WorkItem) -> Outcome:
        with calling(NAME):
            pass
        raise error

    return fail


def takes(_: WorkItem) -> Outcome:
    with calling(NAME):
        return Applied()


DOWN = {
    "answers 500": (within(NotTaken("shop", 500, "", None)), "answered 500"),
    "times out": (within(Unreachable("shop", "no answer within 10 s")), "no answer within 10 s"),
    "refuses": (within(Unreachable("shop", "connection refused")), "connection refused"),
    "has no address": (within(Unreachable("shop", "its name isn't known")), "its name isn't known"),
    "has a bad certificate": (within(Unreachable("shop", "certificate has expired")), "certificate has expired"),
    "may not be called": (within(AddressRefused("shop", "10.0.0.1", "it is private")), "it is private"),
    "has no secret": (within(FileUnusable("shop", Path("s"), "it isn't there")), "it isn't there"),
    "is gone from the file": (within(SubscriberGone("shop", Path("s"))), "no longer in"),
    "asks to be left alone": (within(NotTaken("shop", 429, "", 600.0)), "answered 429"),
}


class SubscriberStream:
    """A subscriber's stream, an event every few seconds."""

    def __init__(self, folder: Path) -> None:
        patient = Deadlines(60.0, 100.0)
        self.engine = LimitedEngine(folder, SETTINGS, dead_head=DeadHead.CONTINUE, deadlines=patient)
        self.act: Callable[[WorkItem], Outcome] = takes
        self.count = 0

    def post(self, count: int, seconds: float = 5) -> None:
        for _ in range(count):
            key = self.engine.post(f"evt_{self.count}", f"e{self.count}")
            self.engine.handler.script[key] = lambda item: self.act(item)
            self.count += 1
        self.engine.advance(seconds)

    @property
    def status(self) -> dict[str, Any]:
        return self.engine.downstreams.status()[NAME]


@pytest.mark.parametrize("how", DOWN)
def test_a_subscriber_that_is_down_shows_and_is_over_when_it_takes_an_event(tmp_path: Path, how: str) -> None:
    shop = SubscriberStream(tmp_path)
    shop.post(5)
    assert (shop.status["since"], shop.status["failing_since"], shop.status["why"]) == (None, None, "")
    shop.act, why = DOWN[how]
    shop.post(8)
    began = to_rfc3339(NOW + timedelta(seconds=10))
    assert (shop.status["since"], shop.status["failing_since"]) == (began, began)
    assert why in shop.status["why"]
    [wait] = waits_of({"downstreams": {NAME: shop.status}})
    assert wait.next_try_at is not None and wait.next_try_at > shop.engine.clock.now()
    for _ in range(20):
        shop.engine.advance(60)
    shop.engine.start()
    shop.engine.batch()
    assert shop.status["since"] == shop.status["failing_since"] == began, "a new process knows it too"
    rows = len(shop.engine.journal.rows)
    shop.act = takes
    for _ in range(60):
        shop.engine.advance(60)
    assert (shop.status["since"], shop.status["failing_since"], shop.status["why"]) == (None, None, "")
    assert waits_of({"downstreams": {NAME: shop.status}}) == []
    assert shop.engine.index.open_count() == 0
    assert len(shop.engine.journal.rows) == rows + 8


def test_one_that_refuses_every_event_fails_though_it_is_called_as_usual(tmp_path: Path) -> None:
    shop = SubscriberStream(tmp_path)
    shop.act = answers(NotTaken("shop", 404, "", None))
    shop.post(8)
    assert (shop.status["state"], shop.status["since"]) == ("closed", None)
    assert shop.status["failing_since"] == to_rfc3339(NOW + timedelta(seconds=5))
    assert "answered 404" in shop.status["why"]
    shop.engine.start()
    assert shop.status["failing_since"] == to_rfc3339(NOW + timedelta(seconds=5))
    shop.act = takes
    shop.engine.advance(30)
    assert shop.status["failing_since"] is None


def test_one_that_takes_most_events_does_not_fail(tmp_path: Path) -> None:
    shop = SubscriberStream(tmp_path)
    shop.act = lambda item: takes(item) if item.item_seq % 2 else answers(NotTaken("shop", 400, "", None))(item)
    shop.post(8)
    assert shop.status["failing_since"] is None
