"""``/catch-up`` and ``GET /api/catch-up``: up to when each provider's list was read, and what is missing."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path

from core.layout import Layout
from tests.caught_up import AT, lose, remember_catch_ups
from tests.unit.console.api_bench import ApiBench
from tests.unit.console.listening import EVE, FAY
from tests.unit.console.pages.conftest import Pages
from tests.unit.console.pages.test_finance import text

PAGE = "/catch-up"


def rows_of(page: str) -> list[str]:
    """What is read in each row."""
    return [text(row) for row in page.split("<tr>")[1:]]


def test_where_no_list_is_asked_for_it_is_said_what_to_do(own_pages: Pages) -> None:
    page = text(own_pages.browser("eve").get(PAGE).text)
    assert "No provider is asked for its list yet" in page
    assert "secrets/PROVIDER-api" in page


def test_each_source_says_until_when_what_is_missing_and_what_came_in(own_pages: Pages) -> None:
    remember_catch_ups(Layout(own_pages.data))
    rows = rows_of(own_pages.browser("eve").get(PAGE).text)
    [stripe] = [row for row in rows if row.split()[:1] == ["stripe"]]
    assert "caught up" in stripe and "2026-01-31 11:58:00" in stripe and "17" in stripe
    [paypal] = [row for row in rows if row.split()[:1] == ["paypal"]]
    assert "failing" in paypal and "not known" in paypal and "the provider refuses credential 1" in paypal
    [square] = [row for row in rows if row.split()[:1] == ["square"]]
    assert "failing" in square and "40" in square and "Kafka didn't acknowledge an event" in square


def test_an_endpoint_that_is_switched_off_at_its_provider_is_said(own_pages: Pages) -> None:
    remember_catch_ups(Layout(own_pages.data))
    rows = rows_of(own_pages.browser("eve").get(PAGE).text)
    [paddle] = [row for row in rows if row.split()[:1] == ["paddle"]]
    assert "switched off" in paddle and "the provider sends no webhooks to our endpoint" in paddle


def test_those_that_fail_come_first(own_pages: Pages) -> None:
    remember_catch_ups(Layout(own_pages.data))
    page = own_pages.browser("eve").get(PAGE).text
    assert page.index("<strong>paypal") < page.index("<strong>stripe")


def test_a_provider_whose_list_is_not_asked_for_says_why(own_pages: Pages) -> None:
    remember_catch_ups(Layout(own_pages.data))
    page = text(own_pages.browser("eve").get(PAGE).text)
    assert "adyen adyen has no list of events that payhook can ask for" in page


def test_what_no_list_has_any_more_is_named_with_its_reason(own_pages: Pages) -> None:
    remember_catch_ups(Layout(own_pages.data))
    lose(Layout(own_pages.data))
    page = text(own_pages.browser("eve").get(PAGE).text)
    assert "2025-12-01" in page and "nothing was listed for longer than the 30 days" in page


def test_the_api_has_the_same(tmp_path: Path) -> None:
    bench = ApiBench(tmp_path)
    remember_catch_ups(Layout(bench.data))
    said = bench.request("GET", "/api/catch-up", EVE).json()
    [stripe] = [one for one in said["sources"] if one["source"] == "stripe"]
    until = (AT - timedelta(minutes=2)).isoformat().replace("+00:00", "Z")
    assert (stripe["missing"], stripe["fetched_day"], stripe["problem"]) == (0, 17, None)
    assert stripe["until"][:19] == until[:19]
    [paypal] = [one for one in said["sources"] if one["source"] == "paypal"]
    assert paypal["missing"] is None
    assert said["unlisted"][0]["provider"] == "adyen"
    assert said["lost"] == []
    assert bench.request("GET", "/api/catch-up", FAY).status_code == 403
