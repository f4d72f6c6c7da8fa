"""What the tests know of other processes holds while those end."""

from __future__ import annotations

import os
import subprocess
import sys

import psutil
import pytest

from tests import processes
from tests.processes import name_of, sockets_of, with_children


@pytest.fixture
def ended() -> psutil.Process:
    """Listed while it ran, and gone now."""
    child = subprocess.Popen([sys.executable, "-c", ""])
    process = psutil.Process(child.pid)
    child.wait()
    return process


def test_a_process_that_ends_while_it_is_looked_at_holds_no_sockets(
    ended: psutil.Process, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(processes, "with_children", lambda pid: [psutil.Process(pid), ended])
    assert sockets_of(os.getpid(), "all") == psutil.Process().net_connections("all")


def test_a_process_that_has_ended_has_no_name_and_no_children(ended: psutil.Process) -> None:
    assert name_of(ended) == ""
    assert with_children(ended.pid) == []
