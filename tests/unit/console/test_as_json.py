"""The API and the command line answer with the same JSON."""

from __future__ import annotations

import base64
import json
from dataclasses import replace
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from cli.main import main
from console.api_dead import StoryDescribed
from console.as_json import to_json_value
from console.details import TextsShownOnce, died_of, item_details, journal_says, next_step, tries_of
from core.decision import Decision, ErrorKind
from ledger.reconciliations import Difference
from tests.dead_items import DeadItems
from tests.unit.journal.rows import bare_row


@pytest.fixture
def items(tmp_path: Path) -> DeadItems:
    """One that died twice and holds another, with its bytes."""
    items = DeadItems(tmp_path)
    items.then(items.dead(payment="pi_1"), Decision.REPLAYED, Decision.DEAD, actor="ada", reason="mended")
    items.parked("pi_1")
    items.commit(with_bodies=True)
    return items


def test_what_a_command_prints_of_an_item_is_what_is_described_of_the_api(items: DeadItems) -> None:
    answer = CliRunner().invoke(main, ["dlq", "show", "1", "--json", "--data", str(items.data)])
    printed = json.loads(answer.output)
    story = items.followed().item(1)
    assert printed == json.loads(json.dumps(to_json_value(story)))
    assert printed.keys() == StoryDescribed.model_fields.keys()
    assert printed["item"]["item_seq"] == printed["rows"][0]["seq"] == 1
    assert printed["item"]["since"] == printed["attempts"][0]["at"] == "2026-01-31T12:01:00.000000Z"
    assert base64.b64decode(printed["body_base64"]) == b"body of stripe:evt_1:capture"
    assert (printed["held_total"], printed["held"][0]["item_seq"]) == (1, printed["after"][0]["item_seq"])


def test_times_are_rfc_3339_durations_seconds_and_days_days() -> None:
    moment = datetime(2026, 1, 31, 12, 0, tzinfo=UTC)
    assert to_json_value({"at": moment, "took": (timedelta(minutes=2), None), "on": date(2026, 1, 31)}) == {
        "at": "2026-01-31T12:00:00.000000Z",
        "took": [120.0, None],
        "on": "2026-01-31",
    }


def test_an_error_that_came_before_is_named_by_where_it_stands(items: DeadItems) -> None:
    story = items.followed().item(1)
    assert died_of(story).startswith("MerchantUnknown (NRE): ")
    assert tries_of(story)[0].details[0].text == "MerchantUnknown (as above)"
    once = TextsShownOnce()
    assert [once.text("long", "row 1"), once.text("long", "row 2", "Bug"), once.text("", "row 3")] == [
        "long",
        "Bug (as row 1)",
        "",
    ]


def test_details_name_what_is_known_alone(items: DeadItems) -> None:
    details = {detail.name: detail for detail in item_details(items.followed().item(1))}
    assert details["entity"].about == ("entity", "stripe:acct:pi_1")
    assert details["tries"].text == "2; died 2 ×, replayed 1 ×"
    assert "due" not in details and details["received"].shown == "2026-01-31T12:00:59.700000Z"


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"decision": Decision.RETRY, "attempt": 2}, "try 3, as its retry policy says"),
        ({"decision": Decision.PARKED}, "its turn, behind an earlier event of its entity"),
        ({"decision": Decision.PARKED, "due_at": datetime(2026, 1, 31, tzinfo=UTC)}, "no try was spent"),
        ({"decision": Decision.DEAD, "error_kind": ErrorKind.NRE}, "no retry helps"),
        ({"decision": Decision.DEAD, "error_kind": ErrorKind.SNBE}, "no try left"),
        ({"decision": Decision.APPLIED}, ""),
    ],
)
def test_what_comes_next_of_an_item_follows_from_its_last_row(changes: dict[str, Any], said: str) -> None:
    assert said in (next_step(bare_row(7, **changes)) or "")


def test_an_item_says_by_which_policy_it_was_tried(tmp_path: Path) -> None:
    items = DeadItems(tmp_path)
    items.dead(payment="pi_1", retry_policy="fixed(5s x3)")
    items.commit()
    details = {detail.name: detail.text for detail in item_details(items.followed().item(1))}
    assert details["retry policy"] == "fixed(5s x3)"
    assert "replay it, or close it" in (details["next"] or "")


def test_an_item_says_its_trace(tmp_path: Path) -> None:
    trace_id = "4bf92f3577b34da6a3ce929d0e0e4736"
    items = DeadItems(tmp_path)
    items.dead(payment="pi_1", headers=f'{{"traceparent":"00-{trace_id}-00f067aa0ba902b7-01"}}')
    items.commit()
    details = {detail.name: detail for detail in item_details(items.followed().item(1))}
    assert (details["trace"].text, details["trace"].about) == (trace_id, ("trace", trace_id))


def test_a_difference_names_its_event_by_its_key() -> None:
    """A row's number alone could be another shard's."""
    booked = Difference(kind="account_differs", fact_key="f", seq=4, decision="applied", account="acct_1")
    dead = replace(booked, kind="missing_here", decision="dead")
    assert [journal_says(replace(one, event_key="stripe:evt_4:x")) for one in (booked, dead)] == [
        "applied (stripe:evt_4:x), not for the account acct_1",
        "dead (stripe:evt_4:x)",
    ]
    assert journal_says(dead) == "dead (row 4)"
    assert journal_says(Difference(kind="missing_here", fact_key="f")) == "nothing"
