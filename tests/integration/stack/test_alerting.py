"""The process that tells people, alone in the world: nothing it looks at runs, and that is what it tells."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable
from pathlib import Path

from stack.ports import free_ports
from tests.unit.notify.receiver import receiving

CHECKOUT = Path(__file__).parents[3]
WAIT_S_MAX = 120.0


def wait_for(condition: Callable[[], object]) -> None:
    until = time.monotonic() + WAIT_S_MAX
    while not condition() and time.monotonic() < until:
        time.sleep(0.05)
    assert condition()


def look_on(config: Path, told: Callable[[], int], metrics_port: int) -> None:
    """One life of the process: it tells all there is, looks on for a while, and ends when it is told to."""
    data = config.parent / "data"
    env = {**os.environ, "PAYHOOK_DATA_DIR": str(data), "PAYHOOK_CONFIG": str(config)}
    state, began = data / "run" / "alerts.json", time.time()
    process = subprocess.Popen([sys.executable, "-m", "stack.alerting"], cwd=CHECKOUT, env=env)
    try:
        wait_for(lambda: told() >= 3)
        wait_for(lambda: state.exists() and state.stat().st_mtime > began + 2)
        with urllib.request.urlopen(f"http://127.0.0.1:{metrics_port}/metrics", timeout=30) as page:
            assert b'payhook_alert_firing{rule="not_ready",subject="ledger"} 1.0' in page.read()
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
            f"[alerts]\nevery_s = 0.3\nnot_ready_s_max = 0.5\nmetrics_port = {metrics_port}\n"
            f'[alerts.receivers.team]\nurl = "http://127.0.0.1:{server.port}/"\nhttp = true\nports = [{server.port}]\n'
            'networks = ["127.0.0.1/32"]\n'
        )
        for _ in range(2):
            look_on(config, lambda: len(server.requests), metrics_port)
            told = [json.loads(request.body) for request in server.requests]
            assert {(one["rule"], one["kind"]) for one in told} == {("not_ready", "firing")}
            assert sorted(one["subject"] for one in told) == ["ledger", "notify", "the receiver"]
