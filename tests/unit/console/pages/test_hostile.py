"""Nothing that a stranger sends is markup on a page, steers it, or makes it long: wherever it is shown."""

from __future__ import annotations

import re
from html.parser import HTMLParser

import pytest
from markupsafe import escape

from console.rendering import make_address, quote_segment
from core.visible import make_visible
from tests.dead_letters import HOSTILE
from tests.unit.console.listening import csrf_of
from tests.unit.console.pages.conftest import Pages

PAGE_BYTES_MAX = 100_000
TAGS = set(
    re.findall(
        r"\w+",
        "html head meta title link script body a header nav ul li ol form input span button main h1 h2 h3 p div "
        "section dl dt dd table caption thead tbody tr th td details summary pre code strong b em small label "
        "select option time svg desc line rect path text figure figcaption br kbd dialog progress noscript textarea",
    )
)


class Elements(HTMLParser):
    """What a browser makes of a page: every element with its attributes."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.found: list[tuple[str, dict[str, str | None]]] = []
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found.append((tag, dict(attrs)))


def check(page: str) -> None:
    """Only elements and attributes of the templates' own, no other host, nothing unseen."""
    for tag, attributes in Elements(page).found:
        assert tag in TAGS, (tag, attributes)
        assert not [name for name in attributes if name.startswith("on") or name == "style"], (tag, attributes)
        for name in attributes.keys() & {"href", "src", "action", "data-live", "data-then"}:
            assert (attributes[name] or "").startswith(("/", "#")), (tag, attributes)
            assert not (attributes[name] or "").startswith("//")
        if tag == "script":
            assert (attributes["src"] or "").startswith("/static/")
    shown = re.sub(r' value="[^"]*"', "", page)  # A field gives back what was typed, exactly.
    assert re.search("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]", shown) is None
    assert len(page.encode()) < PAGE_BYTES_MAX


def items(pages: Pages) -> list[int]:
    rows = pages.letters.journal.rows
    return [row.item_seq for row in rows if row.first and row.event_type and row.event_type.startswith("type ")]


def keys(pages: Pages) -> list[tuple[str, str]]:
    rows = {row.item_seq: row for row in pages.letters.journal.rows if row.first}
    return [(rows[item].event_key or "", rows[item].entity_key or "") for item in items(pages)]


def test_there_is_a_hostile_item_for_each_text(pages: Pages) -> None:
    assert len(items(pages)) == len(HOSTILE)


@pytest.mark.parametrize(
    "path",
    [
        *(
            "/",
            "/dlq",
            "/dlq?view=items",
            "/dlq?view=items&sort=newest",
            "/dlq/selections",
            "/dlq/audit",
        ),
        *("/ledger/overview", "/ledger/postings?account=merchant:m-1:payable", "/ledger/owed"),
        *("/ledger", "/ledger/search?text=hostile", "/ledger/search?decision=dead", "/ledger/reconciliations"),
        *("/ledger/reversals", "/ledger/entries", "/ledger/export"),
    ],
)
def test_lists_and_statistics(pages: Pages, path: str) -> None:
    page = pages.browser().get(path)
    assert page.status_code == 200
    check(page.text)
    if path.startswith(("/dlq?view", "/ledger/search")):
        assert "&lt;script&gt;" in page.text


def test_item_pages_with_payload_headers_error_and_stack(pages: Pages) -> None:
    browser = pages.browser()
    for item, text in zip(items(pages), HOSTILE, strict=True):
        page = browser.get(f"/dlq/items/{item}")
        assert page.status_code == 200
        check(page.text)
        assert escape(make_visible(text)) in page.text


def test_pages_of_events_and_entities_by_their_keys(pages: Pages) -> None:
    browser = pages.browser()
    for event, entity in keys(pages):
        for path in (f"/ledger/events/{quote_segment(event)}", f"/ledger/entities/{quote_segment(entity)}"):
            page = browser.get(path)
            assert page.status_code == 200, path
            check(page.text)
        listed = browser.get(make_address("/dlq", {"view": "items", "entity": entity}))
        assert listed.status_code == 200
        check(listed.text)


@pytest.mark.parametrize(
    "template",
    [
        *("/ledger/events/{}", "/ledger/entities/{}", "/ledger/reconciliations/{}"),
        *("/ledger/search?text={}", "/ledger/search?merchant={}&from={}&amount={}&currency=EUR", "/ledger?merchant={}"),
        *("/ledger/postings?account={}", "/ledger/postings?account=a&cursor={}", "/ledger/owed?merchant={}"),
        *("/ledger?as_of={}", "/ledger?currency={}", "/ledger/export/file?table={}", "/dlq?text={}", "/dlq?from={}"),
        *(
            "/dlq?view=items&class={}&provider={}&type={}&entity={}&cause={}",
            "/dlq?view=items&after={}",
            "/dlq?kind={}",
        ),
        *("/?stream={}", "/dlq/selections?before={}", "/dlq/audit?before={}"),
    ],
)
def test_what_an_address_holds(pages: Pages, template: str) -> None:
    browser = pages.browser()
    for text in (*HOSTILE, "x" * 12_000, "a\x00b", "../..", "%2e%2e%2f"):
        page = browser.get(template.replace("{}", quote_segment(text)))
        assert page.status_code in {200, 404, 422}, (text[:50], page.text[:500])
        check(page.text)


def test_the_payload_is_a_file_and_never_a_page(pages: Pages) -> None:
    answer = pages.browser().get(f"/dlq/items/{items(pages)[0]}/payload")
    assert answer.status_code == 200
    assert answer.headers["content-type"] == "application/octet-stream"
    assert answer.headers["content-disposition"].startswith("attachment;")
    assert answer.headers["x-content-type-options"] == "nosniff"
    assert HOSTILE[0] in answer.text


def test_notes_and_reasons_of_people_are_no_markup_either(own_pages: Pages) -> None:
    browser = own_pages.browser()
    token = csrf_of(browser.get("/"))
    shown = HOSTILE[0] + HOSTILE[1]
    frozen = browser.post("/dlq/selections", {"what": "all", "note": shown}, token)
    assert frozen.status_code == 303
    page = browser.get(frozen.headers["location"])
    check(page.text)
    assert escape(shown) in page.text
    wrong = browser.post(f"{frozen.headers['location']}/replay", {"reason": shown, "per_s": HOSTILE[2]}, token)
    assert wrong.status_code == 422
    check(wrong.text)
    for path in ("/dlq/selections", "/dlq/audit", f"{frozen.headers['location']}/dry-run"):
        check(browser.get(path).text)
