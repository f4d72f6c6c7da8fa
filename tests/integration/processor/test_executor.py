"""Handlers on real Spark executors: what kills its Python worker is found, and costs only itself."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import psutil
import pytest
from pyspark.sql import SparkSession

from core.clock import ManualClock
from core.decision import ErrorKind
from core.work import Applied, Held, WorkItem
from processor.calls.downstream import CONCURRENCY_START, PROBES
from processor.calls.downstreams import Downstreams
from processor.errors.classify import Classifier, Failure
from processor.settings import DownstreamSettings
from processor.spark import open_session
from processor.workers.deadlines import Deadlines
from processor.workers.execute import Executor, Results
from processor.workers.worker import HUNG_CALLS_MAX, Task
from stack.jars import spark_jars
from tests.integration.processor import calling_handler, hostile_handler
from tests.integration.processor.killing_handler import build
from tests.unit.processor.harness import Engine

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


def task(stop_on_dead: bool = True, **changes: object) -> Task:
    whole = Task("test", build, Classifier(), Deadlines(2.0, 2.5), 2, stop_on_dead)
    return replace(whole, **changes)  # type: ignore[arg-type]


def item(seq: int, kind: str = "fine") -> WorkItem:
    return WorkItem(seq, f"key-{seq}", f"entity-{seq}", "stripe", "acct", kind, b"{}", None, 0)


def kinds(results: Results) -> dict[int, object]:
    return {
        seq: result.error_class if isinstance(result, Failure) else type(result)
        for seq, result in results.by_item.items()
    }


def test_events_come_back_by_their_number_with_the_handlers_version(session: SparkSession) -> None:
    executor = Executor(session, task(), lambda: 2)
    executor.warm_workers()
    results = executor.run([[item(seq)] for seq in range(1, 201)])
    assert results.handler_version == "killing-1"
    assert kinds(results) == dict.fromkeys(range(1, 201), Applied)


def test_an_event_that_kills_its_worker_is_found_and_dies_alone(session: SparkSession) -> None:
    groups = [[item(1)], [item(2), item(3, "kills"), item(4)], [item(5)], [item(6)]]
    results = Executor(session, task(), lambda: 2).run(groups)
    assert kinds(results) == {1: Applied, 2: Applied, 3: "WorkerLost", 5: Applied, 6: Applied}
    lost = results.by_item[3]
    assert isinstance(lost, Failure) and lost.kind is ErrorKind.NRE


def test_where_followers_of_the_dead_go_on_so_do_those_of_a_killer(session: SparkSession) -> None:
    results = Executor(session, task(stop_on_dead=False), lambda: 2).run([[item(1, "kills"), item(2)]], suspect=True)
    assert kinds(results) == {1: "WorkerLost", 2: Applied}


@pytest.mark.row("D1")
def test_an_event_that_hangs_is_timed_out_and_the_others_are_done(session: SparkSession) -> None:
    results = Executor(session, task(), lambda: 2).run([[item(1, "hangs")], [item(2)], [item(3, "bug")]])
    assert kinds(results) == {1: "HandlerTimeout", 2: Applied, 3: "ZeroDivisionError"}


def test_entities_behind_those_that_hang_are_handled_and_a_later_try_begins_no_second_call(
    session: SparkSession,
) -> None:
    executor = Executor(session, task(concurrency=1, stream="side"), lambda: 1)
    groups = [[item(seq, "hangs" if seq % 100 == 0 else "fine")] for seq in range(300)]
    expected = {seq: "HandlerTimeout" if seq % 100 == 0 else Applied for seq in range(300)}
    first = executor.run(groups)
    again = executor.run([[replace(group[0], attempt=1)] for group in groups])
    assert kinds(first) == kinds(again) == expected
    assert list(first.hung.values()) == [3] and again.hung == first.hung
    assert again.waited_s < 0.1 < first.waited_s


@pytest.mark.more(reason="hangs in real time; test_hanging has it without Spark")
def test_a_batch_after_one_that_waited_hardly_waits(session: SparkSession) -> None:
    executor = Executor(session, task(deadlines=Deadlines(60.0, 2.5), stream="waits"), lambda: 1)
    waited = [executor.run([[item(seq, "hangs")]]).waited_s for seq in range(1_000, 1_004)]
    assert [seconds > 1.0 for seconds in waited] == [True, False, True, False]


@pytest.mark.more(reason="hangs in real time; that one event hangs is an everyday test")
def test_a_python_worker_with_too_many_calls_that_hang_is_replaced(session: SparkSession) -> None:
    executor = Executor(session, task(stream="replaced"), lambda: 1)
    groups = [[item(seq, "hangs")] for seq in range(2_000, 2_000 + HUNG_CALLS_MAX + 20)]
    [(worker, hung)] = executor.run(groups).hung.items()
    assert hung >= HUNG_CALLS_MAX
    pid = int(worker.rpartition(":")[2])
    until = time.monotonic() + 60
    while psutil.pid_exists(pid) and time.monotonic() < until:
        time.sleep(0.01)
    assert not psutil.pid_exists(pid)
    after = executor.run([[item(3_000)]])
    assert kinds(after) == {3_000: Applied}
    assert worker not in after.hung and list(after.hung.values()) == [0]


def test_tasks_share_a_breakers_probes_and_its_outage_spends_no_attempt(session: SparkSession, tmp_path: Path) -> None:
    """Two Python workers: three probes are three calls in all."""
    clock, file = ManualClock(datetime(2026, 1, 31, tzinfo=UTC)), tmp_path / "calls"
    settings = DownstreamSettings(failures_to_open=4, reset_s=5.0)
    downstreams = Downstreams({"merchants": settings}, clock)
    executor = Executor(session, task(build_handler=calling_handler.build, stream="calls"), lambda: 2, downstreams)

    def run(kind: str) -> tuple[int, set[type]]:
        file.write_bytes(b"")
        results = executor.run([[replace(item(seq, kind), body=str(file).encode())] for seq in range(200)])
        return file.stat().st_size, {type(result) for result in results.by_item.values()}

    calls, outcomes = run("fails")
    assert 4 <= calls <= 4 + CONCURRENCY_START
    assert outcomes == {Held}
    assert run("fine") == (0, {Held})
    clock.advance(5)
    assert run("fine") == (PROBES, {Applied, Held})
    assert run("fine") == (200, {Applied})


@pytest.mark.row("F2")
@pytest.mark.slow
def test_whatever_handlers_do_the_stream_goes_on(session: SparkSession, tmp_path: Path) -> None:
    """Each odd answer and error, a hanging call and a killed worker, each its own entity's; the engine decides what
    Spark's workers made of them."""
    engine = Engine(tmp_path)
    hostile = task(build_handler=hostile_handler.build, stream="hostile", concurrency=4)
    engine.handlers._executor = Executor(session, hostile, lambda: 2)
    odd = [f"answer_{number}" for number in range(len(hostile_handler.ANSWERS))]
    odd += [f"error_{number}" for number in range(len(hostile_handler.ERRORS))]
    fine = [engine.post(f"fine_{number}", entity=f"fine-{number}") for number in range(20)]
    keys = {name: engine.post(name, entity=name) for name in [*odd, "hangs_1"]}
    engine.batch()
    assert {decision for key in fine for decision in engine.decisions(key)} == {"applied"}
    assert all(engine.decisions(keys[name]) for name in keys)
    after = engine.post("fine_after", entity="fine-after")
    killer = engine.post("kills_1", entity="kills")
    engine.command(item_seq=1, seen_seq=1)
    rows = engine.batch()
    assert engine.decisions(after) == ["applied"]
    assert [row.decision.value for row in rows if row.provider == "payhook"] == ["ignored"], "item 1 isn't dead"
    assert [row.error_class for row in rows if row.event_key == killer] == ["WorkerLost"]
    for _ in range(3):
        engine.advance(100_000)
    last = {row.event_key: row for row in engine.journal.rows}
    ends = {"dead", "applied", "ignored", "unknown", "parked", "retry"}
    assert {last[keys[name]].decision.value for name in odd} <= ends
    assert last[keys["hangs_1"]].error_class == "HandlerTimeout"
