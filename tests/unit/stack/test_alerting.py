"""What the alerts look at: every stream of the traffic that is taken, and every process whose metrics are known."""

from __future__ import annotations

import threading
import time
from pathlib import Path

import pytest

from stack import alerting
from stack.addresses import metrics_urls
from stack.alerting import await_turn, collect_places
from stack.settings import load_settings

CONFIG = """
[ingest]
test_traffic = true
workers = 2
port = 8088
metrics_port = 9100
[processor]
metrics_port = 9200
[alerts]
metrics_port = 9300
[console]
metrics_urls = {"ingest-far" = "http://far:9100/metrics"}
"""


@pytest.fixture
def config(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("PAYHOOK_DATA_DIR", str(tmp_path))
    file = tmp_path / "payhook.toml"
    file.write_text(CONFIG)
    return file


def test_every_stream_of_the_traffic_that_is_taken_is_looked_at(config: Path, tmp_path: Path) -> None:
    looked_at = collect_places(load_settings(config))
    assert set(looked_at.statuses) == {"ledger", "notify", "ledger-test", "notify-test"}
    assert looked_at.journals["ledger-test"] == tmp_path / "lake" / "journal" / "ledger-test"
    assert looked_at.statuses["notify"] == tmp_path / "run" / "processor-notify.json"
    assert looked_at.ready_url == "http://127.0.0.1:8088/readyz"
    assert "alerts" not in looked_at.metrics


def test_one_process_looks_at_a_time_and_the_next_one_begins_when_it_ends(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(alerting, "TURN_S", 0.01)
    lock, stopped, going_on = tmp_path / "run" / "alerts.lock", threading.Event(), threading.Event()
    began: list[bool] = []

    def second() -> None:
        with await_turn(lock, going_on) as is_ours:
            began.append(is_ours)

    with await_turn(lock, going_on) as first:
        assert first
        stopped.set()
        with await_turn(lock, stopped) as other:
            assert not other
        waiting = threading.Thread(target=second)
        waiting.start()
        time.sleep(0.05)
        assert began == []
    waiting.join(10)
    assert began == [True]


def test_metrics_are_those_of_processes_here_and_of_those_that_are_named(config: Path) -> None:
    assert metrics_urls(load_settings(config)) == {
        "ingest": "http://127.0.0.1:9100/metrics",
        "ingest-1": "http://127.0.0.1:9101/metrics",
        "processor": "http://127.0.0.1:9200/metrics",
        "processor-test": "http://127.0.0.1:9201/metrics",
        "alerts": "http://127.0.0.1:9300/metrics",
        "ingest-far": "http://far:9100/metrics",
    }


def test_lists_that_no_schedule_reads_any_more_are_not_looked_at(config: Path) -> None:
    """As docs/catch-up.md says: what they came to last would be an alert for ever."""
    assert collect_places(load_settings(config)).caught_up is not None
    config.write_text(CONFIG.replace("[ingest]", "[ingest]\ncatch_up_every_s = 0"))
    assert collect_places(load_settings(config)).caught_up is None
