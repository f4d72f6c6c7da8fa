"""An unknown event is closed on pages: selected by its state, discarded with a reason, and shown with who did it."""

from __future__ import annotations

import html
import re

from tests.unit.console.pages.conftest import Pages
from tests.unit.console.pages.test_operators import Forms, text
from tests.unit.processor.fakes import ignored, unknown

ACTS = ("replay", "resolve", "purge", "release")


def not_known(pages: Pages) -> str:
    key = pages.letters.receive("evt_odd", event_type="made_up.funds_moved")
    pages.letters.handler.script[key] = unknown
    pages.letters.batch()
    return key


def test_an_unknown_event_is_selected_and_discarded_and_leaves_the_list(own_pages: Pages) -> None:
    key = not_known(own_pages)
    ada = own_pages.browser("ada")
    listed = text(ada.get("/ledger/unknown").text)
    assert "made_up.funds_moved" in listed and "Select them" in listed and "Closed" not in listed
    [link] = re.findall(r'href="([^"]+)">Select them', ada.get("/ledger/unknown").text)
    assert "stream=ledger&" in html.unescape(link), "a shard's and those of test traffic are in a list of their own"
    for view in ("groups", "items"):
        shown = ada.get(html.unescape(link) + f"&view={view}").text
        assert "No events match" not in shown and "Select all that match" in shown
    forms = Forms(ada)
    status, where = forms.post("/dlq/selections", what="all", state="unknown", type="made_up.funds_moved", note="odd")
    assert (status, where) == (303, "/dlq/selections/1")
    assert forms.post(f"{where}/purge", reason="known to move nothing for us") == (303, where)
    own_pages.letters.batch()
    assert own_pages.letters.decisions(key) == ["unknown", "purged"]
    assert "1 of 1 items ended" in text(ada.get(where).text)
    after = text(ada.get("/ledger/unknown").text)
    assert "No unknown events" in after
    assert "purged ada known to move nothing for us" in after
    acts = [(one.action, one.actor, one.reason) for one in own_pages.listener.audit_log.read(5)]
    assert ("purge", "ada", "known to move nothing for us") in acts


def test_a_state_that_is_not_listed_says_so_to_who_may_not_replay(own_pages: Pages) -> None:
    shown = own_pages.browser("eve").get("/dlq?state=ignored").text
    assert "aren't listed here" in text(shown) and "Select all that match" not in shown
    assert "No events match" in own_pages.browser("eve").get("/dlq?state=purged").text


def test_a_selections_page_offers_what_may_be_done_with_its_events(own_pages: Pages) -> None:
    """Dead ones are closed in three ways, unknown ones in two, ignored ones in none: what isn't offered is refused."""
    not_known(own_pages)
    key = own_pages.letters.receive("evt_ignored", event_type="made_up.ping")
    own_pages.letters.handler.script[key] = ignored
    own_pages.letters.batch()
    ada = own_pages.browser("ada")
    forms = Forms(ada)
    for state, acts in (("open", ACTS), ("unknown", ACTS[:3]), ("ignored", ACTS[:1])):
        _, where = forms.post("/dlq/selections", what="all", state=state, note=state)
        page = ada.get(where).text
        offered = [act for act in ACTS if f"{where}/{act}" in page]
        assert offered == list(acts), state
        for act in set(ACTS) - set(acts):
            status, said = forms.post(f"{where}/{act}", reason="nothing of it")
            assert status == 409 and f"a {act} would do nothing" in said
