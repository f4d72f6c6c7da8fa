"""Hooks around dead-lettering: called in order, borne whatever they do."""

from __future__ import annotations

import threading
from datetime import UTC, datetime

import pytest

from core.decision import Decision, ErrorKind
from journal.schema import JournalRow
from processor.decide.hooks import HookRunner, Published
from processor.judge.classify import Failure
from tests.unit.journal.rows import bare_row

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


class Reported:
    """Remembers its calls."""

    def __init__(self) -> None:
        self.calls: list[tuple[str, int, object]] = []

    def before(self, row: JournalRow, error: Failure) -> None:
        self.calls.append(("before", row.seq, error))

    def after(self, row: JournalRow, outcome: Published | Exception) -> None:
        self.calls.append(("after", row.seq, outcome))


def runner_of(hooks: Reported, problems: list[tuple[str, str]], call_s_max: float = WAIT_S) -> HookRunner:
    return HookRunner(hooks, lambda *problem: problems.append(problem), call_s_max)


@pytest.mark.row("E7")
def test_a_hook_is_reported_before_and_after_with_the_error_and_with_what_became_of_it() -> None:
    hooks, problems = Reported(), list[tuple[str, str]]()
    runner = runner_of(hooks, problems)
    runner.taken(dead())
    runner.settle(WAIT_S)
    assert [call[:2] for call in hooks.calls] == [("before", 7)]
    refused = OSError("no broker")
    runner.refused(dead(), refused)
    runner.published(dead(), "dlq.ledger", 3, 41)
    runner.close(WAIT_S)
    error = Failure(ErrorKind.NRE, "MerchantUnknown", None, "acct_1", "Traceback")
    assert hooks.calls == [
        ("before", 7, error),
        ("after", 7, refused),
        ("after", 7, Published("dlq.ledger", 3, 41)),
    ]
    assert problems == []


def test_what_a_hook_raises_or_changes_is_counted_and_touches_nothing() -> None:
    class Careless(Reported):
        def before(self, row: JournalRow, error: Failure) -> None:
            row.decision, row.reason = Decision.APPLIED, "I say so"
            raise SystemExit(3)

    hooks, problems = Careless(), list[tuple[str, str]]()
    runner = runner_of(hooks, problems)
    row = dead()
    runner.taken(row)
    runner.published(row, "dlq.ledger", 0, 0)
    runner.close(WAIT_S)
    assert not runner.holds(row)
    assert problems == [("before", "error")]
    assert row == dead()
    assert hooks.calls == [("after", 7, Published("dlq.ledger", 0, 0))]


class Slow(Reported):
    """Takes its time over each row until it is let go on."""

    def __init__(self) -> None:
        super().__init__()
        self.began, self.goes_on = threading.Semaphore(0), threading.Semaphore(0)

    def before(self, row: JournalRow, error: Failure) -> None:
        self.began.release()
        assert self.goes_on.acquire(timeout=WAIT_S)
        super().before(row, error)


def test_a_letter_is_held_until_its_hook_is_back_and_the_batch_waits_for_none() -> None:
    hooks, problems = Slow(), list[tuple[str, str]]()
    runner = runner_of(hooks, problems)
    for seq in (1, 2):
        runner.taken(dead(seq))
    assert [runner.holds(dead(seq)) for seq in (1, 2)] == [True, True]
    hooks.goes_on.release()
    assert hooks.began.acquire(timeout=WAIT_S) and hooks.began.acquire(timeout=WAIT_S)
    assert [runner.holds(dead(seq)) for seq in (1, 2)] == [False, True]
    hooks.goes_on.release()
    runner.settle(WAIT_S)
    assert not runner.holds(dead(2))
    assert problems == []


def test_while_a_hook_hangs_no_letter_is_held() -> None:
    hooks, problems = Slow(), list[tuple[str, str]]()
    runner = runner_of(hooks, problems, call_s_max=0.0)
    for seq in (1, 2, 3):
        runner.taken(dead(seq))
    assert hooks.began.acquire(timeout=WAIT_S)
    assert not any(runner.holds(dead(seq)) for seq in (1, 2, 3))
    assert (problems, hooks.calls) == ([("before", "timeout")], [])
    hooks.goes_on.release(3)
    runner.close(WAIT_S)
    assert [call[:2] for call in hooks.calls] == [("before", 1), ("before", 2), ("before", 3)]
    assert problems == [("before", "timeout")]
