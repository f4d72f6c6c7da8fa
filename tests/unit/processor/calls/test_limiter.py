"""A task's threads and their calls: never more than the budget, never more at a time, none after a row of failures."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Any

import pytest

from core.clock import ManualClock
from core.decision import NO_RETRIES
from core.work import DownstreamHeld, WorkItem, calling, limited_by
from processor.calls.breaker import CLOSED, OPEN
from processor.calls.budget import Budget, Budgets, CallReport
from processor.calls.downstream import PROBES
from processor.calls.downstreams import Downstreams
from processor.calls.limiter import FAILING, NO_CALLS, TOO_MANY, LateCalls, Limiter
from processor.settings import DownstreamSettings
from tests.unit.processor.harness import NOW

USUAL = Budget(calls=100, retries=100, at_once=100, failures=100)


class Time:
    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


def item(seq: int = 1, attempt: int = 0) -> WorkItem:
    return WorkItem(seq, f"key-{seq}", f"entity-{seq}", "stripe", "acct", "t", b"{}", None, attempt)


def limiter(call_s: float = 1.0, late: LateCalls | None = None, time: Time | None = None, **budget: Any) -> Limiter:
    return Limiter(Budgets({"merchants": replace(USUAL, **budget)}), call_s, late, time or Time())


def call(subject: Limiter, error: Exception | None = None, *, attempt: int = 0, again: bool = False) -> str:
    """What becomes of one call: good, failed, or why it wasn't made."""
    try:
        with limited_by(subject.begin_try(item(attempt=attempt), again=again)), calling("merchants"):
            if error is not None:
                raise error
        return "good"
    except DownstreamHeld as held:
        return held.reason
    except Exception:
        return "failed"


def test_no_more_calls_are_made_than_the_budget_has() -> None:
    subject = limiter(calls=3)
    assert [call(subject) for _ in range(5)] == ["good"] * 3 + [NO_CALLS] * 2
    report = subject.collect_reports()["merchants"]
    assert (report.calls, report.held) == (3, 2)


def test_threads_share_the_budget() -> None:
    subject = limiter(calls=20, at_once=4)
    with ThreadPoolExecutor(8) as threads:
        answers = list(threads.map(lambda _: call(subject), range(50)))
    assert answers.count("good") == 20
    report = subject.collect_reports()["merchants"]
    assert (report.calls, report.held) == (20, 30)
    assert report.peak <= 4


def test_after_a_row_of_failures_nothing_more_is_called() -> None:
    subject = limiter(failures=2)
    down = ConnectionError()
    assert [call(subject, down), call(subject), call(subject, down), call(subject, down)] == ["failed", "good"] + [
        "failed"
    ] * 2
    assert call(subject) == FAILING
    report = subject.collect_reports()["merchants"]
    assert (report.calls, report.failed, report.failed_in_a_row, report.problem) == (4, 3, 2, "ConnectionError")


def test_retry_after_ends_the_batchs_calls_at_once() -> None:
    class BusyDownstream(Exception):
        retry_after_s = 30.0

    subject = limiter()
    assert [call(subject, BusyDownstream()), call(subject)] == ["failed", FAILING]
    assert subject.collect_reports()["merchants"].quiet_s == 30.0


@pytest.mark.parametrize(("attempt", "again"), [(1, False), (0, True)])
def test_retries_have_a_budget_of_their_own(attempt: int, again: bool) -> None:
    subject = limiter(retries=1)
    assert [call(subject, attempt=attempt, again=again) for _ in range(2)] == ["good", NO_RETRIES]
    assert call(subject) == "good"
    assert subject.collect_reports()["merchants"].retries == 1


def test_a_call_waits_for_one_to_come_free_and_is_held_when_none_does(monkeypatch: pytest.MonkeyPatch) -> None:
    subject = limiter(at_once=1)
    inside, leave = threading.Event(), threading.Event()

    def long_call() -> None:
        with limited_by(subject.begin_try(item(2), again=False)), calling("merchants"):
            inside.set()
            leave.wait(60)

    thread = threading.Thread(target=long_call)
    thread.start()
    inside.wait(60)
    assert subject.waits_for("key-2") == "merchants"
    assert call(subject) == TOO_MANY
    monkeypatch.setattr("processor.calls.limiter.WAIT_S", 60.0)
    with ThreadPoolExecutor(1) as waiting:
        patient = limiter(at_once=1)
        holder = patient.begin_try(item(3), again=False).take_call("merchants")
        holder.__enter__()
        answer = waiting.submit(call, patient)
        while not patient.is_queued("key-1"):
            pass
        holder.__exit__(None, None, None)
        assert answer.result(60) == "good"
    leave.set()
    thread.join(60)


