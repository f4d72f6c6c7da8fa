"""Running groups of events: order within an entity, deadlines, tries in place."""

import gc

import pytest
from pyspark import TaskContext

from core.decision import ErrorKind
from core.work import Applied, Ignored, Outcome, WorkItem
from processor.errors.classify import Classifier, Failure
from processor.workers.deadlines import Deadlines
from processor.workers.worker import Task, get_handler
from processor.workers.worker_pool import BLOCKED_IN_A_ROW
from tests.unit.processor.fakes import Down, Stuck, run_groups


class BusyService(Exception):
    kind = ErrorKind.SLE


class HandlerByType:
    """Does what an item's type says, and remembers the order."""

    version = "test-1"

    def __init__(self) -> None:
        self.calls: list[int] = []

    def __call__(self, item: WorkItem) -> Outcome:
        self.calls.append(item.item_seq)
        match item.event_type:
            case "bug":
                raise ZeroDivisionError("division by zero")
            case "stuck":
                raise Stuck
            case "down":
                raise Down
            case "busy once" if self.calls.count(item.item_seq) == 1:
                raise BusyService
            case "busy":
                raise BusyService
            case "nobody":
                return Ignored("nobody handles it")
        return Applied()


def item(seq: int, kind: str = "fine") -> WorkItem:
    return WorkItem(seq, f"key-{seq}", "entity", "stripe", "acct", kind, b"{}", None, 0)


def task(**changes: object) -> Task:
    settings: dict[str, object] = {
        "stream": "test",
        "build_handler": HandlerByType,
        "classifier": Classifier(),
        "deadlines": Deadlines(60.0, 60.0),
        "concurrency": 1,
        "stop_on_dead": True,
    }
    return Task(**{**settings, **changes})  # type: ignore[arg-type]


def kinds(results: list[tuple[int, Outcome | Failure]]) -> dict[int, object]:
    return {seq: r.kind if isinstance(r, Failure) else type(r) for seq, r in results}


def test_events_of_an_entity_run_in_order_and_stop_at_the_first_that_fails():
    handler = HandlerByType()
    results = run_groups(task(), handler, [[item(1), item(2, "stuck"), item(3)], [item(4, "nobody")]])
    assert handler.calls == [1, 2, 4]
    assert kinds(results) == {1: Applied, 2: ErrorKind.SNBE, 4: Ignored}


def test_a_dead_event_lets_its_followers_run_where_the_stream_says_so():
    results = run_groups(task(stop_on_dead=False), HandlerByType(), [[item(1, "bug"), item(2)]])
    assert kinds(results) == {1: ErrorKind.NRE, 2: Applied}
    results = run_groups(task(stop_on_dead=True), HandlerByType(), [[item(1, "bug"), item(2)]])
    assert kinds(results) == {1: ErrorKind.NRE}


def test_a_short_lived_error_is_tried_again_in_place():
    handler = HandlerByType()
    results = run_groups(task(), handler, [[item(1, "busy once")], [item(2, "busy")]])
    assert kinds(results) == {1: Applied, 2: ErrorKind.SLE}
    assert sorted(handler.calls) == [1, 1, 2, 2, 2]


def test_when_everything_would_fail_the_rest_is_left_alone():
    handler = HandlerByType()
    results = run_groups(task(), handler, [[item(n, "down")] for n in range(1, 10)])
    assert kinds(results) == dict.fromkeys(range(1, BLOCKED_IN_A_ROW + 1), ErrorKind.SBE)
    assert all(isinstance(one, Failure) and one.is_blocking for _, one in results)
    assert handler.calls == list(range(1, BLOCKED_IN_A_ROW + 1))


def test_what_blocks_by_its_own_fault_is_disproved_by_the_next_event_that_is_applied():
    groups = [
        [item(1)],
        [item(2, "down"), item(3)],
        [item(4, "stuck")],
        [item(5, "down")],
        [item(6)],
        [item(7, "down")],
    ]
    results = dict(run_groups(task(), HandlerByType(), groups))
    assert {n: one.is_blocking for n, one in results.items() if isinstance(one, Failure)} == {
        2: False,
        4: False,
        5: False,
        7: True,
    }
    assert 3 not in results


def test_a_failures_log_lines_are_kept():
    class TalkingHandler(HandlerByType):
        def __call__(self, item: WorkItem) -> Outcome:
            import logging

            logging.getLogger("handler").warning("asked %s", item.event_key)
            raise Stuck

    [(_, failure)] = run_groups(task(), TalkingHandler(), [[item(1)]])
    assert isinstance(failure, Failure)
    assert failure.log_lines == "WARNING handler: asked key-1"


def test_a_spark_worker_doesnt_look_for_garbage_among_what_it_loaded(monkeypatch: pytest.MonkeyPatch) -> None:
    """Spark's worker collects garbage after each task; a task in another process leaves the collector alone."""
    thresholds, frozen = gc.get_threshold(), gc.get_freeze_count()
    get_handler(task(stream="elsewhere"))
    assert gc.get_freeze_count() == frozen

    monkeypatch.setattr(TaskContext, "get", lambda: object())
    try:
        get_handler(task(stream="on a worker"))
        assert gc.get_freeze_count() > frozen
    finally:
        gc.unfreeze()
        gc.set_threshold(*thresholds)
