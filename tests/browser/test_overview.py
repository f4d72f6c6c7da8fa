"""The overview: the four figures and the pipeline, which renew themselves without a reload."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from playwright.sync_api import expect

from core.decision import Decision
from tests.browser.conftest import Stage, staged
from tests.console_site import add_people
from tests.dead_letters import DeadLetters
from tests.live_processes import LiveProcesses, live_processes

SHOTS = os.environ.get("PAYHOOK_TEST_SHOTS")
"""A folder for pictures of what the browser shows."""


@dataclass
class Watched:
    stage: Stage
    processes: LiveProcesses


@pytest.fixture(scope="module")
def watched(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Watched]:
    data = tmp_path_factory.mktemp("data")
    letters = DeadLetters(data)
    letters.dies(letters.receive("evt_bug"), ZeroDivisionError("division by zero"))
    letters.batch()
    add_people(data)
    with live_processes() as processes, staged(letters, data, pulse=processes.pulse) as stage:
        yield Watched(stage, processes)


def minute(processes: LiveProcesses, events: int) -> None:
    """Half a minute of traffic, of which a tenth had come before and a twentieth dies."""
    processes.receive("claimed", 9 * events // 10)
    processes.receive("duplicate", events // 10)
    processes.decide("ledger", Decision.APPLIED, 85 * events // 100)
    processes.decide("ledger", Decision.DEAD, events // 20)
    processes.decide("notify", Decision.APPLIED, 85 * events // 100)
    figures = {"dead": 101, "open": 9, "unpublished": 0, "unpublished_s": 0, "index_memory_bytes": 1}
    processes.streams["ledger"].set_dead(figures)
    processes.streams["ledger"].set_blocked(None)
    processes.looks(30)


@pytest.mark.row("A18")
@pytest.mark.parametrize("width", [390, 1280])
def test_figures_and_rates_are_shown_and_renew_themselves(watched: Watched, width: int) -> None:
    minute(watched.processes, 100)
    minute(watched.processes, 3_000)
    page, seen = watched.stage.sign_in("eve", width)
    tiles, picture = page.locator("[data-live] .tile"), page.locator(".pipeline svg:visible")
    expect(tiles).to_have_count(4)
    expect(tiles.filter(has_text="Idempotency hits")).to_contain_text("10.0%")
    expect(tiles.filter(has_text="Dead letters")).to_have_class("tile warn")
    expect(tiles.filter(has_text="Latency")).to_contain_text("P50 0.")
    expect(picture).to_contain_text("Subscribers")
    before = picture.text_content()
    page.evaluate("window.stays = true")
    if SHOTS:
        page.screenshot(path=Path(SHOTS) / f"overview-{width}.png", full_page=True)
    minute(watched.processes, 30_000)
    expect(picture).not_to_have_text(before or "", timeout=20_000)
    assert page.evaluate("window.stays") is True, "the page wasn't loaded again"
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    assert seen.complaints == [] and seen.foreign == []
