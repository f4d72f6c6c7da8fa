"""What a command that starts the stack takes for its answer."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from stack import up
from stack.endpoints import Endpoints, write_endpoints
from stack.errors import StackNotUp
from stack.settings import Settings


def test_what_a_killed_supervisor_left_is_not_taken_for_the_next_ones(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = Settings(data_dir=tmp_path)
    settings.layout.logs.mkdir(parents=True)
    (settings.layout.logs / "supervisor.problem").write_text("no port is free")
    write_endpoints(tmp_path, Endpoints("http://a", "http://b", "c:1", "redis://d", "j", {"supervisor": 1}))
    monkeypatch.setattr(up, "_detached", lambda *_: subprocess.Popen([sys.executable, "-c", ""]))
    with pytest.raises(StackNotUp, match="no port is free"):
        up.go_up(settings, None)
