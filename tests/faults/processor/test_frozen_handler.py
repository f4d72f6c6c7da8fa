"""A call in native code that never lets another thread run stops its Python worker, and is found all the same."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from core.work import Applied, WorkItem
from processor.errors.classify import Classifier, Failure
from processor.spark import open_session
from processor.workers.deadlines import Deadlines
from processor.workers.execute import Executor
from processor.workers.worker import Task
from stack.jars import spark_jars
from tests.integration.processor.killing_handler import build

CHECKOUT = Path(__file__).parents[3]


@pytest.fixture
def session(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[SparkSession]:
    monkeypatch.setenv("PYTHONPATH", str(CHECKOUT))
    opened = open_session("frozen-test", "local[2]", "512m", spark_jars(), tmp_path)
    yield opened
    opened.stop()


def item(seq: int, kind: str = "fine") -> WorkItem:
    return WorkItem(seq, f"key-{seq}", f"entity-{seq}", "stripe", "acct", kind, b"{}", None, 0)


def test_an_event_that_freezes_its_worker_dies_and_the_others_are_handled(session: SparkSession) -> None:
    task = Task("frozen", build, Classifier(), Deadlines(0.04, 0.05), 2, stop_on_dead=True)
    results = Executor(session, task, lambda: 1).run([[item(1)], [item(2, "freezes")], [item(3)]], suspect=True)
    lost = results.by_item[2]
    assert isinstance(lost, Failure) and lost.error_class == "WorkerLost"
    assert {seq: type(result) for seq, result in results.by_item.items()} == {1: Applied, 2: Failure, 3: Applied}
