"""Streams of one process: each waits, pauses or restarts by what failed; the last one's failure ends the process."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime

import pytest

from core.clock import Clock, ManualClock, SystemClock
from core.errors import PayhookError
from journal.errors import CommitUnknown, Fenced, IndexBroken, JournalBroken, Refused, StorageDown
from ledger.postings import PostingsRefused
from processor import application
from processor.application import TAKE_OVER_AFTER_S, Application, Backoff

NOW = datetime(2026, 1, 31, tzinfo=UTC)
WAIT_S_MAX = 20.0
DOWN = StorageDown("the bodies", "/lake/bodies", "No space left on device")


class Run:
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


class Scripted:
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
        self.followed: list[int] = []
        self._script = list(script)
        self._idle = idle
        self._fails_to_open = fails_to_open
        self._has_decided = has_decided

    def idle_because(self) -> str | None:
        return self._idle()

    def begin(self) -> Run:
        self.begun += 1
        failure = self._script.pop(0) if self._script else None
        if failure is None:
            self.running.set()
        elif self._fails_to_open:
            raise failure
        return Run(failure, self._has_decided)

    def journal_head(self) -> tuple[int, int]:
        raise AssertionError("nobody took it over")

    def follow(self, epoch: int) -> None:
        self.followed.append(epoch)

    def off(self, why: str) -> None:
        self.reported.append(f"off: {why}")

    def outage(self, reason: str, tries: int) -> None:
        self.tries.append(tries)
        if self.reported[-1:] != [f"outage: {reason}"]:
            self.reported.append(f"outage: {reason}")

    def refused(self, why: str) -> None:
        if self.reported[-1:] != [f"refused: {why}"]:
            self.reported.append(f"refused: {why}")

    def failed(self, failure: BaseException) -> None:
        self.reported.append(f"failed: {failure}")

    def restarted(self) -> None:
        self.reported.append("restarted")


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("RESTART_S_FIRST", "LOOK_S", "STEP_S", "REFUSED_S"):
        monkeypatch.setattr(application, name, 0.01)
    monkeypatch.setattr(application, "OUTAGE_S_FIRST", 0.001)
    monkeypatch.setattr(application, "OUTAGE_S_MAX", 0.004)


@contextmanager
def running(
    *streams: Scripted, clock: Clock | None = None, spark_runs: Callable[[], bool] = lambda: True
) -> Iterator[tuple[Application, list[bool]]]:
    whole, answers = Application([(stream, stream) for stream in streams], clock or SystemClock(), spark_runs), []
    thread = threading.Thread(target=lambda: answers.append(whole.run()), daemon=True)
    thread.start()
    yield whole, answers
    thread.join(WAIT_S_MAX)
    assert not thread.is_alive()


def test_a_stop_ends_all_of_them_well() -> None:
    one, other = Scripted("one"), Scripted("other")
    with running(one, other) as (whole, answers):
        assert one.running.wait(WAIT_S_MAX) and other.running.wait(WAIT_S_MAX)
        whole.stop()
    assert answers == [True]
    assert one.reported == other.reported == []


def test_where_spark_has_ended_the_process_ends_although_each_stream_would_restart() -> None:
    one, other = Scripted("one", *[ValueError("SparkContext was shut down")] * 1_000), Scripted("other")
    with running(one, other, spark_runs=lambda: one.begun < 3) as (_, answers):
        pass
    assert answers == [False]


def test_a_stream_that_fails_restarts_and_the_other_goes_on() -> None:
    sick, well = Scripted("sick", ValueError("first"), ValueError("second"), None), Scripted("well")
    with running(sick, well) as (whole, answers):
        assert sick.running.wait(WAIT_S_MAX)
        whole.stop()
    assert sick.reported == ["failed: first", "restarted", "failed: second", "restarted"]
    assert well.reported == []
    assert answers == [True]


def test_the_only_running_streams_failure_ends_the_process() -> None:
    off = Scripted("off", idle=lambda: "nobody is named")
    alone = Scripted("alone", ValueError("bug"), idle=lambda: None if off.reported else "the other one comes first")
    with running(alone, off) as (_, answers):
        pass
    assert answers == [False]
    assert alone.reported[-1] == "failed: bug"
    assert "restarted" not in alone.reported


class Elsewhere(Scripted):
    """A stream that another process took over, which commits as long as it lives: a commit a look."""

    def __init__(self, clock: ManualClock, *script: Exception | None) -> None:
        super().__init__("taken", Fenced("taken", 3, "epoch 4"), *script)
        self.owner_lives = True
        self.owner_epoch = 4
        self.looks = 0
        self._clock = clock
        self._seq = 0

    def journal_head(self) -> tuple[int, int]:
        self.looks += 1
        self._clock.advance(TAKE_OVER_AFTER_S - 1)
        self._seq += self.owner_lives
        return self.owner_epoch, self._seq


def until(what: Callable[[], bool]) -> None:
    while not what():
        threading.Event().wait(0.01)


def test_a_stream_that_another_process_took_over_waits_as_long_as_that_one_commits() -> None:
    clock = ManualClock(NOW)
    taken, well = Elsewhere(clock), Scripted("well")
    with running(taken, well, clock=clock) as (whole, answers):
        until(lambda: taken.looks > 20)
        assert taken.followed == []
        taken.owner_lives = False
        assert taken.running.wait(WAIT_S_MAX)
        whole.stop()
    assert taken.reported == ["failed: " + str(Fenced("taken", 3, "epoch 4")), "restarted"]
    assert taken.followed == [4]
    assert well.reported == []
    assert answers == [True]


def test_the_only_stream_that_was_taken_over_waits_too() -> None:
    """A fresh process would take the journal back at once, and the other one's would do the same."""
    clock = ManualClock(NOW)
    taken = Elsewhere(clock)
    with running(taken, clock=clock) as (whole, answers):
        until(lambda: taken.looks > 5)
        assert answers == []
        taken.owner_lives = False
        assert taken.running.wait(WAIT_S_MAX)
        whole.stop()
    assert answers == [True]


