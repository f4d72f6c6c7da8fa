"""Pages say what events wait for, since when, and when they are tried next."""

from __future__ import annotations

import json
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from cli.main import main
from core.clock import to_rfc3339
from journal.index import Index
from tests.dead_letters import DeadLetters, UnknownMerchant
from tests.unit.console.listening import Browser
from tests.unit.console.pages.conftest import Pages
from tests.unit.console.pages.test_operators import text

HELD = "bank fails: its breaker is open since 2026-01-31T12:00:00Z (no answer)"


class WaitingLedger:
    """A ledger with one event that waits, what its processor says, and its pages."""

    def __init__(self, data: Path) -> None:
        self.letters = DeadLetters(data)
        self.letters.dies(self.letters.receive("evt_1"), UnknownMerchant("no answer"), 99)
        self.letters.batch()
        self.pages = Pages(data, self.letters, self.letters.clock)
        self.now = self.letters.clock.now()

    def put_off(self, minutes: int) -> str:
        """The event's next try moves without a row."""
        index = Index.open(self.letters.layout.index, 1)
        index.apply_rows(self.letters.journal.rows, {})
        [item] = index.open_items()
        due_at = self.now + timedelta(minutes=minutes)
        index.put_off([(item, due_at, HELD)])
        index.close()
        return f"{due_at:%Y-%m-%d %H:%M:%S}"

    def says(self, **status: Any) -> None:
        file = self.letters.layout.status
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(json.dumps({"at": to_rfc3339(self.now), "state": "running", "ready": True, **status}))

    @property
    def browser(self) -> Browser:
        return self.pages.browser("eve")


@pytest.fixture
def stream(tmp_path: Path) -> WaitingLedger:
    return WaitingLedger(tmp_path / "data")


def down(since: str, next_try: str) -> dict[str, Any]:
    return {"state": "open", "text": "", "since": since, "why": "no answer", "next_try_at": next_try}


def test_an_item_page_says_what_holds_the_event_now_and_when_it_is_tried_next(stream: WaitingLedger) -> None:
    due = stream.put_off(47)
    stream.says(downstreams={"bank": down("2026-01-31T11:00:00Z", "2026-01-31T12:47:00Z")})
    page = text(stream.browser.get("/dlq/items/1").text)
    assert f"waits for breaker. {HELD}. Fix bank; it is called again by itself" in page
    assert f"waits since {stream.now:%Y-%m-%d %H:%M:%S}" in page
    assert f"next try {due}" in page
    assert "by its last row" not in page


def test_where_no_index_is_the_page_says_that_the_due_time_is_of_the_last_row(stream: WaitingLedger) -> None:
    page = stream.browser.get("/dlq/items/1").text
    assert "<dt>due, by its last row</dt>" in page and "<dt>waits for</dt>" not in page


def test_the_command_shows_the_same(stream: WaitingLedger) -> None:
    stream.put_off(47)
    stream.says()
    shown = CliRunner(env={"COLUMNS": "300"}).invoke(main, ["dlq", "show", "1", "--data", str(stream.pages.data)])
    assert shown.exit_code == 0, shown.output
    assert "waits since" in shown.output and "waits for" in shown.output
    assert "by its last row" not in shown.output


def test_an_item_that_is_dead_or_closed_meanwhile_waits_for_no_try(stream: WaitingLedger) -> None:
    stream.put_off(47)
    for _ in range(7):
        stream.letters.advance(30)
    page = text(stream.browser.get("/dlq/items/1").text)
    assert "Item 1 open" in page
    assert "waits since" not in page and "next try" not in page


def test_the_overview_says_since_when_streams_wait_and_when_they_ask_again(stream: WaitingLedger) -> None:
    times = {"blocked_since": "2026-01-31T11:30:00Z", "next_probe_at": "2026-01-31T12:01:00Z"}
    bank = down("2026-01-31T11:00:00Z", "2026-01-31T12:05:00Z")
    stream.says(blocked="Down: no directory", downstreams={"bank": bank}, **times)
    page = text(stream.browser.get("/").text).replace(" :", ":").replace(" ;", ";")
    blocked = "the whole stream is blocked since 2026-01-31 11:30:00: Down: no directory"
    assert f"{blocked}; next try at 2026-01-31 12:01:00" in page
    assert "bank since 2026-01-31 11:00:00: no answer; next try at 2026-01-31 12:05:00" in page
    stream.says(downstreams={"bank": {"state": "closed", "since": None, "text": "", "why": ""}})
    assert "ledger running no nothing" in text(stream.browser.get("/").text)
