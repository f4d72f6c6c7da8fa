"""``/received`` and ``GET /api/received``: what came in, and what to do about what was refused."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import httpx2
import pytest

from console.health import WatchedServices, create_app
from console.received import AskReceived, not_read
from core.clock import ManualClock
from core.status_file import StreamStatuses
from ingest.errors import REMEDIES
from tests.received_hour import NOW, busy_hour
from tests.unit.console.api_bench import ApiBench
from tests.unit.console.listening import EVE, FAY, Browser, Listener

Opened = Callable[[AskReceived], Browser]


@pytest.fixture
def opened(tmp_path: Path) -> Opened:
    """A viewer's browser before a listener."""

    def open_listener(received: AskReceived) -> Browser:
        clock = ManualClock(NOW)
        watched = WatchedServices("http://127.0.0.1:9/readyz", StreamStatuses({}), {}, lambda _: None)
        app = create_app(watched, httpx2.AsyncClient(trust_env=False), clock)
        browser = Browser(Listener(app, tmp_path, clock, received=received))
        assert browser.sign_in(EVE).status_code == 303
        return browser

    return open_listener


@pytest.mark.row("G10")
def test_every_reason_is_shown_with_how_many_and_what_to_do(opened: Opened) -> None:
    page = opened(busy_hour).get("/received").text
    for code, count in {"not_published": "433", "signature_mismatch": "12", "too_many_connections": "240"}.items():
        [row] = [row for row in page.split("<tr>") if f">{code}</span>" in row and "what to do" in row]
        assert f">{count}<" in row
        assert REMEDIES[code].replace("'", "&#39;") in row
    assert "docs/runbook.md#503-not_published" in page
    assert "48,211" in page


def test_the_part_that_renews_itself_has_the_same_figures(opened: Opened) -> None:
    browser = opened(busy_hour)
    part = browser.get("/received/live").text
    assert "433" in part and "<html" not in part
    assert part.strip() in browser.get("/received").text


def test_what_was_not_read_yet_is_no_quiet_hour(opened: Opened) -> None:
    page = opened(not_read).get("/received").text
    assert "the receipts weren&#39;t read yet" in page
    assert "Nothing was refused" not in page and "Nothing came in" not in page


def test_the_api_has_every_kind_and_reason(tmp_path: Path) -> None:
    bench = ApiBench(tmp_path, received=busy_hour)
    said = bench.request("GET", "/api/received", EVE).json()
    assert (said["total"], said["refused"], said["problem"]) == (52_294, 783, None)
    assert said["arrived"][0] == {
        "provider": "stripe",
        "type": "charge.succeeded",
        "outcome": "claimed",
        "status": 200,
        "count": 48_211,
    }
    [reason] = [one for one in said["reasons"] if one["code"] == "not_published"]
    assert (reason["count"], reason["remedy"]) == (433, REMEDIES["not_published"])
    assert bench.request("GET", "/api/received", FAY).status_code == 403
