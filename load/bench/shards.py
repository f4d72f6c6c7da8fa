"""What an event costs where shards divide them, and how fast two of them are together."""

from __future__ import annotations

import os
import statistics
import time
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path

import psutil

from core.layout import Layout, StreamLayout
from core.status_file import read_said
from load.bench.drain import DRAIN_S_MAX, POLL_S, commit_times, data_folder, kafka_with_backlog
from load.bench.e2e import cpu_s_of
from load.bench.figures import Run
from load.client import NotInTime
from processor.settings import ProcessorSettings
from stack.children import children, choose_ports, processes
from stack.server import Running, Server
from stack.settings import Settings

BACKLOG, BACKLOG_SHORT = 240_000, 60_000
COUNTS = (1, 2, 4)
TOGETHER_S_MIN = 3.0
"""A shorter time in which all shards decided shows how they start, not how fast they are."""
MEASURED_SHARE = 0.9
"""Of a quarter of the backlog: what each shard is measured over, however many there are, so that each is as warm."""


@dataclass(frozen=True, slots=True)
class Spent:
    """CPU seconds and events of one shard's process, from its first batch on."""

    cpu_s: float
    events: int

    @property
    def us_an_event(self) -> float:
        """
        :raises RuntimeError: nothing was decided between the two looks at it
        """
        if not self.events:
            raise RuntimeError("all was decided before the first look: too few events to tell what one costs")
        return self.cpu_s / self.events * 1e6


def measure_shards(run: Run) -> dict[str, float]:
    """Each shard of each number alone on the machine, over equally many events; then two at once."""
    backlog = run.count(BACKLOG, BACKLOG_SHORT)
    events = int(backlog / max(COUNTS) * MEASURED_SHARE)
    with kafka_with_backlog(run, backlog, max(COUNTS)) as (port, _):
        costs: dict[int, float] = {}
        alone = together = None
        for count in COUNTS:
            layout = data_folder(run.folder / f"of-{count}", run.folder / "records")
            spent = [_drain(layout, [server], [shard], events)[0] for shard, server in _servers(layout, port, count)]
            costs[count] = statistics.mean(one.us_an_event for one in spent)
            run.console.print(f"{count} shards: {costs[count]:,.0f} µs of CPU an event")
            if count == 1:
                alone = _rate([layout.ledger()])
        layout = data_folder(run.folder / "together", run.folder / "records")
        pair = list(_servers(layout, port, 2))
        _drain(layout, [server for _, server in pair], [0, 1], events)
        together = _rate([layout.ledger("live", shard) for shard in (0, 1)])
    figures = {
        "shards.cpu_us_an_event": costs[1],
        "shards.cpu_ratio_2_to_1": costs[2] / costs[1],
        "shards.cpu_ratio_4_to_1": costs[4] / costs[1],
    }
    if alone is None or together is None:
        run.console.print(f"no rate: they decided at the same time for less than {TOGETHER_S_MIN:g} s")
        return figures
    run.console.print(f"events/s: one shard {alone:,.0f}, two together {together:,.0f}")
    return figures | {"shards.rate_ratio_2_to_1": together / alone}


def _servers(layout: Layout, kafka_port: int, count: int) -> list[tuple[int, Server]]:
    """The shards' processors as `payhook up` runs them."""
    settings = Settings(data_dir=layout.root, processor=ProcessorSettings(shards=count))
    ports = replace(choose_ports(settings), kafka=kafka_port)
    found = {one.name: one for one in children(settings, ports, None)}
    env = {"PAYHOOK_PROCESSOR__SHARDS": str(count)}
    shards = processes(settings, "live")
    return [(at, replace(found[name], env={**found[name].env, **env})) for at, name in enumerate(shards)]


def _drain(layout: Layout, servers: Sequence[Server], shards: Sequence[int], events: int) -> list[Spent]:
    """Runs shards until each has decided so many events. They start together: one that waits for another to start would
    find it done.

    :raises NotInTime: one hasn't
    """
    places = [layout.ledger("live", shard) for shard in shards]
    first: dict[str, Spent] = {}
    last: dict[str, Spent] = {}
    with ExitStack() as held:
        started = [Running(server) for server in servers]
        for one in started:
            held.callback(one.stop)
        for one in started:
            one.wait_until_it_answers()
        until = time.monotonic() + DRAIN_S_MAX
        while len(last) < len(places):
            if time.monotonic() > until:
                raise NotInTime(f"{events} events decided", DRAIN_S_MAX)
            time.sleep(POLL_S)
            for place in places:
                now = _spent(place)
                if now is None or place.stream in last:
                    continue
                before = first.setdefault(place.stream, now)
                if now.events >= events:
                    last[place.stream] = Spent(now.cpu_s - before.cpu_s, now.events - before.events)
    return [last[place.stream] for place in places]


def _spent(place: StreamLayout) -> Spent | None:
    """What the shard's process and all of its own spent up to now, and how many rows it has; None before the first."""
    said = read_said(place.status) or {}
    if not said.get("seq"):
        return None
    process = psutil.Process(int(said["pid"]))
    spent = sum(cpu_s_of(one) for one in (process, *process.children(recursive=True)))
    return Spent(spent, int(said["seq"]))


def _rate(places: Sequence[StreamLayout]) -> float | None:
    """Events a second of all shards, while all of them decided; None where that was for too short a time."""
    commits = [commit_times(Path(os.fspath(place.journal))) for place in places]
    since, until = max(one[0][1] for one in commits), min(one[-1][1] for one in commits)
    seconds = (until - since).total_seconds()
    if seconds < TOGETHER_S_MIN:
        return None
    return sum(_until(one, until) - _until(one, since) for one in commits) / seconds


def _until(commits: Sequence[tuple[int, datetime]], at: datetime) -> int:
    return max((seq for seq, committed_at in commits if committed_at <= at), default=0)
