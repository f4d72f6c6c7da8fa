"""A backup removes from its folder what payhook made there, and nothing else."""

from __future__ import annotations

from pathlib import Path

import pytest

from stack.backup.copying import CopyTarget
from stack.backup.trees import DiskTree
from tests.backed_up import SmallLake
from tests.processes import Killed


@pytest.fixture
def lake(tmp_path: Path) -> SmallLake:
    lake = SmallLake(tmp_path)
    lake.commit(3)
    return lake


def test_a_folder_of_somebody_else_with_a_name_like_a_backups_stays(lake: SmallLake) -> None:
    theirs = lake.backups / "20200131T120000Z"
    theirs.mkdir(parents=True)
    (theirs / "photos").write_text("precious")
    (lake.backups / "20200201T120000Z").mkdir()
    (lake.backups / "20200201T120000Z" / "manifest.json").write_text('{"name": "another tool"}')
    for _ in range(3):
        assert lake.back_up(keep=1).ok
        lake.commit()
    assert (theirs / "photos").read_text() == "precious"
    assert (lake.backups / "20200201T120000Z" / "manifest.json").exists()


def test_what_a_killed_backup_left_goes_with_the_next_one(lake: SmallLake, monkeypatch: pytest.MonkeyPatch) -> None:
    def killed(*_: object) -> None:
        raise Killed

    with monkeypatch.context() as patch:
        # Not even what a failure undoes is undone.
        patch.setattr("stack.backup.make._remove", killed)
        patch.setattr(CopyTarget, "sync", killed)
        with pytest.raises(Killed):
            lake.back_up()
    [left] = [path for path in lake.backups.iterdir() if path.is_dir()]
    report = lake.back_up()
    assert report.ok and not left.exists()
    assert sorted(path.name for path in lake.backups.iterdir()) == [".lock", report.name]


def test_a_removal_that_was_interrupted_is_done_by_the_next_backup(
    lake: SmallLake, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = lake.back_up()
    lake.commit()

    def half(tree: DiskTree, path: str) -> None:
        if path == first.name:
            (tree.place / path / "lake").rename(tree.place / path / "half")
            raise Killed
        whole(tree, path)

    whole = DiskTree.remove
    with monkeypatch.context() as patch:
        patch.setattr(DiskTree, "remove", half)
        with pytest.raises(Killed):
            lake.back_up(keep=1)
    assert (lake.backups / first.name / "half").exists()
    report = lake.back_up(keep=1)
    assert sorted(path.name for path in lake.backups.iterdir()) == [".lock", report.name]
