"""A run on a real broker: its commands stand on the control topic as they were written down."""

from __future__ import annotations

from datetime import datetime
from pathlib import Path
from typing import Any

from confluent_kafka import Consumer, Producer, TopicPartition

from core.clock import SystemClock
from core.layout import Layout
from dlq.commands import Target, decode
from dlq.index import DeadLetterIndex, Filter
from dlq.limits import AloneLimits
from dlq.selection import Outcomes, Run, Runner, SelectionFile, Selections, SelectionSettings
from dlq.selection.live import Load
from journal.reader import JournalReader
from tests.integration.conftest import Topics
from tests.integration.console.conftest import DEAD_ITEMS

READ_S_MAX = 60.0


class Idle:
    def read(self, now: datetime) -> Load:
        return Load(0.0, None, now.isoformat())


def test_a_run_is_on_the_control_topic(kafka_broker: str, topics: Topics, journal: Path, tmp_path: Path) -> None:
    places, clock, settings = Layout(tmp_path).ledger(), SystemClock(), SelectionSettings(command_items_max=2)
    file = SelectionFile(places.selections)
    outcomes = Outcomes(file, journal, topics.control)
    board = DeadLetterIndex(places.board, journal, places.bodies, clock)
    selections = Selections("ledger", file, board, outcomes, settings, AloneLimits(), clock)
    assert selections.freeze(Filter(), "ada").count == DEAD_ITEMS
    selections.start(1, Run("replay", "mended"), "ada")
    producer: Any = Producer({"bootstrap.servers": kafka_broker, "enable.idempotence": True, "log_level": 0})
    runner = Runner("ledger", file, outcomes, producer, topics.control, Idle(), settings, clock, "test")
    for _ in range(3):
        runner.step()
    commands = [decode(value) for value in _read(kafka_broker, topics.control, 1)]
    assert [command.targets for command in commands] == [
        tuple(map(Target.of, JournalReader(str(journal)).rows_of([1, 2])))
    ]
    assert (commands[0].stream, commands[0].actor, commands[0].reason) == ("ledger", "ada", "mended")
    assert [one.state.value for one in selections.items(1)] == ["sent", "sent", "unsent"]


def _read(bootstrap: str, topic: str, count: int) -> list[bytes]:
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "runs", "enable.auto.commit": False})
    try:
        consumer.assign([TopicPartition(topic, 0, 0)])
        messages = [consumer.poll(READ_S_MAX) for _ in range(count)]
        return [bytes(message.value() or b"") for message in messages if message is not None]
    finally:
        consumer.close()
