"""A processor on another host stands by, takes over from one that dies, hangs or stops, and an upgrade rolls over both.

The other host has a data folder of its own and shares the lake. Traffic runs all the while.
"""

from __future__ import annotations

import os
import signal
import sys
import time
from collections.abc import Callable, Iterator

import psutil
import pytest

from core.status_file import STANDBY
from journal.lease import LAPSES_S, RENEW_S
from load.client import wait_for
from processor.opening import FOLLOW_EVERY_S
from tests.e2e.conftest import Stack, assert_once
from tests.e2e.conftest import stack as stack
from tests.processes import pause
from tests.second_processor import ENDS_S_MAX, START_S_MAX, RepeatedTraffic, SecondProcessor, second_processor

TAKEOVER_S_MAX = 30.0
HANDOVER_S_MAX = 15.0
"""After a clean stop, which ends the batch under way first."""


def say(figure: str) -> None:
    """For who reads the run's output."""
    sys.stdout.write(f"{figure}\n")


class Hosts:
    """The stack's host and the other one; each has a processor, whichever of them leads."""

    def __init__(self, stack: Stack, other: SecondProcessor) -> None:
        self.stack, self.other = stack, other

    def epoch(self) -> int:
        """Of the journal's last row."""
        return max((int(row["epoch"]) for row in self.stack.rows(["epoch"], None)), default=0)

    def pid(self) -> int:
        return int(self.stack.endpoints["pids"]["processor"])

    def decided_by_another_s(self, epoch: int, began: float, seconds: float) -> float:
        """Seconds until traffic is decided in a later epoch than ``epoch``."""
        assert wait_for(lambda: self.epoch() > epoch, seconds), self.other.log()
        return time.monotonic() - began

    def stack_stands_by(self) -> None:
        assert wait_for(lambda: self.stack.processor_status().get("state") == STANDBY, START_S_MAX)

    def stack_leads(self) -> None:
        """Whatever the test before left."""
        if self.stack.processor_status().get("state") != "running":
            self.stack_stands_by()
            self.other.end()
            assert wait_for(lambda: self.stack.processor_status().get("state") == "running", START_S_MAX)
            self.other.start()
        self.other.stands_by()


@pytest.fixture(scope="module")
def hosts(stack: Stack, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Hosts]:
    with second_processor(stack, tmp_path_factory.mktemp("hosts") / "other") as other:
        yield Hosts(stack, other)


@pytest.fixture(autouse=True)
def led_by_the_stack(hosts: Hosts) -> None:
    hosts.stack_leads()


def test_a_killed_leader_is_replaced_in_time_and_its_host_stands_by_then(hosts: Hosts) -> None:
    with RepeatedTraffic(hosts.stack, "killed") as traffic:
        time.sleep(3)
        assert wait_for(lambda: hosts.other.has_index, 3 * FOLLOW_EVERY_S), "it follows before it is its turn"
        epoch, began = hosts.epoch(), time.monotonic()
        hosts.stack.kill("processor")
        taken_s = hosts.decided_by_another_s(epoch, began, TAKEOVER_S_MAX)
        say(f"kill -9: the first decision of the standby after {taken_s:.1f} s")
        assert taken_s < TAKEOVER_S_MAX
        hosts.stack_stands_by()
    hosts.other.runs()
    assert_once(hosts.stack, traffic.sent)
    hosts.stack.verify()


def test_a_leader_that_is_paused_for_a_moment_is_left_alone(hosts: Hosts) -> None:
    with RepeatedTraffic(hosts.stack, "moment") as traffic:
        time.sleep(3)
        epoch, pid = hosts.epoch(), hosts.pid()
        pause(pid)
        time.sleep(LAPSES_S - 2 * RENEW_S)
        os.kill(pid, signal.SIGCONT)
        time.sleep(2 * LAPSES_S)
    assert hosts.epoch() == epoch
    assert hosts.other.status()["state"] == STANDBY
    assert_once(hosts.stack, traffic.sent)


def test_a_leader_that_hangs_is_replaced_and_stands_by_when_it_wakes(hosts: Hosts) -> None:
    with RepeatedTraffic(hosts.stack, "hangs") as traffic:
        time.sleep(3)
        epoch, began, pid = hosts.epoch(), time.monotonic(), hosts.pid()
        pause(pid)
        try:
            taken_s = hosts.decided_by_another_s(epoch, began, TAKEOVER_S_MAX)
            later = hosts.epoch()
        finally:
            os.kill(pid, signal.SIGCONT)
        say(f"SIGSTOP: the first decision of the standby after {taken_s:.1f} s")
        assert taken_s < TAKEOVER_S_MAX
        hosts.stack_stands_by()
        time.sleep(LAPSES_S)
        assert hosts.epoch() == later, "it doesn't fence back"
        assert hosts.pid() == pid, "nor ends"
    assert_once(hosts.stack, traffic.sent)
    hosts.stack.verify()


def test_a_leader_that_stops_hands_over_at_once(hosts: Hosts) -> None:
    with RepeatedTraffic(hosts.stack, "stops") as traffic:
        time.sleep(3)
        handed_s = hand_over(hosts)
        say(f"SIGTERM: the first decision of the standby after {handed_s:.1f} s")
    assert_once(hosts.stack, traffic.sent)


def hand_over(hosts: Hosts) -> float:
    epoch, began = hosts.epoch(), time.monotonic()
    os.kill(hosts.pid(), signal.SIGTERM)
    return hosts.decided_by_another_s(epoch, began, HANDOVER_S_MAX)


def upgrade_processors(hosts: Hosts) -> None:
    """The one that stands by first, then the one that decides."""
    assert hosts.other.end() == 0
    hosts.other.start()
    hosts.other.stands_by()
    say(f"processors: handed over in {hand_over(hosts):.1f} s")
    hosts.stack_stands_by()


def upgrade_receivers(hosts: Hosts) -> None:
    """It ends, and the supervisor starts it again with what is installed."""
    process = psutil.Process(int(hosts.stack.endpoints["pids"]["ingest"]))
    process.terminate()
    process.wait(ENDS_S_MAX)
    assert wait_for(lambda: hosts.stack.endpoints["pids"].get("ingest") not in (None, process.pid), START_S_MAX)


@pytest.mark.parametrize(
    "order",
    [(upgrade_receivers, upgrade_processors), (upgrade_processors, upgrade_receivers)],
    ids=["receivers first", "processors first"],
)
def test_an_upgrade_rolls_over_a_running_stack(hosts: Hosts, order: tuple[Callable[[Hosts], None], ...]) -> None:
    with RepeatedTraffic(hosts.stack, f"upgrade-{order[0].__name__}") as traffic:
        time.sleep(3)
        for step in order:
            step(hosts)
        time.sleep(3)
    assert len(traffic.sent) > 10
    assert_once(hosts.stack, traffic.sent)
    hosts.stack.verify()
