"""What was released by two people is right; each way around the second one is found."""

from __future__ import annotations

from pathlib import Path

import pytest

from core.decision import Decision
from ledger.verify.duckdb_engine import DuckDb
from tests.unit.ledger.verify.ledgers import name_rows, offenders
from tests.unit.processor.harness import CONTROL, Engine
from tests.unit.processor.ordering import approved_run, dying, last, mended, target

NAMES = ("releases_have_two_people", "one_effect_per_event_key", "items_close_once", "order_kept")


@pytest.fixture
def engine(tmp_path: Path) -> Engine:
    """Three events that ada proposed and grace approved to release; the provider sent one of them again."""
    engine = Engine(tmp_path)
    key, *others = (*dying(engine, "evt_1"), *dying(engine, "evt_2", entity="e2"), *dying(engine, "evt_3", entity="e3"))
    approved_run(engine, "release", *(target(engine, dead) for dead in (key, *others)))
    mended(engine)
    engine.post("evt_1")
    engine.batch()
    assert last(engine, key).decision is Decision.APPLIED
    return engine


def test_what_two_people_released_is_right(duckdb: DuckDb, engine: Engine) -> None:
    assert any(row.decision is Decision.RELEASED and not row.first for row in engine.journal.rows)
    name_rows(duckdb, engine.journal.rows)
    assert offenders(duckdb, *NAMES) == []


@pytest.mark.parametrize("wrong", ["one person", "no proposal", "no order"])
def test_what_went_around_the_second_person_is_found(duckdb: DuckDb, engine: Engine, wrong: str) -> None:
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
