"""Files of bodies that are gone: every page, file and command goes on, and says what is missing."""

from __future__ import annotations

import re

import pytest
from click.testing import CliRunner

from cli.main import main
from tests.unit.console.pages.conftest import Pages, made
from tests.unit.console.pages.test_operators import text

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
