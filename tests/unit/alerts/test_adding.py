"""docs/alerts.md, "Add an alert", followed word for word in a copy of what it touches."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.documented import CHECKOUT, Block, apply_block, blocks

PAGE = (CHECKOUT / "docs" / "alerts.md").read_text("utf-8")
CHANGED = ("alerts", "deploy", "docs", "tests")
LEFT_OUT = {".git", ".payhook", ".venv"}
RULES = Path("deploy", "prometheus", "rules", "payhook.yml")
CHECKS = (
    *(f"tests/unit/alerts/test_{name}.py" for name in ("docs", "engine", "readings")),
    "tests/unit/deploy/test_rules.py",
)


def steps() -> list[Block]:
    return list(blocks(PAGE.partition("## Add an alert")[2]))


def run(folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", *words]
    return subprocess.run(
        command, cwd=folder, env={**os.environ}, capture_output=True, text=True, timeout=120, check=False
    )


def copy(folder: Path) -> Path:
    """The checkout: what the steps change is copied, the rest is linked."""
    for path in CHECKOUT.iterdir():
        if path.name in CHANGED:
            shutil.copytree(path, folder / path.name, ignore=shutil.ignore_patterns("__pycache__"))
        elif path.name not in LEFT_OUT:
            (folder / path.name).symlink_to(path)
    return folder


@pytest.fixture(scope="module")
def followed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = copy(tmp_path_factory.mktemp("followed"))
    for step in steps():
        apply_block(step, folder)
    made = run(folder, "alerts.prometheus")
    assert made.returncode == 0, made.stderr
    (folder / RULES).write_text(made.stdout, "utf-8")
    return folder


def test_the_steps_touch_six_files() -> None:
    assert [step.path for step in steps()] == [
        *("alerts/rules.py", "alerts/readings.py", "tests/unit/alerts/test_readings.py"),
        *("deploy/prometheus/tests/processes.yml", "docs/runbook.md", "docs/alerts.md"),
    ]


def test_an_alert_that_is_added_as_the_page_says_passes_what_every_alert_must_pass(followed: Path) -> None:
    done = run(followed, "pytest", "-q", "-p", "no:cacheprovider", "-p", "no:xdist", *CHECKS)
    assert done.returncode == 0, done.stdout[-3_000:] + done.stderr[-1_000:]
    assert "PayhookOpenEvents" in (followed / RULES).read_text("utf-8")


@pytest.mark.more(reason="the suite of all alerts, once a step")
@pytest.mark.parametrize("left_out", ["alerts/readings.py", "docs/runbook.md"])
def test_a_step_that_is_left_out_is_missed(followed: Path, left_out: str) -> None:
    """The suite above wouldn't pass without it."""
    whole = (followed / left_out).read_bytes()
    shutil.copy(CHECKOUT / left_out, followed / left_out)
    try:
        done = run(followed, "pytest", "-q", "-x", "-p", "no:cacheprovider", "-p", "no:xdist", *CHECKS)
    finally:
        (followed / left_out).write_bytes(whole)
    assert done.returncode == 1, done.stdout[-3_000:]
