"""Operators' pages: one row a cause, pages that stay in place, selections that are what was seen, acts on record."""

from __future__ import annotations

import html
import json
import logging
import re
from collections.abc import Callable
from pathlib import Path

import pytest

from console.health import WatchedServices, create_app
from core.clock import to_rfc3339
from core.money import Money
from core.status_file import StreamStatuses
from core.work import Outcome, WorkItem
from dead_letters.dead_letter_index import DeadLetterIndex
from dead_letters.payload import Payloads
from tests.damaged_lake import DAMAGES
from tests.dead_letters import DeadLetters
from tests.live_processes import processor_elsewhere
from tests.unit.console.listening import Browser, Listener, csrf_of
from tests.unit.console.pages.conftest import Pages
from tests.unit.console.places import unused_client


def text(page: str) -> str:
    """What is read on a page, with single spaces."""
    return re.sub(r"\s+", " ", html.unescape(re.sub(r"<[^>]*>", " ", page)))


def listed(page: str) -> list[int]:
    """The items of a list, in its order."""
    return [int(number) for number in re.findall(r'<td data-label="item"><a href="/dlq/items/(\d+)"', page)]


def marks(page: str) -> list[str]:
    """What its forms say of each item."""
    return re.findall(r'name="item"(?: form="picked")? value="([^"]+)"', page)


class Forms:
    """Posts forms of pages as their reader."""

    def __init__(self, browser: Browser) -> None:
        self._browser = browser
        self._token = csrf_of(browser.get("/"))

    def post(self, path: str, **fields: str) -> tuple[int, str]:
        """The status, and where it leads to or what the page says."""
        answer = self._browser.post(path, fields, self._token)
        return answer.status_code, answer.headers.get("location") or text(answer.text)


def test_a_kind_of_error_is_a_word_with_its_code_in_the_tooltip(pages: Pages) -> None:
    page = pages.browser("eve").get("/dlq").text
    assert '<span class="chip chip-NRE" title="NRE">permanent</span>' in page
    assert '<option value="SNBE">waits for data</option>' in page


def test_many_of_one_cause_are_one_row(pages: Pages) -> None:
    page = text(pages.browser("eve").get("/dlq").text)
    assert len(re.findall(r"ZeroDivisionError division by zero", page)) == 1
    assert re.search(r"ZeroDivisionError .*? 3 permanent stripe", page)


def test_the_overview_counts_ages_and_says_what_streams_say(own_pages: Pages) -> None:
    page = text(own_pages.browser("eve").get("/").text)
    assert "Dead 14" in page and "1 more wait for a try" in page
    assert "ledger unknown no processor reports its status: see payhook status" in page
    assert "ZeroDivisionError" in page and "Open by kind" in page
    own_pages.letters.clock.advance(49 * 3_600)
    sick = own_pages.letters.layout.status
    sick.parent.mkdir(parents=True, exist_ok=True)
    breaker = '{"directory": {"state": "open", "text": "5 of 5 calls failed"}}'
    sick.write_text(
        f'{{"at": "2026-02-02T13:00:00Z", "ready": false, "blocked": "Delta <b> is down", "downstreams": {breaker}}}'
    )
    browser = own_pages.browser("eve")
    assert browser.get("/").status_code == 303, "the session is over by now"
    browser.sign_in("eve")
    later = text(browser.get("/").text)
    assert "Past 24 h 14 14 past 48 h" in later
    assert "its processor's last status is of 2026-02-02T13:00:00Z" in later


@pytest.mark.parametrize(
    ("state", "ready", "why"),
    [("refused", False, "kafka.events_partitions is 8"), ("standby", True, "waits for the lease of b")],
)
def test_the_overview_says_of_a_stream_that_decides_nothing_which_state_it_is_in_and_why(
    own_pages: Pages, state: str, ready: bool, why: str
) -> None:
    status = {"at": to_rfc3339(own_pages.letters.clock.now()), "state": state, "ready": ready, "why": why}
    file = own_pages.letters.layout.status
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(json.dumps(status))
    assert f"ledger {state} {why}" in text(own_pages.browser("eve").get("/").text)


def test_the_overview_says_what_a_processor_on_another_machine_says(tmp_path: Path) -> None:
    letters = DeadLetters(tmp_path)
    said = {"at": to_rfc3339(letters.clock.now()), "ready": False, "blocked": "Down: no disk"}
    watched = WatchedServices("http://127.0.0.1:9/readyz", StreamStatuses({}), {}, lambda _: None)
    app = create_app(watched, unused_client(), letters.clock)
    with processor_elsewhere({"ledger": said}) as url:
        browser = Browser(Listener(app, tmp_path, letters.clock, status_urls=[url]))
        browser.sign_in("eve")
        assert "ledger blocked Down: no disk" in text(browser.get("/").text)
    assert "ledger unknown no processor reports its status" in text(browser.get("/").text), "it doesn't answer any more"


