"""Several runs of pytest in a row, and what is said at their end."""

from __future__ import annotations

import os
import subprocess
import sys
import xml.etree.ElementTree as ET
from pathlib import Path

import pytest

from tests.parts import Sum

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


@pytest.mark.row("G12")
@pytest.mark.more(reason="it runs pytest, several times")
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


@pytest.mark.more(reason="it runs pytest, several times")
def test_runs_that_pass_end_with_zero(tmp_path: Path) -> None:
    (tmp_path / "test_good.py").write_text("def test_good(): pass")
    ran = parts(tmp_path, str(tmp_path / "test_good.py"), str(tmp_path))
    assert ran.returncode == 0
    assert ran.stdout.splitlines()[-1].startswith("2 passed in ")


WAITS = """
import pytest, time
@pytest.fixture
def server(): time.sleep(0.2); yield; time.sleep(0.2)
def test_on_a_server(server): pass
class TestQuick:
    def test_quick(self): pass
"""


def test_seconds_are_said_by_folder_and_by_test_with_what_was_set_up(tmp_path: Path) -> None:
    deep, flat = tmp_path / "tests" / "unit" / "processor" / "decide", tmp_path / "tests" / "e2e"
    for folder, text in {deep: WAITS, flat: "def test_good(): pass"}.items():
        folder.mkdir(parents=True)
        (folder / "test_some.py").write_text(text)
    printed = parts(tmp_path, f"--import-mode=importlib {deep}", f"--import-mode=importlib {flat}").stdout.splitlines()
    folders = printed[printed.index("| folder | tests | seconds of all processes |") + 2 :]
    names = [line.split(" | ")[:2] for line in folders[:3]]
    assert names == [["| tests/unit/processor", "2"], ["| tests/e2e", "1"], ["| together", "3"]]
    slowest = printed[printed.index("| slowest tests | seconds |") + 2]
    name, seconds = slowest.strip("| ").split(" | ")
    assert name == "tests/unit/processor/decide/test_some.py::test_on_a_server"
    assert float(seconds) >= 0.4
    assert [line.partition(" took ")[0] for line in printed if " took " in line] == ["part 1", "part 2"]


@pytest.mark.more(reason="it runs pytest, several times")
def test_no_more_than_thirty_tests_are_listed(tmp_path: Path) -> None:
    (tmp_path / "test_many.py").write_text(
        "import pytest\n@pytest.mark.parametrize('n', range(40))\ndef test_n(n): pass"
    )
    printed = parts(tmp_path, str(tmp_path)).stdout.splitlines()
    slowest = printed[printed.index("| slowest tests | seconds |") + 2 :]
    assert slowest.index("") == 30


def test_a_case_whose_code_lies_elsewhere_counts_for_its_module() -> None:
    report = """<testcase classname="tests.unit.dlq.test_model.TestMachine" name="runTest" time="2.5"
        file=".venv/lib/python3.11/site-packages/hypothesis/stateful.py"/>"""
    whole = Sum()
    whole._case(ET.fromstring(report))
    assert whole.duration_lines()[2] == "| tests/unit/dlq | 1 | 2.5 |"
    assert whole.tests == [(2.5, "tests.unit.dlq.test_model.TestMachine::runTest")]
