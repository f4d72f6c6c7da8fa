"""What was released by two people is right; each way around the second one is found."""

from __future__ import annotations

from pathlib import Path

import pytest

from core.decision import Decision
from ledger.verify.duckdb_engine import DuckDb
from operations.command import PROPOSE_RUN, ApprovedProposal
from tests.unit.ledger.verify.ledgers import name_rows, offenders
from tests.unit.processor.decide.selection_runs import command as command_of_run
from tests.unit.processor.decide.selection_runs import dead, frozen, go
from tests.unit.processor.decide.selection_runs import order as order_run
from tests.unit.processor.harness import CONTROL, NOW, Engine
from tests.unit.processor.ordering import approval, command, decided, dying, last, mended, target

NAMES = ("releases_have_two_people", "one_effect_per_event_key", "items_close_once", "order_kept")


@pytest.fixture
def single(tmp_path: Path) -> Engine:
    """One that ada proposed, grace approved, and its provider sent again."""
    engine = Engine(tmp_path)
    [key] = dying(engine, "evt_1")
    seen = target(engine, key)
    first = command(engine, "propose_release", seen)
    decided(engine)
    command(engine, "release", seen, actor="grace", proposal=approval(first))
    decided(engine)
    mended(engine)
    engine.post("evt_1")
    engine.batch()
    assert last(engine, key).decision is Decision.APPLIED
    return engine


@pytest.fixture
def run(tmp_path: Path) -> Engine:
    """A selection that ada proposed and bob approved."""
    engine = Engine(tmp_path)
    dead(engine, 3)
    digest = frozen(engine)
    first = command_of_run(engine, digest, PROPOSE_RUN, act="release")
    order_run(engine, digest, PROPOSE_RUN, act="release")
    proposal = ApprovedProposal(first.command_id, "ada", "mended", NOW)
    order_run(engine, digest, act="release", proposal=proposal, actor="bob")
    go(engine, 4)
    return engine


@pytest.mark.parametrize("way", ["single", "run"])
def test_what_two_people_released_is_right(duckdb: DuckDb, way: str, request: pytest.FixtureRequest) -> None:
    engine: Engine = request.getfixturevalue(way)
    assert any(row.decision is Decision.RELEASED and not row.first for row in engine.journal.rows)
    name_rows(duckdb, engine.journal.rows)
    assert offenders(duckdb, *NAMES) == []


@pytest.mark.parametrize("way", ["single", "run"])
@pytest.mark.parametrize("wrong", ["one person", "no proposal", "no order"])
def test_what_went_around_the_second_person_is_found(
    duckdb: DuckDb, way: str, wrong: str, request: pytest.FixtureRequest
) -> None:
    engine: Engine = request.getfixturevalue(way)
    commands = [row for row in engine.journal.rows if row.topic == CONTROL and row.first]
    for row in commands:
        if wrong == "one person" and row.decision is Decision.RELEASED:
            row.actor = " Ada"
        elif (wrong == "no proposal" and row.decision is Decision.RESOLVED) or (
            wrong == "no order" and row.decision is Decision.RELEASED
        ):
            row.decision = Decision.IGNORED
    name_rows(duckdb, engine.journal.rows)
    found = offenders(duckdb, "releases_have_two_people")
    assert len(found) == sum(row.decision is Decision.RELEASED and not row.first for row in engine.journal.rows)
