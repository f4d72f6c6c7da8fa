"""Nobody but its owner reads the data folder; a group reads finance's tables where a setting names it."""

from __future__ import annotations

import grp
import os
import stat
from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner

from cli.main import main
from core.errors import SettingError
from stack.data_folder import secure_data_folder
from stack.settings import Settings


@pytest.fixture(autouse=True)
def umask() -> Iterator[None]:
    before = os.umask(0o022)
    yield
    os.umask(before)


def settings(data: Path, group: str = "", shards: int = 1) -> Settings:
    return Settings.model_validate(
        {
            "data_dir": data,
            "ledger": {"readers_group": group},
            "processor": {"shards": shards},
            "kafka": {"events_partitions": 4},
        }
    )


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


@pytest.mark.row("F7")
def test_what_is_made_is_the_owners_alone_and_an_open_folder_is_closed(tmp_path: Path) -> None:
    data = tmp_path / "data"
    data.mkdir(mode=0o755)
    secure_data_folder(settings(data))
    assert mode(data) == 0o700
    (data / "lake").mkdir()
    (data / "lake" / "file").write_text("x")
    assert (mode(data / "lake"), mode(data / "lake" / "file")) == (0o700, 0o600)


def test_a_group_reads_finances_tables_and_nothing_else(tmp_path: Path) -> None:
    name = grp.getgrgid(os.getgid()).gr_name
    data = tmp_path / "data"
    old = data / "lake" / "postings" / "_delta_log" / "0.json"
    old.parent.mkdir(parents=True)
    old.write_text("x")
    secure_data_folder(settings(data, name))
    for folder in (data, data / "lake"):
        assert (mode(folder), folder.stat().st_gid) == (0o710, os.getgid())
    assert (mode(old), mode(old.parent)) == (0o640, 0o2750)
    fresh = data / "lake" / "journal" / "ledger" / "part.parquet"
    fresh.parent.mkdir()
    fresh.write_text("x")
    assert (mode(fresh), mode(fresh.parent)) == (0o640, 0o2750)
    assert fresh.stat().st_gid == os.getgid()


def test_a_group_reads_the_postings_of_every_shard(tmp_path: Path) -> None:
    name = grp.getgrgid(os.getgid()).gr_name
    secure_data_folder(settings(tmp_path / "data", name, shards=2))
    for table in ("postings", "postings.1", "postings-test", "postings-test.1"):
        assert mode(tmp_path / "data" / "lake" / table) == 0o2750


def test_an_unknown_group_is_refused(tmp_path: Path) -> None:
    with pytest.raises(SettingError, match="there is no group"):
        secure_data_folder(settings(tmp_path / "data", "nobody-has-this-group"))


@pytest.mark.parametrize(("group", "wanted"), [("", 0o600), ("adm", 0o640)])
def test_a_command_makes_files_as_the_services_do(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, group: str, wanted: int
) -> None:
    """What `payhook maintain` rewrites is finance's to read as before."""
    monkeypatch.setenv("PAYHOOK_LEDGER__READERS_GROUP", group)
    CliRunner().invoke(main, ["status", "--data", str(tmp_path)])
    (tmp_path / "file").write_text("x")
    assert mode(tmp_path / "file") == wanted
