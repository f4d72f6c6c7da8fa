"""The operators' pages where the events are divided between two shards."""

from __future__ import annotations

import json
import re
from datetime import timedelta
from pathlib import Path

import httpx2
import pytest

from console.health import WatchedServices, create_app
from core.clock import Clock, ManualClock
from core.layout import StreamLayout
from core.status_file import StreamStatuses
from operations.commands import decode
from tests import divided_ledger
from tests.dead_items import DeadItems
from tests.small_ledger import START
from tests.unit.console.listening import Browser, Listener, csrf_of
from tests.unit.console.places import SentTo


def browser_of(data: Path, layout: StreamLayout, clock: Clock, sent: SentTo) -> Browser:
    """Of an administrator who signed in, over a ledger of two shards."""
    watched = WatchedServices("http://127.0.0.1:9/readyz", StreamStatuses({}), {}, lambda _: None)
    app = create_app(watched, httpx2.AsyncClient(trust_env=False), clock)
    browser = Browser(Listener(app, data, clock, producer=sent, shards=2))
    assert browser.sign_in("ada").status_code == 303
    return browser


class ShardsPage:
    """Two shards' dead letters, a browser of somebody who signed in, and what was sent."""

    def __init__(self, data: Path) -> None:
        self.first = DeadItems(data)
        self.first.deaths(9)
        self.first.commit(with_bodies=True)
        self.second = self.first.divided()
        self.sent = SentTo()
        self.browser = browser_of(data, self.first.layout, self.first.clock, self.sent)

    def get(self, path: str) -> str:
        answer = self.browser.get(path)
        assert answer.status_code == 200, answer.text
        return str(answer.text)


@pytest.fixture
def divided(tmp_path: Path) -> ShardsPage:
    (tmp_path / "console").mkdir()
    return ShardsPage(tmp_path)


def items(page: str) -> set[int]:
    return {int(number) for number in re.findall(r'href="/dlq/items/(\d+)', page)}


def test_the_overview_is_of_both_and_each_has_a_list_of_its_own(divided: ShardsPage) -> None:
    for path in ("/", "/?stream=ledger.1"):
        page = divided.get(path)
        assert re.search(r"<h3>Dead</h3><p><a[^>]*>9</a>", page)
        assert "shows all shards together: ledger, ledger.1" in page
    lists = [items(divided.get(f"/dlq?view=items{stream}")) for stream in ("", "&stream=ledger.1")]
    assert all(lists)
    assert not lists[0] & lists[1]
    assert lists[0] | lists[1] == set(range(1, 10))


def test_an_item_is_shown_in_its_shard_alone(divided: ShardsPage) -> None:
    number = min(items(divided.get("/dlq?view=items&stream=ledger.1")))
    assert f"/dlq/items/{number}/payload?stream=ledger.1" in divided.get(f"/dlq/items/{number}?stream=ledger.1")
    assert divided.browser.get(f"/dlq/items/{number}").status_code == 404


def test_what_is_ordered_names_the_shard_s_stream(divided: ShardsPage) -> None:
    token = csrf_of(divided.browser.get("/"))
    fields = {"stream": "ledger.1", "what": "all"}
    made = divided.browser.post("/dlq/selections?stream=ledger.1", fields, token)
    assert made.headers["location"] == "/dlq/selections/1?stream=ledger.1"
    divided.browser.post("/dlq/selections/1/replay?stream=ledger.1", {"reason": "mended"}, token)
    [command] = [decode(value) for value in divided.sent.values]
    assert command.stream == "ledger.1"
    assert json.loads(divided.sent.values[0])["stream"] == "ledger.1"


def test_who_approves_a_reversal_is_led_to_the_event_that_was_meant(tmp_path: Path) -> None:
    """The first shard has another event of the same number."""
    ledger = divided_ledger.DividedLedger.under(tmp_path)
    command, meant = ledger.proposed()
    (data := ledger.layout.root).joinpath("console").mkdir()
    browser = browser_of(data, ledger.layout.ledger(), ManualClock(START + timedelta(hours=1)), SentTo())
    page = browser.get("/ledger/reversals").text
    assert f"/ledger/reversals/{command.command_id}/approve" in page
    [path] = re.findall(r'reversal of <a href="([^"]+)"', page)
    assert f">{meant.seq}</a>" not in page
    shown = browser.get(path)
    assert (shown.status_code, (meant.event_key or "-") in shown.text) == (200, True), path
