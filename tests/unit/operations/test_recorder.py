"""What is done, refused or fails is recorded once, with who did it and through which channel."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from core.clock import ManualClock
from core.errors import PayhookError
from journal.log import OutcomeUnknown
from ledger.reconcile.repair import NotAcknowledged
from operations.audit_log import AuditEntry, AuditLogUnwritable, AuditOutcome
from operations.commands import CommandNotSent
from operations.recorder import Recorder

AT = datetime(2026, 1, 31, 12, tzinfo=UTC)


class Log:
    """``is_full``: it takes nothing."""

    def __init__(self) -> None:
        self.entries: list[AuditEntry] = []
        self.is_full = False

    def record(self, entry: AuditEntry) -> None:
        if self.is_full:
            raise AuditLogUnwritable("acts", "disk full")
        self.entries.append(entry)


@pytest.fixture
def log() -> Log:
    return Log()


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock(AT)


@pytest.fixture
def recorder(log: Log, clock: ManualClock) -> Recorder:
    return Recorder(log, clock, "api")


def test_an_act_is_recorded_when_it_ends_with_what_it_changed_and_when_it_began(
    recorder: Recorder, log: Log, clock: ManualClock
) -> None:
    with recorder.record_act("ada", "replay", "items 1", "mended") as changes:
        clock.advance(60.0)
        changes.after = "command c1"
        assert log.entries == []
    assert log.entries == [
        AuditEntry(
            at=AT,
            actor="ada",
            action="replay",
            outcome=AuditOutcome.DONE,
            channel="api",
            what="items 1",
            reason="mended",
            after="command c1",
        )
    ]


@pytest.mark.parametrize(
    ("problem", "outcome", "reason"),
    [
        (PayhookError("not yours"), AuditOutcome.REFUSED, "mended; not yours"),
        (CommandNotSent("c1", "timed out"), AuditOutcome.FAILED, "mended; command c1 wasn't acknowledged"),
        (
            NotAcknowledged(2, 1, "timed out"),
            AuditOutcome.FAILED,
            "mended; Kafka acknowledged 2 events and not 1 (timed out)",
        ),
        (OutcomeUnknown("postings", "took too long"), AuditOutcome.FAILED, "mended; "),
        (ZeroDivisionError(), AuditOutcome.FAILED, "mended; ZeroDivisionError"),
        (KeyboardInterrupt(), AuditOutcome.FAILED, "mended; KeyboardInterrupt"),
    ],
)
def test_what_goes_wrong_is_recorded_as_refused_or_failed_and_goes_on(
    recorder: Recorder, log: Log, problem: BaseException, outcome: AuditOutcome, reason: str
) -> None:
    with pytest.raises(type(problem)), recorder.record_act("ada", "replay", "items 1", "mended"):
        raise problem
    with pytest.raises(type(problem)), recorder.record_refusals("ada", "replay", "items 1", "mended"):
        raise problem
    assert [one.outcome for one in log.entries] == [outcome, outcome]
    assert all(one.reason.startswith(reason) for one in log.entries)


def test_of_what_is_done_refusals_record_nothing(recorder: Recorder, log: Log) -> None:
    with recorder.record_refusals("ada", "user_add", "bob"):
        recorder.record("ada", "user_add", "bob", after="{}")
    assert [(one.outcome, one.after) for one in log.entries] == [(AuditOutcome.DONE, "{}")]


def test_what_cannot_be_recorded_says_so_and_is_not_recorded_as_a_refusal(recorder: Recorder, log: Log) -> None:
    log.is_full = True
    with pytest.raises(AuditLogUnwritable), recorder.record_refusals("ada", "user_add", "bob"):
        recorder.record("ada", "user_add", "bob")
    with pytest.raises(AuditLogUnwritable), recorder.record_act("ada", "replay", "items 1"):
        pass
