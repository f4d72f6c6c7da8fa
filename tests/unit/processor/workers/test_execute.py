"""The driver's side of running handlers, where Spark has no say."""

from __future__ import annotations

from typing import Any, cast

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from core.work import Applied, WorkItem
from processor.errors.classify import Classifier
from processor.workers.deadlines import Deadlines
from processor.workers.execute import Executor
from processor.workers.worker import Task


class NoWorkers(Executor):
    """Spark can't start any Python worker."""

    def _run_chunks(self, chunks: Any) -> Any:
        raise PySparkException("java.io.EOFException: EOFException occurred while reading the port number")


def handler() -> Any:
    return lambda item: Applied()


def test_where_no_python_worker_runs_no_event_is_blamed() -> None:
    task = Task("test", handler, Classifier(), Deadlines(1.0, 0.5), 1, stop_on_dead=True)
    item = WorkItem(1, "key-1", "entity-1", "stripe", "acct", "t", b"{}", None, 0)
    with pytest.raises(PySparkException, match="port number"):
        NoWorkers(cast(SparkSession, None), task, lambda: 1).run([[item]])
