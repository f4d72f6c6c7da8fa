"""The ports that people know: the usual ones unless taken, the same after a restart, and told where they are others."""

from __future__ import annotations

import os
import socket
from collections.abc import Iterator
from pathlib import Path
from unittest import mock

import pytest

from stack.children import KnownPorts, choose_ports
from stack.endpoints import Endpoints
from stack.servers.ports import LOOPBACK, free_ports, next_free
from stack.settings import Settings, load_settings
from stack.up import open_supervisor, taken_ports

MOST = 60_000


@pytest.fixture
def base() -> int:
    """The first of four free ports in a row."""
    while True:
        first = min(free_ports(1)[0], MOST)
        if [next_free(first + number) for number in range(4)] == [first + number for number in range(4)]:
            return first


@pytest.fixture
def usual(base: int, monkeypatch: pytest.MonkeyPatch) -> Iterator[int]:
    """The usual ports of this test, instead of 8080 and 8081: the receiver's, and the one after it."""
    monkeypatch.setattr("stack.up._default_port", lambda section: base + (type(section).__name__ == "ConsoleSettings"))
    yield base


def listener(port: int) -> socket.socket:
    return socket.create_server((LOOPBACK, port))


def started(folder: Path) -> tuple[int, int]:
    """The ports with which `payhook up` would start."""
    with mock.patch.dict(os.environ, {"PAYHOOK_DATA_DIR": str(folder)}):
        settings = load_settings()
    with open_supervisor(settings, None, lambda *_: None) as supervisor:
        return supervisor._ports.ingest, supervisor._ports.ops


def test_the_usual_ports_are_taken_where_they_are_free(tmp_path: Path, usual: int) -> None:
    assert started(tmp_path) == (usual, usual + 1)


def test_of_two_data_folders_the_second_one_gets_the_next_free_ports_and_keeps_them(tmp_path: Path, usual: int) -> None:
    with listener(usual), listener(usual + 1):
        assert started(tmp_path / "second") == (usual + 3, usual + 2)
    assert started(tmp_path / "second") == (usual + 3, usual + 2), "providers and people know them"
    assert started(tmp_path / "first") == (usual, usual + 1)


def test_where_the_receivers_alone_is_taken_the_listener_keeps_its_own(tmp_path: Path, usual: int) -> None:
    with listener(usual):
        assert started(tmp_path) == (usual + 2, usual + 1)


def test_a_kept_port_that_is_taken_now_gives_way_to_the_next_free_one(tmp_path: Path, usual: int) -> None:
    assert started(tmp_path) == (usual, usual + 1)
    with listener(usual + 1):
        assert started(tmp_path) == (usual, usual + 2)


def test_a_port_that_is_set_is_taken_as_it_is_and_the_kept_one_comes_back(
    tmp_path: Path, usual: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert started(tmp_path) == (usual, usual + 1)
    with monkeypatch.context() as chosen:
        chosen.setenv("PAYHOOK_INGEST__PORT", str(usual + 3))
        assert started(tmp_path) == (usual + 3, usual + 1)
    assert started(tmp_path) == (usual, usual + 1)


def test_zero_is_any_free_port(usual: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PAYHOOK_INGEST__PORT", "0")
    monkeypatch.setenv("PAYHOOK_CONSOLE__PORT", "0")
    ports = choose_ports(Settings(), KnownPorts(usual, usual + 1))
    assert {ports.ingest, ports.ops}.isdisjoint({0, usual, usual + 1})


def test_another_port_than_the_usual_one_is_told(usual: int, monkeypatch: pytest.MonkeyPatch) -> None:
    there = Endpoints(f"http://127.0.0.1:{usual + 2}", f"http://127.0.0.1:{usual + 1}", "c:1", "redis://d", "j", {})
    assert taken_ports(Settings(), there) == {"the receiver": (usual, usual + 2)}
    monkeypatch.setenv("PAYHOOK_INGEST__PORT", str(usual + 2))
    assert taken_ports(Settings(), there) == {}
