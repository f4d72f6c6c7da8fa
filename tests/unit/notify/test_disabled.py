"""Who answered 410 stays disabled until a person enables them."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest

from notify.handler import Disabled, DisabledSubscribers, on_driver
from notify.settings import NotifySettings

AT = "2026-01-31T12:00:00.000000Z"


def test_disabling_outlives_the_process_and_every_worker_sees_it(tmp_path: Path) -> None:
    folder = tmp_path / "subscribers.disabled"
    DisabledSubscribers(folder).disable_subscriber("shop", AT, "it answered 410")
    assert DisabledSubscribers(folder).find("shop") == Disabled(AT, "it answered 410")
    assert DisabledSubscribers(folder).find("bank") is None


def test_who_was_first_stays(tmp_path: Path) -> None:
    disabled = DisabledSubscribers(tmp_path)
    disabled.disable_subscriber("shop", AT, "first")
    disabled.disable_subscriber("shop", AT, "second")
    assert disabled.find("shop") == Disabled(AT, "first")


def test_many_at_once_leave_one_whole_file(tmp_path: Path) -> None:
    disabled = DisabledSubscribers(tmp_path)
    threads = [threading.Thread(target=disabled.disable_subscriber, args=("shop", AT, "x" * 5_000)) for _ in range(16)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [path.name for path in tmp_path.iterdir()] == ["shop.json"]
    assert disabled.find("shop") == Disabled(AT, "x" * 5_000)


def test_enabling_forgets_it(tmp_path: Path) -> None:
    disabled = DisabledSubscribers(tmp_path)
    disabled.disable_subscriber("shop", AT, "gone")
    for _ in range(2):
        disabled.enable_subscriber("shop", AT)
        assert disabled.find("shop") is None
    disabled.disable_subscriber("shop", AT, "gone again")
    assert disabled.find("shop") == Disabled(AT, "gone again")


def test_a_file_that_cant_be_read_still_disables(tmp_path: Path) -> None:
    for text in ("", "{}", "[1]", '{"at": 1'):
        (tmp_path / "shop.json").write_text(text)
        found = DisabledSubscribers(tmp_path).find("shop")
        assert found is not None
        assert "can't be read" in found.reason


def test_what_cant_be_written_down_is_said_and_others_are_kept(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """The subscriber is asked once more then, and the 410 that comes again is written down."""
    (tmp_path / "subscribers.disabled").write_text("")
    side = on_driver(NotifySettings(subscribers_file=str(tmp_path / "subscribers.toml")))
    side.keep(("shop", AT, "gone"))
    assert "shop isn't kept as disabled" in caplog.text
    (tmp_path / "subscribers.disabled").unlink()
    side.keep(("shop", AT, "gone"))
    assert DisabledSubscribers(tmp_path / "subscribers.disabled").find("shop") == Disabled(AT, "gone")
