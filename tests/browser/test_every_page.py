"""Every page there is, in a browser: small, quiet, no wider than its window, with one heading and names for fields."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import pytest
from playwright.sync_api import expect

from console.access.routes import declared_routes
from console.rendering import quote_segment
from core.layout import Layout
from dead_letters.listing import Filter
from ledger.verify.report import remember_report
from tests.browser.conftest import Stage, staged
from tests.caught_up import lose, remember_catch_ups
from tests.console_site import add_people
from tests.dead_letters import HOSTILE, DeadLetters, Rejected
from tests.filled_ledger import fill, reconcile
from tests.received_hour import busy_hour
from tests.verified import verified

PAGE_BYTES_MAX = 150_000
LONG = "no merchant for an account whose name goes on " * 40
MORE = 60
"""Beside what `fill` leaves: more than one page of a list, each with a long message."""

PAGES: Mapping[str, tuple[str, ...]] = {
    "/": ("/",),
    "/received": ("/received",),
    "/catch-up": ("/catch-up",),
    "/alerts": ("/alerts",),
    "/subscribers": ("/subscribers",),
    "/search": ("/search", "/search?q=acct_1", "/search?q=nothing-is-like-this"),
    "/dlq": ("/dlq", "/dlq?view=items", "/dlq?view=items&state=waiting", "/dlq?view=items&from=2099-01-01"),
    "/dlq/items/{item_seq}": ("/dlq/items/5", "/dlq/items/8", "/dlq/items/11"),
    "/dlq/selections": ("/dlq/selections",),
    "/dlq/selections/{number}": ("/dlq/selections/1",),
    "/dlq/selections/{number}/dry-run": ("/dlq/selections/1/dry-run",),
    "/dlq/audit": ("/dlq/audit",),
    "/password": ("/password",),
    "/users": ("/users",),
    "/users/{name}": ("/users/bob", "/users/ada"),
    "/ledger": ("/ledger", "/ledger?currency=EUR", "/ledger?merchant=nobody"),
    "/ledger/overview": ("/ledger/overview",),
    "/ledger/postings": ("/ledger/postings", "/ledger/postings?account=merchant:m-1:payable&currency=EUR"),
    "/ledger/owed": ("/ledger/owed", "/ledger/owed?merchant=nobody"),
    "/ledger/events/{key:path}": ("/ledger/events/stripe:evt_paid0:charge.captured", "/ledger/events/seq:8"),
    "/ledger/entities/{key:path}": (
        "/ledger/entities/stripe:acct_1:pi_0",
        f"/ledger/entities/{quote_segment(f'stripe:acct_1:pi_hostile{HOSTILE[0]}')}",
    ),
    "/ledger/search": ("/ledger/search", "/ledger/search?text=evt", "/ledger/search?text=nothing-is-like-this"),
    "/ledger/unknown": ("/ledger/unknown",),
    "/ledger/reconciliations": ("/ledger/reconciliations",),
    "/ledger/reconciliations/{run_id}": ("/ledger/reconciliations/r1",),
    "/ledger/verification": ("/ledger/verification",),
    "/ledger/reversals": ("/ledger/reversals",),
    "/ledger/entries": ("/ledger/entries",),
    "/ledger/export": ("/ledger/export",),
}
"""Addresses of every page that is shown with 200."""

NO_PAGES = {
    *("/healthz", "/readyz", "/status", "/metrics", "/openapi.json", "/static/{name}"),
    *("/dlq/items/{item_seq}/payload", "/ledger/export/file", "/dlq/selections/{number}/progress", "/live", "/login"),
    "/received/live",
    "/ledger/reports/{upload_id}",
}
"""What machines read, files, a part of a page, one that leads on, and that of strangers, which has its own test."""

REFUSED = (
    *(
        "/nothing",
        "/dlq/items/999999",
        "/dlq/selections/99",
        "/users/nobody",
        "/dlq?from=soon",
    ),
    *("/ledger/events/none", "/ledger?as_of=x&seq=y", "/ledger/search?amount=12", "/ledger/reconciliations/none"),
)
"""Pages that say that something isn't there, or isn't understood."""

EVERY = [address for addresses in PAGES.values() for address in addresses]


@pytest.fixture(scope="module")
def stage(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stage]:
    data = tmp_path_factory.mktemp("every") / "data"
    letters = DeadLetters(data)
    add_people(data)
    fill(letters)
    for number in range(MORE):
        letters.dies(letters.receive(f"evt_long{number}_{'x' * 60}"), Rejected(LONG))
    letters.batch()
    reconcile(letters)
    remember_report(Layout(data).verified_file, verified(), deep=False)
    remember_catch_ups(Layout(data))
    lose(Layout(data))
    with staged(letters, data, received=busy_hour) as made:
        made.site.dead.selections.freeze(Filter(), "bob", "to look at")
        yield made


def test_no_page_is_forgotten_here(stage: Stage) -> None:
    routes = [one for one in declared_routes(stage.site.app.routes) if "GET" in one.methods]
    assert {one.path for one in routes if not one.path.startswith("/api/")} - NO_PAGES == PAGES.keys()


def test_pages_are_small_and_quiet_and_ask_no_other_host(stage: Stage) -> None:
    page, seen = stage.sign_in("ada")
    for path in EVERY:
        answer = page.goto(f"{stage.url}{path}")
        assert answer is not None and answer.status == 200, path
        expect(page.locator("h1")).to_have_count(1)
        assert seen.complaints == [], path
    assert seen.foreign == []
    assert {url: size for url, size in seen.bytes_by_url.items() if size >= PAGE_BYTES_MAX} == {}
    assert len(seen.bytes_by_url) >= len(EVERY)


@pytest.mark.parametrize("width", [390, 1280])
def test_no_page_is_wider_than_its_window(stage: Stage, width: int) -> None:
    page, _ = stage.sign_in("ada", width)
    for path in (*EVERY, *REFUSED):
        page.goto(f"{stage.url}{path}")
        assert page.evaluate("document.documentElement.scrollWidth") <= width, path


def test_pages_that_refuse_say_why_and_lead_back(stage: Stage) -> None:
    page, seen = stage.sign_in("ada")
    for path in REFUSED:
        answer = page.goto(f"{stage.url}{path}")
        assert answer is not None and answer.status in (404, 422), path
        expect(page.locator("h1")).to_have_count(1)
        assert page.locator("main a").count() + page.locator("main form").count() > 0, path
    assert [said for said in seen.complaints if "404" not in said and "422" not in said] == []


def test_the_sign_in_page_is_small_and_fits(stage: Stage) -> None:
    page, seen = stage.stranger(390)
    page.goto(f"{stage.url}/login?next=/dlq")
    assert page.evaluate("document.documentElement.scrollWidth") <= 390
    assert seen.complaints == [] and seen.foreign == []
    assert max(seen.bytes_by_url.values()) < PAGE_BYTES_MAX


def test_everything_that_is_filled_in_or_pressed_has_a_name(stage: Stage) -> None:
    """As somebody hears it who doesn't see the page."""
    page, _ = stage.sign_in("ada")
    for path in EVERY:
        page.goto(f"{stage.url}{path}")
        nameless = page.evaluate(
            """() => [...document.querySelectorAll('input:not([type=hidden]), select, textarea, button, a, summary')]
            .filter(one => !(one.labels && [...one.labels].some(label => label.textContent.trim()))
                && !one.getAttribute('aria-label') && !one.textContent.trim())
            .map(one => one.outerHTML.slice(0, 120))"""
        )
        assert nameless == [], path


def test_the_keyboard_goes_past_the_links_to_the_content_and_shows_where_it_is(stage: Stage) -> None:
    page, _ = stage.sign_in("ada")
    page.goto(f"{stage.url}/dlq")
    page.keyboard.press("Tab")
    expect(page.locator(".skip")).to_be_focused()
    expect(page.locator(".skip")).to_be_in_viewport()
    page.keyboard.press("Enter")
    expect(page.locator("main")).to_be_focused()
    page.keyboard.press("Tab")
    outlined = "getComputedStyle(document.activeElement).outlineStyle"
    assert page.evaluate("document.activeElement.closest('main') !== null")
    assert page.evaluate(outlined) == "solid"
