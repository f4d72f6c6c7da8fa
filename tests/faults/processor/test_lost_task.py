"""A task that is lost is tried again within its job; the probes of a breaker that it may have made aren't repeated."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from core.work import Applied, Held, Outcome, WorkItem, calling
from processor.calls.budget import Budget, Budgets
from processor.calls.downstreams import Downstreams
from processor.errors.classify import Classifier
from processor.spark import open_session
from processor.workers.deadlines import Deadlines
from processor.workers.execute import Executor
from processor.workers.worker import Task
from stack.jars import spark_jars

CHECKOUT = Path(__file__).parents[3]


@dataclass
class DiesOnce:
    """Ends its Python worker, the first time that it is called anywhere; calls "shop" for each event."""

    marker: Path
    version: str = "dies-once-1"

    def __call__(self, item: WorkItem) -> Outcome:
        if not self.marker.exists():
            self.marker.touch()
            os._exit(1)
        with calling("shop"):
            return Applied()


class Probing(Downstreams):
    """Gives each batch so many probes of "shop"."""

    def make_budgets(self) -> Budgets:
        return Budgets({"shop": Budget(calls=3, retries=3, at_once=3, failures=1, probing=True)})


@pytest.fixture
def session(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[SparkSession]:
    """Under this local master tasks are tried twice, as on a cluster."""
    monkeypatch.setenv("PYTHONPATH", str(CHECKOUT))
    opened = open_session("lost-task", "local[2,2]", "512m", spark_jars(), tmp_path)
    yield opened
    opened.stop()


def item(seq: int) -> WorkItem:
    return WorkItem(seq, f"key-{seq}", f"entity-{seq}", "stripe", "acct", "fine", b"{}", None, 0)


def test_a_lost_task_is_tried_again_in_its_job_without_probes(
    session: SparkSession, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    task = Task("lost", partial(DiesOnce, tmp_path / "died"), Classifier(), Deadlines(2.0, 0.5), 1, stop_on_dead=True)
    executor = Executor(session, task, lambda: 1, Probing())
    first = executor.run([[item(1)], [item(2)]])
    assert (tmp_path / "died").exists()
    assert {type(one) for one in first.by_item.values()} == {Held}, "their calls wait for the next batch"
    assert "Python worker was lost" not in caplog.text, "the job went on"
    second = executor.run([[item(1)], [item(2)]])
    assert {type(one) for one in second.by_item.values()} == {Applied}
