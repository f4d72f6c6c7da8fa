"""Two processors on one data folder, as someone would start a second by mistake: it stands by."""

from __future__ import annotations

import os
import signal
import sys
import time

from core.status_file import STANDBY
from load.client import wait_for
from tests.e2e.conftest import Stack, assert_once
from tests.e2e.conftest import stack as stack
from tests.e2e.test_once import back, stop
from tests.second_processor import RepeatedTraffic, second_processor

LOOKED_S = 20.0
"""Longer than a lease lasts that isn't renewed."""

ENDS_S = 120.0
TAKEOVER_S_MAX = 30.0


def running_epoch(stack: Stack) -> int:
    """The epoch of the supervised processor, once it runs: the test before this one had it started again."""
    assert wait_for(lambda: stack.processor_status().get("state") == "running", ENDS_S), processor_log(stack)
    return int(stack.processor_status()["epoch"])


def processor_log(stack: Stack) -> str:
    return (stack.data_dir / "run" / "logs" / "processor.log").read_text("utf-8")[-4_000:]


def test_a_second_processor_leaves_a_healthy_one_alone_and_takes_over_at_once_when_it_is_killed(stack: Stack) -> None:
    epoch = running_epoch(stack)
    with second_processor(stack, stack.data_dir) as second:
        webhooks = stack.captures(20, "two")
        stack.post(*webhooks)
        assert_once(stack, webhooks)
        time.sleep(LOOKED_S)
        assert second.status()["state"] == STANDBY
        assert "waits for the lease of" in second.status()["why"]
        said = stack.processor_status()
        assert (said["state"], said["epoch"]) == ("running", epoch), "the file is the first one's, which wasn't fenced"
        began = time.monotonic()
        stack.kill("processor")
        assert wait_for(lambda: second.status().get("epoch", 0) > epoch, TAKEOVER_S_MAX), second.log()
        sys.stdout.write(f"taken over {time.monotonic() - began:.1f} s after kill -9, on the same data folder\n")
        more = stack.captures(20, "two-more")
        stack.post(*more)
        assert_once(stack, [*webhooks, *more])
    back(stack, int(epoch) + 1)
    stack.verify()


def test_a_processor_paused_for_long_wakes_fenced_stands_by_and_nothing_takes_effect_twice(stack: Stack) -> None:
    running_epoch(stack)
    with second_processor(stack, stack.data_dir) as second:
        paused = stop(stack, "processor")
        began = time.monotonic()
        second.runs()
        sys.stdout.write(f"taken over {time.monotonic() - began:.1f} s after SIGSTOP, on the same data folder\n")
        epoch = second.status()["epoch"]
        with RepeatedTraffic(stack, "long-pause") as traffic:
            time.sleep(LOOKED_S)
            os.kill(paused, signal.SIGCONT)
            time.sleep(LOOKED_S)
        assert_once(stack, traffic.sent)
        assert second.status()["state"] == "running", second.log()
        assert second.status()["epoch"] == epoch, "it isn't fenced in its turn"
        assert stack.endpoints["pids"]["processor"] == paused, "the process that woke goes on as a standby"
    back(stack, epoch)
    stack.verify()
