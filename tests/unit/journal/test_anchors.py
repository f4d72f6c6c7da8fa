"""When a journal's head is said outside the lake, and that nothing about it can hold the writer up."""

from __future__ import annotations

import gc
import json
import weakref
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import KafkaException

from core.clock import ManualClock
from core.errors import SettingError
from journal.anchors import Anchoring, AnchorInvalid, AnchorKeys, Head, anchored_before

AT = datetime(2026, 1, 31, 12, tzinfo=UTC)
KEY = "0123456789abcdef" * 4
KEYS = AnchorKeys([KEY])


class AnchorsProducer:
    """Takes records; acknowledges them on the next poll, or fails where a test says so."""

    def __init__(self) -> None:
        self.written: list[tuple[str, bytes, bytes]] = []
        self.waiting: list[Any] = []
        self.down = False
        self.full = False

    def produce(self, topic: str, *, key: bytes, value: bytes, on_delivery: Any) -> None:
        if self.full:
            raise BufferError("queue full")
        self.waiting.append((topic, key, value, on_delivery))

    def poll(self, timeout: float) -> int:
        waiting, self.waiting = self.waiting, []
        for topic, key, value, on_delivery in waiting:
            if self.down:
                on_delivery("timed out", None)
            else:
                self.written.append((topic, key, value))
                on_delivery(None, None)
        return len(waiting)

    def flush(self, timeout: float) -> int:
        return self.poll(timeout)

    @property
    def seqs(self) -> list[int]:
        return [KEYS.decode(value).seq for _, _, value in self.written]


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock(AT)


@pytest.fixture
def kafka() -> AnchorsProducer:
    return AnchorsProducer()


@pytest.fixture
def anchoring(kafka: AnchorsProducer, clock: ManualClock) -> Anchoring:
    return Anchoring("ledger", "payments.anchors", KEYS, kafka, clock)


def head(seq: int, lineage: str = "") -> Head:
    return Head(epoch=3, seq=seq, chain=f"{seq:064x}", lineage=lineage)


def test_the_first_head_is_anchored_at_once_and_the_newest_after_each_pause(
    anchoring: Anchoring, kafka: AnchorsProducer, clock: ManualClock
) -> None:
    for seq in (1, 2, 3):
        anchoring.on_commit(head(seq))
    clock.advance(5)
    anchoring.poll()
    anchoring.poll()
    assert kafka.seqs == [1, 3]
    assert anchoring.anchored_seq == 3


def test_an_anchor_tells_stream_epoch_seq_chain_and_time(anchoring: Anchoring, kafka: AnchorsProducer) -> None:
    anchoring.on_commit(head(7))
    anchoring.poll()
    ((topic, key, value),) = kafka.written
    assert (topic, key) == ("payments.anchors", b"ledger")
    reported = json.loads(value)
    assert reported.pop("mac")
    assert reported == {
        "stream": "ledger",
        "epoch": 3,
        "seq": 7,
        "chain": f"{7:064x}",
        "at": "2026-01-31T12:00:00.000000Z",
    }


def test_a_journal_at_rest_is_anchored_once(anchoring: Anchoring, kafka: AnchorsProducer, clock: ManualClock) -> None:
    anchoring.on_commit(head(1))
    for _ in range(5):
        clock.advance(60)
        anchoring.poll()
    assert kafka.seqs == [1]


def test_what_kafka_does_not_take_is_covered_by_the_next_anchor(
    anchoring: Anchoring, kafka: AnchorsProducer, clock: ManualClock
) -> None:
    kafka.down = True
    anchoring.on_commit(head(1))
    anchoring.poll()
    assert (anchoring.failed, anchoring.anchored_seq) == (1, 0)
    kafka.down = False
    clock.advance(5)
    anchoring.poll()
    anchoring.poll()
    assert kafka.seqs == [1]


def test_a_full_queue_is_a_failure_like_any_other(
    anchoring: Anchoring, kafka: AnchorsProducer, clock: ManualClock
) -> None:
    kafka.full = True
    anchoring.on_commit(head(1))
    kafka.full = False
    clock.advance(5)
    anchoring.poll()
    anchoring.poll()
    assert (anchoring.failed, kafka.seqs) == (1, [1])


