"""Only the newest rows are looked at: what is wrong among them is found, and what can't be known is said."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from datetime import datetime, timedelta

import pytest

from core.decision import Decision
from journal.anchors import Anchor
from journal.histories import LINEAGES_NOTE, AbandonedLineage, to_note
from ledger.verify import Options, Report
from ledger.verify.engine import SqlEngine
from tests.integration.ledger.conftest import AT, KEYS, World

Verify = Callable[..., Report]


@pytest.fixture
def report(engine: SqlEngine, world: World) -> Verify:
    def check(since: int | datetime, *names: str) -> Report:
        return world.verify(engine, *names, after=timedelta(minutes=5), options=Options(since=since))

    return check


def wrong(report: Report) -> set[str]:
    return {finding.name for finding in report.findings if not finding.ok}


def unknown(report: Report) -> set[str]:
    return {finding.name for finding in report.findings if finding.unknown is not None}


def test_it_begins_after_an_anchor_and_proves_the_chain_from_there(report: Verify, world: World) -> None:
    world.anchor()
    found = report(9)
    assert (found.ok, found.since, found.seq) == (True, 7, 14), found.as_json()
    assert "chain_whole" not in unknown(found)
    assert {"offsets_accounted", "one_effect_per_event_key", "index_equals_journal", "anchors_hold"} <= unknown(found)
    figures = {finding.name: finding.figures for finding in found.findings}
    assert figures["chain_whole"] == {"commits": 2}
    assert figures["in_flight"]["waiting"] == 1, "of those that came before nothing is said"


def test_without_an_anchor_it_begins_with_a_commit_and_says_that_the_chain_is_unknown(report: Verify) -> None:
    found = report(9)
    assert (found.ok, found.since) == (True, 7), found.as_json()
    assert "chain_whole" in unknown(found)


def test_it_begins_with_a_moment(report: Verify) -> None:
    """Rows are decided a second apart."""
    assert report(AT + timedelta(seconds=12), "one_mode").since == 12
    assert report(AT + timedelta(seconds=60), "one_mode").since == 15, "nothing was decided then"
    assert report(AT, "one_mode").since == 1


def test_it_begins_after_no_anchor_of_a_lineage_that_was_given_up(report: Verify, world: World) -> None:
    world.anchor()
    world.kafka.anchors.append(KEYS.encode(Anchor("ledger", 7, 8, "f" * 64, AT, "old")))
    world.state = replace(world.state, notes={LINEAGES_NOTE: to_note([AbandonedLineage("old", 7, AT, "restored")])})
    world.rewrite()
    found = report(9)
    assert (found.ok, found.since) == (True, 7), found.as_json()


def test_of_a_row_beyond_the_last_one_nothing_is_looked_at(report: Verify, world: World) -> None:
    found = report(30)
    assert (found.ok, found.since) == (True, 15), found.as_json()
    world.anchor()
    beyond = Anchor("ledger", 7, 20, "f" * 64, AT)
    world.kafka.anchors.append(KEYS.encode(beyond))
    found = report(30)
    assert (wrong(found), found.since) == ({"anchors_hold"}, 15), "the end was cut off"


def test_a_row_that_was_changed_is_found_where_it_is_looked_at(report: Verify, world: World) -> None:
    world.anchor()
    world.row(9).reason = "edited"
    world.rewrite(forge=False)
    assert wrong(report(7)) == {"chain_whole"}
    assert report(12).ok, "it came before"


def test_rows_that_were_computed_anew_after_an_anchor_are_found(report: Verify, world: World) -> None:
    world.anchor()
    world.row(13).reason = "edited"
    world.rewrite()
    assert wrong(report(9)) == {"anchors_hold"}


def test_what_is_wrong_with_the_newest_rows_is_found(report: Verify, world: World) -> None:
    world.row(8).offset = 1_000_000
    world.row(9).mode = "test"
    world.rewrite()
    names = {"offsets_accounted", "one_mode"}
    assert wrong(report(7, *names)) == names


def test_two_effects_among_the_newest_rows_are_found(report: Verify, world: World) -> None:
    other = world.row(9)
    world.rows[7] = replace(world.row(8), event_key=other.event_key, fact_key=other.fact_key, decision=Decision.APPLIED)
    world.rewrite()
    names = {"one_effect_per_event_key", "one_effect_per_fact_key"}
    assert wrong(report(7, *names)) == names


def test_a_duplicate_whose_copy_came_before_is_no_offence(report: Verify, world: World) -> None:
    world.rows[7] = replace(world.row(8), event_key=world.row(1).event_key, decision=Decision.DUPLICATE)
    world.rewrite()
    assert report(7).ok
