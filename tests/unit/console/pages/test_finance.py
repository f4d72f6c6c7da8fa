"""Finance's pages tell what the ledger's queries tell, with each currency's decimals."""

from __future__ import annotations

import csv
import html
import io
import re
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path

import pytest

from console.pages.ledger_files import ExportTooLarge, write
from ledger.queries.journals import LedgerJournals
from tests.answers import answered, receipt
from tests.damaged_lake import DAMAGES
from tests.dead_letters import DeadLetters
from tests.filled_ledger import reconcile
from tests.unit.console.pages.conftest import Pages

EVENT = "/ledger/events/stripe:evt_paid0:charge.captured"


def text(page: str) -> str:
    """What is read on a page, with single spaces."""
    return re.sub(r"\s+", " ", html.unescape(re.sub(r"<[^>]*>", " ", page)))


def test_balances_have_their_currencys_decimals_and_say_that_they_agree(pages: Pages) -> None:
    page = text(pages.browser("fay").get("/ledger").text)
    for reported in ("1,230.00 EUR", "-123,450 JPY", "123.450 KWD", "EUR: debits = credits = 1,239.00 EUR"):
        assert reported in page


def test_balances_as_of_a_row_and_a_moment(pages: Pages) -> None:
    browser = pages.browser("fay")
    at_first = text(browser.get("/ledger?seq=1").text)
    assert "1,234.50 EUR" in at_first and "JPY" not in at_first
    before = pages.letters.journal.rows[0].decided_at - timedelta(days=1)
    assert "No bookings match" in browser.get(f"/ledger?as_of={before:%Y-%m-%d}").text
    both = browser.get("/ledger?seq=1&as_of=2026-01-31")
    assert both.status_code == 422 and "a time or a row, not both" in both.text


def test_balances_of_one_merchant_and_currency_are_plotted(pages: Pages) -> None:
    page = pages.browser("fay").get("/ledger?merchant=m-1&currency=eur").text
    assert "JPY" not in page
    assert page.count('<svg class="plot"') == 1
    assert "merchant:m-1:payable: -1,234.50 at the end" in page


def test_an_events_story_is_a_timeline_with_its_booking(pages: Pages) -> None:
    page = pages.browser("fay").get(EVENT)
    reported = text(page.text)
    for words in ("received", "in Kafka payments.events, partition 0, offset 0", "applied", "1,234.50 EUR"):
        assert words in reported
    assert re.search(r"commit version \d+ \(batch 1, epoch 1\)", reported)
    assert 'href="/ledger/entities/stripe:acct_1:pi_0"' in page.text


def test_a_story_tells_what_was_answered(own_pages: Pages) -> None:
    key = "stripe:evt_paid0:charge.captured"
    answered(own_pages.data, receipt(key, 2), receipt(key, 9, "<b>duplicate"))
    page = own_pages.browser("fay").get(EVENT)
    reported = text(page.text)
    assert reported.index("Answered") < reported.index("in Kafka")
    assert "claimed 200 0/0, line 0" in reported
    assert "&lt;b&gt;duplicate" in page.text


def test_an_entitys_events_are_in_order_with_the_balance_after_each(pages: Pages) -> None:
    reported = text(pages.browser("fay").get("/ledger/entities/stripe:acct_1:pi_0").text)
    assert reported.index("evt_paid0") < reported.index("evt_back")
    assert "provider:stripe:clearing debit 1,234.50 EUR 1,234.50 EUR" in reported
    assert "provider:stripe:clearing credit 4.50 EUR 1,230.00 EUR" in reported


@pytest.mark.parametrize("path", ["/ledger/events/stripe:none:x", "/ledger/entities/none", "/ledger/reconciliations/x"])
def test_what_is_not_known_is_a_404_that_leads_on(pages: Pages, path: str) -> None:
    page = pages.browser("fay").get(path)
    assert page.status_code == 404
    assert "The live ledger has no" in page.text and 'href="/ledger/search?text=' in page.text


def test_search_finds_by_amount_and_wants_its_currency(pages: Pages) -> None:
    browser = pages.browser("fay")
    found = text(browser.get("/ledger/search?amount=123.450&currency=KWD").text)
    assert "1 found" in found and "evt_paid2" in found
    assert "Enter a currency" in browser.get("/ledger/search?amount=12").text
    assert "No events match" in browser.get("/ledger/search?provider=adyen").text
    assert "found" not in text(browser.get("/ledger/search").text)


def test_an_export_is_the_table_and_no_spreadsheet_calculates_it(pages: Pages) -> None:
    answer = pages.browser("fay").get("/ledger/export/file?table=journal&format=csv")
    assert answer.headers["content-disposition"] == 'attachment; filename="payhook-live-journal.csv"'
    rows = list(csv.DictReader(io.StringIO(answer.text)))
    assert len(rows) == len(pages.letters.journal.rows)
    assert not [cell for row in rows for name, cell in row.items() if name == "event_type" and cell[:1] in set("=+-@")]
    parquet = pages.browser("fay").get("/ledger/export/file?format=parquet")
    assert parquet.content[:4] == b"PAR1"


def test_an_export_beyond_its_limits_writes_nothing(pages: Pages) -> None:
    out = pages.data / "out.csv"
    ledger = LedgerJournals([pages.letters.layout])
    with pytest.raises(ExportTooLarge, match=r"these are 8 rows; a page returns 3 at most"):
        write(ledger, "postings", out, "csv", None, None, rows_max=3)
    with pytest.raises(ExportTooLarge, match="it takes more than 0 s"):
        write(ledger, "postings", out, "csv", None, None, seconds_max=0.0)
    assert not out.exists()


