"""A run on a real broker: one command on the control topic, which names the frozen set by its digest."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from confluent_kafka import Consumer, Producer, TopicPartition

from core.clock import SystemClock
from core.layout import Layout
from core.status_file import StreamStatuses
from dead_letters.dead_letter_index import DeadLetterIndex
from dead_letters.listing import Filter
from dead_letters.payload import Payloads
from operations.audit_log import AuditLog
from operations.commands import decode
from operations.frozen import RunState
from operations.limits import AloneLimits
from operations.orders import OrderSender
from operations.recorder import Recorder
from operations.selection.journal import RunLog
from operations.selection.model import RunRequest
from operations.selection.runs import RunOrders
from operations.selection.selections import IgnoredEventFinder, Selections
from tests.integration.conftest import Topics
from tests.integration.console.conftest import DEAD_ITEMS

READ_S_MAX = 60.0


def test_a_run_is_on_the_control_topic(kafka_broker: str, topics: Topics, journal: Path, tmp_path: Path) -> None:
    layout, clock = Layout(tmp_path), SystemClock()
    places = layout.ledger()
    producer: Any = Producer({"bootstrap.servers": kafka_broker, "enable.idempotence": True, "log_level": 0})
    recorder = Recorder(AuditLog(layout.audit_log), clock, "cli")
    log = RunLog(journal, topics.control)
    index = DeadLetterIndex(places.dead_letter_index, journal, Payloads(places.bodies_table), clock)
    selections = Selections(
        places,
        log,
        index,
        clock,
        recorder,
        IgnoredEventFinder(places.journal, Payloads(places.bodies_table).fetch_kept, None),
        StreamStatuses({places.stream: places.status}),
    )
    orders = OrderSender(lambda: producer, topics.control, recorder)
    runs = RunOrders(selections, orders, AloneLimits(), clock, sleep=lambda _: None)
    made = selections.freeze(Filter(), "ada")
    assert made.count == DEAD_ITEMS
    started = runs.start(1, RunRequest("replay", "mended", per_s=5.0), "ada")
    assert (started.run.state, started.again) == (RunState.RUNNING, False)
    command = decode(_read(kafka_broker, topics.control))
    assert (command.stream, command.action, command.act) == ("ledger", "run_selection", "replay")
    assert (command.selection, command.per_s, command.actor) == (made.digest, 5.0, "ada")
    assert [one.state.value for one in selections.items(1)] == ["unsent"] * DEAD_ITEMS


def _read(bootstrap: str, topic: str) -> bytes:
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "runs", "enable.auto.commit": False})
    try:
        consumer.assign([TopicPartition(topic, 0, 0)])
        message = consumer.poll(READ_S_MAX)
        assert message is not None
        return bytes(message.value() or b"")
    finally:
        consumer.close()
