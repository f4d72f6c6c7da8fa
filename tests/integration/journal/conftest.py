"""A Spark session with Delta, as maintenance has it."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from pyspark.sql import SparkSession

from ledger.spark import open_read_session
from stack.jars import spark_jars


@pytest.fixture(scope="module")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    session = open_read_session("journal", "local[2]", "1g", spark_jars(), tmp_path_factory.mktemp("spark"))
    yield session
    session.stop()
