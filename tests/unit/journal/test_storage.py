"""Whether a place can hold a lake: each name to one writer."""

from __future__ import annotations

from pathlib import Path

import pytest

import journal.storage
from core.location import Location
from journal.storage import DiskStorage, run_race


def test_a_disk_gives_each_name_to_one_writer_and_nothing_stays(tmp_path: Path) -> None:
    found = run_race(tmp_path, names=20)
    assert found.is_exclusive
    assert len(found.winners) == 4 and sum(found.winners) == 20
    assert list(tmp_path.iterdir()) == []


def test_a_place_that_overwrites_is_found_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    class Overwrites(DiskStorage):
        def put_new(self, name: str, data: bytes) -> None:
            (self._folder / name).write_bytes(data)

    monkeypatch.setattr(journal.storage, "open_storage", lambda place: Overwrites(Path(place)))
    found = run_race(tmp_path, names=3)
    assert (found.is_exclusive, found.twice) == (False, 3)


def test_a_place_that_refuses_everybody_is_found_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    class Refuses(DiskStorage):
        def put_new(self, name: str, data: bytes) -> None:
            raise FileExistsError(name)

    monkeypatch.setattr(journal.storage, "open_storage", lambda place: Refuses(Path(place)))
    assert run_race(tmp_path, names=3).nobody == 3


def test_a_place_that_cannot_be_reached_is_an_error_and_no_writer_hangs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made: list[Location] = []

    class FailsOne(DiskStorage):
        def put_new(self, name: str, data: bytes) -> None:
            if data == b"2":
                raise OSError("no route")
            super().put_new(name, data)

    def opened(place: Location) -> DiskStorage:
        made.append(place)
        return FailsOne(Path(place))

    monkeypatch.setattr(journal.storage, "open_storage", opened)
    with pytest.raises(OSError, match="no route|another writer failed"):
        run_race(tmp_path, names=3)
    assert len(made) >= 4
