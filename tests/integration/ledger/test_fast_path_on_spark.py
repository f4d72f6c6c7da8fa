"""A large ledger is looked through by Spark's Python workers: they find what one process finds."""

from __future__ import annotations

from typing import Any

import pytest
from pyspark.sql import SparkSession

from core.clock import ManualClock
from ledger.verify import evidence, verify
from ledger.verify.evidence import Limits
from ledger.verify.fast_path import Doubt, FastPath, job
from tests.integration.ledger.conftest import AT, KEYS, World

HERE, ON_SPARK = 1_000_000, 0


@pytest.fixture
def passes(spark: SparkSession, world: World, monkeypatch: pytest.MonkeyPatch) -> list[FastPath]:
    """What each way found, once the world was verified by the workers' fast path."""
    made: list[FastPath] = []

    def both(*asked: Any) -> FastPath:
        for rows_max in (HERE, ON_SPARK):
            monkeypatch.setattr(job, "HERE_ROWS_MAX", rows_max)
            made.append(job.take_fast_path(*asked))
        return made[-1]

    monkeypatch.setattr(evidence, "take_fast_path", both)
    verify(spark, world.lake, world.kafka, KEYS, Limits(), ManualClock(AT))
    return made


def reported(fast_path: FastPath) -> dict[str, Any]:
    names = ("doubts", "rows", "runs", "events", "facts", "purged", "dead_rows", "taken_back", "reversed_items")
    return {name: getattr(fast_path, name) for name in names} | {"open": sorted(fast_path.open)}


def test_what_the_workers_clear_is_what_one_process_clears(passes: list[FastPath]) -> None:
    here, on_spark = passes
    assert reported(on_spark) == reported(here)
    assert (on_spark.doubts, on_spark.rows) == (frozenset(), 14)


def test_what_one_process_doubts_the_workers_doubt(world: World, request: pytest.FixtureRequest) -> None:
    world.rows[6].mode = "test"
    world.rewrite()
    here, on_spark = request.getfixturevalue("passes")
    assert reported(on_spark) == reported(here)
    assert Doubt.MODE in on_spark.doubts
