"""What a command that starts the stack takes for its answer."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from core.errors import SettingError
from core.settings import RedisSettings
from stack import up
from stack.endpoints import Endpoints, record_processes, write_endpoints
from stack.errors import StackNotUp
from stack.settings import Settings


def test_what_a_killed_supervisor_left_is_not_taken_for_the_next_ones(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = Settings(data_dir=tmp_path)
    settings.layout.logs_folder.mkdir(parents=True)
    (settings.layout.logs_folder / "supervisor.problem").write_text("no port is free")
    write_endpoints(tmp_path, Endpoints("http://a", "http://b", "c:1", "redis://d", "j", {"supervisor": 1}))
    monkeypatch.setattr(up, "_start_detached", lambda *_: subprocess.Popen([sys.executable, "-c", ""]))
    with pytest.raises(StackNotUp, match="no port is free"):
        up.go_up(settings, None, print)


def test_another_redis_than_its_own_is_refused_at_once(tmp_path: Path) -> None:
    redis = RedisSettings(sentinels=("a:26379",), sentinel_service="claims")
    settings = Settings(data_dir=tmp_path / "data", redis=redis)
    with (
        pytest.raises(SettingError, match="leave out sentinel_service, sentinels"),
        up.open_supervisor(settings, None, print),
    ):
        pass
    assert not (tmp_path / "data").exists()


def test_a_stack_that_another_command_started_and_that_ends_is_not_told_by_the_last_ones_problem(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = Settings(data_dir=tmp_path)
    settings.layout.logs_folder.mkdir(parents=True)
    (settings.layout.logs_folder / "supervisor.problem").write_text("no port is free")
    with subprocess.Popen([sys.executable, "-c", "import sys; sys.stdin.read()"], stdin=subprocess.PIPE) as process:
        record_processes(settings.layout, up=False, states={"kafka": "starting"}, pids=[process.pid])
        with pytest.raises(StackNotUp, match="the stack that was starting ended") as failed:
            up.go_up(settings, None, lambda *_: process.kill())
    assert "no port is free" not in str(failed.value)
