"""What is unknown still, over a real journal."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from cli.main import main
from core.decision import Decision
from ledger.queries.lake import TableRows
from ledger.queries.unknown import UnknownEvents, find_closed_unknown, find_unknown_events
from tests.backed_up import SmallLake
from tests.unit.journal.rows import TOPIC, bare_row, marks

OF_TYPE: dict[str, Any] = {
    "provider": "stripe",
    "event_type": "made_up.funds_moved",
    "error_code": "type",
    "reason": "in no table",
}
OF_VALUE: dict[str, Any] = {
    "provider": "adyen",
    "event_type": "CHARGEBACK",
    "error_code": "disputeStatus=Frozen",
    "reason": "Frozen",
}
UNDO: dict[str, Any] = {
    "provider": "mollie",
    "event_type": "payout.failed",
    "error_code": "undo",
    "reason": "nothing is booked",
}


ABOUT = {name: OF_TYPE[name] for name in ("provider", "event_type")}


@pytest.fixture
def lake(tmp_path: Path) -> SmallLake:
    made = SmallLake(tmp_path)
    made.commit()
    return made


def unknown(lake: SmallLake, count: int = 1, **about: Any) -> None:
    lake.commit(count, Decision.UNKNOWN, **about)


def then(lake: SmallLake, item: int, decision: Decision, **about: Any) -> None:
    """What became of an item later."""
    read = marks(lake.state().marks[TOPIC][0])
    lake.seq += 1
    row = bare_row(lake.seq, decision, item_seq=item, first=False, offset=item - 1, **about)
    lake.writer.commit([row], read, 0)


def found(lake: SmallLake) -> list[UnknownEvents]:
    return find_unknown_events(str(lake.places.journal))


def test_events_are_grouped_by_type_and_by_what_of_them_is_not_known(lake: SmallLake) -> None:
    unknown(lake, **OF_VALUE)
    unknown(lake, 2, **OF_TYPE)
    at = lake.clock.now()
    lake.clock.advance(60)
    unknown(lake, received_at=at + timedelta(seconds=50), **OF_TYPE)
    first, second = found(lake)
    assert (first.provider, first.what, first.events) == ("stripe", "made_up.funds_moved", 3)
    assert (first.last_at - at).total_seconds() == 50 and first.event_key == "stripe:evt_4:charge.succeeded"
    assert first.reason == "in no table" and "payhook dlq select --state unknown" in first.advice
    assert (second.provider, second.what, second.events) == ("adyen", "CHARGEBACK, disputeStatus=Frozen", 1)


def test_of_undos_the_amounts_are_known(lake: SmallLake) -> None:
    for number, money in enumerate(("1250:EUR", "750:EUR", "300:USD")):
        unknown(lake, pair=f"-mollie:po_{number}:payout_paid:{money}", **UNDO)
    groups = found(lake)
    assert [(one.what, one.events) for one in groups] == [("payout.failed, undo", 3)]
    assert groups[0].amounts == {"EUR": 2_000, "USD": 300}
    assert "payhook ledger enter" in groups[0].advice


def test_what_was_taken_up_again_and_an_undo_whose_movement_came_are_not_listed(lake: SmallLake) -> None:
    unknown(lake, **OF_TYPE)
    item = lake.seq
    unknown(lake, pair="-mollie:po_1:payout_paid:5:EUR", **UNDO)
    lake.commit(1, pair="+mollie:po_1:payout_paid:5:EUR", postings=None)
    assert [one.provider for one in found(lake)] == ["stripe"]
    then(lake, item, Decision.REPLAYED)
    assert found(lake) == []
    then(lake, item, Decision.UNKNOWN, **OF_TYPE)
    assert [one.events for one in found(lake)] == [1]


def test_an_undo_for_whose_payment_a_person_booked_since_is_not_listed(lake: SmallLake) -> None:
    lake.commit(1, entity_key="mollie:org:po_1", event_type="book_entry", postings=None)
    unknown(lake, entity_key="mollie:org:po_1", pair="-mollie:po_1:payout_paid:5:EUR", **UNDO)
    assert [one.events for one in found(lake)] == [1], "that entry was about something before"
    lake.commit(1, entity_key="mollie:org:po_2", event_type="book_entry", postings=None)
    assert [one.events for one in found(lake)] == [1]
    lake.commit(1, entity_key="mollie:org:po_1", event_type="book_entry", postings=None)
    assert found(lake) == []


def test_a_movement_that_came_late_explains_one_undo_of_its_pair_the_first(lake: SmallLake) -> None:
    pair = "mollie:po_1:payout_paid:5:EUR"
    unknown(lake, 2, pair=f"-{pair}", **UNDO)
    newest = lake.seq
    unknown(lake, pair="-mollie:po_2:payout_paid:7:EUR", **UNDO)
    lake.commit(1, pair=f"+{pair}", postings=None)
    [one] = found(lake)
    assert (one.events, one.amounts) == (2, {"EUR": 12})
    lake.commit(1, pair="+mollie:po_2:payout_paid:7:EUR", postings=None)
    [one] = found(lake)
    assert (one.events, one.amounts, one.event_key) == (1, {"EUR": 5}, f"stripe:evt_{newest - 1}:charge.succeeded")
    lake.commit(1, pair=f"+{pair}", postings=None)
    assert found(lake) == []


def test_an_undo_that_was_taken_up_again_counts_in_its_pair(lake: SmallLake) -> None:
    """The movement was the first one's; the second undo is unknown still."""
    pair = "mollie:po_1:payout_paid:5:EUR"
    unknown(lake, pair=f"-{pair}", **UNDO)
    first = lake.seq
    lake.commit(1, pair=f"+{pair}", postings=None)
    unknown(lake, pair=f"-{pair}", **UNDO)
    then(lake, first, Decision.REPLAYED)
    then(lake, first, Decision.DUPLICATE_FACT, pair=f"-{pair}")
    assert [one.events for one in found(lake)] == [1]


