"""`payhook status` where no `payhook up` runs on the data folder: services elsewhere, asked from another folder."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result
from prometheus_client import CollectorRegistry

from cli.main import main
from core.clock import ManualClock, SystemClock
from core.layout import Layout
from processor.reporting.exposition import serve
from processor.reporting.status import StatusFile
from stack.servers.ports import free_ports
from tests.live_processes import page

RUNNING = {"ready": True, "stream": "ledger", "state": "running", "blocked": None, "seq": 12, "dead": 3, "marks": {}}


@pytest.fixture
def processor(tmp_path: Path) -> Iterator[StatusFile]:
    """A processor's status in its own data folder, and the port that it answers at, in the settings of the third."""
    file = StatusFile(Layout(tmp_path / "processor").ledger().status, SystemClock())
    (port,) = free_ports(1)
    serve(port, "127.0.0.1", CollectorRegistry(), lambda: {"ledger": file.last_written})
    with page(CollectorRegistry()) as ingest:
        urls = f'{{processor = "http://127.0.0.1:{port}/metrics", ingest = "{ingest}"}}'
        (tmp_path / "payhook.toml").write_text(f"[console]\nmetrics_urls = {urls}\n")
        yield file


def status(folder: Path, *words: str) -> Result:
    config = ["--config", str(folder / "payhook.toml")] if (folder / "payhook.toml").exists() else []
    return CliRunner().invoke(main, ["status", "--data", str(folder / "third"), *config, *words])


def reported(folder: Path) -> dict[str, Any]:
    said: dict[str, Any] = json.loads(status(folder, "--json").stdout)
    return said


def test_services_are_asked_where_the_settings_say_that_they_are(tmp_path: Path, processor: StatusFile) -> None:
    processor.write(RUNNING)
    said = reported(tmp_path)
    assert said["up"] and said["processor"]["ready"] and said["processor"]["seq"] == 12
    assert said["processes"] == {"processor": True, "ingest": True}
    assert said["streams"]["notify"] == {"ready": False}, "nobody runs it"
    shown = status(tmp_path)
    assert shown.exit_code == 1, "the receiver isn't ready"
    assert "not running" not in shown.output and "payhook up" not in shown.output
    assert "answers" in shown.output and "12" in shown.output


def test_a_stream_that_waits_for_a_person_is_no_reason_to_start_another(tmp_path: Path, processor: StatusFile) -> None:
    processor.write({"ready": False, "state": "refused", "why": "another history", "stream": "ledger"})
    shown = status(tmp_path).output
    assert "refused (another history)" in shown and "payhook up" not in shown


def test_what_a_processor_said_long_ago_is_not_believed(tmp_path: Path, processor: StatusFile) -> None:
    processor._clock = ManualClock(datetime.now(UTC) - timedelta(minutes=5))
    processor.write(RUNNING)
    said = reported(tmp_path)
    assert said["up"] and not said["processor"]["ready"]


def test_services_that_do_not_answer_are_named_and_no_second_stack_is_advised(tmp_path: Path) -> None:
    (port,) = free_ports(1)
    url = f"http://127.0.0.1:{port}/metrics"
    (tmp_path / "payhook.toml").write_text(f'[console]\nmetrics_urls = {{processor = "{url}"}}\n')
    shown = status(tmp_path)
    assert shown.exit_code == 1 and url in shown.output
    assert "starts it" not in shown.output and "would start another stack" in shown.output


def test_containers_that_share_the_data_folder_are_seen_by_their_files(tmp_path: Path) -> None:
    """`payhook up` there would take the journal from the processor that writes it."""
    StatusFile(Layout(tmp_path / "third").ledger().status, SystemClock()).write(RUNNING)
    shown = status(tmp_path)
    assert "payhook up" not in shown.output and "running" in shown.output


def test_where_nothing_is_named_and_nothing_runs_it_may_be_started(tmp_path: Path) -> None:
    assert status(tmp_path).output == "not running: `payhook up --detach` starts it\n"


def test_figures_are_of_all_shards(tmp_path: Path, processor: StatusFile, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PAYHOOK_PROCESSOR__SHARDS", "2")
    monkeypatch.setenv("PAYHOOK_KAFKA__EVENTS_PARTITIONS", "4")
    processor.write(RUNNING)
    second = StatusFile(Layout(tmp_path / "third").ledger(number=1).status, SystemClock())
    second.write({**RUNNING, "stream": "ledger.1", "seq": 30, "dead": 4, "ready": False})
    shown = status(tmp_path).output
    assert re.search(r"decisions +42\n", shown)
    assert re.search(r"dead events +7\n", shown)
    assert re.search(r"processor +not ready\n", shown)
    assert re.search(r"stream ledger.1 +not ready", shown)
