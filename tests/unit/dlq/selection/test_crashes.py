"""A console that is killed in the middle of a run: whoever comes next goes on, and nothing takes effect twice."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from dlq.index import Filter
from tests.unit.dlq.selection.bench import SETTINGS, SelectionBench
from tests.unit.processor.harness import CONTROL


@pytest.mark.parametrize(("point", "sent"), [("after_writing_down", 0), ("after_sending", 1)])
def test_a_killed_console_leaves_a_run_that_another_one_ends(tmp_path: Path, point: str, sent: int) -> None:
    bench = SelectionBench(tmp_path)
    bench.dead(4)
    bench.selections.freeze(Filter(), "ada")
    bench.replay(1)
    spool = tmp_path / "spool"
    spool.touch()
    environment = {**os.environ, "PAYHOOK_TESTING": "1", "PAYHOOK_CRASH_AT": f"selection.{point}"}
    command = [sys.executable, "-m", "tests.unit.dlq.selection.sender", str(tmp_path), str(spool)]
    assert subprocess.run(command, env=environment, check=False).returncode == -signal.SIGKILL
    lines = spool.read_bytes().splitlines()
    assert len(lines) == sent
    for line in lines:
        bench.engine.send(CONTROL, line, [])
    assert bench.counts(1) == {"sent": 3, "unsent": 1}
    bench.engine.clock.advance(SETTINGS.lease_s)
    bench.round(6)
    assert bench.counts(1) == {"applied": 4}
    assert bench.applied() == 4
    assert len(bench.kafka.sent) == 2
