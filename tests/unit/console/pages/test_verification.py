"""The page of the verification: each invariant's sentence, what the last look found and when, and the query."""

from __future__ import annotations

import html
import json
import re
from datetime import timedelta

from core.files import write_whole
from core.layout import Layout
from ledger.verify.engine import read_promise
from ledger.verify.job import INVARIANTS, explain, list_invariant_types
from ledger.verify.report import remember_report
from tests.unit.console.pages.conftest import Pages
from tests.unit.console.pages.test_finance import text
from tests.verified import AT, verified

PAGE = "/ledger/verification"


def rows_of(page: str) -> dict[str, str]:
    """What is read in an invariant's row, by its name."""
    rows = re.findall(r"<tr>\n(.*?)</tr>", page, re.DOTALL)
    names = [re.search(r'<summary class="key">(\w+)</summary>', row) for row in rows]
    return {name[1]: text(row) for name, row in zip(names, rows, strict=True) if name is not None}


def test_where_nothing_was_verified_it_is_said_and_the_promises_are_shown(own_pages: Pages) -> None:
    page = own_pages.browser("fay").get(PAGE).text
    assert "It was never verified here" in page
    rows = rows_of(page)
    assert {one.name for one in INVARIANTS} <= rows.keys()
    assert all("unknown" in row and "not checked yet" in row for row in rows.values())


def test_each_invariant_has_its_sentence_its_last_result_and_its_query(own_pages: Pages) -> None:
    remember_report(Layout(own_pages.data).verified_file, verified(), deep=False)
    page = own_pages.browser("fay").get(PAGE).text
    reported, rows = text(page), rows_of(page)
    assert "2026-01-31 14:30" in reported and "up to row 1,234: 1 of 31 doesn't hold" in reported
    assert next(iter(rows)) == "order_kept", "what is wrong comes first"
    assert rows["order_kept"].startswith(" wrong ") and "stripe:evt_<i>7</i>" in rows["order_kept"]
    assert "<i>" not in page, "what strangers wrote is text"
    assert rows["balanced"].startswith(" holds ")
    promise = read_promise("balanced")
    assert promise.sentence in reported
    assert promise.text in html.unescape(page)
    assert "not checked: there is no key index here" in rows["index_equals_journal"]
    assert "checked by `payhook verify --deep` only" in rows["bodies_whole"]


def test_the_page_promises_no_query_and_no_look_that_an_invariant_does_not_have(own_pages: Pages) -> None:
    reported = text(own_pages.browser("fay").get(PAGE).text)
    of_every_look, every = {one.name for one in INVARIANTS}, list_invariant_types()
    queried = [name for name in every if "SELECT" in explain(name)]
    assert len(every) / 2 < len(queried) < len(every)
    assert "Each invariant is one sentence. Most have a query that finds what offends it" in reported
    assert len(every) - len(of_every_look) == 2
    assert "payhook verify checks them again, two only with --deep" in reported


def test_a_look_at_some_rows_says_so_where_none_was_wider(own_pages: Pages) -> None:
    layout = Layout(own_pages.data)
    remember_report(layout.verified_file, verified(since=1_000), deep=False)
    assert "of the rows from 1,000 on" in rows_of(own_pages.browser("fay").get(PAGE).text)["balanced"]
    remember_report(layout.verified_file, verified(at=AT + timedelta(hours=1)), deep=False)
    remember_report(layout.verified_file, verified(at=AT + timedelta(hours=2), since=1_000), deep=False)
    balanced = rows_of(own_pages.browser("fay").get(PAGE).text)["balanced"]
    assert "2026-01-31 15:30" in balanced and "from 1,000" not in balanced


def test_another_stream_is_asked_less_and_what_kept_a_round_from_it_is_said(own_pages: Pages) -> None:
    layout = Layout(own_pages.data)
    problem = "Kafka at kafka:9092 doesn't answer"
    write_whole(layout.verification_file, json.dumps({"ok": False, "problems": {"notify": problem}}))
    page = own_pages.browser("fay").get(PAGE).text
    notify = page[page.index("<h2>notify</h2>") :]
    assert f"The last round by schedule couldn't verify it: {problem}" in text(notify)
    assert "balanced" not in rows_of(notify) and "bookings_are_in_bodies" not in rows_of(notify)
    assert "chain_whole" in rows_of(notify)


def test_it_is_for_finance(own_pages: Pages) -> None:
    assert own_pages.browser("eve").get(PAGE).status_code == 403
    assert own_pages.browser("ada").get(PAGE).status_code == 200
