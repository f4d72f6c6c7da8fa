"""A stack that is up for the length of a block ends with it, however that ends."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

import pytest

CHECKOUT = Path(__file__).parents[3]

BLOCK = """
import subprocess, sys, time
from pathlib import Path
from load import embedded

def payhook(*words, timeout_s):
    print(*words, flush=True)
    if sys.argv[1] == words[0]:
        time.sleep(60)
    return subprocess.CompletedProcess(words, 0, "", "")

embedded.payhook = payhook
with embedded.embedded_stack(Path("data")):
    print("is up", flush=True)
    time.sleep(60)
"""


@pytest.mark.parametrize("when", ["up", "is up"])
def test_a_sigterm_takes_the_stack_down_whether_it_is_up_or_on_its_way(when: str) -> None:
    command = [sys.executable, "-c", BLOCK, when]
    with subprocess.Popen(command, cwd=CHECKOUT, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        try:
            while not process.stdout.readline().startswith(when):
                assert process.poll() is None
            process.send_signal(signal.SIGTERM)
            assert process.stdout.read().splitlines()[-1] == "down --data data"
            assert process.wait(30) == 128 + signal.SIGTERM
        finally:
            process.kill()
