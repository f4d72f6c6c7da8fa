"""A stream's dead letters as the command line opens them, and a run that it watches until it ends."""

from __future__ import annotations

import re
import time
from collections.abc import Callable

import click
from rich.console import Console
from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeElapsedColumn

from cli.acting import producer
from cli.place import Place
from console.dead_letters import DeadLetters
from core.clock import SystemClock
from core.event import Mode
from core.routing import mode_of
from dlq.selection import Progress as RunProgress
from dlq.selection import RunItemState, RunState, Selections
from stack.services.dead_letters import open_dead_letters

_NAME = re.compile(r"[sS]([1-9][0-9]{0,11})")


class SelectionName(click.ParamType[int]):
    """``s3``: with its letter, which tells it from an item."""

    name = "selection"

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> int:
        number = number_of(str(value))
        if number is None:
            self.fail(f"{value!r} is no selection: they are s1, s2, …; `payhook dlq selections` lists them", param, ctx)
        return number


SELECTION = SelectionName()


def number_of(text: str) -> int | None:
    """3 of ``s3``; None: it is no selection's name."""
    found = _NAME.fullmatch(text)
    return int(found[1]) if found else None


def opened(place: Place) -> DeadLetters:
    """Of the stream that is looked at."""
    return open_dead_letters(place.settings, place.looked_at.stream, SystemClock(), "cli", lambda: producer(place))


def options_again(place: Place) -> str:
    """The options that lead to the same stream again, for a command that is told."""
    mode: Mode = mode_of(place.looked_at.stream)
    stream = "" if place.stream == "ledger" else f" --stream {place.stream}"
    return stream + (" --test" if mode == "test" else "")


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
        TextColumn("{task.fields[reported]}"),
        console=Console(stderr=True),
        transient=True,
    )
    progress = selections.progress(number)
    try:
        with bar:
            task = bar.add_task(f"s{number}", total=progress.selection.count, reported="")
            while not progress.finished and progress.run.state not in STOPS:
                bar.update(task, completed=progress.ended, reported=_reported(progress))
                sleep(LOOK_S)
                progress = selections.progress(number)
    except KeyboardInterrupt:
        click.echo(f"s{number} goes on without you; `payhook dlq pause s{number}` holds it", err=True)
    return progress


def _reported(progress: RunProgress) -> str:
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
