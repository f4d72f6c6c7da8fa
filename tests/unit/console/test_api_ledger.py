"""The API reads the ledger as pages and commands do: the same figures, page by page, and refusals with what to do."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from cli.main import main
from tests.answers import answered, receipt
from tests.filled_ledger import reconcile
from tests.unit.console.api_bench import problem
from tests.unit.console.listening import BOB, EVE, FAY
from tests.unit.console.pages.conftest import Pages, made

PAID = "stripe:evt_paid0:charge.captured"
DEAD = "stripe:evt_bug0:charge.captured"


@pytest.fixture(scope="module")
def pages(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Pages]:
    yield made(tmp_path_factory.mktemp("api") / "data", with_api=True)


def ask(pages: Pages, path: str, user: str = FAY) -> Any:
    answer = pages.listener.request("GET", f"/api/ledger{path}", user)
    assert answer.status_code == 200, answer.text
    return answer.json()


def refused(pages: Pages, path: str, user: str = FAY) -> tuple[int, str, str]:
    answer = pages.listener.request("GET", f"/api/ledger{path}", user)
    return answer.status_code, problem(answer), answer.text


def printed(pages: Pages, *words: str) -> Any:
    answer = CliRunner().invoke(main, ["ledger", *words, "--json", "--data", str(pages.data)])
    return json.loads(answer.output)


@pytest.mark.row("G10")
def test_balances_are_those_of_the_command_with_sums_and_what_is_owed(pages: Pages) -> None:
    found = ask(pages, "/balances")
    assert found["balances"] == printed(pages, "balances")
    assert found["owed"] == printed(pages, "owed")
    eur = {"currency": "EUR", "debit_minor": 123_900, "credit_minor": 123_900, "decimals": 2, "balanced": True}
    assert eur in found["totals"] and found["next"] is None
    assert ask(pages, "/balances?seq=1")["balances"] == printed(pages, "balances", "--seq", "1")
    assert ask(pages, "/balances?merchant=m-1&currency=kwd")["balances"] == printed(
        pages, "balances", "--merchant", "m-1", "--currency", "KWD"
    )


def test_balances_come_page_by_page(pages: Pages) -> None:
    seen, query = [], "/balances?limit=2"
    while True:
        page = ask(pages, query)
        seen += page["balances"]
        if page["next"] is None:
            break
        query = f"/balances?limit=2&cursor={page['next']}"
    assert seen == printed(pages, "balances")


def test_postings_are_those_of_the_command_page_by_page(pages: Pages) -> None:
    whole = printed(pages, "postings", "--account", "provider:stripe:clearing")
    assert ask(pages, "/postings?account=provider:stripe:clearing") == whole
    first = ask(pages, "/postings?account=provider:stripe:clearing&limit=3")
    rest = ask(pages, f"/postings?account=provider:stripe:clearing&limit=3&cursor={first['next']}")
    assert first["lines"] + rest["lines"] == whole["lines"] and rest["next"] is None


def test_search_is_that_of_the_command_page_by_page(pages: Pages) -> None:
    query = "text=evt_&decision=dead"
    whole = printed(pages, "search", "--text-in-keys", "evt_", "--decision", "dead", "--limit", "1000")
    assert ask(pages, f"/search?{query}&limit=1000")["hits"] == whole
    first = ask(pages, f"/search?{query}&limit=5")
    second = ask(pages, f"/search?{query}&limit=5&cursor={first['next']}")
    assert first["hits"] + second["hits"] == whole[:10]
    assert ask(pages, "/search?amount=123.450&currency=KWD")["hits"][0]["amount_minor"] == 123_450


def test_stories_of_events_and_entities_are_those_of_the_commands(pages: Pages) -> None:
    assert ask(pages, f"/events/{PAID}") == {"key": PAID, **printed(pages, "event", PAID)[PAID]}
    assert ask(pages, "/entities/stripe:acct_1:pi_0") == printed(pages, "entity", "stripe:acct_1:pi_0")
    assert len(ask(pages, "/entities/stripe:acct_1:pi_0?limit=1")["events"]) == 1


def test_unknown_events_verification_and_reconciliations(tmp_path: Path) -> None:
    own = made(tmp_path / "data", with_api=True)
    assert ask(own, "/unknown") == printed(own, "unknown", "--all")
    [ledger] = ask(own, "/verification")["streams"]
    assert (ledger["stream"], ledger["at"]) == ("ledger", None)
    assert {one["name"] for one in ledger["invariants"]} >= {"balanced"}
    assert ask(own, "/reconciliations") == {"runs": [], "count": 0}
    reconcile(own.letters)
    assert ask(own, "/reconciliations")["runs"] == printed(own, "reconciliations")
    one = ask(own, "/reconciliations/r1")
    assert one == printed(own, "reconciliations", "--run", "r1")


@pytest.mark.parametrize("key", [DEAD, "seq:5"])
def test_who_may_replay_reads_the_story_of_what_they_may_replay_and_no_other(pages: Pages, key: str) -> None:
    assert ask(pages, f"/events/{key}", BOB)["rows"]
    assert refused(pages, f"/events/{PAID}", BOB)[:2] == (403, "not-allowed")
    assert refused(pages, f"/events/{key}", EVE)[:2] == (403, "not-allowed")
    assert refused(pages, "/balances", BOB)[:2] == (403, "not-allowed")


def test_who_may_replay_opens_the_pages_of_those_stories(pages: Pages) -> None:
    browser = pages.browser("bob")
    page = browser.get(f"/ledger/events/{DEAD}")
    assert page.status_code == 200 and 'href="/ledger/export"' not in page.text
    assert browser.get("/ledger/entities/stripe:acct_1:pi_stuck").status_code == 200
    for path in (f"/ledger/events/{PAID}", "/ledger/entities/stripe:acct_1:pi_0", "/ledger"):
        answer = browser.get(path)
        assert answer.status_code == 403 and "payhook users roles" in answer.text, path
    assert browser.get("/ledger/events/stripe:none:x").status_code == 404


@pytest.mark.parametrize(
    ("path", "status", "slug", "says"),
    [
        ("/events/stripe:none:x", 404, "event-unknown", "search?text="),
        ("/events/seq:ledger.9:1", 404, "event-unknown", "search?text="),
        ("/entities/none", 404, "entity-unknown", "search?text="),
        ("/reconciliations/none", 404, "reconciliation-unknown", "none"),
        ("/balances?mode=test", 404, "mode-unknown", "test traffic isn't accepted"),
        ("/balances?as_of=soon", 422, "invalid", "2026-01-31"),
        ("/balances?as_of=2026-01-31&seq=1", 422, "invalid", "not both"),
        ("/balances?seq=x", 422, "invalid", "names no row"),
        ("/balances?seq=ledger.9:1", 422, "invalid", "ledger.9"),
        ("/balances?currency=EURO", 422, "invalid", "currency"),
        ("/balances?cursor=x", 422, "invalid", "cursor"),
        ("/balances?limit=0", 422, "invalid", "limit"),
        ("/balances?limt=5", 422, "invalid", "limt"),
        ("/postings", 422, "invalid", "account"),
        ("/postings?account=a&cursor=x", 422, "invalid", "begin without one"),
        ("/postings?account=a&limit=1001", 422, "invalid", "1000"),
        ("/search?amount=12.50", 422, "invalid", "currency"),
        ("/search?amount=12.5&currency=JPY", 422, "invalid", "JPY has no decimals"),
        ("/search?amount=1.2345&currency=KWD", 422, "invalid", "KWD has 3 decimals"),
        ("/search?decision=gone", 422, "invalid", "decision"),
        ("/search?from=soon", 422, "invalid", "2026-01-31"),
        ("/search?cursor=1", 422, "invalid", "begin without one"),
        ("/entities/x?limit=9999", 422, "invalid", "limit"),
    ],
)
def test_what_cannot_be_answered_says_where_and_what_to_do(
    pages: Pages, path: str, status: int, slug: str, says: str
) -> None:
    got, named, body = refused(pages, path)
    assert (got, named) == (status, slug) and says in body, body


def test_an_event_that_was_answered_and_is_not_decided_yet_is_told_so(tmp_path: Path) -> None:
    own = made(tmp_path / "data", with_api=True)
    answered(own.data, receipt("stripe:evt_new:charge.captured", 2))
    assert "isn't decided yet" in refused(own, "/events/stripe:evt_new:charge.captured")[2]


def test_a_damaged_ledger_is_a_503(tmp_path: Path) -> None:
    own = made(tmp_path / "data", with_api=True)
    for file in Path(own.letters.layout.postings).glob("*.parquet"):
        file.unlink()
    assert refused(own, "/balances")[0] == 503
