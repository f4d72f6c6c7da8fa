"""A stream's dead letters as the command line opens them, how items and selections are named, and a run that it
watches until it ends.

Where several journals are looked at, a name says which one: ``ledger.1:42`` is an item, ``ledger.1:s3`` a selection.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import click
from rich.console import Console
from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeElapsedColumn

from cli.acting import open_order_producer
from cli.place import Place
from console.dead_letters import StreamDeadLetters
from core.clock import SystemClock
from core.errors import PayhookError
from core.layout import LEDGER
from core.routing import topics_of
from dead_letters.joined import name_in
from dead_letters.story import ItemUnknown
from operations.command import SEQ_MAX
from operations.frozen import RunState
from operations.orders import DeltaView
from operations.selection.model import ProgressReport as RunProgress
from operations.selection.model import RunItemState
from operations.selection.selections import Selections
from stack.services.dead_letters import open_dead_letters

_NAME = re.compile(r"(?:([^\s:]{1,60}):)?([sS]?)([1-9][0-9]{0,17})")


class ItemOrSelection(NamedTuple):
    """Names an item or a selection. ``stream``: its journal's; None: it isn't said."""

    stream: str | None
    number: int
    is_selection: bool


def read_name(text: str) -> ItemOrSelection | None:
    """Reads ``42``, ``s3``, ``ledger.1:42``; None: it is no name."""
    match = _NAME.fullmatch(text)
    return ItemOrSelection(match[1], int(match[3]), bool(match[2])) if match else None


class SelectionName(click.ParamType[ItemOrSelection]):
    name = "selection"

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> ItemOrSelection:
        parsed = read_name(str(value))
        if parsed is None or not parsed.is_selection:
            self.fail(f"{value!r} isn't a selection (s1, s2, …): `payhook dlq selections` lists them", param, ctx)
        return parsed


class ItemName(click.ParamType[ItemOrSelection]):
    name = "item"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> ItemOrSelection:
        parsed = read_name(str(value))
        if parsed is None or parsed.is_selection:
            return ItemOrSelection(None, click.IntRange(1, SEQ_MAX).convert(value, param, ctx), False)
        return parsed


SELECTION, ITEM = SelectionName(), ItemName()


class ItemInSeveral(PayhookError):
    def __init__(self, number: int, streams: Sequence[str]) -> None:
        self.number = number
        self.streams = tuple(streams)
        names = " or ".join(name_in(stream, number) for stream in streams)
        super().__init__(f"several shards have an item {number}: name it {names}")


def part_of_item(place: Place, named: ItemOrSelection) -> Place:
    if named.stream is not None:
        return place.find_part(named.stream)
    if not place.has_several:
        return place
    control = topics_of(place.mode).control
    having = {
        name: part
        for name, part in place.stream_parts.items()
        if DeltaView(part.looked_at.journal, control).last_rows([named.number])
    }
    if not having:
        raise ItemUnknown(named.number)
    if len(having) > 1:
        raise ItemInSeveral(named.number, list(having))
    return next(iter(having.values()))


def part_of_selection(place: Place, named: ItemOrSelection) -> Place:
    """Finds the part whose journal a selection is of.

    :raises click.UsageError: each journal has selections of its own, and none is named
    """
    if named.stream is not None:
        return place.find_part(named.stream)
    if place.has_several:
        names = " or ".join(f"{name}:s{named.number}" for name in place.stream_parts)
        raise click.UsageError(f"each shard has selections of its own: name {names}")
    return place


def open_letters(place: Place) -> StreamDeadLetters:
    return open_dead_letters(
        place.settings, place.looked_at.stream, SystemClock(), "cli", lambda: open_order_producer(place)
    )


def page_of_selection(place: Place, number: int) -> str:
    stream = place.looked_at.stream
    return f"/dlq/selections/{number}" + ("" if stream == LEDGER else f"?stream={stream}")


LOOK_S = 0.5
STOPS = frozenset({RunState.PROPOSED, RunState.PAUSED})


def watch(
    selections: Selections, number: int, again: str = "", sleep: Callable[[float], None] = time.sleep
) -> RunProgress:
    """Watches until the run is finished, paused, or waits for a second person. Ctrl-C leaves it running.

    ``again``: `Place.options_again`.
    """
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
                bar.update(task, completed=progress.ended, reported=_describe_speed(progress))
                sleep(LOOK_S)
                progress = selections.progress(number)
    except KeyboardInterrupt:
        click.echo(f"s{number} keeps running; stop it with `payhook dlq pause s{number}{again}`", err=True)
    return progress


def _describe_speed(progress: RunProgress) -> str:
    if progress.run.problem:
        return progress.run.problem
    speed = "" if progress.per_s is None else f"{progress.per_s:,.0f}/s"
    time_left = "" if progress.eta_s is None else f" {progress.eta_s:,.0f} s left"
    return speed + time_left


def describe_outcome(progress: RunProgress) -> str:
    parts = [f"{count:,} {WORDS[state]}" for state in RunItemState if (count := progress.counts.get(state, 0))]
    return f"s{progress.selection.number}: " + ", ".join(parts)


WORDS = {
    RunItemState.UNSENT: "not sent",
    RunItemState.REFUSED: "refused",
    RunItemState.REPLAYED: "waiting for their turn",
    RunItemState.RETRY: "waiting for a retry",
    RunItemState.PARKED: "parked behind another event or a failing downstream",
    RunItemState.APPLIED: "applied",
    RunItemState.IGNORED: "ignored",
    RunItemState.UNKNOWN: "unknown to the handler",
    RunItemState.DUPLICATE: "duplicates",
    RunItemState.DUPLICATE_FACT: "already booked",
    RunItemState.DEAD_AGAIN: "dead again",
    RunItemState.PURGED: "purged",
    RunItemState.RELEASED: "released",
    RunItemState.RESOLVED: "resolved",
}
