"""``payhook storage``."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

import journal.storage
from cli.main import main
from journal.storage import Race


def payhook(*arguments: str) -> tuple[int, str]:
    said = CliRunner().invoke(main, list(arguments))
    return said.exit_code, said.output


def test_it_says_where_the_lake_is_and_who_won(tmp_path: Path) -> None:
    code, said = payhook("storage", "--data", str(tmp_path))
    assert code == 0
    assert said.startswith(f"{tmp_path}/lake: each of 50 names went to one of four writers (")


def test_a_place_that_loses_commits_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(journal.storage, "race", lambda _: Race((2, 1), twice=1, nobody=0))
    code, said = payhook("storage", "--data", str(tmp_path))
    assert code == 1 and "1 names went to two writers" in said and "Don't keep a lake there" in said
    code, said = payhook("storage", "--json", "--data", str(tmp_path))
    assert code == 1
    reported = json.loads(said)
    assert reported == {"lake": f"{tmp_path}/lake", "ok": False, "won": [2, 1], "twice": 1, "nobody": 0}


def test_a_place_that_cannot_be_used_is_one_sentence(tmp_path: Path) -> None:
    (tmp_path / "lake").write_text("a file", "utf-8")
    code, said = payhook("storage", "--data", str(tmp_path))
    assert code == 1 and said.startswith(f"payhook: {tmp_path}/lake can't be used: ")
