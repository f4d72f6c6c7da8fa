"""Spark for work streams of a test's own, and such streams on a broker."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from processor.spark import open_session
from stack.jars import spark_jars
from tests.integration.processor.own_streams import HANDLER, OwnStreams

CHECKOUT = Path(__file__).parents[3]


@pytest.fixture(scope="module")
def session(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    """Its Python workers find the handler in a folder that the engine knows nothing of."""
    handlers = tmp_path_factory.mktemp("handlers")
    (handlers / "greeting.py").write_text(HANDLER)
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(handlers))
        opened = open_session("own-streams", "local[3]", "512m", spark_jars(), tmp_path_factory.mktemp("spark"))
        # The JVM may be one that an earlier test began, with that test's environment.
        opened.sparkContext.environment["PYTHONPATH"] = os.pathsep.join([str(CHECKOUT), str(handlers)])
        yield opened
        opened.stop()
        sys.modules.pop("greeting", None)


@pytest.fixture
def streams(
    session: SparkSession, kafka_broker: str, make_topic: Callable[[str, int], str], tmp_path: Path
) -> OwnStreams:
    return OwnStreams(session, kafka_broker, make_topic("guests", 2), tmp_path)
