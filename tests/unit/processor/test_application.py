"""Streams of one process: one's failure is its own, and the last one's ends the process."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime

import pytest

from core.clock import Clock, ManualClock, SystemClock
from journal.errors import Fenced
from processor import application
from processor.application import TAKE_OVER_AFTER_S, Application, Backoff

NOW = datetime(2026, 1, 31, tzinfo=UTC)
WAIT_S_MAX = 20.0


class Run:
    """A run that lasts until it is told to stop, or fails at once."""

    def __init__(self, failure: Exception | None) -> None:
        self._failure = failure
        self._stop = threading.Event()

    def run(self) -> None:
        if self._failure is not None:
            raise self._failure
        assert self._stop.wait(WAIT_S_MAX), "nobody stopped it"

    def stop(self) -> None:
        self._stop.set()


class Told:
    """A stream that does what its script says, start by start, and what was said of it."""

    def __init__(self, name: str, *script: Exception | None, idle: Callable[[], str | None] = lambda: None) -> None:
        self.name = name
        self.said: list[str] = []
        self.running = threading.Event()
        self.followed: list[int] = []
        self._script = list(script)
        self._idle = idle

    def idle_because(self) -> str | None:
        return self._idle()

    def begin(self) -> Run:
        failure = self._script.pop(0) if self._script else None
        if failure is None:
            self.running.set()
        return Run(failure)

    def journal_head(self) -> tuple[int, int]:
        raise AssertionError("nobody took it over")

    def follow(self, epoch: int) -> None:
        self.followed.append(epoch)

    def off(self, why: str) -> None:
        self.said.append(f"off: {why}")

    def failed(self, failure: BaseException) -> None:
        self.said.append(f"failed: {failure}")

    def begun_again(self) -> None:
        self.said.append("begun again")


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("RESTART_S_FIRST", "LOOK_S", "STEP_S"):
        monkeypatch.setattr(application, name, 0.01)


@contextmanager
def running(*streams: Told, clock: Clock | None = None) -> Iterator[tuple[Application, list[bool]]]:
    whole, answers = Application([(stream, stream) for stream in streams], clock or SystemClock()), []
    thread = threading.Thread(target=lambda: answers.append(whole.run()), daemon=True)
    thread.start()
    yield whole, answers
    thread.join(WAIT_S_MAX)
    assert not thread.is_alive()


def test_a_stop_ends_all_of_them_well() -> None:
    one, other = Told("one"), Told("other")
    with running(one, other) as (whole, answers):
        assert one.running.wait(WAIT_S_MAX) and other.running.wait(WAIT_S_MAX)
        whole.stop()
    assert answers == [True]
    assert one.said == other.said == []


def test_a_stream_that_fails_is_begun_again_and_the_other_goes_on() -> None:
    sick, well = Told("sick", ValueError("first"), ValueError("second"), None), Told("well")
    with running(sick, well) as (whole, answers):
        assert sick.running.wait(WAIT_S_MAX)
        whole.stop()
    assert sick.said == ["failed: first", "begun again", "failed: second", "begun again"]
    assert well.said == []
    assert answers == [True]


def test_the_only_running_streams_failure_ends_the_process() -> None:
    off = Told("off", idle=lambda: "nobody is told")
    alone = Told("alone", ValueError("bug"), idle=lambda: None if off.said else "the other one comes first")
    with running(alone, off) as (_, answers):
        pass
    assert answers == [False]
    assert alone.said[-1] == "failed: bug"
    assert "begun again" not in alone.said


class Elsewhere(Told):
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
    taken, well = Elsewhere(clock), Told("well")
    with running(taken, well, clock=clock) as (whole, answers):
        until(lambda: taken.looks > 20)
        assert taken.followed == []
        taken.owner_lives = False
        assert taken.running.wait(WAIT_S_MAX)
        whole.stop()
    assert taken.said == ["failed: " + str(Fenced("taken", 3, "epoch 4")), "begun again"]
    assert taken.followed == [4]
    assert well.said == []
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
    assert taken.said.count("begun again") == 2
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
    waiting = Told("waiting", idle=lambda: None if receivers else "nobody is told")
    with running(waiting, Told("well")) as (whole, _):
        while not waiting.said:
            threading.Event().wait(0.01)
        receivers.append("shop")
        assert waiting.running.wait(WAIT_S_MAX)
        whole.stop()
    assert set(waiting.said) == {"off: nobody is told"}


def test_what_stands_in_the_way_of_looking_for_work_is_a_failure_like_any() -> None:
    def unreadable() -> str | None:
        raise OSError("subscribers.toml is wrong")

    sick, well = Told("sick", idle=unreadable), Told("well")
    with running(sick, well) as (whole, _):
        while "begun again" not in sick.said:
            threading.Event().wait(0.01)
        assert well.running.wait(WAIT_S_MAX)
        whole.stop()
    assert sick.said[0] == "failed: subscribers.toml is wrong"


def test_waits_double_until_a_run_was_steady(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(application, "RESTART_S_FIRST", 1.0)
    clock = ManualClock(NOW)
    backoff = Backoff(clock)
    assert [backoff.after_failure_s() for _ in range(8)] == [1, 2, 4, 8, 16, 32, 60, 60]
    backoff.begin()
    clock.advance(application.STEADY_S)
    assert backoff.after_failure_s() == 1
