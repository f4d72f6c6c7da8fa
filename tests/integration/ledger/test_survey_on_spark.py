"""A large ledger is surveyed by Spark's Python workers: they find what one process finds."""

from __future__ import annotations

from typing import Any

import pytest
from pyspark.sql import SparkSession

from core.clock import ManualClock
from ledger.settings import VerifySettings
from ledger.verify import evidence, verify
from ledger.verify.survey import Doubt, Survey
from ledger.verify.survey import job as surveying
from tests.integration.ledger.conftest import AT, KEYS, World

HERE, ON_SPARK = 1_000_000, 0


@pytest.fixture
def surveys(spark: SparkSession, world: World, monkeypatch: pytest.MonkeyPatch) -> list[Survey]:
    """What each way found, once the world was verified by the workers' survey."""
    made: list[Survey] = []

    def both(*asked: Any) -> Survey:
        for rows_max in (HERE, ON_SPARK):
            monkeypatch.setattr(surveying, "HERE_ROWS_MAX", rows_max)
            made.append(surveying.survey(*asked))
        return made[-1]

    monkeypatch.setattr(evidence, "survey", both)
    verify(spark, world.lake, world.kafka, KEYS, VerifySettings(), ManualClock(AT))
    return made


def told(survey: Survey) -> dict[str, Any]:
    names = ("doubts", "rows", "runs", "events", "facts", "purged", "dead_rows", "taken_back", "reversed_items")
    return {name: getattr(survey, name) for name in names} | {"open": sorted(survey.open)}


def test_what_the_workers_clear_is_what_one_process_clears(surveys: list[Survey]) -> None:
    here, on_spark = surveys
    assert told(on_spark) == told(here)
    assert (on_spark.doubts, on_spark.rows) == (frozenset(), 14)


def test_what_one_process_doubts_the_workers_doubt(world: World, request: pytest.FixtureRequest) -> None:
    world.rows[6].mode = "test"
    world.rewrite()
    here, on_spark = request.getfixturevalue("surveys")
    assert told(on_spark) == told(here)
    assert Doubt.MODE in on_spark.doubts
