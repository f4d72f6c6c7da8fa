"""The audit log on a real table: each act once, in one chain, also by several writers; its head is anchored."""

from __future__ import annotations

import json
import multiprocessing
import threading
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from deltalake import DeltaTable, write_deltalake
from deltalake.exceptions import CommitFailedError, DeltaError

from core.clock import ManualClock
from journal.anchors import ANCHOR_EVERY_S, Anchoring
from journal.append import Appender
from journal.log import AppTransaction, CommitFailed
from operations import audit_log
from operations.audit_log import (
    APP_ID,
    AUDIT_SCHEMA,
    CONFIGURATION,
    SHOWN_CHARS_MAX,
    STREAM,
    TEXT_CHARS_MAX,
    AuditAnchors,
    AuditEntry,
    AuditLog,
    AuditLogBroken,
    AuditLogUnwritable,
    AuditOutcome,
    ChainWalk,
)
from tests.unit.journal.test_anchors import KEYS, AnchorsProducer

NOW = datetime(2026, 1, 31, 12, tzinfo=UTC)
CHECKPOINT_EVERY = int(CONFIGURATION["delta.checkpointInterval"])


def act(what: str = "items 1", actor: str = "ada", **more: str) -> AuditEntry:
    return AuditEntry(at=NOW, actor=actor, action="replay", outcome=AuditOutcome.DONE, channel="api", what=what, **more)


def rows(path: Path) -> list[dict[str, object]]:
    found: list[dict[str, object]] = DeltaTable(str(path)).to_pyarrow_dataset().to_table().sort_by("number").to_pylist()
    return found


def offenders(path: Path) -> list[dict[str, object]]:
    return list(ChainWalk().find_offenders(rows(path)))


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "lake" / "acts"


def test_an_act_is_read_as_it_was_recorded(path: Path) -> None:
    given = AuditEntry(
        at=NOW + timedelta(microseconds=7),
        actor="ada",
        action="user_roles",
        outcome=AuditOutcome.REFUSED,
        channel="cli",
        what="bob",
        reason="not now, “really”\n\x00",
        before="{}",
        after=None,
    )
    kept = AuditLog(path).record(given)
    [read] = AuditLog(path).read(10)
    assert read == kept
    assert {name: getattr(read, name) for name in given.__dataclass_fields__} == {
        name: getattr(given, name) for name in given.__dataclass_fields__
    }


def test_nobody_has_done_anything_yet(path: Path) -> None:
    assert (AuditLog(path).read(10), AuditLog(path).head().seq) == ([], 0)
    assert not path.exists()


def test_the_newest_come_first_and_pages_follow_one_another(path: Path) -> None:
    acts = AuditLog(path)
    for number in range(7):
        acts.record(act(str(number)))
    first, second = acts.read(3), acts.read(3, before=5)
    assert [one.number for one in first] == [7, 6, 5]
    assert [one.number for one in second] == [4, 3, 2]
    assert [one.number for one in acts.read(3, before=2)] == [1]
    assert acts.read(3, before=1) == []
    assert acts.read(3, before=99) == first


def test_two_that_write_in_turns_follow_each_other(path: Path) -> None:
    """Each has a handle of its own, which the other's row makes out of date."""
    one, other = AuditLog(path), AuditLog(path)
    for turn in range(4):
        (one, other)[turn % 2].record(act(str(turn)))
    assert [row["what"] for row in rows(path)] == ["0", "1", "2", "3"]
    assert offenders(path) == []
    assert one.head() == other.head()


def writes(path: Path, name: str, count: int) -> None:
    acts = AuditLog(path)
    for number in range(count):
        acts.record(act(f"{name} {number}"))


def test_processes_and_threads_that_write_at_once_lose_nothing_and_never_fork_the_chain(path: Path) -> None:
    spawn = multiprocessing.get_context("spawn")
    processes: list[Any] = [spawn.Process(target=writes, args=(path, "process", 16))]
    threads: list[Any] = [threading.Thread(target=writes, args=(path, f"thread {n}", 8)) for n in range(2)]
    writers: list[Any] = [*processes, *threads]
    for one in writers:
        one.start()
    for one in writers:
        one.join()
    assert [one.exitcode for one in processes] == [0]
    kept = rows(path)
    assert [row["number"] for row in kept] == list(range(1, 33))
    assert len({row["what"] for row in kept}) == 32
    assert offenders(path) == []


