"""What one person may not do alone: a purge and a resolve of more than a hundred items, clicked through by two."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest
from playwright.sync_api import Page, expect

from operations.limits import AloneLimits
from tests.browser.conftest import Stage, staged
from tests.console_site import add_people
from tests.dead_letters import DeadLetters, Rejected

ITEMS = AloneLimits().items_max + 1
RUN_MS_MAX = 60_000
NEW = "another horse battery"


@pytest.fixture(scope="module")
def stage(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stage]:
    """As many of two causes as take two people."""
    data = tmp_path_factory.mktemp("two") / "data"
    letters = DeadLetters(data)
    add_people(data)
    for number in range(ITEMS):
        letters.dies(letters.receive(f"evt_a{number}"), ZeroDivisionError("division by zero"))
        letters.dies(letters.receive(f"evt_b{number}"), Rejected("unreadable"))
    for number in range(3):
        letters.dies(letters.receive(f"evt_c{number}"), KeyError("released"))
    letters.batch()
    with staged(letters, data, alone=AloneLimits()) as made:
        yield made


def select_all(page: Page, stage: Stage, cause: str, items: int = ITEMS) -> str:
    """Freezes everything of one cause; the selection's address."""
    page.goto(f"{stage.url}/dlq")
    page.click(f"text={cause}")
    page.click(f"text=Select all {items}")
    expect(page.locator("h1")).to_contain_text("Selection s")
    return page.url


def acts(page: Page, stage: Stage) -> list[str]:
    """What is on record, the newest first: who, what, outcome, why."""
    page.goto(f"{stage.url}/dlq/audit")
    return [" ".join(row.split()) for row in page.locator("tbody tr").all_inner_texts()]


def test_a_purge_of_many_waits_for_another_administrator_who_lets_it_run(stage: Stage) -> None:
    ada, seen = stage.sign_in("ada")
    where = select_all(ada, stage, "ZeroDivisionError")
    ada.click("text=Close without running")
    ada.fill("form[action*=purge] [name=reason]", "test payments of our own")
    ada.click(f"button:has-text('Discard {ITEMS}')")
    expect(ada.locator("main")).to_contain_text("Nothing is done yet")
    expect(ada.locator("main")).to_contain_text(f"Needs approval: {ITEMS} items (limit 100 a day)")
    expect(ada.locator("main")).to_contain_text("ask another admin to approve it")
    assert ada.locator("form[action*=approve]").count() == 0, "nobody is offered to approve their own"
    refused = ada.evaluate(
        """async () => {
            const token = document.querySelector('[name=csrf_token]').value;
            const body = new URLSearchParams({ csrf_token: token, reason: 'it is mine' });
            const answer = await fetch(location.pathname + '/approve', { method: 'POST', body });
            return [answer.status, await answer.text()];
        }"""
    )
    assert refused[0] == 409 and "ada proposed it: ask another admin to approve it" in refused[1]

    bob, _ = stage.sign_in("bob")
    bob.goto(where)
    expect(bob.locator("main")).to_contain_text("Nothing is done yet")
    assert bob.locator("form[action*=approve]").count() == 0, "a replayer approves nothing"

    amy, seen_by_amy = stage.sign_in("amy")
    amy.goto(f"{stage.url}/dlq/selections")
    waiting = amy.locator("section", has_text="Waiting for approval")
    expect(waiting).to_contain_text(f"purge of {ITEMS} items, proposed by ada: test payments of our own")
    waiting.get_by_role("link").first.click()
    expect(amy.locator("[data-live]")).to_contain_text(f"0 of {ITEMS} items ended")
    amy.fill("form[action*=approve] [name=reason]", "looked at ten of them")
    amy.click("button:has-text('Approve')")
    expect(amy.locator("[data-live]")).to_contain_text(f"{ITEMS} of {ITEMS} items ended", timeout=RUN_MS_MAX)
    expect(amy.locator("main")).to_contain_text("by amy")
    expect(amy.locator("tbody .chip-purged").first).to_be_visible()

    reported = acts(amy, stage)
    assert any(re.search(r"ada page purge .*done test payments of our own", one) for one in reported), reported
    refusal = r"ada page approve .*refused it is mine; .*ask another admin to approve it"
    assert any(re.search(refusal, one) for one in reported), reported
    assert any(re.search(r"amy page approve .*done looked at ten of them", one) for one in reported), reported
    amy.goto(f"{stage.url}/dlq")
    expect(amy.locator("main")).not_to_contain_text("ZeroDivisionError")
    assert [said for said in seen.complaints if "409" not in said] == [] and seen_by_amy.complaints == []


def test_what_is_to_come_again_takes_two_people_however_little_it_is_and_its_keys_are_freed(stage: Stage) -> None:
    ada, _ = stage.sign_in("ada")
    where = select_all(ada, stage, "KeyError", 3)
    ada.click("text=Close without running")
    ada.fill("form[action*=release] [name=reason]", "the provider sends them again")
    ada.click("text=Let 3 come again")
    expect(ada.locator("main")).to_contain_text("Needs approval: every release does. Nothing is done yet.")
    assert stage.site.letters.freed == []
    amy, _ = stage.sign_in("amy")
    amy.goto(where)
    amy.fill("form[action*=approve] [name=reason]", "looked at them")
    amy.click("button:has-text('Approve')")
    expect(amy.locator("[data-live]")).to_contain_text("3 of 3 items ended", timeout=RUN_MS_MAX)
    expect(amy.locator("tbody .chip-released")).to_have_count(3)
    assert len(stage.site.letters.freed) == 3
    reported = acts(amy, stage)
    assert any(re.search(r"ada page release .*done the provider sends them again", one) for one in reported), reported
    assert any(re.search(r"amy page approve .*done looked at them", one) for one in reported), reported
