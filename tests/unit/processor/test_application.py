"""Streams of one process: each waits, pauses or restarts by what failed; the last one's failure ends the process."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import cast

import pytest

from core.clock import ManualClock, SystemClock
from journal.errors import CommitUnknown, Fenced, IndexBroken, StorageDown, StreamRefused
from journal.lease import Holder
from processor import application
from processor.application import Application, Backoff, WorkStream

NOW = datetime(2026, 1, 31, tzinfo=UTC)
WAIT_S_MAX = 20.0
DOWN = StorageDown("the bodies", "/lake/bodies", "No space left on device")


class TimedRun:
    """A run that lasts until it is told to stop, or fails at once."""

    def __init__(self, failure: Exception | None, has_decided: bool = False) -> None:
        self._failure = failure
        self._stop = threading.Event()
        self.has_decided = has_decided

    def run(self) -> None:
        if self._failure is not None:
            raise self._failure
        assert self._stop.wait(WAIT_S_MAX), "nobody stopped it"

    def stop(self) -> None:
        self._stop.set()


class FakeLease:
    """A lease that is free, or another process's, as a test says."""

    def __init__(self) -> None:
        self.is_held, self.free = False, True
        self.taken = self.given_up = 0
        self.renews: list[bool] = []
        self.failures: list[Exception] = []
        self.is_other_after_drop = self.is_lost_at_once = False
        self.holder: Holder | None = Holder("other", "other", NOW)
        self._on_lost: Callable[[], None] = lambda: None

    def take_lease(self) -> bool:
        if self.failures:
            raise self.failures.pop(0)
        self.taken += self.free
        self.is_held = self.free
        return self.is_held

    def renew(self) -> bool:
        return not self.renews or self.renews.pop(0)

    def keep_renewing(self, on_lost: Callable[[], None]) -> None:
        self._on_lost = on_lost
        if self.is_lost_at_once:
            self.is_lost_at_once = False
            self.take_away()

    def take_away(self) -> None:
        self.is_held = self.free = False
        self._on_lost()

    def drop(self) -> None:
        self.is_held = False
        if self.is_other_after_drop:
            self.free = False

    def release(self) -> None:
        self.is_held = False
        self.given_up += 1


class ScriptedStream:
    """A stream whose runs fail as its script says, one after the other, and what it reported.

    ``fails_to_open``: its runs fail before they begin. ``has_decided``: each run commits a batch before it fails.
    """

    def __init__(
        self,
        name: str,
        *script: Exception | None,
        idle: Callable[[], str | None] = lambda: None,
        fails_to_open: bool = False,
        has_decided: bool = False,
    ) -> None:
        self.name = name
        self.reported: list[str] = []
        self.tries: list[int] = []
        self.running = threading.Event()
        self.begun = 0
        self.followed = self.stood_by = self.released = 0
        self.lease = FakeLease()
        self._script = list(script)
        self._idle = idle
        self._fails_to_open = fails_to_open
        self._has_decided = has_decided

    def idle_because(self) -> str | None:
        return self._idle()

    def begin(self) -> TimedRun:
        self.begun += 1
        failure = self._script.pop(0) if self._script else None
        if failure is None:
            self.running.set()
        elif self._fails_to_open:
            raise failure
        return TimedRun(failure, self._has_decided)

    def follow(self) -> None:
        self.followed += 1

    def prepare(self) -> None:
        assert not self.lease.is_held

    def release_executors(self) -> None:
        self.released += 1

    def stand_by(self) -> None:
        assert self.released, "another process decides it"
        self.stood_by += 1

    def report_standby(self, holder: Holder) -> None:
        if self.reported[-1:] != [f"standby: {holder.host}"]:
            self.reported.append(f"standby: {holder.host}")

    def report_off(self, why: str) -> None:
        self.reported.append(f"off: {why}")

    def report_outage(self, reason: str, tries: int) -> None:
        self.tries.append(tries)
        if self.reported[-1:] != [f"outage: {reason}"]:
            self.reported.append(f"outage: {reason}")

    def report_refused(self, why: str) -> None:
        if self.reported[-1:] != [f"refused: {why}"]:
            self.reported.append(f"refused: {why}")

    def report_failed(self, failure: BaseException) -> None:
        self.reported.append(f"failed: {failure}")

    def count_restart(self) -> None:
        self.reported.append("restarted")


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("RESTART_S_FIRST", "LOOK_S", "STANDBY_LOOK_S", "STEP_S"):
        monkeypatch.setattr(application, name, 0.01)
    # No time at all: a wait that is over before it begins, as on a machine that stands still, is reported too.
    for name in ("OUTAGE_S_FIRST", "OUTAGE_S_MAX", "REFUSED_S"):
        monkeypatch.setattr(application, name, 0.0)


