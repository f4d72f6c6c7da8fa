"""Whom a data folder's record speaks of, and whether they still live."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import psutil

from core.layout import Layout
from load.client import wait_for
from stack import leftovers


def test_a_killed_supervisor_whom_nobody_has_waited_for_is_none(tmp_path: Path) -> None:
    """What adopts orphans takes its time: until then a process that ended still has its pid and its start."""
    layout = Layout(tmp_path)
    layout.run.mkdir()
    with subprocess.Popen([sys.executable, "-c", "import sys; sys.stdin.read()"], stdin=subprocess.PIPE) as process:
        layout.supervisor.write_text(json.dumps({"processes": [leftovers.identity(process.pid)]}))
        found = leftovers.recorded_supervisor(layout)
        assert found is not None and found.pid == process.pid
        process.kill()
        assert wait_for(lambda: psutil.Process(process.pid).status() == psutil.STATUS_ZOMBIE, 60)
        assert leftovers.recorded_supervisor(layout) is None
