"""``payhook dlq select``, ``selections`` and ``proposals``."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence

import click

from cli.acting import this_account
from cli.dlq_commands import with_filter
from cli.dlq_watch import SELECTION, WORDS, ItemOrSelection, describe_outcome, open_letters, part_of_selection
from cli.place import Place, with_place_of_stream
from cli.tables import PrintedTable
from console.dead_letters import StreamDeadLetters
from console.formats import format_money
from console.selection_words import ProgressView, SelectedItem, SelectionsView, SelectionView
from dead_letters.item import ItemState
from dead_letters.listing import Filter
from operations.frozen import Selection
from operations.selection.model import KeptSelection, RunItemState, SelectionEmpty

SHOWN_MAX = 100
ITEMS_JSON_MAX = 1_000


@click.command()
@with_filter
@click.option("--note", default="", help="Shown in the list of selections.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
@with_place_of_stream
def select(place: Place, wanted: Filter, note: str, as_json: bool) -> None:
    """Freeze the dead events that match as a numbered set. Exactly these, as they are now, are what is run.

    With --state ignored: events that no handler took, to be replayed now that one knows their type. With --state
    unknown: events of which no table said what they mean, to be replayed, or closed (discard, resolve).

    Each shard has sets of its own: one is made of each that has something that matches.
    """
    if wanted.states not in ((ItemState.OPEN,), (ItemState.IGNORED,), (ItemState.UNKNOWN,)):
        raise click.UsageError(
            "events of this state can't be selected: leave --state out (dead), or use --state ignored or unknown"
        )
    for part, selection in _freeze_parts(place, wanted, note):
        if as_json:
            click.echo(SelectionView.from_object(KeptSelection(selection, None)).model_dump_json(indent=1))
            continue
        where = f" of {selection.stream}" if place.has_several else ""
        click.echo(f"frozen as {selection.name}{where}: {selection.count:,} items{_format_amounts(selection)}")
        click.echo(f"payhook dlq replay {selection.name} --dry-run{part.options_again}   says what a replay would do")


def _freeze_parts(place: Place, wanted: Filter, note: str) -> Iterator[tuple[Place, Selection]]:
    empty, has_made = None, False
    for part in place.stream_parts.values():
        try:
            selection = open_letters(part).selections.freeze(wanted, this_account(), note)
        except SelectionEmpty as nothing:
            empty = nothing
        else:
            has_made = True
            yield part, selection
    if empty is not None and not has_made:
        raise empty


@click.command()
@click.argument("number", metavar="[SELECTION]", type=SELECTION, required=False)
@click.option("--state", "states", multiple=True, type=click.Choice([state.value for state in RunItemState]))
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
@with_place_of_stream
def selections(place: Place, number: ItemOrSelection | None, states: tuple[str, ...], as_json: bool) -> None:
    """List the frozen sets, the newest first; or show one with what became of its items."""
    if number is not None:
        dead = open_letters(part_of_selection(place, number))
        _show(dead, number.number, [RunItemState(state) for state in states] or None, as_json)
        return
    kept = [
        selection for part in place.stream_parts.values() for selection in open_letters(part).selections.list_kept()
    ]
    if place.has_several:
        kept.sort(key=lambda pair: pair.selection.frozen_at, reverse=True)
    _print(place, kept, as_json, "no selections yet")


@click.command()
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
@with_place_of_stream
def proposals(place: Place, as_json: bool) -> None:
    """List runs that wait for approval, oldest first."""
    waiting = [
        proposal for part in place.stream_parts.values() for proposal in open_letters(part).selections.proposals()
    ]
    if place.has_several:
        waiting.sort(key=lambda proposal: proposal.selection.frozen_at)
    _print(place, waiting, as_json, "no runs wait for approval")


def _print(place: Place, kept: Sequence[KeptSelection], as_json: bool, nothing: str) -> None:
    if as_json:
        shown = SelectionsView(selections=list(map(SelectionView.from_object, kept)), next=None)
        click.echo(_with_streams(shown, kept) if place.has_several else shown.model_dump_json(indent=1))
    elif not kept:
        click.echo(nothing)
    else:
        rows = PrintedTable("", "frozen", "who", "items", "note", "run", "by", "state", right=["items"])
        for selection in kept:
            run = selection.run
            reported = (run.run.action, run.actor, "finished" if run.finished_at else run.state.value) if run else ()
            frozen = selection.selection
            rows.add(
                f"{frozen.stream}:{frozen.name}" if place.has_several else frozen.name,
                f"{frozen.frozen_at:%Y-%m-%d %H:%M}",
                frozen.actor,
                f"{frozen.count:,}",
                frozen.note,
                *reported,
            )
        rows.print()


def _with_streams(shown: SelectionsView, kept: Sequence[KeptSelection]) -> str:
    tree = shown.model_dump(mode="json")
    for selection, view in zip(kept, tree["selections"], strict=True):
        view["stream"] = selection.selection.stream
    return json.dumps(tree, indent=1)


def _show(dead: StreamDeadLetters, number: int, states: Sequence[RunItemState] | None, as_json: bool) -> None:
    kept = dead.selections.get(number)
    progress = None if kept.run is None else dead.selections.progress(number)
    items = dead.selections.items(number, states, limit=ITEMS_JSON_MAX if as_json else SHOWN_MAX)
    if as_json:
        reported = SelectionView.from_object(kept) if progress is None else ProgressView.from_object(progress)
        tree = reported.model_dump(mode="json") | {
            "items": [SelectedItem.from_object(item).model_dump(mode="json") for item in items]
        }
        click.echo(json.dumps(tree, indent=1))
        return
    selection = kept.selection
    click.echo(f"{selection.name}: {selection.count:,} items{_format_amounts(selection)}, frozen by {selection.actor}")
    click.echo(f"filter {selection.filter}, digest {selection.digest}")
    if progress is not None:
        click.echo(
            f"{progress.run.run.action} by {progress.run.actor}, {progress.run.state.value}: {progress.run.run.reason}"
        )
        click.echo(describe_outcome(progress) + (f" ({progress.run.problem})" if progress.run.problem else ""))
    rows = PrintedTable("ID", "row", "state", "why", right=["ID", "row"])
    for item in items:
        rows.add(item.target.item_seq, item.row_seq or item.target.seen_seq, WORDS[item.state], item.reason)
    rows.print()
    if len(items) == SHOWN_MAX:
        click.echo(f"the first {SHOWN_MAX}; --state narrows them, --json shows {ITEMS_JSON_MAX:,}")


def _format_amounts(selection: Selection) -> str:
    parts = [format_money(minor, currency) for currency, minor in sorted(selection.amounts.items())]
    if selection.unknown_amounts:
        parts.append(f"{selection.unknown_amounts:,} without a known amount")
    return f" ({', '.join(parts)})" if parts else ""
