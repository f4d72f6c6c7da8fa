"""The audit log's head is said outside the lake, whoever wrote it, and nothing about that stops the listener."""

from __future__ import annotations

import time
from datetime import UTC, datetime
from pathlib import Path

import pytest
from deltalake import DeltaTable

from core.clock import ManualClock
from dlq import audit_log
from dlq.audit_log import APP_ID, AUDIT_SCHEMA, STREAM, AuditAnchors, AuditEntry, AuditLog, Outcome
from journal.anchors import ANCHOR_EVERY_S, Anchoring
from journal.append import Appender
from journal.log import AppTransaction
from tests.unit.journal.test_anchors import KEYS, Kafka

NOW = datetime(2026, 1, 31, 12, tzinfo=UTC)


@pytest.fixture
def kafka() -> Kafka:
    return Kafka()


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock(NOW)


@pytest.fixture
def acts(tmp_path: Path) -> AuditLog:
    return AuditLog(tmp_path / "acts")


@pytest.fixture
def anchors(acts: AuditLog, kafka: Kafka, clock: ManualClock) -> AuditAnchors:
    return AuditAnchors(acts, Anchoring(STREAM, "payments.anchors", KEYS, kafka, clock))


def record(acts: AuditLog) -> str:
    act = AuditEntry(at=NOW, actor="ada", action="replay", outcome=Outcome.DONE, channel="cli")
    return acts.record(act).chain


def test_what_another_process_recorded_is_anchored_too(
    anchors: AuditAnchors, kafka: Kafka, tmp_path: Path, clock: ManualClock
) -> None:
    anchors.look()
    assert kafka.written == []
    chain = record(AuditLog(tmp_path / "acts"))
    for _ in range(3):
        anchors.look()
        clock.advance(ANCHOR_EVERY_S)
    [(topic, key, value)] = kafka.written
    reported = KEYS.decode(value)
    assert (topic, key) == ("payments.anchors", STREAM.encode())
    assert (reported.stream, reported.seq, reported.chain) == (STREAM, 1, chain)


def test_the_last_head_is_anchored_when_the_listener_ends(
    anchors: AuditAnchors, acts: AuditLog, kafka: Kafka, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(audit_log, "LOOK_EVERY_S", 0.01)
    record(acts)
    anchors.start()
    until = time.monotonic() + 30
    while not kafka.written and time.monotonic() < until:
        time.sleep(0.01)
    record(acts)
    anchors.close()
    assert kafka.seqs == [1, 2]


def test_a_record_that_is_broken_is_not_anchored_and_stops_nothing(
    anchors: AuditAnchors, kafka: Kafka, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    DeltaTable.create(str(tmp_path / "acts"), AUDIT_SCHEMA)
    Appender.open(str(tmp_path / "acts")).append(None, AppTransaction(APP_ID, 1))
    anchors.look()
    assert kafka.written == []
    assert "its last row, 1, is missing" in caplog.text