def test_one_that_comes_too_late_waits_again() -> None:
    clock = ManualClock(NOW)
    taken = Elsewhere(clock, Fenced("taken", 4, "epoch 5"), None)
    taken.owner_lives = False
    with running(taken, clock=clock) as (whole, _):
        assert taken.running.wait(WAIT_S_MAX)
        whole.stop()
    assert taken.reported.count("restarted") == 2
    assert len(taken.followed) == 2


def test_a_journal_that_cannot_be_read_is_no_silence() -> None:
    clock = ManualClock(NOW)
    taken = Elsewhere(clock)
    head = taken.journal_head

    def unreadable() -> tuple[int, int]:
        head()
        raise OSError("the lake isn't mounted")

    taken.owner_lives = False
    taken.journal_head = unreadable  # type: ignore[method-assign]
    with running(taken, clock=clock) as (whole, answers):
        until(lambda: taken.looks > 20)
        assert taken.followed == []
        whole.stop()
    assert answers == [True]


def test_a_stream_with_nobody_to_serve_waits_until_there_is_somebody() -> None:
    receivers: list[str] = []
    waiting = Scripted("waiting", idle=lambda: None if receivers else "nobody is named")
    with running(waiting, Scripted("well")) as (whole, _):
        while not waiting.reported:
            threading.Event().wait(0.01)
        receivers.append("shop")
        assert waiting.running.wait(WAIT_S_MAX)
        whole.stop()
    assert set(waiting.reported) == {"off: nobody is named"}


def test_what_stands_in_the_way_of_looking_for_work_is_a_failure_like_any() -> None:
    def unreadable() -> str | None:
        raise OSError("subscribers.toml is wrong")

    sick, well = Scripted("sick", idle=unreadable), Scripted("well")
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


@pytest.mark.parametrize("fails_to_open", [False, True])
@pytest.mark.parametrize(
    "failed",
    [
        DOWN,
        CommitUnknown("ledger", "No space left on device"),
        PostingsRefused("/lake/postings", "No space left on device"),
        IndexBroken("/index", "IO error: No space left on device"),
    ],
)
def test_an_outage_of_its_storage_is_waited_for_and_everything_is_opened_again(
    failed: PayhookError, fails_to_open: bool
) -> None:
    stream = Scripted("ledger", failed, failed, None, fails_to_open=fails_to_open)
    with running(stream) as (whole, answers):
        assert stream.running.wait(WAIT_S_MAX)
        whole.stop()
    assert answers == [True]
    assert stream.begun == 3
    assert stream.reported == [f"outage: {type(failed).__name__}: {failed}"]
    assert set(stream.tries) == {1, 2}


@pytest.mark.parametrize("failed", [JournalBroken("/lake/journal", "seq 4 is missing"), ZeroDivisionError("a bug")])
def test_what_does_not_pass_by_itself_ends_the_only_stream(failed: Exception) -> None:
    stream = Scripted("ledger", failed)
    with running(stream) as (_, answers):
        pass
    assert answers == [False]
    assert stream.reported == [f"failed: {failed}"]


@pytest.mark.parametrize(("has_decided", "tries"), [(False, [1, 2, 3]), (True, [1])])
def test_the_wait_grows_until_something_was_decided(has_decided: bool, tries: list[int]) -> None:
    stream = Scripted("ledger", DOWN, DOWN, DOWN, None, has_decided=has_decided)
    with running(stream) as (whole, _):
        assert stream.running.wait(WAIT_S_MAX)
        whole.stop()
    assert list(dict.fromkeys(stream.tries)) == tries


def test_a_stop_ends_the_wait_for_the_storage_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(application, "OUTAGE_S_FIRST", 3_600.0)
    monkeypatch.setattr(application, "OUTAGE_S_MAX", 3_600.0)
    stream = Scripted("ledger", DOWN)
    with running(stream) as (whole, answers):
        until(lambda: bool(stream.reported))
        whole.stop()
    assert (answers, stream.begun) == ([True], 1)


def test_a_refused_stream_stays_up_reports_why_and_checks_again_until_a_person_has_decided() -> None:
    refused = Refused("Kafka holds another record; see `payhook recover`")
    stream = Scripted("ledger", *[refused] * 20, None, fails_to_open=True)
    with running(stream) as (whole, answers):
        assert stream.running.wait(WAIT_S_MAX)
        whole.stop()
    assert answers == [True]
    assert (stream.begun, stream.reported) == (21, [f"refused: Refused: {refused}"])


def test_a_stream_in_an_outage_is_one_that_runs_so_another_ones_failure_ends_nothing() -> None:
    paused = Scripted("paused", *[DOWN] * 200, None)
    sick = Scripted("sick", ValueError("first"), None)
    with running(paused, sick) as (whole, answers):
        assert sick.running.wait(WAIT_S_MAX)
        whole.stop()
    assert answers == [True]
    assert sick.reported == ["failed: first", "restarted"]
