"""Hooks around dead-lettering: called in order, borne whatever they do."""

from __future__ import annotations

import threading
from datetime import UTC, datetime

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


def test_a_hook_is_reported_before_and_after_with_the_error_and_with_what_became_of_it() -> None:
    hooks, problems = Reported(), []
    runner = HookRunner(hooks, lambda *problem: problems.append(problem))
    runner.taken(dead())
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

    hooks, problems = Careless(), []
    runner = HookRunner(hooks, lambda *problem: problems.append(problem))
    row = dead()
    runner.taken(row)
    runner.published(row, "dlq.ledger", 0, 0)
    runner.close(WAIT_S)
    assert problems == [("before", "error")]
    assert row == dead()
    assert hooks.calls == [("after", 7, Published("dlq.ledger", 0, 0))]


def test_a_hook_that_hangs_is_waited_for_once_and_not_again_until_it_is_back() -> None:
    back = threading.Event()

    class Hangs(Reported):
        def before(self, row: JournalRow, error: Failure) -> None:
            if row.seq == 1:
                back.wait(WAIT_S)
            super().before(row, error)

    hooks, problems = Hangs(), []
    runner = HookRunner(hooks, lambda *problem: problems.append(problem), before_s_max=0.01)
    for seq in (1, 2, 3):
        runner.taken(dead(seq))
    assert (problems, hooks.calls) == ([("before", "timeout")], [])
    back.set()
    runner.close(WAIT_S)
    assert [call[:2] for call in hooks.calls] == [("before", 1), ("before", 2), ("before", 3)]
    assert problems == [("before", "timeout")]
