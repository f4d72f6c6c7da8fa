"""Watches a run until it ends, with a bar. Whoever stops watching stops nothing: the processor carries it out."""

from __future__ import annotations

import time
from collections.abc import Callable

import click
from rich.console import Console
from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeElapsedColumn

from dlq.selection import Progress as RunProgress
from dlq.selection import RunItemState, RunState, Selections

LOOK_S = 0.5
STOPS = frozenset({RunState.PROPOSED, RunState.PAUSED})


def watch(selections: Selections, number: int, sleep: Callable[[float], None] = time.sleep) -> RunProgress:
    """Until the run is finished, paused, or waits for a second person. Ctrl-C leaves it running."""
    bar = Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        TaskProgressColumn(),
        TextColumn("{task.completed:,.0f}/{task.total:,.0f}"),
        TimeElapsedColumn(),
        TextColumn("{task.fields[told]}"),
        console=Console(stderr=True),
        transient=True,
    )
    progress = selections.progress(number)
    try:
        with bar:
            task = bar.add_task(f"s{number}", total=progress.selection.count, told="")
            while not progress.finished and progress.run.state not in STOPS:
                bar.update(task, completed=progress.ended, told=_told(progress))
                sleep(LOOK_S)
                progress = selections.progress(number)
    except KeyboardInterrupt:
        click.echo(f"s{number} goes on without you; `payhook dlq pause s{number}` holds it", err=True)
    return progress


def _told(progress: RunProgress) -> str:
    if progress.run.problem:
        return progress.run.problem
    speed = "" if progress.per_s is None else f"{progress.per_s:,.0f}/s"
    left = "" if progress.eta_s is None else f" {progress.eta_s:,.0f} s left"
    return speed + left


def outcome(progress: RunProgress) -> str:
    """What became of the items, in one line."""
    parts = [f"{count:,} {WORDS[state]}" for state in RunItemState if (count := progress.counts.get(state, 0))]
    return f"s{progress.selection.number}: " + ", ".join(parts)


WORDS = {
    RunItemState.UNSENT: "not taken up",
    RunItemState.REFUSED: "refused",
    RunItemState.REPLAYED: "wait for their turn",
    RunItemState.RETRY: "wait for another try",
    RunItemState.PARKED: "wait behind another event",
    RunItemState.APPLIED: "applied",
    RunItemState.IGNORED: "of no effect",
    RunItemState.DUPLICATE: "known already",
    RunItemState.DUPLICATE_FACT: "booked already",
    RunItemState.DEAD_AGAIN: "dead again",
    RunItemState.PURGED: "purged",
    RunItemState.RESOLVED: "resolved",
}