def test_a_producer_that_refuses_holds_nobody_up(anchoring: Anchoring, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: Any, **__: Any) -> None:
        raise KafkaException("refused")

    monkeypatch.setattr(anchoring._producer, "produce", refuse)
    anchoring.on_commit(head(1))
    assert anchoring.failed == 1


def test_the_end_is_anchored_when_the_writer_closes(anchoring: Anchoring, kafka: AnchorsProducer) -> None:
    anchoring.on_commit(head(1))
    anchoring.on_commit(head(2))
    anchoring.close(1.0)
    assert kafka.seqs == [1, 2]


def test_a_closed_one_lets_its_producer_go_though_an_anchor_is_on_its_way(clock: ManualClock) -> None:
    class Silent(AnchorsProducer):
        def poll(self, timeout: float) -> int:
            return 0

    silent = Silent()
    anchoring = Anchoring("ledger", "payments.anchors", KEYS, silent, clock)
    anchoring.on_commit(head(1))
    anchoring.close(0)
    gone = weakref.ref(silent)
    del silent
    gc.collect()
    assert gone() is None and anchoring.failed == 0
    anchoring.poll()


def test_a_writer_that_lets_go_after_a_failure_says_nothing_more(anchoring: Anchoring, kafka: AnchorsProducer) -> None:
    anchoring.on_commit(head(1))
    anchoring.on_commit(head(2))
    anchoring.close(0)
    assert kafka.seqs == [1]


def test_the_next_writer_anchors_what_the_last_one_could_not(kafka: AnchorsProducer, clock: ManualClock) -> None:
    known = Anchoring("ledger", "payments.anchors", KEYS, kafka, clock, anchored_seq=4)
    known.on_commit(head(4))
    known.poll()
    assert kafka.seqs == []
    known.on_commit(head(6))
    known.poll()
    assert kafka.seqs == [6]
    assert anchored_before(known.make_notes()) == 6


def test_nothing_is_remembered_of_a_journal_without_an_anchor(anchoring: Anchoring) -> None:
    assert anchoring.make_notes() == {}
    assert anchored_before({}) == 0


def test_keys_are_read_newest_first_and_old_ones_are_believed(
    tmp_path: Path, kafka: AnchorsProducer, clock: ManualClock
) -> None:
    file = tmp_path / "anchors"
    file.write_text("newest-0" * 5 + "\n" + KEY + "\n")
    keys = AnchorKeys.read(file)
    Anchoring("ledger", "t", KEYS, kafka, clock).on_commit(head(1))
    Anchoring("ledger", "t", keys, kafka, clock).on_commit(head(2))
    kafka.poll(0)
    assert [keys.decode(value).seq for _, _, value in kafka.written] == [1, 2]
    with pytest.raises(AnchorInvalid, match="no known key"):
        KEYS.decode(kafka.written[1][2])


@pytest.mark.parametrize("text", ["", "short\n", "k" * 64 + "\nshort\n"])
def test_a_file_without_a_good_key_is_refused_with_the_command_that_makes_one(tmp_path: Path, text: str) -> None:
    (tmp_path / "anchors").write_text(text)
    with pytest.raises(SettingError, match="openssl rand -hex 32"):
        AnchorKeys.read(tmp_path / "anchors")


def test_a_file_that_is_not_there_is_refused(tmp_path: Path) -> None:
    with pytest.raises(SettingError, match="processor.anchor_key_file"):
        AnchorKeys.read(tmp_path / "nowhere")


def test_an_anchor_says_of_which_lineage_the_journal_is(anchoring: Anchoring, kafka: AnchorsProducer) -> None:
    anchoring.on_commit(head(1, "a" * 32))
    anchoring.poll()
    assert [KEYS.decode(value).lineage for _, _, value in kafka.written] == ["a" * 32]


def test_an_anchor_of_older_code_has_no_lineage(anchoring: Anchoring, kafka: AnchorsProducer) -> None:
    anchoring.on_commit(head(1))
    anchoring.poll()
    [(_, _, value)] = kafka.written
    assert "lineage" not in json.loads(value) and KEYS.decode(value).lineage == ""
