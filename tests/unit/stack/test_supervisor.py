"""The supervisor over stub processes: start in order, restart with backoff, stop in order, nothing left."""

from __future__ import annotations

import errno
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import psutil
import pytest

from core.layout import Layout
from load.client import wait_for
from stack.children import Ports
from stack.endpoints import end_leftovers, identity_of, read_endpoints, record_processes, recorded_states
from stack.errors import AlreadyUp, HeldUnseen, ServerLeft, ServerNotUp
from stack.servers.server import Server
from stack.supervisor import (
    BACKOFF_S_MAX,
    BACKOFF_S_MIN,
    FIRST_STARTS_MAX,
    Child,
    ChildState,
    Supervisor,
    sole_supervisor,
)
from stack.up import go_down
from tests.processes import all_end

PORTS = Ports(1, 2, 3, 4, 5, 6, 7)
WAIT_S = 60.0

SLEEPS = "import time; time.sleep(600)"


def stub(folder: Path, name: str, code: str = SLEEPS, answers: Callable[[], bool] = lambda: True) -> Server:
    return Server(
        name, (sys.executable, "-c", code), folder / f"{name}.log", answers=answers, stop_s=60.0, start_s=60.0
    )


def step_until(supervisor: Supervisor, holds: Callable[[], bool]) -> None:
    until = time.monotonic() + WAIT_S
    while not holds():
        assert time.monotonic() < until, "it never came to hold"
        supervisor.check_children()
        time.sleep(0.02)


def all_answer(supervisor: Supervisor) -> bool:
    return all(child.state is ChildState.RUNNING for child in supervisor._children)


def make(folder: Path, *servers: Server, on_change: Callable[[str, ChildState], None] = lambda *_: None) -> Supervisor:
    return Supervisor(Layout(folder), PORTS, servers, make_topics=lambda: None, on_change=on_change)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    Layout(tmp_path).run.mkdir()
    return tmp_path


def children_of(pid: int) -> list[psutil.Process]:
    found: list[psutil.Process] = psutil.Process(pid).children(recursive=True)
    return found


@pytest.mark.parametrize("in_time", [True, False])
def test_what_nobody_waits_for_starts_once_the_others_answer_or_take_too_long(
    folder: Path, monkeypatch: pytest.MonkeyPatch, in_time: bool
) -> None:
    monkeypatch.setattr("stack.supervisor.BESIDE_S", 600.0)
    done: list[str] = []
    answers = False
    servers = [stub(folder, "kafka"), stub(folder, "ingest", answers=lambda: answers)]
    beside = replace(stub(folder, "alerts"), beside=True)
    supervisor = make(folder, *servers, beside, on_change=lambda name, state: done.append(f"{name} {state}"))
    try:
        step_until(supervisor, lambda: "ingest starting" in done)
        supervisor.check_children()
        assert "alerts starting" not in done
        answers = in_time
        if not in_time:
            monkeypatch.setattr("stack.supervisor.BESIDE_S", 0.0)
        step_until(supervisor, lambda: "alerts running" in done)
        assert ("ingest running" in done) == in_time
    finally:
        supervisor.stop()


def test_a_process_that_keeps_dying_is_started_ever_later(folder: Path) -> None:
    flag = folder / "die"
    dies = f"import os, time\nwhile not os.path.exists({str(flag)!r}): time.sleep(0.01)"
    supervisor = make(folder, stub(folder, "kafka", dies))
    try:
        step_until(supervisor, lambda: all_answer(supervisor))
        flag.touch()
        [child] = supervisor._children
        for failures in range(1, 4):
            before = after = time.monotonic()
            until = before + WAIT_S
            while child.failures < failures and after < until:
                before = time.monotonic()
                supervisor.check_children()
                after = time.monotonic()
                time.sleep(0.01)
            assert child.failures == failures
            assert child.not_before - after <= BACKOFF_S_MIN * 2 ** (failures - 1) <= child.not_before - before
    finally:
        supervisor.stop()


def test_a_process_that_has_died_for_hours_is_still_started_again(folder: Path) -> None:
    """2.0 to the power of its failures was more than a float holds, which ended the supervisor."""
    child = Child(stub(folder, "kafka"), failures=2_000)
    child.start(100.0)
    assert child.finish_run(100.1) == BACKOFF_S_MAX


def full(*_: object) -> None:
    raise OSError(errno.ENOSPC, "No space left on device")


def recorded_pids(folder: Path) -> list[int]:
    return [one["pid"] for one in json.loads(Layout(folder).supervisor_file.read_text())["processes"]]


