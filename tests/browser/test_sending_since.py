"""What a subscriber missed is sent from the page of subscribers: beyond the limits of a day by two people."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import datetime

import pytest
from playwright.sync_api import expect

from console.subscribers import SubscriberSettings
from core.location import Location
from core.work import Ignored
from operations.limits import AloneLimits
from tests.browser.conftest import Stage, staged
from tests.console_site import add_people
from tests.dead_letters import DeadLetters

ITEMS = 3
RUN_MS_MAX = 60_000
SHOP = SubscriberSettings("acct_1", "https://hooks.example/in", "live", None, ("charge.*",), "active")
GONE = SubscriberSettings("gone", "https://gone.example/in", "live", None, ("*",), "disabled", "it answered 410")


def missed(name: str, _journal: Location, _since: datetime) -> Sequence[int]:
    return range(1, ITEMS + 1) if name == SHOP.name else ()


@pytest.fixture(scope="module")
def stage(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stage]:
    """A stream that told a subscriber nothing of three events while it was disabled."""
    data = tmp_path_factory.mktemp("since") / "data"
    letters = DeadLetters(data, "notify")
    add_people(data)
    keys = [letters.receive("acct_1", event_type=f"type{number}", payment=f"pi_{number}") for number in range(ITEMS)]
    for key in keys:
        letters.handler.script[key] = lambda _: Ignored("acct_1 is disabled")
    letters.batch()
    for key in keys:
        letters.books(key, 100, "EUR")
    alone = AloneLimits(replay_items_max=ITEMS - 1)
    with staged(letters, data, alone=alone, subscribers=lambda: [SHOP, GONE], missed=missed) as made:
        yield made


@pytest.mark.parametrize("width", [1280, 400])
def test_the_form_fits_its_window(stage: Stage, width: int) -> None:
    bob, seen = stage.sign_in("bob", width)
    bob.goto(f"{stage.url}/subscribers")
    expect(bob.get_by_role("heading", name="Send what one missed")).to_be_visible()
    assert bob.locator("select[name=name] option").all_inner_texts() == ["acct_1"], "a disabled one gets nothing"
    assert bob.evaluate("document.documentElement.scrollWidth") <= width
    assert seen.complaints == [] and seen.foreign == []


def test_what_it_missed_is_sent_once_another_person_approves_it(stage: Stage) -> None:
    bob, _ = stage.sign_in("bob")
    bob.goto(f"{stage.url}/subscribers")
    bob.fill("form[action*=send] [name=since]", "2026-01-31")
    bob.fill("form[action*=send] [name=reason]", "its certificate had run out")
    bob.click("button:has-text('Send since then')")
    expect(bob.locator("main")).to_contain_text("Nothing is done yet")
    decisions = [stage.site.letters.decisions(f"stripe:acct_1:type{number}") for number in range(ITEMS)]
    assert decisions == [["ignored"]] * ITEMS, "nothing is sent yet"
    amy, _ = stage.sign_in("amy", 400)
    amy.goto(bob.url)
    amy.fill("form[action*=approve] [name=reason]", "asked the shop")
    amy.click("button:has-text('Approve')")
    expect(amy.locator("[data-live]")).to_contain_text(f"{ITEMS} of {ITEMS} items ended", timeout=RUN_MS_MAX)
    expect(amy.locator("tbody .chip-applied")).to_have_count(ITEMS)
    bob.goto(f"{stage.url}/subscribers")
    bob.fill("form[action*=send] [name=since]", "2026-01-31")
    bob.fill("form[action*=send] [name=reason]", "once more")
    bob.click("button:has-text('Send since then')")
    expect(bob.locator("main")).to_contain_text("acct_1 missed nothing since 2026-01-31")
