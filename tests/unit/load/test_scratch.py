"""A run empties only what an earlier run of the same command left."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import CliRunner

from cli.stack_commands import demo
from load import run
from load.bench import __main__ as bench
from load.scratch import MARKER, NotScratch, empty_scratch_folder


def test_a_new_and_an_empty_folder_are_marked(tmp_path: Path) -> None:
    for folder in (tmp_path / "new" / "deep", tmp_path / "empty"):
        if folder.name == "empty":
            folder.mkdir()
        empty_scratch_folder(folder, "load.run")
        assert [path.name for path in folder.iterdir()] == [MARKER]


def test_what_an_earlier_run_left_is_removed_and_what_it_links_to_stays(tmp_path: Path) -> None:
    kept = tmp_path / "elsewhere"
    kept.mkdir()
    (kept / "ledger").write_text("precious")
    folder = tmp_path / "scratch"
    for _ in range(2):
        empty_scratch_folder(folder, "load.run")
        assert [path.name for path in folder.iterdir()] == [MARKER]
        (folder / "lake").mkdir()
        (folder / "lake" / "rows").write_text("1")
        (folder / "status.json").write_text("{}")
        (folder / "link").symlink_to(kept)
    assert (kept / "ledger").read_text() == "precious"


@pytest.mark.parametrize("marker", [None, "load.bench\n", ""])
def test_a_folder_with_anything_else_is_refused_and_left_as_it_is(tmp_path: Path, marker: str | None) -> None:
    (tmp_path / "journal").mkdir()
    (tmp_path / "journal" / "rows").write_text("1")
    (tmp_path / "secrets").write_text("s")
    if marker is not None:
        (tmp_path / MARKER).write_text(marker)
    with pytest.raises(NotScratch, match=r"holds journal, secrets, and no earlier run of load.run .* --data"):
        empty_scratch_folder(tmp_path, "load.run")
    assert (tmp_path / "journal" / "rows").read_text() == "1"
    assert (tmp_path / "secrets").read_text() == "s"
    assert not (tmp_path / MARKER).exists() or (tmp_path / MARKER).read_text() == marker


@pytest.mark.parametrize("main", [run.main, bench.main], ids=["load", "bench"])
def test_load_and_bench_refuse_a_folder_of_somebody_else(
    main: Callable[[], int], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "journal").write_text("rows")
    monkeypatch.setattr(sys, "argv", ["it", "--data", str(tmp_path)])
    assert main() == 2
    assert "Nothing was removed" in capsys.readouterr().err
    assert (tmp_path / "journal").read_text() == "rows"


def test_the_demo_refuses_a_folder_of_somebody_else(tmp_path: Path) -> None:
    (tmp_path / "journal").write_text("rows")
    answer = CliRunner().invoke(demo, ["--data", str(tmp_path)])
    assert answer.exit_code == 1
    assert "Nothing was removed" in answer.output
    assert (tmp_path / "journal").read_text() == "rows"
