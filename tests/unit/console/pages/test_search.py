"""One box on every page finds payments; each reader finds what they may read."""

from __future__ import annotations

import re

import pytest

from console.rendering import quote_segment
from core.money import Money
from dead_letters.dead_letter_index import DeadLetterIndex
from dead_letters.payload import Payloads
from tests.dead_letters import HOSTILE
from tests.unit.console.pages.conftest import Pages

PAYMENT = "stripe:acct_1:pi_0"


def search(pages: Pages, words: str, name: str = "fay") -> tuple[int, str]:
    """The status, and where it leads to or what the page says."""
    answer = pages.browser(name).get(f"/search?q={quote_segment(words)}")
    return answer.status_code, answer.headers.get("location") or answer.text


@pytest.mark.parametrize("name", ["ada", "bob", "eve", "fay"])
@pytest.mark.parametrize("path", ["/ledger/overview", "/alerts", "/dlq", "/password", "/search"])
def test_every_page_has_the_box(pages: Pages, name: str, path: str) -> None:
    assert pages.browser(name).get(path).text.count('action="/search"') == 1


def test_who_has_no_role_has_no_box_and_finds_nothing(pages: Pages) -> None:
    assert 'action="/search"' not in pages.browser("ida").get("/").text
    status, page = search(pages, PAYMENT, "ida")
    assert status == 200 and "You have no role that may search" in page and "pi_0" not in page


@pytest.mark.row("G10")
@pytest.mark.parametrize("words", [PAYMENT, "stripe:evt_paid0:charge.captured", "evt_back", "  pi_0 ", "4.50 EUR"])
def test_one_payment_is_shown_at_once(pages: Pages, words: str) -> None:
    assert search(pages, words) == (303, f"/ledger/entities/{PAYMENT}")


def test_several_are_a_list_to_choose_from(pages: Pages) -> None:
    status, page = search(pages, "acct_1")
    assert status == 200 and f'href="/ledger/entities/{PAYMENT}"' in page
    assert "1,234.50 EUR" in page and "123,450 JPY" in page and "123.450 KWD" in page
    assert HOSTILE[0] not in page and "&lt;script&gt;" in page


def test_what_is_nowhere_is_said_with_what_was_looked_for(pages: Pages) -> None:
    status, page = search(pages, '"><b>nobody')
    assert status == 200 and "No payment has" in page and "<b>nobody" not in page
    assert "console.order_field" in page
    assert search(pages, "x" * 501)[0] == 422


def test_an_operator_finds_what_may_be_replayed_and_no_other_payment(pages: Pages) -> None:
    assert search(pages, PAYMENT, "bob")[0] == 200 and "No payment has" in search(pages, PAYMENT, "bob")[1]
    assert search(pages, "pi_stuck", "bob") == (303, "/ledger/entities/stripe:acct_1:pi_stuck")
    page = search(pages, "acct_1", "bob")[1]
    found = re.findall(r'href="/ledger/entities/([^"]+)"', page)
    assert found and PAYMENT not in found


def test_an_operator_finds_a_dead_event_by_the_amount_of_its_body(own_pages: Pages) -> None:
    places, clock = own_pages.letters.layout, own_pages.letters.clock

    def amounts(_provider: str, _type: str, body: bytes) -> Money | None:
        return Money(4_242, "EUR") if b"evt_bug1" in body else Money(42_420, "KWD") if b"evt_bug2" in body else None

    DeadLetterIndex(
        places.dead_letter_index, places.journal, Payloads(places.bodies_table), clock, amounts=amounts
    ).follow()
    one = "/ledger/entities/stripe:acct_1:pi_evt_bug1"
    assert search(own_pages, "42.42 EUR", "bob") == (303, one)
    page = search(own_pages, "42.42", "bob")[1]
    assert f'href="{one}"' in page and "pi_evt_bug2" in page and "42.42 EUR" in page and "42.420 KWD" in page
    assert "No payment has" in search(own_pages, "424.20", "bob")[1], "42420 minor units are another amount in KWD"
    assert "No payment has" in search(own_pages, "42.42", "fay")[1], "finance reads what was booked"


def test_a_viewer_is_led_to_what_is_dead_of_a_payment(pages: Pages) -> None:
    status, path = search(pages, "evt_bug0", "eve")
    assert (status, path) == (303, "/dlq?view=items&stream=ledger&entity=stripe:acct_1:pi_evt_bug0")
    assert "ZeroDivisionError" in pages.browser("eve").get(path).text


@pytest.mark.parametrize(
    ("name", "then"), [("fay", "name the days"), ("eve", "Finance can search older ones by their days")]
)
def test_a_search_whose_time_is_up_says_since_when_it_looked_and_what_to_do(
    pages: Pages, monkeypatch: pytest.MonkeyPatch, name: str, then: str
) -> None:
    monkeypatch.setattr("ledger.queries.payments.WINDOW_ROWS", 2)
    monkeypatch.setattr("console.pages.search.SEARCH_S_MAX", 0)
    status, page = search(pages, "nothing-is-like-this", name)
    assert status == 200 and "Searched only decisions since" in page and then in page
    if name == "fay":
        assert 'href="/ledger/search?text=nothing-is-like-this"' in page
        assert pages.browser(name).get("/ledger/search?text=nothing-is-like-this").status_code == 200
