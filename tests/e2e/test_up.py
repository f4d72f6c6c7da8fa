"""`payhook up`, `status` and `down` on the whole stack: one that answers, then everything that may befall it."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable
from pathlib import Path
from typing import Any

import psutil
import pytest
import redis
from prometheus_client.metrics_core import Metric
from prometheus_client.parser import text_string_to_metric_families

from core.layout import Layout
from core.metrics import CATALOGUE
from load.embedded import UP_S_MAX, payhook
from providers.registry import build_adapters
from providers.settings import ProvidersSettings
from stack.servers.kafka import broker_answers
from stack.servers.kafka_users import embedded_kafka, security_environment
from stack.servers.ports import is_listening
from stack.servers.redis import redis_answers
from tests.damaged_lake import cut_log
from tests.e2e.conftest import Stack, as_admin
from tests.processes import all_end, is_gone, name_of, with_children

WAIT_S = 120.0
SERVICES = ("ingest", "processor", "alerts")
MORE = pytest.mark.more(reason="a stack that is up is shown by the others")


def wait_for(holds: Callable[[], bool]) -> None:
    until = time.monotonic() + WAIT_S
    while not holds():
        assert time.monotonic() < until, "it never came to hold"
        time.sleep(0.1)


def endpoints(folder: Path) -> dict[str, Any]:
    read: dict[str, Any] = json.loads((folder / "endpoints.json").read_text())
    return read


def as_user_of_kafka(folder: Path, user: str) -> dict[str, str]:
    """The settings by which a process is one of the embedded broker's users."""
    address = endpoints(folder)["kafka"]
    return {"PAYHOOK_KAFKA__BOOTSTRAP_SERVERS": address} | security_environment(Layout(folder).kafka, user)


def processes_of(folder: Path) -> list[psutil.Process]:
    """Every process whose command names the data folder, and what those started."""
    named = [one for one in psutil.process_iter(["cmdline"]) if str(folder) in " ".join(one.info["cmdline"] or [])]
    all_of_them = [process for one in named if not is_gone(one) for process in with_children(one.pid)]
    return [one for one in {one.pid: one for one in all_of_them}.values() if not is_gone(one)]


def port_of(address: str) -> int:
    return int(address.rpartition(":")[2])


def answers(name: str, address: str) -> bool:
    return redis_answers(address) if name == "redis" else is_listening(port_of(address))


@pytest.fixture(scope="module")
def folder(one_stack: Stack) -> Path:
    """The data folder of a stack that is up; the last tests of this file end it."""
    # Another file's tests may have killed its processor.
    wait_for(lambda: is_ready(one_stack.data_dir))
    return one_stack.data_dir


def sizes_of(folder: Path) -> dict[tuple[str, str | None], float]:
    """Bytes of memory of each process and each part of one."""
    return {
        (sample.labels["process"], sample.labels.get("part")): sample.value
        for family in metrics_of(folder)
        if family.name in ("process_resident_memory_bytes", "payhook_part_memory_bytes")
        for sample in family.samples
    }


def is_ready(folder: Path) -> bool:
    try:
        with urllib.request.urlopen(f"{endpoints(folder)['ops']}/readyz") as answer:
            return bool(answer.status == 200)
    except OSError:
        return False


def metrics_of(folder: Path) -> list[Metric]:
    """Every family on the management listener's page; the client adds when each counter began."""
    with urllib.request.urlopen(f"{endpoints(folder)['ops']}/metrics", timeout=30) as page:
        families = text_string_to_metric_families(page.read().decode())
        return [family for family in families if not family.name.endswith("_created")]


