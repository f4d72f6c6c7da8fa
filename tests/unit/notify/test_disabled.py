"""Who answered 410 stays disabled until a person enables them."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest

from core.decision import ErrorKind
from notify.errors import NotDisabled
from notify.handler import Disabled, DisabledSubscribers

AT = "2026-01-31T12:00:00.000000Z"


def test_disabling_outlives_the_process_and_every_worker_sees_it(tmp_path: Path) -> None:
    folder = tmp_path / "subscribers.disabled"
    assert DisabledSubscribers(folder).disable("shop", AT, "it answered 410") == Disabled(AT, "it answered 410")
    assert DisabledSubscribers(folder).find("shop") == Disabled(AT, "it answered 410")
    assert DisabledSubscribers(folder).find("bank") is None


def test_who_was_first_stays(tmp_path: Path) -> None:
    disabled = DisabledSubscribers(tmp_path)
    disabled.disable("shop", AT, "first")
    assert disabled.disable("shop", AT, "second").reason == "first"


def test_many_at_once_leave_one_whole_file(tmp_path: Path) -> None:
    disabled = DisabledSubscribers(tmp_path)
    threads = [threading.Thread(target=disabled.disable, args=("shop", AT, "x" * 5_000)) for _ in range(16)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [path.name for path in tmp_path.iterdir()] == ["shop.json"]
    assert disabled.find("shop") == Disabled(AT, "x" * 5_000)


def test_enabling_forgets_it(tmp_path: Path) -> None:
    disabled = DisabledSubscribers(tmp_path)
    disabled.disable("shop", AT, "gone")
    assert disabled.enable("shop") is True
    assert disabled.find("shop") is None
    assert disabled.enable("shop") is False


def test_a_file_that_cant_be_read_still_disables(tmp_path: Path) -> None:
    for text in ("", "{}", "[1]", '{"at": 1'):
        (tmp_path / "shop.json").write_text(text)
        found = DisabledSubscribers(tmp_path).find("shop")
        assert found is not None
        assert "can't be read" in found.reason


def test_what_cant_be_written_down_is_said(tmp_path: Path) -> None:
    """The event is tried again, and the 410 that comes again is written down then."""
    (tmp_path / "file").write_text("")
    with pytest.raises(NotDisabled, match="can't be written") as failed:
        DisabledSubscribers(tmp_path / "file" / "folder").disable("shop", AT, "gone")
    assert failed.value.kind is ErrorKind.SNBE