@pytest.mark.parametrize("pair", ["shop:order_1", "order-1", "500", "shop:EUR", f"shop:o:{10**30}:EUR"])
def test_a_pair_without_an_amount_is_listed_without_one(lake: SmallLake, pair: str) -> None:
    """A handler of one's own may name its pairs as it likes."""
    unknown(lake, pair=f"-{pair}", **UNDO)
    assert [(one.events, one.amounts) for one in found(lake)] == [(1, {})]
    unknown(lake, pair="-mollie:po_1:payout_paid:5:EUR", **UNDO)
    assert (sum(one.events for one in found(lake)), found(lake)[0].amounts) == (2, {"EUR": 5})


def test_where_there_is_no_journal_nothing_is_unknown(tmp_path: Path) -> None:
    assert find_unknown_events(str(tmp_path / "none")) == []


def test_the_command_says_what_to_do_and_ends_with_1(lake: SmallLake) -> None:
    def payhook(*words: str) -> tuple[int, str]:
        done = CliRunner().invoke(main, ["ledger", "unknown", *words, "--data", str(lake.settings.data_dir)])
        return done.exit_code, done.output

    assert payhook() == (0, "no unknown events\n")
    unknown(lake, 2, **OF_TYPE)
    unknown(lake, pair="-mollie:po_1:payout_paid:1250:EUR", **UNDO)
    code, said = payhook()
    assert code == 1
    assert "made_up.funds_moved" in said and "12.50 EUR" in said
    assert "made_up.funds_moved: look the type up at the provider" in said
    assert "payout.failed, undo: look up at the provider what it takes back" in said
    code, printed = payhook("--json")
    assert code == 1
    assert [(one["provider"], one["events"], one["amounts"]) for one in json.loads(printed)] == [
        ("stripe", 2, {}),
        ("mollie", 1, {"EUR": 1250}),
    ]


def test_groups_of_several_journals_are_one(lake: SmallLake) -> None:
    unknown(lake, pair="-mollie:po_1:payout_paid:5:EUR", **UNDO)
    [one] = found(lake)
    journal = str(lake.places.journal)
    [both] = find_unknown_events([TableRows(journal, "ledger"), TableRows(journal, "ledger.1")])
    assert both == replace(one, events=2, amounts={"EUR": 10}, streams=("ledger", "ledger.1"))


def test_what_a_person_closed_leaves_the_list_and_is_shown_with_who_and_why(lake: SmallLake) -> None:
    unknown(lake, 2, **OF_TYPE)
    then(lake, 2, Decision.PURGED, actor="ada", reason="known to move nothing for us", **ABOUT)
    [left] = found(lake)
    assert left.events == 1
    [closed] = find_closed_unknown(str(lake.places.journal))
    assert (closed.provider, closed.event_type, closed.code) == ("stripe", "made_up.funds_moved", "type")
    assert (closed.decision, closed.actor, closed.reason) == ("purged", "ada", "known to move nothing for us")
    then(lake, 3, Decision.REPLAYED)
    then(lake, 3, Decision.DEAD)
    then(lake, 3, Decision.PURGED, actor="ada", reason="it died")
    assert found(lake) == [] and find_closed_unknown(str(lake.places.journal)) == [closed], (
        "what died wasn't unknown any more"
    )


def test_the_command_shows_closed_ones_with_all_alone(lake: SmallLake) -> None:
    unknown(lake, **OF_TYPE)
    then(lake, 2, Decision.RESOLVED, actor="ada", reason="booked by the bank", **ABOUT)

    def shown(*words: str) -> Result:
        return CliRunner(env={"COLUMNS": "200"}).invoke(
            main, ["ledger", "unknown", *words, "--data", str(lake.settings.data_dir)]
        )

    assert (shown().exit_code, shown().output) == (0, "no unknown events\n")
    said = shown("--all").output
    assert "resolved" in said and "ada" in said and "booked by the bank" in said
    told = json.loads(shown("--all", "--json").output)
    assert told["unknown"] == [] and told["closed"][0]["actor"] == "ada"
