"""Several processes on one port: what their parent does with signals."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

ENDS_S = 30.0

STOPPED_BETWEEN_TWO_FORKS = """
import os, signal, time
from ingest.app import Workers

class StoppedAfterTheFirst(Workers):
    def _fork(self, worker):
        super()._fork(worker)
        if worker == 0:
            os.kill(os.getpid(), signal.SIGTERM)

def serve(number):
    os.write(1, f"{number}\\n".encode())  # whole, or not at all
    time.sleep(600)

StoppedAfterTheFirst(3, serve).run()
print("ended", flush=True)
"""


def test_sigterm_between_two_forks_ends_all_and_starts_no_more() -> None:
    process = subprocess.Popen(
        [sys.executable, "-c", STOPPED_BETWEEN_TWO_FORKS],
        cwd=Path(__file__).parents[3],
        stdout=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    try:
        said, _ = process.communicate(timeout=ENDS_S)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        said, _ = process.communicate()
        pytest.fail(f"it didn't end; it said {said.split()}")
    assert process.returncode == 0
    assert {"1", "2"}.isdisjoint(said.split())
    assert said.split()[-1] == "ended"
