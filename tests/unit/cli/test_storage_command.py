"""``payhook storage``."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

import journal.storage
from cli.main import main
from journal.storage import DiskStorage, Race


def payhook(*arguments: str) -> tuple[int, str]:
    said = CliRunner().invoke(main, list(arguments))
    return said.exit_code, said.output


def test_it_says_where_the_lake_is_and_who_won(tmp_path: Path) -> None:
    code, said = payhook("storage", "--data", str(tmp_path))
    assert code == 0
    assert said.startswith(f"{tmp_path}/lake: each of 50 names went to one of four writers (")


def test_a_place_that_loses_commits_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(journal.storage, "run_race", lambda _: Race((2, 1), twice=1, nobody=0, listed=True))
    code, said = payhook("storage", "--data", str(tmp_path))
    assert code == 1 and "1 names went to two writers" in said and "Don't keep a lake there" in said
    code, said = payhook("storage", "--json", "--data", str(tmp_path))
    assert code == 1
    reported = json.loads(said)
    assert reported == {"lake": f"{tmp_path}/lake", "ok": False, "won": [2, 1], "twice": 1, "nobody": 0, "listed": True}


def test_a_place_whose_listings_begin_at_the_first_name_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As Azurite did before 3.37."""
    files = DiskStorage.files
    monkeypatch.setattr(DiskStorage, "files", lambda storage, folder="", after="": files(storage, folder))
    code, said = payhook("storage", "--data", str(tmp_path))
    assert code == 1 and "a listing that begins after a name has others than the later ones" in said


def test_a_place_that_cannot_be_used_is_one_sentence(tmp_path: Path) -> None:
    (tmp_path / "lake").write_text("a file", "utf-8")
    code, said = payhook("storage", "--data", str(tmp_path))
    assert code == 1 and said.startswith(f"payhook: {tmp_path}/lake can't be used: ")