def test_all_processes_expose_what_the_catalogue_says_and_nothing_else(folder: Path) -> None:
    """Memory and processor time of every process, the JVM's too."""
    wait_for(lambda: any(family.name == "payhook_jvm_gc_seconds" and family.samples for family in metrics_of(folder)))
    # `up` doesn't wait for the alerts: they begin once the processor answers.
    wait_for(lambda: "alerts" in {one.labels.get("process") for each in metrics_of(folder) for one in each.samples})
    for family in metrics_of(folder):
        entry = CATALOGUE[family.name]
        assert family.type == entry.kind
        assert family.documentation == entry.meaning or not family.name.startswith("payhook_")
        labels = {name for sample in family.samples for name in sample.labels}
        assert labels - {"le"} <= {*entry.all_labels, "process"}, family.name
    # A processor's workers begin with its first batch.
    parts = {
        *(("ingest", None), ("processor", None), ("alerts", None), ("console", None)),
        *(("processor", "jvm"), ("processor", "workers")),
    }
    wait_for(lambda: {part for part, size in sizes_of(folder).items() if size > 10_000_000} == parts)


def test_up_returns_when_everything_answers(folder: Path) -> None:
    found = endpoints(folder)
    assert set(found) == {"ingest", "ops", "kafka", "redis", "journal", "pids"}
    assert set(found["pids"]) == {"ingest", "processor", "kafka", "redis"}
    assert all(psutil.pid_exists(pid) for pid in found["pids"].values())
    with urllib.request.urlopen(f"{found['ops']}/readyz") as answer:
        assert answer.status == 200
    assert broker_answers(embedded_kafka(folder / "kafka", found["kafka"]))
    assert redis_answers(found["redis"])
    assert (Path(found["journal"]) / "_delta_log").is_dir()
    secrets = {path.name for path in (folder / "secrets").iterdir()}
    assert secrets == {*build_adapters(ProvidersSettings()), "anchors", "masking", "records"}


def test_status_tells_what_is_ready_and_how_far_it_is(folder: Path) -> None:
    said = payhook("status", "--json", "--data", str(folder))
    assert said.returncode == 0, said.stdout
    status = json.loads(said.stdout)
    assert (status["up"], status["ready"]) == (True, True)
    assert status["endpoints"] == endpoints(folder)
    assert status["lag"] == {"payments.events": 0, "payments.control": 0}


