"""The process that tells people, alone in the world: nothing it looks at runs, and that is what it tells."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Callable
from pathlib import Path

import pytest

from stack.servers.ports import free_ports
from tests.unit.notify.receiver import receiving

pytestmark = pytest.mark.more(reason="two lives of a process in real time; tests/unit/notify has its rounds")

CHECKOUT = Path(__file__).parents[3]
WAIT_S_MAX = 120.0

SECRET = "T0B0sesame"
"""Who has such a URL can post to it."""
SOON = """
import sys
from alerts import rules
rules.NOT_READY_S_MAX = 0.5
from stack.alerting import main
sys.exit(main())
"""
"""The process, with half a second in place of two minutes until it tells."""
WHAT_IS_DOWN = ["ledger", "notify", "the receiver"]


def wait_for(condition: Callable[[], object]) -> None:
    until = time.monotonic() + WAIT_S_MAX
    while not condition() and time.monotonic() < until:
        time.sleep(0.05)
    assert condition()


def firing(metrics_port: int) -> list[str]:
    """Whom the process's own metrics say it fires for; nobody before they are served."""
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{metrics_port}/metrics", timeout=30) as page:
            reported = page.read().decode()
    except urllib.error.URLError:
        return []
    return sorted(re.findall(r'^payhook_alert_firing{rule="not_ready",subject="(.+)"} 1.0$', reported, re.MULTILINE))


def look_on(config: Path, reported: Callable[[], int], metrics_port: int) -> None:
    """One life of the process: it reports all there is, looks on for a while, and ends on SIGTERM."""
    data = config.parent / "data"
    env = {**os.environ, "PAYHOOK_DATA_DIR": str(data), "PAYHOOK_CONFIG": str(config)}
    state = data / "run" / "alerts.json"
    with (config.parent / "log").open("ab") as said:
        process = subprocess.Popen([sys.executable, "-c", SOON], cwd=CHECKOUT, env=env, stderr=said)
    try:
        wait_for(lambda: reported() >= 3 and firing(metrics_port) == WHAT_IS_DOWN)
        first = state.stat().st_mtime
        wait_for(lambda: state.stat().st_mtime > first + 2)
        assert firing(metrics_port) == WHAT_IS_DOWN
        process.send_signal(signal.SIGTERM)
        assert process.wait(WAIT_S_MAX) == 0
    finally:
        process.kill()
        process.wait()


def test_it_tells_of_a_stack_that_is_down_and_tells_nothing_twice(tmp_path: Path) -> None:
    metrics_port, nobody = free_ports(2)
    with receiving() as server:
        config = tmp_path / "payhook.toml"
        config.write_text(
            f"[ingest]\nport = {nobody}\n"
            f"[alerts]\nevery_s = 0.3\nmetrics_port = {metrics_port}\n"
            f'[alerts.receivers.team]\nurl = "http://127.0.0.1:{server.port}/{SECRET}"\n'
            f'http = true\nports = [{server.port}]\nnetworks = ["127.0.0.1/32"]\n'
        )
        for _ in range(2):
            look_on(config, lambda: len(server.requests), metrics_port)
            reported = [json.loads(request.body) for request in server.requests]
            assert {(one["rule"], one["kind"]) for one in reported} == {("not_ready", "firing")}
            assert sorted(one["subject"] for one in reported) == WHAT_IS_DOWN
        assert all(SECRET in request.line for request in server.requests)
        said = (tmp_path / "log").read_text()
        assert "firing: " in said and SECRET not in said, "no log holds what lets others post"
