"""Which streams don't run once everything of a stack answers: what `payhook up` waits for, and exits 3 for."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from core.layout import Layout
from stack import watching
from stack.children import choose_ports, list_servers
from stack.servers.server import Server
from stack.settings import Settings
from stack.watching import await_streams

RUNS = {"ready": True, "state": "running", "pid": 1, "restarts": 0}
OFF = {"ready": True, "state": "off", "why": "there are no subscribers", "pid": 1, "restarts": 0}
REFUSED = {"ready": False, "state": "refused", "why": "OtherTopic: Kafka is another one", "pid": 1, "restarts": 0}
FAILED = {"ready": False, "state": "failed", "last_failure": "DeltaError: cut", "pid": 1, "restarts": 0}
OUTAGE = {"ready": False, "state": "running", "blocked": "StorageDown: full", "tries": 1, "pid": 1, "restarts": 0}


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    return Settings(data_dir=tmp_path)


@pytest.fixture
def says(tmp_path: Path) -> Callable[..., None]:
    layout = Layout(tmp_path)
    layout.run.mkdir()

    def say(stream: str, said: dict[str, Any] | None, **more: Any) -> None:
        file = layout.stream(stream).status
        if said is None:
            file.unlink(missing_ok=True)
        else:
            draft = file.with_suffix(".draft")
            draft.write_text(json.dumps({**said, **more}))
            draft.replace(file)

    return say


def test_nothing_is_stopped_where_each_stream_runs_or_is_off(settings: Settings, says: Callable[..., None]) -> None:
    says("ledger", RUNS)
    says("notify", OFF)
    assert await_streams(settings) == {}


def test_a_refused_stream_is_not_waited_for(settings: Settings, says: Callable[..., None]) -> None:
    says("ledger", REFUSED)
    says("notify", OFF)
    assert await_streams(settings) == {"ledger": "OtherTopic: Kafka is another one"}


@pytest.mark.parametrize(
    ("first", "again", "why"),
    [
        (FAILED, {"pid": 2}, "DeltaError: cut"),
        (FAILED, {"restarts": 1}, "DeltaError: cut"),
        (OUTAGE, {"tries": 2}, "StorageDown: full"),
    ],
)
def test_a_stream_is_stopped_once_it_has_failed_again(
    settings: Settings, says: Callable[..., None], first: dict[str, Any], again: dict[str, Any], why: str
) -> None:
    """A failure at the start may be mended by the start that follows it."""
    says("ledger", first)
    says("notify", OFF)
    found: list[dict[str, str]] = []
    waiting = threading.Thread(target=lambda: found.append(await_streams(settings)))
    waiting.start()
    waiting.join(1.0)
    assert found == []
    says("ledger", None)
    waiting.join(0.5)
    assert found == []
    says("ledger", {**first, **again})
    waiting.join(60)
    assert found == [{"ledger": why}]


def test_a_stream_that_runs_after_its_first_failure_is_not_stopped(
    settings: Settings, says: Callable[..., None]
) -> None:
    says("ledger", FAILED)
    says("notify", RUNS)
    found: list[dict[str, str]] = []
    waiting = threading.Thread(target=lambda: found.append(await_streams(settings)))
    waiting.start()
    waiting.join(0.5)
    says("ledger", RUNS, restarts=1)
    waiting.join(60)
    assert found == [{}]


def test_a_stream_whose_process_ends_without_a_word_is_named(
    settings: Settings, says: Callable[..., None], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(watching, "AWAIT_S_MAX", 0.3)
    says("notify", OFF)
    assert await_streams(settings) == {"ledger": "its processor writes no status; see run/logs/processor.log"}


def processor_of(settings: Settings) -> Server:
    servers = list_servers(settings, choose_ports(settings), None)
    return next(server for server in servers if server.name == "processor")


@pytest.mark.parametrize("first", [RUNS, OFF, REFUSED, FAILED, OUTAGE])
def test_a_processor_answers_once_each_stream_has_said_how_it_is(
    settings: Settings, says: Callable[..., None], first: dict[str, Any]
) -> None:
    server = processor_of(settings)
    says("ledger", first)
    assert not server.answers()
    says("notify", FAILED)
    assert server.answers()
    assert server.last_words()
