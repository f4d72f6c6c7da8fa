"""A status file is believed while it is young, and whatever else stands in its place is no status."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from threading import Event

import pytest

from cli.status_command import _ask as ask_listener
from core import status_file
from core.clock import to_rfc3339
from core.status_file import (
    STATUS_AGE_MAX,
    StreamStatuses,
    fresh_status,
    moment_of,
    past_moment_of,
    read_said,
    read_shaped,
)
from stack.children import answers_ok
from tests.live_processes import NO_HTTP, PAGE_S_MAX, answering_once, processor_elsewhere

NOW = datetime(2026, 1, 31, 12, tzinfo=UTC)


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "status.json"


def test_a_status_counts_until_it_is_too_old(file: Path) -> None:
    for age, counts in ((timedelta(0), True), (STATUS_AGE_MAX, True), (STATUS_AGE_MAX + timedelta(seconds=1), False)):
        file.write_text(f'{{"at": "{to_rfc3339(NOW - age)}", "ready": true}}')
        found = fresh_status(read_said(file), NOW)
        assert (found is not None and found["ready"]) is counts


@pytest.mark.parametrize("text", ["", "{", "[]", "7", "{}", '{"at": 7}', '{"at": "soon"}', '{"at": null}', "\x80"])
def test_what_is_no_status_is_none(file: Path, text: str) -> None:
    file.write_bytes(text.encode("latin-1"))
    assert fresh_status(read_said(file), NOW) is None
    assert moment_of(read_said(file), "at") is None


def test_a_file_that_is_not_there_says_nothing(file: Path) -> None:
    assert read_said(file) is None and fresh_status(read_said(file), NOW) is None and moment_of(None, "at") is None


@dataclass(frozen=True)
class Said:
    pids: tuple[int, ...]
    up: bool = False


@pytest.mark.parametrize(
    "text", ["", "{", "[]", "null", "{}", '{"pids": 5}', '{"pids": ["5"]}', '{"pids": [{}]}', "\x80"]
)
def test_what_has_another_shape_is_none(file: Path, text: str) -> None:
    assert read_shaped(file, Said) is None
    file.write_bytes(text.encode("latin-1"))
    assert read_shaped(file, Said) is None


def test_a_newer_version_may_say_more(file: Path) -> None:
    file.write_text('{"pids": [5, 7], "more": 1}')
    assert read_shaped(file, Said) == Said((5, 7))


def test_a_moment_that_is_to_come_is_unknown() -> None:
    """A clock that ran ahead wrote it, and was set back."""
    for ahead, known in ((timedelta(0), True), (timedelta(seconds=1), False), (timedelta(days=365), False)):
        said = {"ended_at": to_rfc3339(NOW + ahead)}
        assert past_moment_of(said, "ended_at", NOW) == (NOW if known else None)
    assert past_moment_of({}, "ended_at", NOW) is past_moment_of(None, "ended_at", NOW) is None


def test_a_status_does_not_count_until_a_clock_gets_to_it() -> None:
    """Other machines' clocks may be a little ahead."""
    for ahead, counts in ((STATUS_AGE_MAX, True), (STATUS_AGE_MAX + timedelta(seconds=1), False)):
        assert (fresh_status({"at": to_rfc3339(NOW + ahead)}, NOW) is not None) is counts


def test_one_that_is_slow_keeps_nobody_from_being_asked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It answers once the other one was asked, which is never if they are asked one after the other."""
    monkeypatch.setattr(status_file, "ASK_TIMEOUT_S", PAGE_S_MAX)
    asked = Event()
    said = {name: {"at": to_rfc3339(NOW), "ready": True, "state": name} for name in ("slow", "quick")}
    statuses = {name: tmp_path / name for name in said}

    def wait_for_the_other() -> None:
        if not asked.wait(PAGE_S_MAX / 2):
            raise TimeoutError

    with (
        processor_elsewhere({"slow": said["slow"]}, wait_for_the_other) as slow,
        processor_elsewhere({"quick": said["quick"]}, asked.set) as quick,
    ):
        assert StreamStatuses(statuses, [slow, quick]).read_all(NOW) == said


@pytest.mark.parametrize("answer", NO_HTTP)
def test_what_answers_no_http_says_nothing(tmp_path: Path, answer: bytes) -> None:
    with answering_once(answer) as url:
        assert StreamStatuses({"ledger": tmp_path / "none"}, [f"{url}/status"]).read_all(NOW) == {"ledger": None}


@pytest.mark.parametrize("answer", NO_HTTP)
def test_neither_does_it_in_a_terminal_or_to_a_start(answer: bytes) -> None:
    with answering_once(answer) as url:
        assert "the management listener doesn't answer" in ask_listener(url)["problem"]
    with answering_once(NO_HTTP[0]) as url:
        assert not answers_ok(url)