def test_when_the_batch_ends_nobody_begins_a_call_any_more() -> None:
    subject = limiter(at_once=1)
    holder = subject.begin_try(item(3), again=False).take_call("merchants")
    holder.__enter__()
    with ThreadPoolExecutor(1) as waiting:
        answer = waiting.submit(call, subject)
        while not subject.is_queued("key-1"):
            pass
        subject.collect_reports()
        assert answer.result(10) == TOO_MANY


def test_an_error_is_the_downstreams_when_it_is_its_failed_calls_or_comes_from_it() -> None:
    one = limiter().begin_try(item(), again=False)
    own = ZeroDivisionError()
    with pytest.raises(LookupError) as raised:
        try:
            with one.take_call("merchants"):
                raise ConnectionError
        except ConnectionError as down:
            raise LookupError from down
    assert one.blamed_for(raised.value) == "merchants"
    assert one.blamed_for(own) is None


def test_what_is_held_within_a_call_is_no_failure_of_the_outer_one() -> None:
    subject = Limiter(Budgets({"a": USUAL, "b": Budget(0, 0, 0, 1)}), 1.0)
    with (
        pytest.raises(DownstreamHeld),
        limited_by(subject.begin_try(item(), again=False)),
        calling("a"),
        calling("b"),
    ):
        raise AssertionError("b isn't to be called")
    assert subject.collect_reports()["a"].failed == 0


def test_without_a_budget_nothing_limits() -> None:
    subject = Limiter(Budgets(), 1.0)
    assert [call(subject) for _ in range(3)] == ["good"] * 3
    assert subject.collect_reports() == {}


def test_a_call_that_is_out_too_long_has_failed_and_is_reported_once() -> None:
    time, late = Time(), LateCalls()
    subject = limiter(call_s=1.0, late=late, time=time)
    out = subject.begin_try(item(7), again=False).take_call("merchants")
    out.__enter__()
    time.now += 1.5
    report = subject.collect_reports()["merchants"]
    assert (report.calls, report.failed, report.failed_in_a_row, report.seconds) == (1, 1, 1, 1.5)
    following = limiter(late=late, time=time)
    assert following.waits_for("key-7") == "merchants"
    out.__exit__(None, None, None)
    assert following.collect_reports() == {}
    assert following.waits_for("key-7") is None


def test_a_younger_one_is_reported_by_a_later_batch_when_it_is_back() -> None:
    time, late = Time(), LateCalls()
    subject = limiter(call_s=1.0, late=late, time=time)
    out = subject.begin_try(item(), again=False).take_call("merchants")
    out.__enter__()
    time.now += 0.2
    assert subject.collect_reports()["merchants"].calls == 0
    time.now += 0.3
    out.__exit__(None, None, None)
    assert limiter(late=late, time=time).collect_reports()["merchants"] == CallReport(calls=1, late=1, seconds=0.5)


def test_one_that_never_comes_back_is_reported_as_failed_by_a_later_batch() -> None:
    time, late = Time(), LateCalls()
    subject = limiter(call_s=1.0, late=late, time=time)
    out = subject.begin_try(item(), again=False).take_call("merchants")
    out.__enter__()
    time.now += 0.2
    subject.collect_reports()
    time.now += 2.0
    report = limiter(late=late, time=time).collect_reports()["merchants"]
    assert (report.calls, report.failed) == (1, 1)
    assert limiter(late=late, time=time).collect_reports() == {}


def test_a_call_that_an_earlier_batch_abandoned_still_counts_among_those_at_a_time() -> None:
    time, late = Time(), LateCalls()
    following = limiter(late=late, time=time, at_once=1)
    first = limiter(late=late, time=time)
    out = first.begin_try(item(7), again=False).take_call("merchants")
    out.__enter__()
    assert first.collect_reports()["merchants"].out == 1
    assert call(following) == TOO_MANY
    out.__exit__(None, None, None)
    assert call(following) == "good"


def test_calls_that_never_come_back_keep_no_probe_from_a_service_that_is_well_again() -> None:
    time, late, clock = Time(), LateCalls(), ManualClock(NOW)
    settings = DownstreamSettings(failures_to_open=3, reset_s=10.0)
    downstreams = Downstreams({"merchants": settings}, clock)
    hung = Limiter(downstreams.make_budgets(), 1.0, late, time)
    calls = [hung.begin_try(item(seq), again=False).take_call("merchants") for seq in range(1, 5)]
    for one in calls:
        one.__enter__()
    time.now += 1.5
    downstreams.judge({}, hung.collect_reports())
    assert downstreams.status()["merchants"]["state"] == OPEN
    clock.advance(10)
    following = Limiter(downstreams.make_budgets(), 1.0, late, time)
    assert [call(following) for _ in range(PROBES)] == ["good"] * PROBES
    downstreams.judge({}, following.collect_reports())
    assert downstreams.status()["merchants"]["state"] == CLOSED
