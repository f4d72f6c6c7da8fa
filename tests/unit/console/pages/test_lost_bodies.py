"""Files of bodies that are gone: every page, file and command goes on, and says what is missing."""

from __future__ import annotations

import re

import pytest
from click.testing import CliRunner

from cli.main import main
from journal.bodies import BodyStore
from tests.unit.console.pages.conftest import Pages, made
from tests.unit.console.pages.test_operators import Forms, text

PATHS = (
    *(
        "/",
        "/dlq",
        "/dlq?view=items",
        "/dlq/items/{item}",
        "/dlq/selections",
        "/dlq/audit",
        "/ledger",
        "/ledger/unknown",
    ),
    *("/ledger/events/stripe:evt_paid0:charge.captured", "/ledger/entities/stripe:acct_1:pi_0", "/ledger/search"),
    *("/ledger/reversals", "/ledger/entries", "/ledger/verification", "/ledger/export"),
)


@pytest.fixture(scope="module")
def bodiless(tmp_path_factory: pytest.TempPathFactory) -> tuple[Pages, set[str]]:
    """The pages, and the names of the files that are gone: every one. Nothing here changes the ledger."""
    pages = made(tmp_path_factory.mktemp("bodiless") / "data")
    files = list((pages.data / "lake" / "bodies").glob("*.parquet"))
    for file in files:
        file.unlink()
    return pages, {file.name for file in files}


def dead_item(pages: Pages) -> int:
    listed = pages.browser("ada").get("/dlq?view=items").text
    return min(map(int, re.findall(r"/dlq/items/(\d+)", listed)))


@pytest.mark.parametrize("path", PATHS)
def test_pages_go_on(bodiless: tuple[Pages, set[str]], path: str) -> None:
    pages, _ = bodiless
    for name in ("ada", "fay"):
        answer = pages.browser(name).get(path.format(item=dead_item(pages)))
        assert answer.status_code in (200, 303, 403), text(answer.text)


def names_a_lost_file(said: str, names: set[str]) -> bool:
    return any(name in said for name in names) and "it is gone" in said


def test_an_item_and_an_event_say_which_file_is_missing(bodiless: tuple[Pages, set[str]]) -> None:
    pages, names = bodiless
    item = dead_item(pages)
    assert names_a_lost_file(text(pages.browser("ada").get(f"/dlq/items/{item}").text), names)
    event = pages.browser("fay").get("/ledger/events/stripe:evt_paid0:charge.captured")
    assert names_a_lost_file(text(event.text), names)


def test_commands_go_on_and_say_which_file_is_missing(bodiless: tuple[Pages, set[str]]) -> None:
    pages, names = bodiless
    item = dead_item(pages)
    for words, code in ((["dlq", "show", str(item)], 0), (["ledger", "event", "stripe:evt_paid0:charge.captured"], 0)):
        done = CliRunner().invoke(main, [*words, "--data", str(pages.data)])
        assert (done.exit_code, names_a_lost_file(" ".join(done.output.split()), names)) == (code, True), done.output
    for words in (["dlq", "list"], ["dlq", "groups"], ["dlq", "stats"], ["ledger", "search"], ["ledger", "unknown"]):
        done = CliRunner().invoke(main, [*words, "--data", str(pages.data)])
        assert done.exit_code == 0, done.output
    for words in (["ledger", "provider-bugs"], ["ledger", "proposals"], ["ledger", "balances"]):
        done = CliRunner().invoke(main, [*words, "--data", str(pages.data)])
        assert done.exit_code == 0, done.output


def test_a_dry_run_goes_on_and_says_of_each_event_that_its_body_is_gone(bodiless: tuple[Pages, set[str]]) -> None:
    pages, _ = bodiless
    forms = Forms(pages.browser("ada"))
    assert forms.post("/dlq/selections", what="all", note="lost") == (303, "/dlq/selections/1")
    page = pages.browser("ada").get("/dlq/selections/1/dry-run")
    assert page.status_code == 200 and "is gone: restore it from a backup, or resolve or discard the event" in text(
        page.text
    )
    done = CliRunner().invoke(main, ["dlq", "replay", "s1", "--dry-run", "--data", str(pages.data)])
    assert done.exit_code == 0, done.output
    assert "is gone: restore it from a backup" in " ".join(done.output.split())


def redact(pages: Pages, key: str) -> str:
    """What the command says; it ends well."""
    words = ["ledger", "redact", key, "--reason", "a person asked", "--data", str(pages.data)]
    done = CliRunner().invoke(main, words)
    assert done.exit_code == 0, (done.output, done.exception)
    return done.output


def test_redact_goes_on_without_the_files_that_are_gone_and_names_them(bodiless: tuple[Pages, set[str]]) -> None:
    pages, names = bodiless
    said = redact(pages, "stripe:evt_paid0:charge.captured")
    assert "is removed" in said
    assert all(name in said for name in names)
    assert "if you restore one of them, redact the event again" in said


def test_redact_removes_a_body_whose_file_is_there_where_another_one_is_gone(own_pages: Pages) -> None:
    own_pages.letters.books(own_pages.letters.receive("evt_later"), 100, "EUR")
    before = {one.name for one in (own_pages.data / "lake" / "bodies").glob("*.parquet")}
    own_pages.letters.batch()
    for name in before:
        (own_pages.data / "lake" / "bodies" / name).unlink()
    assert "is removed" in redact(own_pages, "stripe:evt_later:charge.captured")
    [row] = [row for row in own_pages.letters.journal.rows if row.event_key == "stripe:evt_later:charge.captured"]
    assert BodyStore(str(own_pages.data / "lake" / "bodies")).find_kept([row.body_sha256 or ""]) == set()