def test_an_append_that_nobody_knows_the_end_of_is_looked_up(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It was written: it isn't written twice."""
    real = Appender.append

    def forgets(self: Appender, *given: object) -> int:
        real(self, *given)  # type: ignore[arg-type]
        raise CommitFailed(str(path), "took too long")

    monkeypatch.setattr(Appender, "append", forgets)
    kept = AuditLog(path).record(act())
    monkeypatch.undo()
    assert [row["act_id"] for row in rows(path)] == [kept.act_id]


def test_an_append_that_was_not_written_is_tried_again(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    real, failures = Appender.append, [CommitFailed(str(path), "no answer")]

    def fails_once(self: Appender, *given: object) -> int:
        if failures:
            raise failures.pop()
        return real(self, *given)  # type: ignore[arg-type]

    monkeypatch.setattr(Appender, "append", fails_once)
    AuditLog(path).record(act())
    assert len(rows(path)) == 1


def test_a_disk_that_cannot_be_written_is_reported(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    acts = AuditLog(path)
    acts.record(act("before"))

    def full(*_: object) -> int:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Appender, "append", full)
    with pytest.raises(AuditLogUnwritable, match="No space left"):
        acts.record(act("lost"))
    monkeypatch.undo()
    acts.record(act("after"))
    assert [row["what"] for row in rows(path)] == ["before", "after"]
    assert offenders(path) == []


def test_a_place_that_is_no_folder_is_reported(tmp_path: Path) -> None:
    (tmp_path / "lake").write_text("a file")
    with pytest.raises(AuditLogUnwritable):
        AuditLog(tmp_path / "lake" / "acts").record(act())


def test_texts_that_are_too_long_are_cut_and_say_so(path: Path) -> None:
    kept = AuditLog(path).record(act("x" * (TEXT_CHARS_MAX + 5), before="y" * (SHOWN_CHARS_MAX + 7)))
    assert kept.what == "x" * TEXT_CHARS_MAX + "… (5 more characters)"
    assert kept.before == "y" * SHOWN_CHARS_MAX + "… (7 more characters)"
    assert offenders(path) == []


def test_half_a_character_is_replaced_and_not_refused(path: Path) -> None:
    assert AuditLog(path).record(act("a\ud800b")).what == "a?b"


@pytest.mark.parametrize("statement", ["delete", "overwrite"])
def test_the_table_itself_refuses_to_lose_a_row(path: Path, statement: str) -> None:
    AuditLog(path).record(act())
    with pytest.raises((CommitFailedError, DeltaError)):
        if statement == "delete":
            DeltaTable(str(path)).delete("number = 1")
        else:
            write_deltalake(str(path), AUDIT_SCHEMA.empty_table(), mode="overwrite")


def test_a_last_row_that_is_gone_is_reported_to_whoever_writes_next(path: Path) -> None:
    """As a forger leaves it who takes the row out and leaves the log's count alone."""
    DeltaTable.create(str(path), AUDIT_SCHEMA)
    Appender.open(str(path)).append(None, AppTransaction(APP_ID, 1))
    with pytest.raises(AuditLogBroken, match="its last row, 1, is missing"):
        AuditLog(path).record(act())


def test_maintenance_of_the_table_changes_nothing_of_the_record(path: Path) -> None:
    acts = AuditLog(path)
    for number in range(3):
        acts.record(act(str(number)))
    DeltaTable(str(path)).optimize.compact()
    acts.record(act("after"))
    assert len(rows(path)) == 4
    assert offenders(path) == []


def test_checkpoints_of_the_log_keep_the_count(path: Path) -> None:
    acts = AuditLog(path)
    for number in range(CHECKPOINT_EVERY + 5):
        acts.record(act(str(number)))
    assert acts._open is not None
    acts._open[0].checkpoints.wait(30)
    log = path / "_delta_log"
    made = json.loads((log / "_last_checkpoint").read_text())["version"]
    assert made >= CHECKPOINT_EVERY
    for entry in log.glob("*.json"):
        if int(entry.stem) <= made:
            entry.unlink()
    AuditLog(path).record(act("after"))
    acts.record(act("and the one that was open"))
    assert AuditLog(path).head().seq == CHECKPOINT_EVERY + 7
    assert offenders(path) == []


@pytest.fixture
def kafka() -> AnchorsProducer:
    return AnchorsProducer()


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock(NOW)


@pytest.fixture
def acts(tmp_path: Path) -> AuditLog:
    return AuditLog(tmp_path / "acts")


@pytest.fixture
def anchors(acts: AuditLog, kafka: AnchorsProducer, clock: ManualClock) -> AuditAnchors:
    return AuditAnchors(acts, Anchoring(STREAM, "payments.anchors", KEYS, kafka, clock))


def record(acts: AuditLog) -> str:
    act = AuditEntry(at=NOW, actor="ada", action="replay", outcome=AuditOutcome.DONE, channel="cli")
    return acts.record(act).chain


def test_what_another_process_recorded_is_anchored_too(
    anchors: AuditAnchors, kafka: AnchorsProducer, tmp_path: Path, clock: ManualClock
) -> None:
    anchors.anchor_head()
    assert kafka.written == []
    chain = record(AuditLog(tmp_path / "acts"))
    for _ in range(3):
        anchors.anchor_head()
        clock.advance(ANCHOR_EVERY_S)
    [(topic, key, value)] = kafka.written
    reported = KEYS.decode(value)
    assert (topic, key) == ("payments.anchors", STREAM.encode())
    assert (reported.stream, reported.seq, reported.chain) == (STREAM, 1, chain)


def test_the_last_head_is_anchored_when_the_listener_ends(
    anchors: AuditAnchors, acts: AuditLog, kafka: AnchorsProducer, monkeypatch: pytest.MonkeyPatch
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
    anchors: AuditAnchors, kafka: AnchorsProducer, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    DeltaTable.create(str(tmp_path / "acts"), AUDIT_SCHEMA)
    Appender.open(str(tmp_path / "acts")).append(None, AppTransaction(APP_ID, 1))
    anchors.anchor_head()
    assert kafka.written == []
    assert "its last row, 1, is missing" in caplog.text
