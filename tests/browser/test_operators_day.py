"""An operator's way through the pages, as a browser walks it: list, item, selection, dry run, replay, result."""

from __future__ import annotations

import re

from playwright.sync_api import expect

from tests.browser.conftest import Stage


def test_a_stranger_signs_in_and_comes_back_to_where_they_wanted(stage: Stage) -> None:
    page, _ = stage.stranger()
    page.goto(f"{stage.url}/dlq?view=items")
    expect(page).to_have_url(re.compile("/login"))
    page.fill("#name", "eve")
    page.fill("#password", "not this one")
    page.click("main button[type=submit]")
    expect(page.locator("[role=alert]")).to_contain_text("Not signed in")
    page.fill("#name", "eve")
    page.fill("#password", "correct horse battery")
    page.click("main button[type=submit]")
    expect(page).to_have_url(f"{stage.url}/dlq?view=items")
    page.click("text=Sign out")
    expect(page).to_have_url(re.compile("/login"))


def test_a_viewer_sees_no_buttons_and_finance_no_dead_letters(stage: Stage) -> None:
    page, _ = stage.sign_in("eve")
    page.goto(f"{stage.url}/dlq?view=items")
    expect(page.locator("table")).to_be_visible()
    assert page.locator("main button:visible", has_text="Select").count() == 0
    assert page.goto(f"{stage.url}/ledger").status == 403  # type: ignore[union-attr]
    page, _ = stage.sign_in("fay")
    assert page.goto(f"{stage.url}/dlq").status == 403  # type: ignore[union-attr]
    page.goto(f"{stage.url}/ledger")
    expect(page.locator("h1")).to_have_text("Balances")


def test_keys_walk_through_a_list_mark_and_open(stage: Stage) -> None:
    page, _ = stage.sign_in("bob")
    page.goto(f"{stage.url}/dlq?view=items")
    page.keyboard.press("j")
    page.keyboard.press("j")
    page.keyboard.press("k")
    page.keyboard.press("x")
    expect(page.locator("tbody input:checked")).to_have_count(1)
    expect(page.locator("[data-marked]")).to_have_text("1")
    page.keyboard.press("?")
    expect(page.locator("dialog#keys")).to_be_visible()
    page.keyboard.press("Escape")
    expect(page.locator("dialog#keys")).to_be_hidden()
    page.keyboard.press("j")
    page.keyboard.press("Enter")
    expect(page).to_have_url(re.compile(r"/dlq/items/\d+"))
    page.keyboard.press("Tab")


def test_from_the_list_to_the_result_of_a_replay(stage: Stage) -> None:
    page, seen = stage.sign_in("bob")
    page.goto(f"{stage.url}/dlq")
    page.click("text=ZeroDivisionError")
    expect(page.locator("tbody tr")).to_have_count(8)
    page.click("tbody tr:first-child a")
    expect(page.locator("main")).to_contain_text("division by zero")
    page.go_back()
    page.fill("[name=note]", "the bug is mended")
    page.click("text=Select all 8")
    expect(page.locator("h1")).to_contain_text("Selection s")
    page.click("text=Dry run")
    expect(page.locator("main")).to_contain_text("0 of 8 items would be applied; 8 more would run")
    page.click("text=Back to the selection")
    page.click("text=Replay 8")
    expect(page.locator(".problem").first).to_contain_text("Enter a reason")
    page.fill("form[action*=replay] [name=reason]", "the bug is mended")
    page.click("text=Replay 8")
    expect(page.locator("[data-live]")).to_contain_text("8 of 8 items ended")
    expect(page.locator("tbody .chip-applied")).to_have_count(8)
    page.goto(f"{stage.url}/dlq/audit")
    expect(page.locator("tbody")).to_contain_text("the bug is mended")
    page.goto(f"{stage.url}/dlq")
    expect(page.locator("main")).not_to_contain_text("ZeroDivisionError")
    assert [said for said in seen.complaints if "422" not in said] == []


def test_what_dies_again_is_reported_so_without_a_script_too(stage: Stage) -> None:
    page, _ = stage.sign_in("bob", 390)
    page.goto(f"{stage.url}/dlq?view=items&text=no+merchant")
    page.check("tbody input[type=checkbox]")
    page.click("text=Select the marked")
    page.fill("form[action*=replay] [name=reason]", "once more")
    page.click("text=Replay 1")
    expect(page.locator("[data-live]")).to_contain_text(re.compile("retry|parked|dead_again"))