@contextmanager
def running(
    *streams: ScriptedStream, spark_runs: Callable[[], bool] = lambda: True
) -> Iterator[tuple[Application, list[bool]]]:
    pairs = [(cast(WorkStream, stream), stream) for stream in streams]
    whole, answers = Application(pairs, SystemClock(), spark_runs), []
    thread = threading.Thread(target=lambda: answers.append(whole.run()), daemon=True)
    thread.start()
    yield whole, answers
    thread.join(WAIT_S_MAX)
    assert not thread.is_alive()


def stop_once_running(awaited: ScriptedStream, *streams: ScriptedStream) -> list[bool]:
    """Runs these streams, or the one that is awaited alone, until that one runs; what the application answers."""
    with running(*(streams or (awaited,))) as (whole, answers):
        assert awaited.running.wait(WAIT_S_MAX)
        whole.stop()
    return answers


def test_where_spark_has_ended_the_process_ends_although_each_stream_would_restart() -> None:
    one, other = ScriptedStream("one", *[ValueError("SparkContext was shut down")] * 1_000), ScriptedStream("other")
    with running(one, other, spark_runs=lambda: one.begun < 3) as (_, answers):
        pass
    assert answers == [False]


def test_the_only_running_streams_failure_ends_the_process() -> None:
    off = ScriptedStream("off", idle=lambda: "nobody is named")
    alone = ScriptedStream(
        "alone", ValueError("bug"), idle=lambda: None if off.reported else "the other one comes first"
    )
    with running(alone, off) as (_, answers):
        pass
    assert answers == [False]
    assert alone.reported[-1] == "failed: bug"
    assert "restarted" not in alone.reported


def until(what: Callable[[], bool]) -> None:
    while not what():
        threading.Event().wait(0.01)


def fenced() -> Fenced:
    return Fenced("taken", 3, "epoch 4")


def test_a_stream_whose_lease_another_process_has_stands_by_and_begins_when_it_is_free() -> None:
    stream = ScriptedStream("ledger")
    stream.lease.free = False
    with running(stream) as (whole, answers):
        until(lambda: stream.stood_by > 3)
        assert stream.begun == 0
        stream.lease.free = True
        assert stream.running.wait(WAIT_S_MAX)
        whole.stop()
    assert answers == [True]
    assert (stream.reported, stream.followed, stream.begun) == (["standby: other"], 1, 1)


@pytest.mark.parametrize("failure", [None, ValueError("a bug")])
def test_a_stream_that_ends_gives_its_lease_up(failure: Exception | None) -> None:
    stream = ScriptedStream("ledger", failure)
    with running(stream) as (whole, _):
        if failure is None:
            assert stream.running.wait(WAIT_S_MAX)
            whole.stop()
    assert not stream.lease.is_held
    assert stream.lease.given_up == 1


@pytest.mark.parametrize(
    ("failure", "follows"), [(DOWN, 1), (ValueError("a bug"), 1), (StreamRefused("another history"), 3)]
)
def test_a_stream_keeps_its_lease_from_one_try_to_the_next(failure: Exception, follows: int) -> None:
    """What a person decides of a refused one begins an epoch, which the next try is to follow."""
    stream, well = ScriptedStream("ledger", failure, failure, None), ScriptedStream("well")
    stop_once_running(stream, stream, well)
    assert (stream.begun, stream.lease.taken, stream.followed) == (3, follows, follows)
    assert stream.lease.given_up == 1


def test_a_run_whose_lease_another_process_has_taken_is_stopped_and_the_stream_stands_by() -> None:
    """Also where it has nothing to commit, by which it would be fenced."""
    stream = ScriptedStream("ledger")
    with running(stream) as (whole, answers):
        assert stream.running.wait(WAIT_S_MAX)
        stream.running.clear()
        stream.lease.take_away()
        until(lambda: stream.stood_by > 3)
        assert stream.begun == 1
        stream.lease.free = True
        assert stream.running.wait(WAIT_S_MAX)
        whole.stop()
    assert answers == [True]
    assert stream.reported == ["restarted", "standby: other"]
    assert stream.begun == 2


@pytest.mark.parametrize("others", [0, 1])
def test_a_fenced_stream_stands_by_and_its_process_goes_on(others: int) -> None:
    """A fresh process would take the journal back at once, and the other one's would do the same."""
    stream = ScriptedStream("taken", fenced(), None)
    stream.lease.is_other_after_drop = True
    with running(stream, *[ScriptedStream("well")] * others) as (whole, answers):
        until(lambda: stream.stood_by > 3)
        assert answers == []
        stream.lease.free = True
        assert stream.running.wait(WAIT_S_MAX)
        whole.stop()
    assert answers == [True]
    assert stream.reported == [f"failed: {fenced()}", "restarted", "standby: other"]


