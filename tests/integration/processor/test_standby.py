"""Two processes with one stream, each with an index of its own, on a real journal: the second stands by.

No Spark and no Kafka, and leases that lapse after 3 s; `make test-faults` has whole processors.
"""

from __future__ import annotations

import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from journal.reader import JournalReader
from load.client import wait_for
from tests.integration.processor.standing_by import LAPSES_S, LOOK_S, RENEW_S
from tests.integration.processor.stored import CHECKOUT, Stored
from tests.processes import pause

pytestmark = pytest.mark.more(reason="two processors and their leases in real time")

GOES_ON_S = 60.0
POST_EVERY_S = 0.1


class Process:
    """One of the processes, and what it has said so far."""

    def __init__(self, folder: Path, owner: str) -> None:
        self.owner = owner
        command = [
            sys.executable,
            "-X",
            "faulthandler",
            "-m",
            "tests.integration.processor.standing_by",
            str(folder),
            owner,
        ]
        self.popen = subprocess.Popen(command, cwd=CHECKOUT, stdout=subprocess.PIPE, text=True)
        self.said: list[str] = []
        threading.Thread(target=self._read, daemon=True).start()

    def _read(self) -> None:
        assert self.popen.stdout is not None
        self.said.extend(line.strip() for line in self.popen.stdout)

    def turns(self, *said: str) -> None:
        assert wait_for(lambda: self.said == list(said), GOES_ON_S), (self.owner, self.said)

    def end(self) -> None:
        self.popen.terminate()
        try:
            assert self.popen.wait(GOES_ON_S) == 0
        except subprocess.TimeoutExpired:
            # It writes where each of its threads is.
            self.popen.send_signal(signal.SIGABRT)
            self.popen.wait(GOES_ON_S)
            raise


class Pair:
    """``one`` decides, ``other`` stands by, and events come all the while."""

    def __init__(self, folder: Path) -> None:
        self.stored = Stored(folder)
        self.stored.kafka.post("first")
        self._ends = threading.Event()
        self._posting = threading.Thread(target=self._post, daemon=True)
        self.one = Process(folder, "one")
        self.one.turns("begins")
        self.other = Process(folder, "other")
        self.other.turns("stands by")
        self._posting.start()
        assert wait_for(lambda: len(self.stored.rows()) > 3, GOES_ON_S)

    def _post(self) -> None:
        count = 0
        while not self._ends.wait(POST_EVERY_S):
            self.stored.kafka.post(f"e-{count}")
            count += 1

    @property
    def epoch(self) -> int:
        return JournalReader(str(self.stored.journal)).state().epoch

    def taken_over_s(self, how: Callable[[], None]) -> float:
        """Seconds until the other one has decided something."""
        epoch, began = self.epoch, time.monotonic()
        how()
        assert wait_for(lambda: self.stored.rows()[-1].epoch > epoch, GOES_ON_S), self.other.said
        return time.monotonic() - began

    def assert_once(self) -> None:
        """All that came is decided once, and what is derived says the same."""
        self._ends.set()
        self._posting.join(GOES_ON_S)
        assert wait_for(lambda: len(self.stored.rows()) == self.stored.kafka.end, GOES_ON_S)
        self.other.end()
        self.stored.index = self.stored.folder / "index-other"
        self.stored.check()
        assert set(map(tuple, self.stored.decisions().values())) == {("applied",)}

    def close(self) -> None:
        self._ends.set()
        for process in (self.one, self.other):
            process.popen.kill()
            process.popen.wait()


@pytest.fixture
def pair(tmp_path: Path) -> Iterator[Pair]:
    made = Pair(tmp_path)
    yield made
    made.close()


@pytest.mark.row("F5")
def test_one_that_is_killed_is_replaced_and_stands_by_when_it_is_started_again(pair: Pair, tmp_path: Path) -> None:
    taken_s = pair.taken_over_s(pair.one.popen.kill)
    assert taken_s > LAPSES_S - RENEW_S - LOOK_S, "another host can't know at once"
    again = Process(tmp_path, "again")
    again.turns("stands by")
    again.end()
    pair.assert_once()


def test_one_that_hangs_is_replaced_and_stands_by_when_it_wakes(pair: Pair) -> None:
    with paused(pair.one):
        pair.taken_over_s(lambda: None)
        epoch = pair.epoch
    pair.one.turns("begins", "stands by")
    time.sleep(LAPSES_S)
    assert pair.epoch == epoch, "it doesn't fence back"
    assert pair.one.popen.poll() is None
    pair.assert_once()


def test_one_that_hangs_for_a_moment_goes_on(pair: Pair) -> None:
    epoch = pair.epoch
    for _ in range(3):
        with paused(pair.one):
            time.sleep(LAPSES_S / 3)
        time.sleep(2 * RENEW_S)
    assert pair.epoch == epoch
    assert pair.other.said == ["stands by"]
    pair.one.end()
    pair.other.turns("stands by", "begins")
    pair.assert_once()


def test_one_that_stops_hands_over_before_its_lease_would_lapse(pair: Pair) -> None:
    taken_s = pair.taken_over_s(pair.one.end)
    assert taken_s < LAPSES_S
    pair.assert_once()


@contextmanager
def paused(process: Process) -> Iterator[None]:
    pause(process.popen.pid)
    try:
        yield
    finally:
        process.popen.send_signal(signal.SIGCONT)