def test_a_full_disk_keeps_no_process_from_its_restart_and_who_runs_is_written_down_once_there_is_room(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("stack.supervisor.WRITE_AGAIN_S", 0.1)
    supervisor = make(folder, stub(folder, "kafka"), stub(folder, "ingest"))
    try:
        step_until(supervisor, lambda: all_answer(supervisor))
        before = read_endpoints(folder)
        assert before is not None
        with monkeypatch.context() as disk:
            disk.setattr("stack.supervisor.record_processes", full)
            os.kill(before.pids["ingest"], signal.SIGKILL)
            step_until(supervisor, lambda: not all_answer(supervisor))
            step_until(supervisor, lambda: all_answer(supervisor))
            assert before.pids["ingest"] in recorded_pids(folder)
        step_until(supervisor, lambda: before.pids["ingest"] not in recorded_pids(folder))
        after = read_endpoints(folder)
        assert after is not None
        assert after.pids["kafka"] == before.pids["kafka"]
        assert recorded_pids(folder)[1:] == list(after.pids.values())
    finally:
        supervisor.stop()


def test_a_process_whose_files_cannot_be_written_is_started_later(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    failures_left = 0

    def prepare() -> None:
        nonlocal failures_left
        if failures_left:
            failures_left -= 1
            full()

    supervisor = make(folder, replace(stub(folder, "kafka"), prepare=prepare), stub(folder, "ingest"))
    try:
        step_until(supervisor, lambda: all_answer(supervisor))
        before = read_endpoints(folder)
        assert before is not None
        failures_left = FIRST_STARTS_MAX
        os.kill(before.pids["kafka"], signal.SIGKILL)
        step_until(supervisor, lambda: not all_answer(supervisor))
        step_until(supervisor, lambda: all_answer(supervisor))
        assert failures_left == 0
        assert supervisor._children[0].failures == 1 + FIRST_STARTS_MAX
        after = read_endpoints(folder)
        assert after is not None
        assert after.pids["ingest"] == before.pids["ingest"]
    finally:
        supervisor.stop()


def test_a_process_that_can_never_be_started_ends_the_start(folder: Path) -> None:
    supervisor = make(folder, replace(stub(folder, "kafka"), prepare=full))
    with pytest.raises(ServerNotUp, match=r"kafka couldn't be started: .*No space left on device, 3 times"):
        step_until(supervisor, lambda: all_answer(supervisor))
    supervisor.stop()


def test_a_process_that_said_why_it_ended_is_started_again_however_often(folder: Path) -> None:
    """A processor whose streams fail: webhooks are taken meanwhile, and the reason is known."""
    said = folder / "said"
    ends = f"open({str(said)!r}, 'w').close()"
    server = replace(stub(folder, "kafka", ends, answers=lambda: False), last_words=said.exists)
    supervisor = make(folder, server, stub(folder, "ingest"))
    [processor, _] = supervisor._children
    try:
        step_until(supervisor, lambda: processor.failures > FIRST_STARTS_MAX)
    finally:
        supervisor.stop()


def test_a_failed_start_shows_what_this_start_wrote_and_not_the_last_run(folder: Path) -> None:
    (folder / "kafka.log").write_text("the last run's own trouble\n")
    supervisor = make(folder, stub(folder, "kafka", "import sys; sys.exit('the port is taken')", lambda: False))
    with pytest.raises(ServerNotUp) as failed:
        step_until(supervisor, lambda: False)
    assert "the port is taken" in str(failed.value)
    assert "the last run's" not in str(failed.value)


def test_a_start_that_wrote_nothing_says_so(folder: Path) -> None:
    (folder / "kafka.log").write_text("the last run's own trouble\n")
    supervisor = make(folder, stub(folder, "kafka", "import os; os._exit(7)", lambda: False))
    with pytest.raises(
        ServerNotUp, match=r"ended with code 7 at its start, 3 times; it wrote nothing into .*kafka.log"
    ):
        step_until(supervisor, lambda: False)


def test_processes_stop_in_the_opposite_order_of_their_start(folder: Path) -> None:
    stopped = folder / "stopped"
    says = "import signal, sys, time\ndef end(*_):\n open(%r, 'a').write(%r); sys.exit()\n"
    says += "signal.signal(signal.SIGTERM, end)\nopen(%r, 'w').close()\ntime.sleep(600)"
    names = ("kafka", "redis", "processor", "ingest", "ops")
    servers = [
        stub(
            folder, name, says % (str(stopped), f"{name} ", str(folder / f"{name}.up")), (folder / f"{name}.up").exists
        )
        for name in names
    ]
    supervisor = make(folder, *servers)
    step_until(supervisor, lambda: all_answer(supervisor))
    supervisor.stop()
    assert stopped.read_text().split() == list(reversed(names))


def test_a_process_that_the_kernel_does_not_end_is_named_and_the_others_stop(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    others = children_of(os.getpid())  # an earlier test's tracker of resources, which lives as long as this process
    supervisor = make(folder, stub(folder, "kafka"), stub(folder, "redis"), stub(folder, "processor"))
    step_until(supervisor, lambda: all_answer(supervisor))
    kafka, redis, processor = [child for child in children_of(os.getpid()) if child not in others]
    wait = subprocess.Popen.wait

    def never_sees_redis_end(process: subprocess.Popen[bytes], timeout: float | None = None) -> int:
        ended = wait(process, timeout)
        if process.pid == redis.pid:
            raise subprocess.TimeoutExpired(process.args, timeout or 0.0)
        return ended

    monkeypatch.setattr(subprocess.Popen, "wait", never_sees_redis_end)
    with pytest.raises(ServerLeft, match=rf"redis \(process {redis.pid}\) was killed but doesn't end: .* again"):
        supervisor.stop()
    assert all_end([kafka, processor])


def test_the_record_of_a_process_that_does_not_end_stays_for_the_next_down(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    layout = Layout(folder)
    with subprocess.Popen([sys.executable, "-c", SLEEPS], start_new_session=True) as process:
        record_processes(layout, True, {}, [os.getpid(), process.pid])
        with monkeypatch.context() as stuck:
            stuck.setattr("stack.endpoints.os.killpg", lambda *_: None)
            stuck.setattr("stack.endpoints.END_WAIT_S", 0.0)
            with pytest.raises(ServerLeft, match=f"process {process.pid}"):
                end_leftovers(layout)
        assert end_leftovers(layout)
        assert not end_leftovers(layout)


def test_the_next_supervisor_ends_leftovers_but_never_a_stranger_that_got_the_same_pid(folder: Path) -> None:
    mine = subprocess.Popen([sys.executable, "-c", SLEEPS], start_new_session=True)
    stranger = subprocess.Popen([sys.executable, "-c", SLEEPS], start_new_session=True)
    try:
        identity = identity_of(mine.pid)
        record = [
            {"pid": 1, "started": ""},
            {"pid": mine.pid, "started": identity.started},
            {"pid": stranger.pid, "started": f"{identity.started}1"},
        ]
        Layout(folder).supervisor_file.write_text(json.dumps({"up": True, "states": {}, "processes": record}))
        with sole_supervisor(Layout(folder)):
            mine.wait(60)
        assert not end_leftovers(Layout(folder))
        assert stranger.poll() is None
    finally:
        for process in (mine, stranger):
            process.kill()
            process.wait()


SUPERVISES = """
import sys, threading
from pathlib import Path
from core.layout import Layout
from stack.children import Ports
from stack.servers.server import Server, stopped_by_signal
from stack.supervisor import Supervisor, sole_supervisor
layout = Layout(Path(sys.argv[1]))
sleeps = (sys.executable, "-c", "import time; time.sleep(600)")
logs = layout.logs_folder
servers = [Server(name, sleeps, logs / f"{name}.log", answers=lambda: True) for name in ("kafka", "ingest")]
with stopped_by_signal() as stop, sole_supervisor(layout):
    supervisor = Supervisor(layout, Ports(1, 2, 3, 4, 5, 6, 7), servers, lambda: None)
    while not stop.wait(0.02):
        supervisor.check_children()
    supervisor.stop()
"""


@pytest.fixture
def supervised_folder(folder: Path) -> Iterator[Path]:
    """A data folder that another process supervises; everything answers."""
    with subprocess.Popen([sys.executable, "-c", SUPERVISES, str(folder)]) as supervisor:
        try:
            assert wait_for(lambda: read_endpoints(folder) is not None, WAIT_S)
            yield folder
        finally:
            supervisor.kill()


def remove(path: Path) -> None:
    """In one step: what is written meanwhile is written again."""
    path.rename(path.with_name("removed"))


def test_down_ends_a_stack_whose_run_folder_was_removed(supervised_folder: Path) -> None:
    layout = Layout(supervised_folder)
    processes = [psutil.Process(pid) for pid in recorded_pids(supervised_folder)]
    remove(layout.run)
    with pytest.raises(AlreadyUp, match=rf"process {processes[0].pid}\b"), sole_supervisor(layout):
        pass
    assert go_down(supervised_folder)
    assert all_end(processes)
    assert not go_down(supervised_folder)


@pytest.mark.parametrize("name", ["run", "endpoints.json"])
def test_what_says_who_runs_is_written_again_where_it_was_removed(supervised_folder: Path, name: str) -> None:
    before, pids = read_endpoints(supervised_folder), recorded_pids(supervised_folder)
    path = supervised_folder / name
    remove(path)
    states = {"kafka": "running", "ingest": "running"}
    assert wait_for(lambda: recorded_states(Layout(supervised_folder)) == states, WAIT_S)
    assert wait_for(lambda: read_endpoints(supervised_folder) == before, WAIT_S)
    assert recorded_pids(supervised_folder) == pids


def test_down_says_so_where_a_process_that_it_cannot_see_holds_the_folder(supervised_folder: Path) -> None:
    """In another container the same folder is this one's, and its processes aren't."""
    layout = Layout(supervised_folder)
    os.kill(recorded_pids(supervised_folder)[0], signal.SIGSTOP)
    remove(layout.run)
    layout.supervisor_lock.write_text(json.dumps({"pid": os.getpid(), "started": "another boot 7"}))
    with pytest.raises(HeldUnseen, match="another container"):
        go_down(supervised_folder)


def test_down_makes_no_folder(tmp_path: Path) -> None:
    assert not go_down(tmp_path / "none")
    assert not (tmp_path / "none").exists()
