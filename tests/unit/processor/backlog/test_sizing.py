"""As many executors as the load asks for: more at once, fewer once they are idle."""

from __future__ import annotations

import pytest

from processor.backlog.sizing import AdaptiveExecutors, NotResizable, check_resizable
from processor.settings import ProcessorSettings

CLUSTER = ProcessorSettings(master="spark://m:7077", executors_min=1, executors_max=4)


class SizedCluster:
    """A cluster with ``room``; executors whose ids are in ``busy`` have a task.

    One that is ended is still listed at the next ``looks_to_end``, and the master starts another one where fewer run
    than it was asked for.
    """

    def __init__(self, room: int) -> None:
        self.room = room
        self.looks_to_end = 0
        self.ended: list[str] = []
        self._looks = 0
        self._gone_at: dict[str, int] = {}
        self.ids: list[str] = ["0"]
        self.busy: set[str] = set()
        self.asked: list[int] = []

    def list_running(self) -> list[str]:
        self._looks += 1
        self.ids = [one for one in self.ids if self._gone_at.get(one, self._looks) >= self._looks]
        ending = self._gone_at.keys() & set(self.ids)
        if self.asked and len(self.ids) - len(ending) < min(self.asked[-1], self.room):
            self.ids.append(str(int(self.ids[-1]) + 1))
        return list(self.ids)

    def ask_for(self, total: int) -> None:
        self.asked.append(total)
        first = max(map(int, self.ids), default=-1) + 1
        self.ids += [str(first + n) for n in range(min(total, self.room) - len(self.ids))]

    def end_idle(self, executor: str) -> bool:
        if executor in self.busy or executor in self._gone_at:
            return False
        self.ended.append(executor)
        if self.looks_to_end:
            self._gone_at[executor] = self._looks + self.looks_to_end
        else:
            self.ids.remove(executor)
        return True


@pytest.fixture
def workers() -> SizedCluster:
    return SizedCluster(room=10)


@pytest.fixture
def executors(workers: SizedCluster, monkeypatch: pytest.MonkeyPatch) -> AdaptiveExecutors:
    """The test looks by itself, at the moments that it names."""
    monkeypatch.setattr("processor.backlog.sizing.LOOK_EVERY_S", 3_600.0)
    return AdaptiveExecutors(workers, 2, least=1, most=4)


def test_the_stream_that_wants_most_is_asked_for_at_once(workers: SizedCluster, executors: AdaptiveExecutors) -> None:
    executors.request_executors("ledger", 3)
    executors.request_executors("notify", 2)
    executors.settle()
    executors.settle()
    assert (workers.asked, executors.running, executors.tasks) == ([3], 3, 6)


@pytest.mark.parametrize(("wanted", "asked"), [(0, 1), (9, 4)])
def test_it_stays_within_its_bounds(
    workers: SizedCluster, executors: AdaptiveExecutors, wanted: int, asked: int
) -> None:
    executors.request_executors("ledger", wanted)
    executors.settle()
    assert workers.asked == [asked]


def test_a_cluster_without_room_gives_what_it_has(executors: AdaptiveExecutors, workers: SizedCluster) -> None:
    workers.room = 2
    executors.request_executors("ledger", 4)
    executors.settle()
    executors.settle()
    assert (workers.asked, executors.running) == ([4], 2)


def test_a_stream_that_does_not_decide_is_asked_for_none(workers: SizedCluster, executors: AdaptiveExecutors) -> None:
    executors.request_executors("refused", 0)
    assert executors._thread is None, "it never asked for any"
    executors.request_executors("refused", 3)
    executors.request_executors("ledger", 2)
    executors.settle()
    executors.request_executors("refused", 0)
    executors.settle()
    assert workers.asked == [3, 2]


def test_fewer_are_those_without_a_task(workers: SizedCluster, executors: AdaptiveExecutors) -> None:
    executors.request_executors("ledger", 3)
    executors.settle()
    workers.busy = {"0", "1", "2"}
    executors.request_executors("ledger", 2)
    executors.settle()
    assert workers.ids == ["0", "1", "2"]
    workers.busy = {"0", "2"}
    executors.settle()
    assert workers.ids == ["0", "2"]
    executors.settle()
    assert workers.ids == ["0", "2"], "it doesn't end more than are too many"


@pytest.mark.row("D5")
@pytest.mark.parametrize("looks", [1, 3])
def test_no_other_one_is_ended_while_one_takes_its_time(
    workers: SizedCluster, executors: AdaptiveExecutors, looks: int
) -> None:
    """The master would start another one for it, with all the code to fetch, and so on for ever."""
    executors.request_executors("ledger", 3)
    executors.settle()
    workers.looks_to_end = looks
    executors.request_executors("ledger", 2)
    for _ in range(8):
        executors.settle()
    assert (workers.ended, workers.ids, executors.running) == (["2"], ["0", "1"], 2)


@pytest.mark.parametrize(
    ("changed", "spark", "said"),
    [
        ({"master": "local[2]"}, {"spark.executor.cores": "1"}, "processor.master is local[2]"),
        ({"executors_min": 5}, {"spark.executor.cores": "1"}, "executors_min is 5"),
        ({}, {}, "spark.executor.cores isn't set"),
    ],
)
def test_what_cannot_follow_the_load_is_said_at_the_start(
    changed: dict[str, object], spark: dict[str, str], said: str
) -> None:
    with pytest.raises(NotResizable, match="executors_max can't be kept") as refused:
        check_resizable(CLUSTER.model_copy(update=changed), spark)
    assert said in str(refused.value)
    check_resizable(CLUSTER, {"spark.executor.cores": "1"})
