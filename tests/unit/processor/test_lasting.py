"""A stream whose storage fails pauses, says why, and begins anew; whatever else fails ends it."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from core.errors import PayhookError
from journal.errors import CommitUnknown, Fenced, IndexBroken, JournalBroken, StorageDown
from journal.writer import Tenure
from ledger.postings import PostingsRefused
from processor.lasting import LastingStream, Outage
from processor.tell.progress import Progress

DOWN = StorageDown("the bodies", "/lake/bodies", "No space left on device")


class FakeBatches:
    """Notes what becomes of it."""

    def __init__(self, decided: int = 0) -> None:
        self.progress = Progress(batches=decided)
        self.ended: str | None = None

    def close(self) -> None:
        self.ended = "closed"

    def release(self) -> None:
        self.ended = "released"


class Run:
    """One run that does what the test says."""

    def __init__(self, act: Callable[[], None]) -> None:
        self._act = act
        self.stopped = False

    def run(self) -> None:
        self._act()

    def stop(self) -> None:
        self.stopped = True


class World:
    """A stream whose runs end as listed: an error, or None for a stop that somebody asked for."""

    def __init__(self, *ends: Exception | None, decided: int = 0) -> None:
        self._ends = list(ends)
        self._decided = decided
        self.opened: list[FakeBatches] = []
        self.tenures: list[Tenure] = []
        self.outages: list[Outage] = []
        self.stream = LastingStream(self.open, self.run_on, self.on_outage, wait_s_first=0.001, wait_s_max=0.004)  # type: ignore[arg-type]

    def open(self, tenure: Tenure) -> FakeBatches:
        self.tenures.append(tenure)
        self.opened.append(FakeBatches(self._decided))
        return self.opened[-1]

    def run_on(self, _batches: FakeBatches) -> Run:
        def act() -> None:
            end = self._ends.pop(0)
            if end is not None:
                raise end

        return Run(act)

    def on_outage(self, outage: Outage) -> None:
        self.outages.append(outage)


@pytest.mark.parametrize(
    "failed",
    [
        DOWN,
        CommitUnknown("ledger", "No space left on device"),
        PostingsRefused("/lake/postings", "No space left on device"),
        IndexBroken("/index", "IO error: No space left on device"),
    ],
)
def test_storage_that_fails_is_waited_for_and_everything_is_opened_anew(failed: PayhookError) -> None:
    world = World(failed, failed, None)
    world.stream.run()
    assert [batches.ended for batches in world.opened] == ["released", "released", "closed"]
    assert len({id(tenure) for tenure in world.tenures}) == 1, "one process, one tenure"
    assert {outage.reason for outage in world.outages} == {f"{type(failed).__name__}: {failed}"}
    assert {outage.tries for outage in world.outages} == {1, 2}


@pytest.mark.parametrize(
    "failed",
    [
        Fenced("ledger", 3, "concurrent transaction"),
        JournalBroken("/lake/journal", "seq 4 is missing"),
        ZeroDivisionError("a bug"),
    ],
)
def test_whatever_does_not_pass_by_itself_ends_the_stream(failed: Exception) -> None:
    world = World(failed)
    with pytest.raises(type(failed)):
        world.stream.run()
    assert [batches.ended for batches in world.opened] == ["released"]
    assert world.outages == []


def test_a_failure_while_it_opens_is_waited_for_too() -> None:
    world = World(None)
    opened, failures = world.open, [DOWN, DOWN]

    def open_batches(tenure: Tenure) -> FakeBatches:
        if failures:
            raise failures.pop()
        return opened(tenure)

    stream = LastingStream(open_batches, world.run_on, world.on_outage, wait_s_first=0.001)  # type: ignore[arg-type]
    stream.run()
    assert [batches.ended for batches in world.opened] == ["closed"]
    assert world.outages[-1].tries == 2


@pytest.mark.parametrize(("decided", "tries"), [(0, [1, 2, 3]), (5, [1, 1, 1])])
def test_the_wait_grows_until_something_was_decided(decided: int, tries: list[int]) -> None:
    world = World(DOWN, DOWN, DOWN, None, decided=decided)
    world.stream.run()
    told = [outage.tries for outage in world.outages]
    assert list(dict.fromkeys(told)) == list(dict.fromkeys(tries))
    assert max(outage.next_try_s for outage in world.outages) <= 0.004


def test_a_stop_during_the_wait_ends_it_at_once() -> None:
    world = World(DOWN, None)
    stream = LastingStream(world.open, world.run_on, lambda _: stream.stop(), wait_s_first=3_600)  # type: ignore[arg-type]
    stream.run()
    assert [batches.ended for batches in world.opened] == ["released"]


def test_a_stop_reaches_the_run_under_way() -> None:
    world = World()
    runs: list[Run] = []

    def run_on(_batches: object) -> Run:
        runs.append(Run(lambda: stream.stop()))
        return runs[-1]

    stream = LastingStream(world.open, run_on, world.on_outage)  # type: ignore[arg-type]
    stream.run()
    assert [run.stopped for run in runs] == [True]
    assert [batches.ended for batches in world.opened] == ["closed"]
