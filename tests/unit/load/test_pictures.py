"""The pictures of README and docs are of the product of now, and the demo's table judges as it says."""

from __future__ import annotations

import html
import json
import re
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

import load.demo.cast as cast_module
from console.rendering import NAVIGATION
from load.demo.cast import SLO_P99_S, Outcome
from load.latency import Decided
from load.pictures import PAGES, SHOWN, main
from tests.documented import CHECKOUT

IMAGES = CHECKOUT / "docs" / "images"
BEGIN = datetime(2026, 1, 31, 12, tzinfo=UTC)
DRAWN = {"architecture.svg"}
"""By a person."""


def latencies(monkeypatch: pytest.MonkeyPatch, *seconds: float) -> list[tuple[str, str, str, bool]]:
    """The demo's lines of what decisions took."""
    decided = [Decided(f"e{one}", "p", "applied", BEGIN, BEGIN + timedelta(seconds=one)) for one in seconds]
    monkeypatch.setattr(cast_module, "first_decisions", lambda journal, topic: decided)
    outcome, later = Outcome(), BEGIN + timedelta(days=1)
    stack: Any = SimpleNamespace(journal=None)
    nobody: Any = SimpleNamespace(waiting=[], closed=[])
    cast_module._latencies(outcome, stack, nobody, (later, later))
    return outcome.lines


@pytest.mark.parametrize(("took_s", "good"), [(1.0, True), (4.9, True), (5.0, False), (9.0, False)])
def test_a_latency_is_ok_only_within_the_limit_that_stands_beside_it(
    monkeypatch: pytest.MonkeyPatch, took_s: float, good: bool
) -> None:
    (_, wanted, _, _), (what, limit, measured, is_good) = latencies(monkeypatch, took_s)
    assert wanted == "", "of P50 nothing is wanted"
    assert (what, limit, measured, is_good) == ("receive → commit, P99", "< 5 s", f"{took_s:.2f} s", good)


def test_without_a_decision_no_latency_is_ok(monkeypatch: pytest.MonkeyPatch) -> None:
    assert [good for *_, good in latencies(monkeypatch)] == [False, False]


def test_every_picture_that_a_page_shows_is_made_by_make_pictures_or_drawn() -> None:
    pages = [CHECKOUT / "README.md", *(CHECKOUT / "docs").glob("*.md")]
    shown = {
        name for page in pages for name in re.findall(r"\]\((?:docs/)?images/([\w.-]+)\)", page.read_text("utf-8"))
    }
    made = {*PAGES, "demo.svg"}
    assert shown == made | DRAWN
    assert {path.name for path in IMAGES.iterdir()} == made | DRAWN | {SHOWN}


def test_the_pages_in_the_pictures_have_the_menu_of_now() -> None:
    shown = json.loads((IMAGES / SHOWN).read_text("utf-8"))
    assert shown.keys() == PAGES.keys()
    for name, one in shown.items():
        assert one["menu"] == [link.label for link in NAVIGATION], f"{name} shows another menu: run `make pictures`"


def test_the_demos_picture_shows_its_last_lines_and_all_of_them_ok() -> None:
    svg = (IMAGES / "demo.svg").read_text("utf-8")
    text = html.unescape("".join(re.findall(r"<text[^>]*>([^<]*)</text>", svg))).replace("\xa0", " ")
    rows = [[cell.strip() for cell in row.split("│")[1:-1]] for row in re.findall(r"│[^\n]*?│[^│]*│[^│]*│[^│]*│", text)]
    assert len(rows) > 15
    assert {row[3] for row in rows} == {"ok"}
    [p99] = [row for row in rows if row[0] == "receive → commit, P99"]
    assert p99[1] == f"< {SLO_P99_S:g} s" and float(p99[2].split()[0]) < SLO_P99_S
    assert "Everything came out right" in text
    assert set(re.findall(r"https?://[\w.]+", svg)) <= {"http://www.w3.org", "https://www.textualize.io"}


def test_without_a_browser_nothing_is_changed(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("PAYHOOK_TEST_CHROMIUM", raising=False)
    assert main(["--data", str(tmp_path / "demo")]) == 2
    assert "apt-get install chromium" in capsys.readouterr().err
    assert not (tmp_path / "demo").exists()
