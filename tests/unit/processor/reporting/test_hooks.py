"""Hooks around retries and dead-lettering: called in order, borne whatever they do."""

from __future__ import annotations

import threading
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from core.decision import Decision, ErrorKind
from journal.schema import JournalRow
from processor.errors.classify import Failure
from processor.reporting.hooks import HookRunner
from tests.documented import CHECKOUT, blocks
from tests.unit.journal.rows import bare_row
from tests.unit.processor.fakes import Stuck
from tests.unit.processor.harness import Engine

WAIT_S = 60.0


def dead(seq: int = 7) -> JournalRow:
    return bare_row(
        seq,
        Decision.DEAD,
        decided_at=datetime(2026, 1, 31, tzinfo=UTC),
        reason="MerchantUnknown: acct_1",
        error_class="MerchantUnknown",
        error_message="acct_1",
        error_kind=ErrorKind.NRE,
        error_stack="Traceback",
    )


class RecordingHooks:
    """Remembers its calls."""

    def __init__(self) -> None:
        self.calls: list[tuple[str, int, str, str | None, Exception | None]] = []
        self.errors: list[Failure] = []

    def before(self, event: JournalRow, error: Failure, route: str | None) -> None:
        self.calls.append(("before", event.seq, error.error_class, route, None))
        self.errors.append(error)

    def after(self, event: JournalRow, error: Failure, route: str | None, failure: Exception | None) -> None:
        self.calls.append(("after", event.seq, error.error_class, route, failure))
        self.errors.append(error)


def runner_of(hooks: RecordingHooks, problems: list[tuple[str, str]], call_s_max: float = WAIT_S) -> HookRunner:
    return HookRunner(hooks, lambda *problem: problems.append(problem), call_s_max)


@pytest.mark.row("E7")
def test_a_hook_is_reported_before_and_after_with_the_error_and_with_what_became_of_it() -> None:
    hooks, problems = RecordingHooks(), list[tuple[str, str]]()
    runner = runner_of(hooks, problems)
    runner.on_taken(dead())
    runner.settle(WAIT_S)
    assert [call[:2] for call in hooks.calls] == [("before", 7)]
    refused = OSError("no broker")
    runner.on_refused(dead(), refused)
    runner.on_published(dead(), "dlq.ledger", 3, 41)
    runner.close(WAIT_S)
    assert hooks.calls == [
        ("before", 7, "MerchantUnknown", None, None),
        ("after", 7, "MerchantUnknown", None, refused),
        ("after", 7, "MerchantUnknown", None, None),
    ]
    assert hooks.errors == [Failure(ErrorKind.NRE, "MerchantUnknown", None, "acct_1", "Traceback")] * 3
    assert problems == []


def test_what_a_hook_raises_or_changes_is_counted_and_touches_nothing() -> None:
    class CarelessHooks(RecordingHooks):
        def before(self, event: JournalRow, error: Failure, route: str | None) -> None:
            event.decision, event.reason = Decision.APPLIED, "I say so"
            raise SystemExit(3)

    hooks, problems = CarelessHooks(), list[tuple[str, str]]()
    runner = runner_of(hooks, problems)
    row = dead()
    runner.on_taken(row)
    runner.on_published(row, "dlq.ledger", 0, 0)
    runner.close(WAIT_S)
    assert not runner.is_held(row)
    assert problems == [("before", "error")]
    assert row == dead()
    assert hooks.calls == [("after", 7, "MerchantUnknown", None, None)]


class Slow(RecordingHooks):
    """Takes its time over each row until it is let go on."""

    def __init__(self) -> None:
        super().__init__()
        self.began, self.goes_on = threading.Semaphore(0), threading.Semaphore(0)

    def before(self, event: JournalRow, error: Failure, route: str | None) -> None:
        self.began.release()
        assert self.goes_on.acquire(timeout=WAIT_S)
        super().before(event, error, route)


def test_a_letter_is_held_until_its_hook_is_back_and_the_batch_waits_for_none() -> None:
    hooks, problems = Slow(), list[tuple[str, str]]()
    runner = runner_of(hooks, problems)
    for seq in (1, 2):
        runner.on_taken(dead(seq))
    assert [runner.is_held(dead(seq)) for seq in (1, 2)] == [True, True]
    hooks.goes_on.release()
    assert hooks.began.acquire(timeout=WAIT_S) and hooks.began.acquire(timeout=WAIT_S)
    assert [runner.is_held(dead(seq)) for seq in (1, 2)] == [False, True]
    hooks.goes_on.release()
    runner.settle(WAIT_S)
    assert not runner.is_held(dead(2))
    assert problems == []


