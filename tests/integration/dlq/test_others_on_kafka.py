"""Another program's dead-letter topic on a real broker: what a KIP-1191 broker writes is read and brought back."""

from __future__ import annotations

import json
import uuid
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from confluent_kafka import Producer

from cli.main import main
from core.layout import Layout
from core.settings import KafkaSettings
from dlq.others import BROUGHT_BACK, LetterUnusable, OthersTopic
from journal.kafka_log import KafkaLog, TopicMissing
from journal.schema import TopicRecord
from operations.audit_log import AuditLog

KEY, VALUE, HEADERS = b"o1", b'{"order": "o1"}', [("ce_id", b"17")]
NOTHING: dict[str, bytes | None] = {}


class ShareGroupBroker:
    """A source topic and the dead-letter topic that a share group's broker writes."""

    def __init__(self, bootstrap: str, source: str, letters: str) -> None:
        self.kafka = KafkaSettings(bootstrap_servers=bootstrap)
        self.source, self.letters = source, letters
        self._producer = Producer({"bootstrap.servers": bootstrap, "log_level": 0})
        self.others = OthersTopic(letters, partial(KafkaLog, self.kafka), lambda: self._producer)

    def write(self, topic: str, value: bytes | None, key: bytes | None, headers: list[Any], partition: int = 1) -> int:
        offsets: list[int] = []
        self._producer.produce(
            topic,
            value,
            key=key,
            headers=headers,
            partition=partition,
            on_delivery=lambda _error, message: offsets.append(int(message.offset() or 0)),
        )
        assert self._producer.flush(60) == 0
        return offsets[0]

    def give_up(self, offset: int, *, copies: bool, changed: dict[str, bytes | None] = NOTHING) -> str:
        """As the broker does with a record that can't be delivered; returns the letter's name."""
        context: dict[str, bytes | None] = {
            "topic": self.source.encode(),
            "partition": b"1",
            "offset": str(offset).encode(),
            "group": b"shop",
            "delivery.count": b"5",
            **changed,
        }
        headers: list[Any] = [(f"__dlq.errors.{name}", raw) for name, raw in context.items() if raw is not None]
        if copies:
            return f"0:{self.write(self.letters, VALUE, KEY, [*HEADERS, *headers], 0)}"
        return f"0:{self.write(self.letters, None, None, headers, 0)}"

    def records(self) -> list[TopicRecord]:
        log = KafkaLog(self.kafka)
        try:
            low, high = log.read_held_offsets([self.source])[self.source][1]
            return list(log.records(self.source, 1, low, high))
        finally:
            log.close()


@pytest.fixture
def broker(kafka_broker: str, make_topic: Callable[[str, int], str]) -> ShareGroupBroker:
    return ShareGroupBroker(kafka_broker, make_topic("orders", 2), make_topic("dlq.orders", 1))


@pytest.mark.parametrize("copies", [False, True], ids=["headers alone", "full copy"])
def test_a_letter_is_brought_back_as_the_record_that_it_was(broker: ShareGroupBroker, *, copies: bool) -> None:
    offset = broker.write(broker.source, VALUE, KEY, HEADERS)
    name = broker.give_up(offset, copies=copies)
    [listed] = broker.others.read_letters(10)
    assert (listed.name, listed.origin, listed.group, listed.deliveries) == (
        name,
        (broker.source, 1, offset),
        "shop",
        "5",
    )
    assert listed.is_copy is copies
    placed = broker.others.bring_back(broker.others.find_letters([name]))
    assert placed == [(broker.source, 1, offset + 1)]
    first, again = broker.records()
    assert (again.key, again.value) == (first.key, first.value) == (KEY, VALUE)
    assert list(again.headers) == [*HEADERS, (BROUGHT_BACK, f"{broker.letters}/0/{name[2:]}".encode())]


def test_one_that_can_not_be_brought_back_keeps_all_from_it(broker: ShareGroupBroker) -> None:
    """Nothing is published where one of those that were named can't be."""
    offset = broker.write(broker.source, VALUE, KEY, HEADERS)
    good = broker.give_up(offset, copies=True)
    for bad, problem in [
        (broker.give_up(offset, copies=True, changed={"topic": None}), "__dlq.errors.topic is missing"),
        (broker.give_up(offset + 1_000, copies=False), "no longer holds"),
    ]:
        with pytest.raises(LetterUnusable, match=problem):
            broker.others.bring_back(broker.others.find_letters([good, bad]))
    with pytest.raises(LetterUnusable, match="Kafka holds none there"):
        broker.others.find_letters(["0:999"])
    assert len(broker.records()) == 1


def test_a_source_that_is_gone_and_a_topic_that_is_not_there_are_named(broker: ShareGroupBroker) -> None:
    name = broker.give_up(0, copies=True, changed={"topic": f"gone-{uuid.uuid4().hex}".encode()})
    with pytest.raises(TopicMissing, match="gone-"):
        broker.others.bring_back(broker.others.find_letters([name]))
    elsewhere = OthersTopic("dlq.nowhere", partial(KafkaLog, broker.kafka), lambda: pytest.fail("nothing is told"))
    with pytest.raises(TopicMissing, match="dlq.nowhere"):
        elsewhere.read_letters(10)


def test_the_commands_list_bring_back_and_leave_a_trace(
    broker: ShareGroupBroker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    offset = broker.write(broker.source, VALUE, KEY, HEADERS)
    reference, nowhere = (
        broker.give_up(offset, copies=False),
        broker.give_up(offset, copies=False, changed={"offset": None}),
    )
    keys = tmp_path / "records"
    keys.write_text("0123456789abcdef" * 2 + "\n")
    keys.chmod(0o600)
    monkeypatch.setenv("PAYHOOK_KAFKA__BOOTSTRAP_SERVERS", broker.kafka.bootstrap_servers)
    monkeypatch.setenv("PAYHOOK_KAFKA__RECORD_KEYS_FILE", str(keys))

    def payhook(*words: str) -> Any:
        return CliRunner().invoke(main, ["dlq", *words, "--topic", broker.letters, "--data", str(tmp_path / "data")])

    listed = payhook("list")
    assert listed.exit_code == 0, listed.output
    assert f"{broker.source}[1]@{offset}" in listed.output
    assert "__dlq.errors.offset is missing" in " ".join(listed.output.split())
    assert [one["id"] for one in json.loads(payhook("list", "--json").output)] == [reference, nowhere]
    dry = payhook("replay", reference, "--dry-run")
    assert "would be published again" in dry.output, dry.output
    assert len(broker.records()) == 1
    replayed = payhook("replay", reference, "--reason", "the shop takes it now")
    assert replayed.exit_code == 0, replayed.output
    assert len(broker.records()) == 2
    refused = payhook("replay", nowhere)
    assert (refused.exit_code, "can't be brought back" in refused.output) == (1, True), refused.output
    acts = AuditLog(Layout(tmp_path / "data").audit_log).read(10)
    assert [(one.action, one.outcome.value) for one in acts] == [("bring_back", "refused"), ("bring_back", "done")]
    assert (acts[1].what, acts[1].reason) == (f"{broker.letters} {reference}", "the shop takes it now")
