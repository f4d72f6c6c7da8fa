"""What waits for people is on the first page, on a page of its own and at the API, with a number in the menu."""

from __future__ import annotations

import re
from concurrent.futures import wait
from dataclasses import replace
from datetime import timedelta

import pytest
from fastapi import FastAPI

from alerts.engine import AlertNotice
from alerts.observation import DeadSummary, Observation
from alerts.settings import AlertsSettings
from alerts.watch import AlertWatch
from console.access.roles import User
from console.api import mount_api
from console.dead_letters import Streams
from core.layout import Layout
from dead_letters.listing import Filter
from operations.selection.model import RunRequest
from tests.dead_letters import HOSTILE
from tests.unit.console.listening import PEOPLE, Listener
from tests.unit.console.pages.conftest import Pages
from tests.unit.ingest.idempotency.guarded_app import BreakableAnswers

CAUSE = f"Rejected: {HOSTILE[0]}"


def fire(pages: Pages, hours: float) -> None:
    """The alerts' process has looked, while a dead event had been open for so long."""
    clock = pages.letters.clock

    def describe(notice: AlertNotice) -> AlertNotice:
        return replace(notice, cause=CAUSE, count=1, amounts={"EUR": 123_450, "JPY": 7})

    seen = Observation(dead={"ledger": DeadSummary(1, clock.now() - timedelta(hours=hours))})
    watch = AlertWatch(AlertsSettings(), lambda: seen, {}, Layout(pages.data).alerts, clock, describe)
    watch.run_once()
    wait(watch.under_way.values())
    watch.close()
    clock.advance(20)


def propose(pages: Pages) -> str:
    """Bob orders more than one person may; returns the selection's name."""
    (dead,) = pages.listener.dead
    frozen = dead.selections.freeze(Filter(), "bob", "all of it")
    dead.runs.start(frozen.number, RunRequest("purge", "nobody wants them"), "bob")
    pages.letters.batch()
    pages.letters.clock.advance(20)
    return frozen.name


def badge(text: str) -> str | None:
    found = re.search(r'<b class="badge" title="([^"]*)">(\d+)</b>', text)
    return None if found is None else f"{found[2]}: {found[1]}"


def test_an_alert_and_an_approval_are_on_the_first_page_and_counted_beside_the_menu(own_pages: Pages) -> None:
    assert badge(own_pages.browser("eve").get("/").text) is None
    fire(own_pages, 49)
    name = propose(own_pages)
    page = own_pages.browser("eve").get("/").text
    assert badge(page) == "3: 2 alerts firing, 1 approval waiting"
    assert "has not been closed for 49.0 h" in page and 'href="/dlq?stream=ledger"' in page
    assert f"purge of {name}" in page and "nobody wants them" in page
    assert "Rejected: &lt;script&gt;" in page and CAUSE not in page
    assert "1,234.50 EUR" in page and "7 JPY" in page
    assert badge(own_pages.browser("eve").get("/dlq").text) == "3: 2 alerts firing, 1 approval waiting"


def test_the_page_of_alerts_says_what_fires_and_that_nobody_looks_any_more(own_pages: Pages) -> None:
    page = own_pages.browser("eve").get("/alerts").text
    assert "No alert fires." in page and "Nothing waits for approval." in page and "has never run" in page
    fire(own_pages, 25)
    page = own_pages.browser("eve").get("/alerts").text
    assert "a dead event of ledger has been open for 25.0 h" in page and "Alerts aren't evaluated" not in page
    assert "docs/runbook.md#alert-dlq_age" in page
    own_pages.letters.clock.advance(100)
    assert "Alerts aren't evaluated here" in own_pages.browser("eve").get("/alerts").text


@pytest.mark.parametrize(
    ("name", "kinds"),
    [("eve", ["selection"]), ("fay", ["booking"]), ("ada", ["booking", "selection"]), ("ida", [])],
)
def test_each_sees_the_approvals_of_what_they_may_read(own_pages: Pages, name: str, kinds: list[str]) -> None:
    propose(own_pages)
    found = own_pages.listener.attention.now().approvals_for(User(name, PEOPLE[name]))
    assert sorted(one.kind for one in found) == kinds
    listed = api_of(own_pages).request("GET", "/api/approvals", name).json()["approvals"]
    assert sorted(one["kind"] for one in listed) == kinds


def test_finance_has_the_number_of_bookings_that_wait_beside_the_ledger(own_pages: Pages) -> None:
    own_pages.listener.attention.now()
    page = own_pages.browser("fay").get("/ledger").text
    assert badge(page) == "1: 1 approval waiting" and re.search(r'href="/ledger"[^>]*>Ledger <b class="badge"', page)


def api_of(pages: Pages) -> Listener:
    """A listener with the API over the same data folder."""
    app, clock, attention = FastAPI(openapi_url=None), pages.letters.clock, pages.listener.attention
    mount_api(app, {}, {}, BreakableAnswers(clock), Streams({}), attention=attention)
    return Listener(app, pages.data, clock)


def test_the_api_tells_viewers_what_fires(own_pages: Pages) -> None:
    fire(own_pages, 49)
    api = api_of(own_pages)
    reported = api.request("GET", "/api/alerts", "eve").json()
    assert (reported["looks"], [one["rule"] for one in reported["firing"]]) == (True, ["dlq_escalation", "dlq_age"])
    assert reported["firing"][0]["amounts"] == {"EUR": 123_450, "JPY": 7}
    assert api.request("GET", "/api/alerts", "fay").status_code == 403


def test_what_cannot_be_read_now_stays_as_it_was(own_pages: Pages) -> None:
    name = propose(own_pages)
    attention = own_pages.listener.attention
    assert [one.name for one in attention.now().approvals if one.kind == "selection"] == [name]
    log = next((own_pages.data / "lake" / "journal" / "ledger" / "_delta_log").glob("*.json"))
    log.write_text("not a log")
    own_pages.letters.clock.advance(100)
    assert name in [one.name for one in attention.now().approvals]