def test_an_export_of_what_is_not_there_says_so(own_pages: Pages) -> None:
    import shutil

    shutil.rmtree(own_pages.letters.layout.postings)
    answer = own_pages.browser("fay").get("/ledger/export/file")
    assert answer.status_code == 404 and "nothing has been decided yet" in answer.text


def test_a_damaged_ledger_is_a_503_that_says_what_to_do(own_pages: Pages) -> None:
    for file in Path(own_pages.letters.layout.postings).glob("*.parquet"):
        file.unlink()
    answer = own_pages.browser("fay").get("/ledger")
    assert answer.status_code == 503 and "payhook verify" in answer.text


@pytest.mark.parametrize("path", ["/ledger/reconciliations", "/ledger/reconciliations/r1"])
@pytest.mark.parametrize("damage", DAMAGES)
def test_a_damaged_table_of_reconciliations_is_a_503(
    own_pages: Pages, path: str, damage: Callable[[Path], None]
) -> None:
    reconcile(own_pages.letters)
    damage(own_pages.data / "lake" / "reconciliation-runs")
    answer = own_pages.browser("fay").get(path)
    assert answer.status_code == 503 and "reconciliation-runs" in answer.text


def test_reconciliations_and_what_differs(own_pages: Pages) -> None:
    browser = own_pages.browser("fay")
    assert "Nothing has been reconciled yet" in browser.get("/ledger/reconciliations").text
    reconcile(own_pages.letters)
    assert "jan.csv" in browser.get("/ledger/reconciliations").text
    page = browser.get("/ledger/reconciliations/r1")
    reported = text(page.text)
    assert "Report and ledger differ." in reported and "-1,234 JPY" in reported and "1 × payout" in reported
    assert "stripe:&lt;b&gt;f" in page.text
    for totals in (
        "payments 1,244.50 EUR of 2 1,234.50 EUR of 1 10.00 EUR",
        "fees -3.50 EUR of 2 0.00 EUR of 0 -3.50 EUR",
    ):
        assert totals in reported


def links(page: str, begin: str) -> list[str]:
    """The addresses of a page that begin so."""
    found = (html.unescape(one) for one in re.findall(r'href="([^"]*)"', page))
    return [one for one in found if one.startswith(begin)]


@pytest.mark.parametrize("query", ["", "?currency=EUR", "?merchant=m-1", "?seq=3", "?merchant=m-1&seq=3&currency=EUR"])
def test_every_balance_leads_to_the_postings_that_it_is_the_sum_of(pages: Pages, query: str) -> None:
    browser = pages.browser("fay")
    page = browser.get(f"/ledger{query}").text
    rows = re.findall(r'<td class="key"><a href="([^"]*)">.*?data-label="balance">([^<]*)</td>', page, re.S)
    assert rows
    for address, balance in rows:
        found = browser.get(html.unescape(address))
        newest = re.search(r'data-label="balance">([^<]*)</td>', found.text)
        assert newest is not None and newest[1] == balance, address


def test_postings_are_listed_page_by_page(pages: Pages, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("console.pages.ledger_home.POSTINGS_PER_PAGE", 1)
    browser = pages.browser("fay")
    first = browser.get("/ledger/postings?account=provider:stripe:clearing&currency=EUR")
    assert "2 postings on" in text(first.text) and "1,230.00 EUR" in first.text
    [older] = links(first.text, "/ledger/postings?account=provider%3Astripe%3Aclearing&currency=EUR&cursor=")
    second = browser.get(older)
    assert "1,234.50 EUR" in second.text and ">older<" not in second.text
    wrong = browser.get("/ledger/postings?account=a&cursor=x")
    assert wrong.status_code == 422 and "begin without one" in wrong.text


def test_postings_of_no_account_ask_for_one_and_of_an_unknown_one_lead_to_the_balances(pages: Pages) -> None:
    browser = pages.browser("fay")
    assert browser.get("/ledger/postings").status_code == 200
    assert "No postings." in text(browser.get("/ledger/postings?account=merchant:none:payable").text)


def test_what_is_owed_to_each_merchant_is_the_sum_of_its_accounts(pages: Pages) -> None:
    browser = pages.browser("fay")
    page = browser.get("/ledger/owed").text
    assert "m-1 1,234.50 EUR -4.50 EUR 1,230.00 EUR" in text(page)
    for address in links(page, "/ledger/postings"):
        assert "No postings" not in browser.get(address).text
    assert "1,230.00 EUR" not in browser.get("/ledger/owed?seq=1").text
    assert "No bookings match" in browser.get("/ledger/owed?merchant=nobody").text


def test_finance_begins_with_what_is_held_owed_and_waits_for_somebody(own_pages: Pages) -> None:
    browser = own_pages.browser("fay")
    assert browser.get("/").headers["location"] == "/ledger/overview"
    page = text(browser.get("/ledger/overview").text)
    for words in ("Held by providers 1,230.00 EUR", "Owed to merchants 1,230.00 EUR", "Waiting for approval 1"):
        assert words in page, page
    assert "Unknown events 0" in page and "Last reconciliation none" in page and "Verification never" in page
    reconcile(own_pages.letters)
    assert "Last reconciliation 1 differ" in text(browser.get("/ledger/overview").text)


def test_finance_of_an_empty_ledger_is_told_so(tmp_path: Path) -> None:
    data = tmp_path / "data"
    letters = DeadLetters(data)
    page = text(Pages(data, letters, letters.clock).browser("fay").get("/ledger/overview").text)
    assert "Held by providers nothing" in page and "Nothing is booked yet" in page