def test_a_status_file_that_is_no_json_is_a_stream_that_is_down(own_pages: Pages) -> None:
    status = own_pages.letters.layout.status
    status.parent.mkdir(parents=True, exist_ok=True)
    for broken in ("", "[]", '{"at": 5}', "{", '{"at": "2026-01-31T12:00:00Z", "downstreams": []}'):
        status.write_text(broken)
        assert own_pages.browser("eve").get("/").status_code == 200, broken


def test_filters_narrow_a_list_and_stay_in_its_links(pages: Pages) -> None:
    browser = pages.browser("eve")
    bugs = browser.get("/dlq?view=items&class=ZeroDivisionError")
    assert len(listed(bugs.text)) == 3
    assert "class=ZeroDivisionError" in bugs.text
    assert len(listed(browser.get("/dlq?view=items&text=no+merchant").text)) == 1
    assert len(listed(browser.get("/dlq?view=items&mark=poison").text)) == 1
    assert len(listed(browser.get("/dlq?view=items&state=waiting").text)) == 1
    assert "No events match" in browser.get("/dlq?view=items&from=2027-01-01").text


def test_pages_follow_each_other_and_miss_nobody(pages: Pages, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("console.pages.dlq.PER_PAGE", 4)
    browser, path, seen = pages.browser("eve"), "/dlq?view=items&sort=newest", []
    while path:
        page = browser.get(path).text
        assert len(listed(page)) <= 4
        seen += listed(page)
        found = re.search(r'rel="next" href="([^"]+)"', page)
        path = found[1].replace("&amp;", "&") if found else ""
    assert len(seen) == len(set(seen)) == 14
    foreign = browser.get("/dlq?view=items&sort=newest&after=oldest.0.1.1")
    assert foreign.status_code == 422 and "start at its first page" in foreign.text


@pytest.mark.row("E9")
def test_an_item_page_has_the_whole_context(pages: Pages) -> None:
    rows = pages.letters.journal.rows
    stuck = next(row.item_seq for row in rows if row.first and "evt_stuck" in (row.event_key or ""))
    page = pages.browser("eve").get(f"/dlq/items/{stuck}").text
    reported = text(page)
    for words in (
        *("UnknownMerchant", "no merchant for acct_1", "Stack", "payments.events, partition 0, offset", "Headers"),
        *("Held by this one (1)", "evt_behind", "Earlier ones like it", "try 6", "Events of the same entity"),
    ):
        assert words in reported, words
    assert "&#34;id&#34;: &#34;evt_stuck&#34;" in page
    no_text = next(row.item_seq for row in rows if row.first and "evt_bytes" in (row.event_key or ""))
    page = pages.browser("eve").get(f"/dlq/items/{no_text}").text
    assert "not UTF-8: its first bytes in hexadecimal" in page and "ff fe 7b 20 6e 6f" in page
    assert pages.browser("eve").get("/dlq/items/99999").status_code == 404


def test_marked_items_are_frozen_dry_run_and_replayed_as_who_is_signed_in(own_pages: Pages) -> None:
    browser = own_pages.browser("bob")
    forms = Forms(browser)
    shown = marks(browser.get("/dlq?view=items&class=ZeroDivisionError").text)[0]
    status, where = forms.post("/dlq/selections", what="marked", item=shown, note="mended")
    assert (status, where) == (303, "/dlq/selections/1")
    looked = text(browser.get("/dlq/selections/1/dry-run").text)
    assert "0 of 1 items would be applied; 1 more would run, outcome unknown" in looked
    assert forms.post("/dlq/selections/1/replay", reason="")[0] == 422
    assert forms.post("/dlq/selections/1/replay", reason="mended", per_s="-1")[0] == 422
    assert forms.post("/dlq/selections/1/replay", reason="mended", per_s="5", run_mode="alone") == (303, where)
    page = text(browser.get(where).text)
    assert "by bob" in page and "0 of 1 items ended" in page and "5 a second" in page
    assert forms.post("/dlq/selections/1/pause") == (303, where)
    assert forms.post("/dlq/selections/1/resume") == (303, where)
    assert forms.post("/dlq/selections/1/cancel") == (303, where)
    status, reported = forms.post("/dlq/selections/1/resume")
    assert status == 409 and "cancelled" in reported
    done = [(act.actor, act.action, act.outcome.value) for act in own_pages.listener.audit_log.read(20)]
    assert ("bob", "resume", "refused") in done and ("bob", "replay", "done") in done
    assert "mended" in browser.get("/dlq/audit").text


def test_what_is_frozen_is_what_the_page_showed(own_pages: Pages) -> None:
    """The journal was restored between the page and its form: the number names another event by now."""
    browser = own_pages.browser("bob")
    shown = marks(browser.get("/dlq?view=items&class=ZeroDivisionError").text)[0]
    of_before = f"{shown.rpartition('.')[0]}.{'0' * 16}"
    assert Forms(browser).post("/dlq/selections", what="marked", item=of_before)[0] == 303
    reported = text(browser.get("/dlq/selections/1/dry-run").text)
    assert "0 of 1 items would be applied, as of row" in reported and "the journal was restored since" in reported
    assert marks(browser.get(f"/dlq/items/{shown.partition('.')[0]}").text) == [shown]


def test_nothing_marked_selects_nothing(pages: Pages) -> None:
    forms = Forms(pages.browser("bob"))
    assert forms.post("/dlq/selections", what="marked")[0] == 422
    assert forms.post("/dlq/selections", what="marked", item="x")[0] == 422
    status, reported = forms.post("/dlq/selections", what="all", provider="nobody")
    assert status == 409 and "nothing" in reported


def test_a_selection_lists_the_event_the_error_and_the_amount_of_each_item(own_pages: Pages) -> None:
    places, clock = own_pages.letters.layout, own_pages.letters.clock
    payloads = Payloads(places.bodies_table)
    priced = DeadLetterIndex(
        places.dead_letter_index, places.journal, payloads, clock, amounts=lambda *_: Money(1_250, "EUR")
    )
    priced.follow()
    ada = Forms(own_pages.browser("ada"))
    ada.post("/dlq/selections", what="all", **{"class": "ZeroDivisionError"})
    page = text(own_pages.browser("eve").get("/dlq/selections/1").text)
    for number in range(3):
        row = rf"stripe:evt_bug{number}:charge.captured charge.captured ZeroDivisionError : division by zero 12.50 EUR"
        assert re.search(row, page), page


def test_a_purge_of_many_waits_for_another_person(own_pages: Pages) -> None:
    ada = Forms(own_pages.browser("ada"))
    assert ada.post("/dlq/selections", what="all")[1] == "/dlq/selections/1"
    assert ada.post("/dlq/selections/1/purge", reason="test payments") == (303, "/dlq/selections/1")
    page = text(own_pages.browser("ada").get("/dlq/selections/1").text)
    assert "Nothing is done yet" in page and "ask another admin to approve it" in page
    status, reported = ada.post("/dlq/selections/1/approve", reason="it is mine")
    assert status == 409 and "ask another admin to approve it" in reported
    assert "Waiting for approval" in own_pages.browser("eve").get("/dlq/selections").text
    assert "refused" in [act.outcome.value for act in own_pages.listener.audit_log.read(3)]


def test_a_replayer_may_not_purge(pages: Pages) -> None:
    assert Forms(pages.browser("bob")).post("/dlq/selections/1/purge", reason="x")[0] == 403
    assert pages.browser("eve").get("/dlq/selections/1").status_code == 404


def test_the_causes_say_how_fast_they_come_and_go_and_what_to_do_next(pages: Pages) -> None:
    page = text(pages.browser("eve").get("/dlq").text)
    assert "Last 24 hours 14 in, 0 out time to clear: never, at this rate" in page
    assert "fix the handler or the data that it needs" in page
    page = text(pages.browser("eve").get("/dlq?provider=nobody").text)
    assert "Last 15 minutes 0 in, 0 out time to clear: no dead events" in page


def test_an_item_s_trace_leads_to_the_trace_system_beside_its_log_lines(own_pages: Pages) -> None:
    trace_id, letters = "4bf92f3577b34da6a3ce929d0e0e4736", own_pages.letters
    key = letters.post("evt_traced", "traced", traceparent=f"00-{trace_id}-00f067aa0ba902b7-01")

    def fails(_: WorkItem) -> Outcome:
        logging.getLogger("ledger.handler").info("looks up whose account acct_9 at stripe is")
        raise ZeroDivisionError("division by zero")

    letters.handler.script[key] = fails
    letters.batch()
    [item_seq] = {row.item_seq for row in letters.journal.rows if row.event_key == key}
    page = own_pages.browser("eve").get(f"/dlq/items/{item_seq}").text
    assert "INFO ledger.handler: looks up whose account acct_9 at stripe is" in text(page)
    link = f'<a href="https://traces.example/trace/{trace_id}">{trace_id}</a>'
    assert page.count(link) == 2, "beside the lines, and among what is known"


@pytest.mark.parametrize("path", ["/dlq", "/dlq?view=items", "/dlq/items/1", "/dlq/audit"])
@pytest.mark.parametrize("damage", DAMAGES)
def test_a_damaged_table_is_no_failure_of_the_listener(
    own_pages: Pages, path: str, damage: Callable[[Path], None]
) -> None:
    browser = own_pages.browser("ada")
    lake = own_pages.data / "lake"
    for table in ("journal/ledger", "acts"):
        damage(lake / table)
    own_pages.listener.audit_log._open = None
    answer = browser.get(path)
    assert answer.status_code == 503
    assert "The table" in answer.text or "The journal" in answer.text
