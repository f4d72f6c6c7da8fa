"""The status file, whole whatever the disk has left."""

from __future__ import annotations

import errno
import json
from datetime import UTC, datetime
from pathlib import Path

import pytest

from core.clock import ManualClock
from processor.tell.status import StatusFile


def test_on_a_full_disk_what_is_said_stands_in_the_place_of_what_was(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "processor.json"
    file = StatusFile(path, ManualClock(datetime(2026, 1, 31, tzinfo=UTC)))
    file.write({"state": "running", "why": "é" * 20})
    size = path.stat().st_size

    def full(*_: object, **__: object) -> int:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(Path, "write_text", full)
    file.write({"state": "blocked", "why": "ö"})
    said = json.loads(path.read_text("utf-8"))
    assert (said["state"], said["why"]) == ("blocked", "ö")
    assert path.stat().st_size == size
