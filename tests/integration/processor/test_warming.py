"""Batches of nothing before the first one, on real Spark."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

from processor.source.sources import WARM_BATCHES, warm_up
from processor.spark import open_session
from stack.jars import spark_jars


@pytest.fixture(scope="module")
def session(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    opened = open_session("warming-test", "local[2]", "512m", spark_jars(), tmp_path_factory.mktemp("spark"))
    yield opened
    opened.stop()


class CollectedTicks:
    """Counts the rows that are collected from it."""

    def __init__(self, session: SparkSession, fails: bool = False) -> None:
        self.rows = 0
        self._session = session
        self._fails = fails

    def idle_frame(self) -> DataFrame:
        return self._session.readStream.format("rate-micro-batch").option("rowsPerBatch", 1).load()

    def collect(self, frame: DataFrame, expected: int) -> object:
        self.rows += frame.count()
        if self._fails:
            raise ValueError("no record can be read")
        return None


class BrokenTicks(CollectedTicks):
    def idle_frame(self) -> DataFrame:
        raise PySparkException("there is no such source")


@pytest.mark.more(reason="a Spark of its own; it is about how fast a stream begins")
def test_some_batches_are_taken_and_nothing_goes_on_afterwards(session: SparkSession, tmp_path: Path) -> None:
    ticks = CollectedTicks(session)
    warm_up(ticks, tmp_path / "checkpoint")
    assert 1 <= ticks.rows <= WARM_BATCHES + 1
    assert not session.streams.active


@pytest.mark.more(reason="a Spark of its own; it is about how fast a stream begins")
def test_what_goes_wrong_is_left_to_the_stream_itself(session: SparkSession, tmp_path: Path) -> None:
    warm_up(CollectedTicks(session, fails=True), tmp_path / "checkpoint")
    warm_up(BrokenTicks(session), tmp_path / "checkpoint")
    assert not session.streams.active
