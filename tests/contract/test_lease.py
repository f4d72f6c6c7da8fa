"""Which process decides a stream: on a disk and on a real object store, however processes end, pause, or race."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path

import pytest

from core.clock import ManualClock
from journal import lease as leases
from journal import objects
from journal.errors import StorageDown
from journal.lease import KEPT_FILES, LAPSES_S, RENEW_S, Lease
from journal.storage import open_storage
from tests.object_store import ObjectStore, Relay
from tests.object_store.fixtures import reach
from tests.processes import pause

CHECKOUT = Path(__file__).parents[2]
WAIT_S_MAX = 20.0
RACERS = 8


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock(datetime(2026, 1, 31, tzinfo=UTC))


class LeasedFolder:
    """Processes on a data folder of their own."""

    def __init__(self, folder: Path, place: str, clock: ManualClock) -> None:
        self.lock, self._place, self._clock = folder / "run" / "lease.lock", place, clock

    def lease(self, owner: str) -> Lease:
        return Lease(self._place, owner, self._clock, self.lock)


@pytest.fixture
def hosts(tmp_path: Path, place: str, clock: ManualClock) -> list[LeasedFolder]:
    return [LeasedFolder(tmp_path / name, place, clock) for name in ("one", "other")]


def names(place: str) -> list[str]:
    return sorted(one.name for one in open_storage(place).files())


def test_the_first_takes_it_at_once_and_another_one_learns_whose_it_is(hosts: list[LeasedFolder]) -> None:
    leader, standby = hosts[0].lease("a"), hosts[1].lease("b")
    assert leader.take_lease() and leader.is_held
    assert not standby.take_lease() and not standby.is_held
    assert standby.holder is not None and leader.holder is not None
    assert (standby.holder.owner, standby.holder.since) == ("a", leader.holder.since)
    assert f"(pid {os.getpid()})" in standby.holder.host
    assert not standby.holder.here


def test_one_that_is_given_up_is_free_at_once(hosts: list[LeasedFolder]) -> None:
    leader, standby = hosts[0].lease("a"), hosts[1].lease("b")
    assert leader.take_lease() and not standby.take_lease()
    leader.release()
    assert standby.take_lease()
    assert not leader.take_lease()


def test_one_that_is_renewed_is_never_taken_however_long_it_lasts(
    hosts: list[LeasedFolder], clock: ManualClock
) -> None:
    leader, standby = hosts[0].lease("a"), hosts[1].lease("b")
    assert leader.take_lease()
    for _ in range(40):
        assert not standby.take_lease()
        clock.advance(LAPSES_S - RENEW_S)
        assert leader.renew()
    assert leader.is_held


def test_one_that_is_renewed_no_more_is_taken_when_its_time_is_over_and_not_before(
    hosts: list[LeasedFolder], clock: ManualClock
) -> None:
    leader, standby = hosts[0].lease("a"), hosts[1].lease("b")
    assert leader.take_lease() and leader.renew()
    assert not standby.take_lease()
    clock.advance(LAPSES_S - 0.1)
    assert not standby.take_lease()
    clock.advance(0.1)
    assert standby.take_lease()
    assert not leader.renew()


def test_a_standby_counts_from_its_own_first_look_whatever_the_holders_clock_says(
    hosts: list[LeasedFolder], clock: ManualClock
) -> None:
    leader, standby = hosts[0].lease("a"), hosts[1].lease("b")
    assert leader.take_lease()
    clock.advance(10 * LAPSES_S)
    assert not standby.take_lease(), "it has just begun to look"
    assert leader.renew()


def test_a_holder_that_wakes_after_a_takeover_never_finds_itself_the_holder(
    hosts: list[LeasedFolder], clock: ManualClock, place: str
) -> None:
    """The name that it would put next was put and removed long ago, so it can be put again."""
    sleeper, leader = hosts[0].lease("a"), hosts[1].lease("b")
    assert sleeper.take_lease() and not leader.take_lease()
    clock.advance(LAPSES_S)
    assert leader.take_lease()
    for _ in range(3 * KEPT_FILES):
        assert leader.renew()
    assert f"{2:020}.json" not in names(place), "the test needs a name that is free again"
    assert not sleeper.renew()
    assert leader.renew()
    sleeper.drop()
    assert not sleeper.take_lease()
    assert len(names(place)) <= 2 * KEPT_FILES + 2


def test_of_many_that_want_it_at_once_one_gets_it(place: str, tmp_path: Path, clock: ManualClock) -> None:
    together = threading.Barrier(RACERS)

    def race(number: int) -> bool:
        lease = LeasedFolder(tmp_path / str(number), place, clock).lease(f"owner-{number}")
        together.wait(WAIT_S_MAX)
        return lease.take_lease()

    with ThreadPoolExecutor(RACERS) as pool:
        assert sum(pool.map(race, range(RACERS))) == 1


def test_a_thread_of_its_own_renews_it_and_says_when_another_one_has_it(
    hosts: list[LeasedFolder], clock: ManualClock, place: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(leases, "RENEW_S", 0.02)
    leader, standby = hosts[0].lease("a"), hosts[1].lease("b")
    lost = threading.Event()
    assert leader.take_lease()
    leader.keep_renewing(lost.set)
    while len(names(place)) < 5:
        assert not lost.wait(0.01)
    # Another process counts it as dead, and puts the next number before it.
    monkeypatch.setattr(leases, "RENEW_S", 2.0)
    monkeypatch.setattr(leases, "LAPSES_S", -1.0)
    while not standby.take_lease():
        pass
    assert lost.wait(WAIT_S_MAX)
    assert not leader.is_held
    assert standby.renew()


def test_a_store_that_cannot_be_reached_is_no_silence(
    object_store: ObjectStore, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, clock: ManualClock
) -> None:
    monkeypatch.setattr(objects, "RETRIES", 0)
    monkeypatch.setattr(objects, "PUT_TRIES", 1)
    with Relay(object_store.address) as relay:
        place = f"{reach(object_store, monkeypatch, relay.endpoint, timeout_s=10.0)}/lease"
        leader, standby = (LeasedFolder(tmp_path / name, place, clock).lease(name) for name in ("one", "other"))
        assert leader.take_lease() and not standby.take_lease()
        relay.cut()
        with pytest.raises(StorageDown):
            standby.take_lease()
        clock.advance(10 * LAPSES_S)
        with pytest.raises(StorageDown):
            leader.renew()
        relay.open()
        assert not standby.take_lease(), "the holder is given its time again"
        assert leader.renew()
        assert not standby.take_lease()


HOLDER = """
import sys
from pathlib import Path
from core.clock import SystemClock
from journal.lease import Lease
lease = Lease(sys.argv[1], sys.argv[2], SystemClock(), Path(sys.argv[3]))
assert lease.take_lease()
lease.keep_renewing(lambda: print("lost", flush=True))
print("held", flush=True)
sys.stdin.readline()
lease.release()
"""


@contextmanager
def holder_process(host: LeasedFolder, place: str, owner: str) -> Iterator[subprocess.Popen[str]]:
    command = [sys.executable, "-c", HOLDER, place, owner, str(host.lock)]
    with subprocess.Popen(command, cwd=CHECKOUT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None and process.stdout.readline() == "held\n"
        try:
            yield process
        finally:
            process.kill()


def test_one_of_a_dead_process_on_the_same_data_folder_is_taken_at_once(hosts: list[LeasedFolder], place: str) -> None:
    here, elsewhere = hosts[0].lease("b"), hosts[1].lease("c")
    with holder_process(hosts[0], place, "a") as process:
        assert not here.take_lease() and not elsewhere.take_lease()
        assert here.holder is not None and here.holder.here
        assert elsewhere.holder is not None and not elsewhere.holder.here
        process.kill()
        process.wait()
        assert not elsewhere.take_lease(), "another machine can't know"
        assert here.take_lease()


def test_a_paused_process_keeps_it_until_its_time_is_over_and_learns_of_it_when_it_wakes(
    hosts: list[LeasedFolder], place: str, clock: ManualClock
) -> None:
    here = hosts[0].lease("b")
    with holder_process(hosts[0], place, "a") as process:
        pause(process.pid)
        assert not here.take_lease()
        clock.advance(LAPSES_S - 1)
        assert not here.take_lease()
        clock.advance(1)
        assert here.take_lease()
        process.send_signal(signal.SIGCONT)
        assert process.stdout is not None and process.stdout.readline() == "lost\n"
        assert here.renew()
