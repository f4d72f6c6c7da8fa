"""The archive of code runs on a machine that has nothing but Python."""

from __future__ import annotations

import subprocess
import sys
import tarfile
from pathlib import Path

import pytest
from click.testing import CliRunner

from cli.main import main
from stack import machine
from stack.package import PYTHON, make_package
from tests.unit.providers.test_installed import ADAPTER, install

pytestmark = pytest.mark.more(reason="packs all that is installed, twice, for a cluster's executors")

IMPORTED = "ledger.handler, notify.handler, processor.workers.worker, processor.source.map_stage, handler_of_my_own"
SAYS = f"""
import {IMPORTED}, json, pyspark
from providers import ProvidersSettings, build_adapters
print(json.dumps([ledger.__file__, pyspark.__file__, *build_adapters(ProvidersSettings())]))
"""


@pytest.fixture(scope="module")
def archive(tmp_path_factory: pytest.TempPathFactory) -> Path:
    own = tmp_path_factory.mktemp("own")
    (own / "handler_of_my_own.py").write_text("")
    install(own, "acme", "acme = acme:Adapter", ADAPTER.format(name="acme"))
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYTHONPATH", f"{machine.CHECKOUT}:{own}")
        folder = tmp_path_factory.mktemp("package")
        (folder / "payhook-older.tar.gz").touch()
        made = make_package(folder)
        assert make_package(folder) == made
        assert [one.name for one in folder.iterdir()] == [made.name], "an older one is gone"
        return made


def test_everything_that_handlers_import_is_in_it(archive: Path, tmp_path: Path) -> None:
    with tarfile.open(archive) as tar:
        tar.extractall(tmp_path / "environment", filter="data")
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / PYTHON).symlink_to(Path(sys.base_prefix) / "bin" / PYTHON)
    said = subprocess.run(
        ["./environment/bin/python", "-c", SAYS],
        cwd=tmp_path,
        env={"PATH": f"{tmp_path}/bin:/usr/bin:/bin"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert said.returncode == 0, said.stderr
    assert said.stdout.count(str(tmp_path / "environment")) == 2, said.stdout
    assert '"acme"' in said.stdout, "an adapter of a package of one's own"


def test_tests_and_tools_of_a_checkout_and_sparks_jars_are_not_in_it(archive: Path) -> None:
    with tarfile.open(archive) as tar:
        names = tar.getnames()
    tops = {"/".join(name.split("/")[:2]) for name in names}
    assert {"code/core", "code/ledger", "packages/pyspark", "packages/pyarrow"} <= tops
    assert not {"code/tests", "packages/pytest", "packages/mypy", "packages/moto", "packages/duckdb"} & tops
    assert not [name for name in names if name.endswith(".jar") or "secrets/" in name]


def test_the_command_says_where_it_is(archive: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("cli.stack_commands.make_package", lambda folder: archive)
    said = CliRunner().invoke(main, ["package", "--data", str(tmp_path)])
    assert said.exit_code == 0 and str(archive) in said.output
