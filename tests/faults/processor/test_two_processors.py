"""Two processors on one journal by mistake, also one that was stopped for a minute, as a frozen machine is."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time

from load.client import wait_for
from tests.e2e.conftest import Stack, assert_once
from tests.e2e.conftest import stack as stack
from tests.e2e.test_once import back, stop

PAUSED_S = 60.0
ENDS_S = 120.0


def start_second(stack: Stack) -> subprocess.Popen[bytes]:
    """Another processor on the same data, as someone would start by mistake."""
    environment = {
        **os.environ,
        "PAYHOOK_DATA_DIR": str(stack.data_dir),
        "PAYHOOK_KAFKA__BOOTSTRAP_SERVERS": stack.endpoints["kafka"],
        "PAYHOOK_KAFKA__DURABILITY": "single",
        "PAYHOOK_REDIS__URL": stack.endpoints["redis"],
    }
    log = (stack.data_dir / "second.log").open("ab")
    return subprocess.Popen([sys.executable, "-m", "stack.services.processor"], env=environment, stdout=log, stderr=log)


def processor_log(stack: Stack) -> str:
    return (stack.data_dir / "run" / "logs" / "processor.log").read_text("utf-8")


def has_lost(stack: Stack) -> bool:
    """Its commit is refused; a batch without one ends it too, as its successor took its Spark checkpoint."""
    said = processor_log(stack)
    return "refused" in said or "checkpoints/ledger/offsets does not exist" in said


def last_words(stack: Stack) -> str:
    return f"the processor must notice; its log ends with {processor_log(stack)[-4_000:]}"


def running_epoch(stack: Stack) -> int:
    """The epoch of the supervised processor, once it runs: the test before this one had it started again."""
    assert wait_for(lambda: stack.processor_status().get("ready", False), ENDS_S), last_words(stack)
    return int(stack.processor_status()["epoch"])


def test_a_processor_paused_for_a_minute_wakes_fenced_and_nothing_takes_effect_twice(stack: Stack) -> None:
    paused = stop(stack, "processor")
    began = time.monotonic()
    epoch = stack.processor_status()["epoch"]
    second = start_second(stack)
    try:
        back(stack, epoch)
        webhooks = stack.captures(10, "long-pause")
        stack.post(*webhooks)
        assert_once(stack, webhooks)
        time.sleep(max(0.0, PAUSED_S - (time.monotonic() - began)))
        os.kill(paused, signal.SIGCONT)
        more = stack.captures(10, "long-woken")
        stack.post(*more)
        assert wait_for(lambda: has_lost(stack), ENDS_S), last_words(stack)
        assert_once(stack, [*webhooks, *more])
    finally:
        second.terminate()
        second.wait(60)
    stack.verify()


def test_a_second_processor_fences_the_first_and_nothing_takes_effect_twice(stack: Stack) -> None:
    epoch = running_epoch(stack)
    second = start_second(stack)
    try:
        back(stack, epoch)
        webhooks = stack.captures(20, "two")
        stack.post(*webhooks)
        assert_once(stack, webhooks)
    finally:
        second.terminate()
        second.wait(60)
    stack.verify()
