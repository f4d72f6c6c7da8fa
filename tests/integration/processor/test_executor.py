"""Handlers on real Spark executors: what kills its Python worker is found, and costs only itself."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from core.decision import ErrorKind
from core.work import Applied, WorkItem
from processor.classify import Classifier, Failure
from processor.execute import Executor, Results
from processor.spark import open_session
from processor.worker import Task
from stack.jars import spark_jars
from tests.integration.processor.killing_handler import build

CHECKOUT = Path(__file__).parents[3]


@pytest.fixture(scope="module")
def session(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    before = os.environ.get("PYTHONPATH")
    os.environ["PYTHONPATH"] = str(CHECKOUT)
    opened = open_session("executor-test", "local[2]", "512m", spark_jars(), tmp_path_factory.mktemp("spark"))
    yield opened
    opened.stop()
    if before is None:
        del os.environ["PYTHONPATH"]
    else:
        os.environ["PYTHONPATH"] = before


def task(stop_on_dead: bool = True) -> Task:
    return Task("test", build, Classifier(), 0.4, 2, 1, stop_on_dead)


def item(seq: int, kind: str = "fine") -> WorkItem:
    return WorkItem(seq, f"key-{seq}", f"entity-{seq}", "stripe", "acct", kind, b"{}", None, 0)


def kinds(results: Results) -> dict[int, object]:
    return {
        seq: result.error_class if isinstance(result, Failure) else type(result)
        for seq, result in results.by_item.items()
    }


def test_events_come_back_by_their_number_with_the_handlers_version(session: SparkSession) -> None:
    executor = Executor(session, task(), 2)
    executor.warm()
    results = executor.run([[item(seq)] for seq in range(1, 201)])
    assert results.handler_version == "killing-1"
    assert kinds(results) == dict.fromkeys(range(1, 201), Applied)


def test_an_event_that_kills_its_worker_is_found_and_dies_alone(session: SparkSession) -> None:
    groups = [[item(1)], [item(2), item(3, "kills"), item(4)], [item(5)], [item(6)]]
    results = Executor(session, task(), 2).run(groups)
    assert kinds(results) == {1: Applied, 2: Applied, 3: "WorkerLost", 5: Applied, 6: Applied}
    lost = results.by_item[3]
    assert isinstance(lost, Failure) and lost.kind is ErrorKind.NRE


def test_where_followers_of_the_dead_go_on_so_do_those_of_a_killer(session: SparkSession) -> None:
    results = Executor(session, task(stop_on_dead=False), 2).run([[item(1, "kills"), item(2)]], suspect=True)
    assert kinds(results) == {1: "WorkerLost", 2: Applied}


def test_an_event_that_hangs_is_timed_out_and_the_others_are_done(session: SparkSession) -> None:
    results = Executor(session, task(), 2).run([[item(1, "hangs")], [item(2)], [item(3, "bug")]])
    assert kinds(results) == {1: "HandlerTimeout", 2: Applied, 3: "ZeroDivisionError"}
