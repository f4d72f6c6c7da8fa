"""Several runs of pytest in a row, and what is said at their end."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

CHECKOUT = Path(__file__).parents[2]

FAILS = """
def test_good(): pass
def test_bad(): assert 1 == 2, "no\\nway"
"""
BREAKS = """
import pytest
@pytest.fixture
def broken(): raise OSError("gone")
def test_broken(broken): pass
"""
PASSES_OVER = """
import pytest
@pytest.mark.parametrize("n", range(3))
def test_of_pages(n): pytest.skip("no browser: install one")
def test_good(): pass
"""


def parts(folder: Path, *lines: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "tests.parts", *(f"-q --rootdir={folder} -c /dev/null {line}" for line in lines)]
    return subprocess.run(
        command,
        cwd=CHECKOUT,
        env={**os.environ, "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"},
        capture_output=True,
        text=True,
        check=False,
    )


def test_a_run_that_fails_stops_no_other_and_the_last_lines_sum_all_of_them_up(tmp_path: Path) -> None:
    for name, text in {"fails": FAILS, "breaks": BREAKS, "over": PASSES_OVER}.items():
        (tmp_path / f"test_{name}.py").write_text(text)
    ran = parts(tmp_path, *(str(tmp_path / f"test_{name}.py") for name in ("fails", "breaks", "over")))
    *_, bad, broken, over, last = ran.stdout.splitlines()
    assert bad.startswith("failed: test_fails.py::test_bad: AssertionError: no")
    assert broken.startswith("failed: test_breaks.py::test_broken: ") and "gone" in broken
    assert over == "passed over: 3 tests: no browser: install one"
    assert last.startswith("1 failed, 1 errors, 2 passed, 3 skipped in ")
    assert ran.returncode == 1


def test_a_run_without_a_report_is_a_failure_too(tmp_path: Path) -> None:
    (tmp_path / "test_dies.py").write_text("import os\ndef test_dies(): os._exit(7)")
    (tmp_path / "test_good.py").write_text("def test_good(): pass")
    ran = parts(tmp_path, str(tmp_path / "test_dies.py"), str(tmp_path / "test_good.py"))
    *_, failed, last = ran.stdout.splitlines()
    assert failed.endswith("test_dies.py ended with 7")
    assert last.startswith("1 passed in ") and last.endswith(", ended with 7")
    assert ran.returncode == 7


def test_runs_that_pass_end_with_zero(tmp_path: Path) -> None:
    (tmp_path / "test_good.py").write_text("def test_good(): pass")
    ran = parts(tmp_path, str(tmp_path / "test_good.py"), str(tmp_path))
    assert ran.returncode == 0
    assert ran.stdout.splitlines()[-1].startswith("2 passed in ")