def test_while_a_hook_hangs_no_letter_is_held() -> None:
    hooks, problems = Slow(), list[tuple[str, str]]()
    runner = runner_of(hooks, problems, call_s_max=0.0)
    for seq in (1, 2, 3):
        runner.on_taken(dead(seq))
    assert hooks.began.acquire(timeout=WAIT_S)
    assert not any(runner.is_held(dead(seq)) for seq in (1, 2, 3))
    assert (problems, hooks.calls) == ([("before", "timeout")], [])
    hooks.goes_on.release(3)
    runner.close(WAIT_S)
    assert [call[:2] for call in hooks.calls] == [("before", 1), ("before", 2), ("before", 3)]
    assert problems == [("before", "timeout")]


def retry(seq: int) -> JournalRow:
    return bare_row(
        seq, Decision.RETRY, retry_policy="fixed(5s x3)", error_class="Stuck", error_kind=ErrorKind.SNBE, attempt=1
    )


def test_a_scheduled_retry_is_told_with_its_route_and_what_is_decided_otherwise_isn_t() -> None:
    hooks, problems = RecordingHooks(), list[tuple[str, str]]()
    runner = runner_of(hooks, problems)
    runner.on_scheduled([retry(1), bare_row(2, Decision.APPLIED), bare_row(3, Decision.PARKED), dead(4), retry(5)])
    runner.close(WAIT_S)
    assert hooks.calls == [
        (stage, seq, "Stuck", "fixed(5s x3)", None) for seq in (1, 5) for stage in ("before", "after")
    ]
    assert problems == []


def test_a_hook_that_hangs_on_a_retry_keeps_no_event_from_its_next_try(tmp_path: Path) -> None:
    hooks, problems = Slow(), list[tuple[str, str]]()
    runner = runner_of(hooks, problems)
    engine = Engine(tmp_path)
    engine.on_decided = lambda items: runner.on_scheduled(item.row for item in items)
    key = engine.post("evt_1")
    engine.handler.fails(key, Stuck("no answer"), 2)
    engine.batch()
    engine.advance(1)
    engine.advance(2)
    assert engine.decisions(key) == ["retry", "retry", "applied"]
    assert hooks.began.acquire(timeout=WAIT_S) and hooks.calls == []
    hooks.goes_on.release(2)
    runner.close(WAIT_S)
    assert [call[0] for call in hooks.calls] == ["before", "after"] * 2


def test_what_a_hook_raises_on_a_retry_is_counted_alone(tmp_path: Path) -> None:
    class BrokenHooks(RecordingHooks):
        def after(self, event: JournalRow, error: Failure, route: str | None, failure: Exception | None) -> None:
            raise RuntimeError("the pager is away")

    problems = list[tuple[str, str]]()
    runner = runner_of(BrokenHooks(), problems)
    engine = Engine(tmp_path)
    engine.on_decided = lambda items: runner.on_scheduled(item.row for item in items)
    key = engine.post("evt_1")
    engine.handler.fails(key, Stuck("no answer"), 1)
    engine.batch()
    engine.advance(1)
    runner.close(WAIT_S)
    assert (engine.decisions(key), problems) == (["retry", "applied"], [("after", "error")])


def test_the_pages_hooks_say_where_a_failed_event_goes(caplog: pytest.LogCaptureFixture) -> None:
    [block] = [
        one for one in blocks((CHECKOUT / "docs" / "streams.md").read_text("utf-8")) if one.path == "own/pager.py"
    ]
    page: dict[str, Any] = {}
    exec(block.text, page)
    runner = HookRunner(page["build"](), lambda *_: None, WAIT_S)
    runner.on_scheduled([retry(1)])
    runner.on_taken(dead(2))
    runner.on_refused(dead(2), OSError("no broker"))
    runner.close(WAIT_S)
    assert [message.partition(" goes to ")[2] or message for message in caplog.messages] == [
        "its next try at None (fixed(5s x3))",
        "its dead-letter topic",
        "None isn't on its dead-letter topic yet: no broker",
    ]
