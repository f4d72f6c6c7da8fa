"""A receiver's forked processes: a signal ends all of them, whatever it falls between."""

from __future__ import annotations

import subprocess
import sys
import textwrap

PARENT = textwrap.dedent(
    """
    import os, signal, time
    from ingest.app import Workers

    wait = os.wait
    def interrupted():
        found = wait()
        if os.getpid() == parent:
            os.kill(parent, signal.SIGTERM)  # after a worker was waited for, and before its number is forgotten
        return found

    def serve(number):
        if number:
            time.sleep(20)

    parent, os.wait = os.getpid(), interrupted
    Workers(3, serve).run()
    """
)


def test_a_signal_just_after_a_worker_was_waited_for_ends_the_others() -> None:
    ended = subprocess.run([sys.executable, "-c", PARENT], capture_output=True, text=True, timeout=30, check=False)
    assert (ended.returncode, ended.stderr) == (0, ""), "its output is closed, so all of them have ended"
