"""Ports, endpoints and first files: small promises that everything else leans on."""

from __future__ import annotations

import socket
import stat
import subprocess
import sys
from pathlib import Path

import psutil
import pytest

from core.layout import Layout
from load.client import wait_for
from providers.registry import build_adapters
from providers.settings import ProvidersSettings
from stack.data_folder import make_key, make_merchants, make_secrets
from stack.endpoints import (
    Endpoints,
    end_leftovers,
    read_endpoints,
    record_processes,
    recorded_states,
    recorded_supervisor,
    remove_endpoints,
    write_endpoints,
)
from stack.servers import ports
from stack.servers.ports import FREE, LOOPBACK, free_ports, is_listening


def test_free_ports_differ_and_nobody_listens_on_them() -> None:
    found = free_ports(20)
    assert len(set(found)) == 20
    assert not any(is_listening(port) for port in found)
    assert set(found) <= set(FREE), "connections get others"


def test_the_port_of_a_connection_is_not_free(monkeypatch: pytest.MonkeyPatch) -> None:
    with (
        socket.create_server((LOOPBACK, 0)) as server,
        socket.create_connection(server.getsockname()) as connection,
    ):
        port = connection.getsockname()[1]
        monkeypatch.setattr(ports, "FREE", range(port, port + 1))
        with pytest.raises(OSError, match="no 1 free ports"):
            free_ports(1)


def test_a_listener_is_seen() -> None:
    with socket.create_server((LOOPBACK, 0)) as server:
        assert is_listening(server.getsockname()[1])


def test_endpoints_are_read_as_written_and_gone_when_removed(tmp_path: Path) -> None:
    endpoints = Endpoints("http://a", "http://b", "c:1", "redis://d", "/e", {"ingest": 7})
    assert read_endpoints(tmp_path) is None
    write_endpoints(tmp_path, endpoints)
    assert read_endpoints(tmp_path) == endpoints
    assert [path.name for path in tmp_path.iterdir()] == ["endpoints.json"]
    remove_endpoints(tmp_path)
    assert read_endpoints(tmp_path) is None


def test_a_secret_is_made_once_and_only_its_owner_reads_it(tmp_path: Path) -> None:
    adapters = {name: build_adapters(ProvidersSettings())[name] for name in ("stripe", "adyen")}
    (tmp_path / "secrets").mkdir()
    (tmp_path / "secrets" / "adyen").write_text("chosen by a person\n")
    make_secrets(tmp_path / "secrets", adapters)
    made = tmp_path / "secrets" / "stripe"
    secret = made.read_text()
    adapters["stripe"].check_secret(secret.strip())
    make_secrets(tmp_path / "secrets", adapters)
    assert made.read_text() == secret
    assert stat.S_IMODE(made.stat().st_mode) == 0o600
    assert (tmp_path / "secrets" / "adyen").read_text() == "chosen by a person\n"
    assert sorted(path.name for path in made.parent.iterdir()) == ["adyen", "stripe"]


def test_the_first_merchant_directory_knows_every_account_and_a_later_one_is_kept(tmp_path: Path) -> None:
    path = tmp_path / "merchants.toml"
    make_merchants(path, ["stripe", "adyen"])
    assert path.read_text() == '[stripe]\n"*" = "merchant-main"\n\n[adyen]\n"*" = "merchant-main"\n'
    path.write_text('[stripe]\n"acct_1" = "m"\n')
    make_merchants(path, ["stripe", "adyen"])
    assert path.read_text() == '[stripe]\n"acct_1" = "m"\n'


def test_the_key_of_anchors_is_made_once_and_only_its_owner_reads_it(tmp_path: Path) -> None:
    file = tmp_path / "secrets" / "anchors"
    make_key(file)
    key = file.read_text()
    make_key(file)
    assert file.read_text() == key
    assert len(key.strip()) == 64
    assert stat.S_IMODE(file.stat().st_mode) == 0o600


def test_a_killed_supervisor_whom_nobody_has_waited_for_is_none(tmp_path: Path) -> None:
    """What adopts orphans takes its time: until then a process that ended still has its pid and its start."""
    layout = Layout(tmp_path)
    layout.run.mkdir()
    with subprocess.Popen([sys.executable, "-c", "import sys; sys.stdin.read()"], stdin=subprocess.PIPE) as process:
        record_processes(layout, up=False, states={}, pids=[process.pid])
        found = recorded_supervisor(layout)
        assert found is not None and found.pid == process.pid
        process.kill()
        assert wait_for(lambda: psutil.Process(process.pid).status() == psutil.STATUS_ZOMBIE, 60)
        assert recorded_supervisor(layout) is None


@pytest.mark.parametrize("step_s", [-3_600.0, -0.5, 0.5, 3_600.0])
def test_a_process_is_known_again_after_the_clock_was_set(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, step_s: float
) -> None:
    """The kernel tells a process's start in ticks since it booted; by the clock it moves with each step of that."""
    layout = Layout(tmp_path)
    with subprocess.Popen([sys.executable, "-c", "import sys; sys.stdin.read()"], stdin=subprocess.PIPE) as process:
        record_processes(layout, up=False, states={}, pids=[process.pid])
        boot_s = psutil.boot_time()
        monkeypatch.setattr("psutil._pslinux.boot_time", lambda: boot_s + step_s, raising=False)
        found = recorded_supervisor(layout)
        assert found is not None and found.pid == process.pid
        process.kill()


@pytest.mark.parametrize("text", ["", "{", "[]", "null", "{}", '{"ingest": 1, "x": 2}'])
def test_endpoints_that_cannot_be_read_say_that_nothing_runs(tmp_path: Path, text: str) -> None:
    (tmp_path / "endpoints.json").write_text(text)
    assert read_endpoints(tmp_path) is None


@pytest.mark.parametrize(
    "text", ["", '{"processes": [1]}', '{"processes": [{}]}', '{"processes": 5}', '{"states": []}']
)
def test_a_record_that_cannot_be_read_names_no_process(tmp_path: Path, text: str) -> None:
    layout = Layout(tmp_path)
    layout.supervisor_file.parent.mkdir(parents=True)
    layout.supervisor_file.write_text(text)
    assert (recorded_supervisor(layout), dict(recorded_states(layout)), end_leftovers(layout)) == (None, {}, False)
