"""A settlement report that is uploaded is compared once, by who may, within its limits, and leads to the result."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx2
import pytest

from console.uploads import OPEN_MAX, ReconcileFailed, ReportAsked
from operations.audit_log import AuditLog
from tests.dead_letters import DeadLetters
from tests.filled_ledger import reconcile
from tests.unit.console.listening import ORIGIN, Browser, Listener, csrf_of

REPORT = b"balance_transaction_id,created\r\ntxn_1,2026-01-02\r\n"
PATH = "/ledger/reconciliations"


class Comparisons:
    """What was asked to be compared. ``fails``: why nothing can be; ``goes_on``: until then it takes."""

    def __init__(self) -> None:
        self.asked: list[tuple[ReportAsked, str, bytes]] = []
        self.files: list[Path] = []
        self.fails = ""
        self.goes_on = threading.Event()
        self.goes_on.set()

    def __call__(self, asked: ReportAsked, report: Path) -> str:
        self.asked.append((asked, report.name, report.read_bytes()))
        self.files.append(report)
        assert self.goes_on.wait(60)
        if self.fails:
            raise ReconcileFailed(self.fails)
        return "r1"


class UploadsPage:
    def __init__(self, data: Path) -> None:
        from fastapi import FastAPI

        letters = DeadLetters(data)
        letters.books(letters.receive("evt_paid", payment="pi_0"), 123_450, "EUR")
        letters.batch()
        reconcile(letters)
        self.comparisons = Comparisons()
        self.listener = Listener(FastAPI(openapi_url=None), data, letters.clock, compare=self.comparisons)
        self.data = data

    def browser(self, name: str = "fay") -> Browser:
        browser = Browser(self.listener)
        assert browser.sign_in(name).status_code == 303
        return browser

    def upload(self, browser: Browser, report: bytes = REPORT, name: str = "jan.csv", **fields: str) -> httpx2.Response:
        token = csrf_of(browser.get(PATH))
        data = {"csrf_token": token, "provider": "stripe", **fields}
        headers = {"origin": ORIGIN, "sec-fetch-site": "same-origin"}
        return browser.request("POST", PATH, data=data, files={"report": (name, report, "text/csv")}, headers=headers)

    def ended(self, browser: Browser, at: str) -> httpx2.Response:
        """The page that an upload leads to, once it is compared."""
        for _ in range(600):
            page = browser.get(at)
            if page.status_code != 200 or "http-equiv" not in page.text:
                return page
            time.sleep(0.05)
        raise AssertionError("it is never compared")


@pytest.fixture
def office(tmp_path: Path) -> Iterator[UploadsPage]:
    made = UploadsPage(tmp_path / "data")
    yield made
    made.comparisons.goes_on.set()


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> UploadsPage:
    """One for the uploads that are refused: nothing of them is compared."""
    return UploadsPage(tmp_path_factory.mktemp("shared") / "data")


def test_a_report_is_compared_and_leads_to_its_result(office: UploadsPage) -> None:
    browser = office.browser()
    period: Any = {"from": "2026-01-01", "to": "2026-02-01"}
    answer = office.upload(browser, account="acct_1", tenant="", **period)
    assert answer.status_code == 303 and answer.headers["location"].startswith("/ledger/reports/")
    ended = office.ended(browser, answer.headers["location"])
    assert (ended.status_code, ended.headers["location"]) == (303, "/ledger/reconciliations/r1")
    assert browser.get(ended.headers["location"]).status_code == 200
    [(asked, name, content)] = office.comparisons.asked
    assert (asked.mode, asked.provider, asked.account, asked.tenant) == ("live", "stripe", "acct_1", None)
    assert (str(asked.since), str(asked.until), name, content) == ("2026-01-01", "2026-02-01", "jan.csv", REPORT)
    assert not office.comparisons.files[0].exists()
    [entry] = [one for one in AuditLog(office.data / "lake" / "acts").read(50, None) if one.action == "reconcile"]
    assert (entry.actor, entry.channel, entry.what) == ("fay", "page", "live stripe jan.csv")


def test_while_it_is_compared_the_page_says_so_and_comes_again(office: UploadsPage) -> None:
    office.comparisons.goes_on.clear()
    browser = office.browser()
    at = office.upload(browser).headers["location"]
    assert "this page opens the result by itself" in browser.get(at).text
    assert "jan.csv" in browser.get(PATH).text
    office.comparisons.goes_on.set()
    assert office.ended(browser, at).status_code == 303


def test_a_report_that_cannot_be_compared_says_why(office: UploadsPage) -> None:
    office.comparisons.fails = "jan.csv, line 3, column 'gross': is <empty>"
    browser = office.browser()
    page = office.ended(browser, office.upload(browser).headers["location"])
    assert "line 3, column &#39;gross&#39;: is &lt;empty&gt;" in page.text and "Nothing was compared" in page.text


@pytest.mark.parametrize(
    ("fields", "report", "says"),
    [
        ({"provider": "paypal"}, REPORT, "Choose one of: adyen, stripe"),
        ({"provider": ""}, REPORT, "Choose the report&#39;s provider"),
        ({}, b"", "Choose the report&#39;s CSV file"),
        ({"from": "soon"}, REPORT, "2026-01-31"),
        ({"from": "2026-02-01", "to": "2026-01-01"}, REPORT, "Enter a day after"),
    ],
)
def test_what_is_missing_or_wrong_is_said_at_its_field(
    shared: UploadsPage, fields: dict[str, str], report: bytes, says: str
) -> None:
    answer = shared.upload(shared.browser(), report, **fields)
    assert answer.status_code == 422 and says in answer.text
    assert shared.comparisons.asked == []


@pytest.mark.parametrize(
    ("given", "kept"),
    [
        ("../../etc/passwd", "passwd"),
        ("C:\\fakepath\\jan.csv", "jan.csv"),
        ("--help", "help"),
        ("..", "report.csv"),
        ("märz.csv", "report.csv"),
    ],
)
def test_a_files_name_is_no_way_out_of_its_folder_and_no_option(office: UploadsPage, given: str, kept: str) -> None:
    browser = office.browser()
    office.ended(browser, office.upload(browser, name=given).headers["location"])
    assert [name for _, name, _ in office.comparisons.asked] == [kept]


@pytest.mark.parametrize("name", ["eve", "bob", "ida"])
def test_only_finance_uploads(shared: UploadsPage, name: str) -> None:
    browser = shared.browser(name)
    token = csrf_of(browser.get("/password"))
    headers = {"origin": ORIGIN, "sec-fetch-site": "same-origin"}
    answer = browser.request(
        "POST", PATH, data={"csrf_token": token, "provider": "stripe"}, files={"report": REPORT}, headers=headers
    )
    assert answer.status_code == 403 and shared.comparisons.asked == []


@pytest.mark.parametrize("token", [None, "", "0" * 64])
def test_an_upload_needs_the_forms_token(shared: UploadsPage, token: str | None) -> None:
    data = {"provider": "stripe"} if token is None else {"provider": "stripe", "csrf_token": token}
    headers = {"origin": ORIGIN, "sec-fetch-site": "same-origin"}
    answer = shared.browser().request("POST", PATH, data=data, files={"report": REPORT}, headers=headers)
    assert (answer.status_code, "too old" in answer.text, shared.comparisons.asked) == (403, True, [])


def test_an_upload_of_another_sites_page_is_refused(office: UploadsPage) -> None:
    browser = office.browser()
    data = {"csrf_token": csrf_of(browser.get(PATH)), "provider": "stripe"}
    headers = {"origin": "https://evil.example", "sec-fetch-site": "cross-site"}
    answer = browser.request("POST", PATH, data=data, files={"report": REPORT}, headers=headers)
    assert answer.status_code == 403 and office.comparisons.asked == []


def test_no_other_form_takes_a_file(office: UploadsPage) -> None:
    browser = office.browser()
    data = {"csrf_token": csrf_of(browser.get(PATH))}
    headers = {"origin": ORIGIN, "sec-fetch-site": "same-origin"}
    answer = browser.request("POST", "/ledger/entries", data=data, files={"report": REPORT}, headers=headers)
    assert answer.status_code == 415


def test_a_report_beyond_the_limit_is_refused_and_nothing_is_kept(
    office: UploadsPage, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("console.forms.UPLOAD_BYTES_MAX", 10_000)
    browser = office.browser()
    assert office.upload(browser, b"x" * 20_000).status_code == 413
    assert office.upload(browser, b"x" * 5_000).status_code == 303
    assert len(office.comparisons.asked) <= 1


def test_a_torn_upload_is_refused(office: UploadsPage) -> None:
    browser = office.browser()
    headers = {
        "origin": ORIGIN,
        "sec-fetch-site": "same-origin",
        "content-type": "multipart/form-data; boundary=b",
    }
    answer = browser.request("POST", PATH, content=b"--b\r\nno part", headers=headers)
    assert answer.status_code in (400, 403) and office.comparisons.asked == []


def test_more_reports_than_can_wait_are_refused(office: UploadsPage) -> None:
    office.comparisons.goes_on.clear()
    browser = office.browser()
    assert [office.upload(browser).status_code for _ in range(OPEN_MAX)] == [303] * OPEN_MAX
    answer = office.upload(browser)
    assert answer.status_code == 409 and "wait to be compared" in answer.text


def test_an_upload_that_is_not_known_is_a_404(office: UploadsPage) -> None:
    assert office.browser().get("/ledger/reports/none").status_code == 404