@MORE
def test_status_from_another_folder_asks_the_services_that_the_settings_name(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As in a container or on another host: nothing of the data folder is read."""
    found = endpoints(folder)
    ports = psutil.Process(found["pids"]["processor"]).environ()
    urls = {name: f"http://127.0.0.1:{ports[f'PAYHOOK_{name.upper()}__METRICS_PORT']}/metrics" for name in SERVICES}
    monkeypatch.setenv("PAYHOOK_CONSOLE__INGEST_URL", found["ingest"])
    monkeypatch.setenv("PAYHOOK_CONSOLE__METRICS_URLS", json.dumps(urls))
    for name, value in as_user_of_kafka(folder, "operator").items():
        monkeypatch.setenv(name, value)
    said = payhook("status", "--json", "--data", str(tmp_path))
    status = json.loads(said.stdout)
    assert (said.returncode, status["up"], status["ready"]) == (0, True, True), said.stdout
    assert status["processor"]["pid"] == found["pids"]["processor"]
    assert status["lag"] == {"payments.events": 0, "payments.control": 0}
    assert status["processes"] == dict.fromkeys(SERVICES, True)


@MORE
@MORE
def test_its_rounds_verify_it_and_status_says_so(folder: Path) -> None:
    """With a schedule of seconds, in a process as `up` runs it."""
    layout = Layout(folder)
    env = {
        **os.environ,
        "PAYHOOK_DATA_DIR": str(folder),
        **as_user_of_kafka(folder, "maintenance"),
        "PAYHOOK_LEDGER__VERIFY__EVERY_H": "0.0003",
        "PAYHOOK_LEDGER__MAINTAIN__EVERY_S": "0",
    }
    with subprocess.Popen([sys.executable, "-m", "stack.rounds"], env=env) as rounds:
        try:
            wait_for(layout.verification_file.exists)
        finally:
            rounds.terminate()
    said = json.loads(layout.verification_file.read_text())
    assert (said["ok"], said["wrong"], said["problems"]) == (True, 0, {}), said
    status = payhook("status", "--data", str(folder)).stdout
    assert re.search(r"verified ledger +\d{4}-\d\d-\d\dT\S+: all of it holds\n", status), status


def test_up_again_changes_nothing(folder: Path) -> None:
    before = endpoints(folder)
    assert payhook("up", "--detach", "--data", str(folder)).returncode == 0
    assert endpoints(folder) == before
    foreground = payhook("up", "--data", str(folder))
    assert foreground.returncode == 1
    assert "a stack already runs on" in foreground.stderr


@MORE
@pytest.mark.parametrize("name", ["ingest", "redis", "kafka"])
def test_a_killed_process_comes_back_where_it_was(folder: Path, name: str) -> None:
    before = endpoints(folder)
    os.kill(before["pids"][name], signal.SIGKILL)
    wait_for(lambda: endpoints(folder)["pids"].get(name) not in (None, before["pids"][name]))
    wait_for(lambda: answers(name, before[name]))
    after = endpoints(folder)
    assert {key: after[key] for key in after if key != "pids"} == {key: before[key] for key in before if key != "pids"}


@MORE
def test_redis_comes_back_with_what_it_knew(folder: Path) -> None:
    found = endpoints(folder)
    client = redis.Redis.from_url(as_admin(folder, found["redis"]))
    client.set("kept", "yes")
    # BGREWRITEAOF's new file holds the key at once; the everysec flush would take its second.
    client.bgrewriteaof()
    wait_for(
        lambda: not any(client.info("persistence")[f"aof_rewrite_{state}"] for state in ("scheduled", "in_progress"))
    )
    os.kill(found["pids"]["redis"], signal.SIGKILL)
    wait_for(lambda: endpoints(folder)["pids"].get("redis") not in (None, found["pids"]["redis"]))
    wait_for(lambda: redis_answers(found["redis"]))
    assert client.get("kept") == b"yes"
    client.close()


@MORE
def test_nothing_outlives_a_killed_supervisor_and_the_next_up_and_down_work(folder: Path) -> None:
    [supervisor] = [one for one in processes_of(folder) if "stack.up" in one.cmdline()]
    all_of_it = processes_of(folder)
    assert any("java" in name_of(one) for one in all_of_it)
    supervisor.kill()
    if sys.platform == "linux":
        assert all_end(all_of_it)
    assert payhook("up", "--detach", "--data", str(folder), timeout_s=UP_S_MAX).returncode == 0
    everything = processes_of(folder)
    down = payhook("down", "--data", str(folder))
    assert (down.returncode, down.stdout) == (0, "stopped\n")
    assert [one for one in everything if not is_gone(one)] == []
    assert not (folder / "endpoints.json").exists()
    assert payhook("status", "--data", str(folder)).returncode == 1


@MORE
def test_a_stream_whose_log_is_cut_is_said_by_up_and_the_stack_is_ended_without_its_run_folder(folder: Path) -> None:
    layout = Layout(folder)
    cut_log(folder / "lake" / "journal" / "ledger")
    up = payhook("up", "--detach", "--data", str(folder), timeout_s=UP_S_MAX)
    try:
        assert up.returncode == 3, up.stdout + up.stderr
        assert re.search(r"^ledger is stopped: .*_delta_log", up.stderr, re.M), up.stderr
        assert "notify is stopped" not in up.stderr
        with urllib.request.urlopen(f"{endpoints(folder)['ingest']}/readyz") as answer:
            assert answer.status == 200
        everything = processes_of(folder)
        layout.run.rename(folder / "removed")
        again = payhook("up", "--data", str(folder))
        assert (again.returncode, "a stack already runs on" in again.stderr) == (1, True)
    finally:
        down = payhook("down", "--data", str(folder))
    assert (down.returncode, down.stdout) == (0, "stopped\n")
    assert [one for one in everything if not is_gone(one)] == []