def test_whatever_fails_in_a_run_whose_lease_is_lost_does_not_end_the_process() -> None:
    """The other process takes Spark's checkpoint too, where both are on one data folder."""
    stream = ScriptedStream("ledger", ValueError("the checkpoint is gone"), None)
    stream.lease.is_lost_at_once = True
    with running(stream) as (whole, answers):
        until(lambda: stream.stood_by > 1)
        stream.lease.free = True
        assert stream.running.wait(WAIT_S_MAX)
        whole.stop()
    assert answers == [True]


def test_a_stream_that_was_paused_before_its_first_epoch_may_not_follow_the_one_that_took_over_meanwhile() -> None:
    """It reads the journal's epoch, and then finds that the lease is another one's."""
    stream = ScriptedStream("ledger")
    stream.lease.renews = [False]
    stop_once_running(stream)
    assert (stream.lease.taken, stream.followed, stream.begun) == (2, 2, 1)


def test_a_place_of_the_lease_that_cannot_be_reached_is_an_outage_like_any() -> None:
    stream = ScriptedStream("ledger")
    stream.lease.failures = [DOWN, DOWN]
    assert stop_once_running(stream) == [True]
    assert stream.reported == [f"outage: StorageDown: {DOWN}"]


def test_a_stream_with_nobody_to_serve_waits_until_there_is_somebody() -> None:
    receivers: list[str] = []
    waiting = ScriptedStream("waiting", idle=lambda: None if receivers else "nobody is named")
    with running(waiting, ScriptedStream("well")) as (whole, _):
        while not waiting.reported:
            threading.Event().wait(0.01)
        receivers.append("shop")
        assert waiting.running.wait(WAIT_S_MAX)
        whole.stop()
    assert set(waiting.reported) == {"off: nobody is named"}


def test_what_stands_in_the_way_of_looking_for_work_is_a_failure_like_any() -> None:
    def unreadable() -> str | None:
        raise OSError("subscribers.toml is wrong")

    sick, well = ScriptedStream("sick", idle=unreadable), ScriptedStream("well")
    with running(sick, well) as (whole, _):
        while "restarted" not in sick.reported:
            threading.Event().wait(0.01)
        assert well.running.wait(WAIT_S_MAX)
        whole.stop()
    assert sick.reported[0] == "failed: subscribers.toml is wrong"


def test_waits_double_until_a_run_was_steady(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(application, "RESTART_S_FIRST", 1.0)
    clock = ManualClock(NOW)
    backoff = Backoff(clock)
    assert [backoff.after_failure_s() for _ in range(8)] == [1, 2, 4, 8, 16, 32, 60, 60]
    backoff.begin()
    clock.advance(application.STEADY_S)
    assert backoff.after_failure_s() == 1


@pytest.mark.parametrize(("has_decided", "tries"), [(False, [1, 2, 3]), (True, [1])])
def test_the_wait_grows_until_something_was_decided(has_decided: bool, tries: list[int]) -> None:
    stream = ScriptedStream("ledger", DOWN, DOWN, DOWN, None, has_decided=has_decided)
    stop_once_running(stream)
    assert list(dict.fromkeys(stream.tries)) == tries


@pytest.mark.parametrize("failure", [DOWN, CommitUnknown("ledger", "no answer"), IndexBroken("index", "torn")])
def test_what_says_that_the_stream_goes_on_by_itself_is_gone_on_from_by_itself(failure: Exception) -> None:
    assert "stream continues by itself" in str(failure)
    stream = ScriptedStream("ledger", failure, failure, None)
    answers = stop_once_running(stream)
    assert (answers, stream.begun) == ([True], 3)


def test_a_stop_ends_the_wait_for_the_storage_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(application, "OUTAGE_S_FIRST", 3_600.0)
    monkeypatch.setattr(application, "OUTAGE_S_MAX", 3_600.0)
    stream = ScriptedStream("ledger", DOWN)
    with running(stream) as (whole, answers):
        until(lambda: bool(stream.reported))
        whole.stop()
    assert (answers, stream.begun) == ([True], 1)


def test_a_refused_stream_stays_up_reports_why_and_checks_again_until_a_person_has_decided() -> None:
    refused = StreamRefused("Kafka holds another record; see `payhook recover`")
    stream = ScriptedStream("ledger", *[refused] * 20, None, fails_to_open=True)
    assert stop_once_running(stream) == [True]
    assert (stream.begun, stream.reported) == (21, [f"refused: StreamRefused: {refused}"])
    assert stream.released == 20, "no executor is asked for meanwhile"


@pytest.mark.row("B5")
def test_a_stream_in_an_outage_is_one_that_runs_so_another_ones_failure_ends_nothing() -> None:
    paused = ScriptedStream("paused", *[DOWN] * 200, None)
    sick = ScriptedStream("sick", ValueError("first"), None)
    assert stop_once_running(sick, paused, sick) == [True]
    assert sick.reported == ["failed: first", "restarted"]
