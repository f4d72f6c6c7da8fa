"""``payhook dlq replay``, ``discard``, ``release``, ``resolve``, ``pause``, ``resume``, ``cancel``."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from typing import NamedTuple

import click

from cli.acting import open_orders, this_account
from cli.dlq_topic import TOPIC, bring_back
from cli.dlq_watch import (
    SELECTION,
    ItemOrSelection,
    describe_outcome,
    open_letters,
    page_of_selection,
    part_of_item,
    part_of_selection,
    read_name,
    watch,
)
from cli.place import KEPT_TEXT, Place, with_place_of_stream
from cli.tables import PrintedTable
from console.dead_letters import StreamDeadLetters
from console.selection_words import DryRunView, ProgressView, RunView
from core.clock import SystemClock
from core.routing import topics_of
from dead_letters.listing import Filter
from operations.command import PURGE, RELEASE, RESOLVE, ReplayMode, new_command_id
from operations.frozen import RunState
from operations.orders import DeltaView, OperatorOrder, OrderedItem, OrderService
from operations.selection.model import RunRequest

REASON = "replay from the command line"
FORECASTS_SHOWN = 50
WAIT = click.option("--wait/--no-wait", default=True, help="Watch until it ends (Ctrl-C leaves it running).")
PROPOSE = click.option("--propose", is_flag=True, help="Ask for another admin's approval, even below the limits.")
JSON = click.option("--json", "as_json", is_flag=True, help="Print JSON.")


@click.command()
@click.argument("what", metavar="SELECTION|ID…", nargs=-1, required=True)
@click.option("--dry-run", is_flag=True, help="Forecast the outcome of each item, and send nothing.")
@click.option(
    "--mode",
    type=click.Choice([mode.value for mode in ReplayMode]),
    default=ReplayMode.ALONE.value,
    show_default=True,
    help="with_followers: all dead items of an entity from its first on, in order.",
)
@click.option("--rate", "per_s", type=float, help="Items a second (default: as fast as live traffic allows).")
@click.option("--force", is_flag=True, help="Replay items even after dlq.replays_max failed replays (default 5).")
@PROPOSE
@click.option("--reason", type=KEPT_TEXT, default=REASON, show_default=True, help="The reason, kept with the decision.")
@TOPIC
@WAIT
@JSON
@with_place_of_stream
def replay(
    place: Place,
    what: tuple[str, ...],
    dry_run: bool,
    mode: str,
    per_s: float | None,
    force: bool,
    propose: bool,
    reason: str,
    topic: str | None,
    wait: bool,
    as_json: bool,
) -> None:
    """Try dead events again: a selection (s3), or single ones by their ID. Each takes its old place where it can.

    A selection runs once, as it was frozen: an event to which anything happened since is refused. An ID means the
    event as it is now, whatever you saw before. The processor carries a selection's run out: this command watches.
    Beyond the stream's limits of a day (dlq.alone_replay_items_max, dlq.alone_replay_amounts_minor_max) another admin
    must approve it first.

    With --topic, letters of another program's dead-letter topic, by their ID as `list --topic` shows it: each is
    published again at the end of the partition that its headers name. Sending it twice publishes it twice.
    """
    if topic is not None:
        bring_back(place, topic, what, reason, dry_run=dry_run)
        return
    run = RunRequest("replay", reason, ReplayMode(mode), per_s, force, propose)
    meant = _read_targets(place, what)
    if meant[0].selection is None and run == RunRequest("replay", reason) and not dry_run:
        _replay_now(meant, reason, as_json)
        return
    for part, dead, chosen in _choose_selections(meant, reason):
        if dry_run:
            _dry_run(dead, chosen, run, as_json)
        else:
            run_selection(part, dead, chosen, run, wait=wait, as_json=as_json)


LIMITS = (
    "Beyond the stream's limits (dlq.alone_items_max, dlq.alone_amounts_minor_max) another admin must approve it first."
)


def _make_closing_command(
    name: str, action: str, help_text: str, reason_help: str, approved: str = LIMITS
) -> click.Command:
    @click.command(name, help=f"{help_text}\n\n{approved}")
    @click.argument("what", metavar="SELECTION|ID…", nargs=-1, required=True)
    @click.option("--reason", type=KEPT_TEXT, required=True, help=reason_help)
    @PROPOSE
    @WAIT
    @JSON
    @with_place_of_stream
    def close(place: Place, what: tuple[str, ...], reason: str, propose: bool, wait: bool, as_json: bool) -> None:
        for part, dead, chosen in _choose_selections(_read_targets(place, what), reason):
            run_selection(part, dead, chosen, RunRequest(action, reason, propose=propose), wait=wait, as_json=as_json)

    return close


discard, purge = (
    _make_closing_command(
        name,
        PURGE,
        "Close dead events for good: none of them takes effect. If the provider sends one again, it is a duplicate and "
        "is never booked; `release` lets it come again.",
        "The reason, kept with each decision.",
    )
    for name in ("discard", "purge")
)
release = _make_closing_command(
    "release",
    RELEASE,
    "Discard dead events and let them come again: their keys are freed. If the provider sends one again, it is decided "
    "as a new event.",
    "The reason, kept with each decision.",
    "Another admin must always approve it first.",
)
resolve = _make_closing_command(
    "resolve",
    RESOLVE,
    "Close dead events that took effect elsewhere. If the provider sends one again, it is a duplicate.",
    "How they took effect elsewhere; kept with each decision.",
)


def _change(verb: str, help_text: str) -> click.Command:
    @click.command(verb, help=help_text)
    @click.argument("number", metavar="SELECTION", type=SELECTION)
    @JSON
    @with_place_of_stream
    def change(place: Place, number: ItemOrSelection, as_json: bool) -> None:
        part = part_of_selection(place, number)
        run = getattr(open_letters(part).runs, verb)(number.number, this_account())
        if as_json:
            click.echo(RunView.from_object(run).model_dump_json(indent=1))
        else:
            click.echo(f"s{number.number} is {run.state.value}")

    return change


pause = _change("pause", "Send no more items of a run; items already sent still finish.")
resume = _change("resume", "Continue a paused run.")
cancel = _change(
    "cancel", "Send no more items of a run, for good: the rest stays dead. This also withdraws a proposal."
)


class RunTarget(NamedTuple):
    part: Place
    selection: int | None
    items: list[int]


def _read_targets(place: Place, what: Sequence[str]) -> list[RunTarget]:
    names = {text: read_name(text) for text in what}
    if len(what) == 1 and (only := names[what[0]]) is not None and only.is_selection:
        return [RunTarget(part_of_selection(place, only), only.number, [])]
    items: dict[str, tuple[Place, list[int]]] = {}
    for text, parsed in names.items():
        if parsed is None or parsed.is_selection:
            problem = f"{text!r} is neither an item's ID nor a selection: name IDs, or one selection (s3)"
            raise click.UsageError(problem)
        part = part_of_item(place, parsed)
        items.setdefault(part.looked_at.stream, (part, []))[1].append(parsed.number)
    return [RunTarget(part, None, list(dict.fromkeys(numbers))) for part, numbers in items.values()]


def _replay_now(meant: Sequence[RunTarget], reason: str, as_json: bool) -> None:
    services = [_orders_of(target.part) for target in meant]
    commands = [
        service.build_command(
            OperatorOrder(new_command_id(), tuple(map(OrderedItem, target.items)), this_account(), reason)
        )
        for service, target in zip(services, meant, strict=True)
    ]
    for service, command, target in zip(services, commands, meant, strict=True):
        service.send(command)
        if as_json:
            click.echo(json.dumps({"command_id": command.command_id, "items": target.items}))
        else:
            show = f"payhook dlq show ID{target.part.options_again}"
            click.echo(f"sent as command {command.command_id}; `{show}` says what became of it")


def _orders_of(place: Place) -> OrderService:
    view = DeltaView(place.looked_at.journal, topics_of(place.mode).control)
    return OrderService(place.looked_at.stream, view, open_orders(place), SystemClock())


def _choose_selections(meant: Sequence[RunTarget], note: str) -> list[tuple[Place, StreamDeadLetters, int]]:
    """Returns the number of a selection for each part. Items that were named one by one are frozen as a selection.

    Those of all parts are frozen before anything is done with the first.
    """
    dead = [(target, open_letters(target.part)) for target in meant]
    return [
        (target.part, of, _freeze_items(of, target.items, note) if target.selection is None else target.selection)
        for target, of in dead
    ]


def _freeze_items(dead: StreamDeadLetters, ids: Sequence[int], note: str) -> int:
    selection = dead.selections.freeze(Filter(items=tuple(ids)), this_account(), note)
    click.echo(f"dead: {selection.count} of {len(ids)}; frozen as {selection.name}", err=True)
    return selection.number


def run_selection(
    place: Place, dead: StreamDeadLetters, number: int, run: RunRequest, *, wait: bool, as_json: bool
) -> None:
    started = dead.runs.start(number, run, this_account())
    if started.again:
        click.echo(f"{started.run.actor} already started s{number}: nothing is sent twice", err=True)
    if started.run.state is RunState.PROPOSED and not as_json:
        why = dead.runs.why_two_people(number, run, started.run.actor) or "needs approval"
        click.echo(f"{why[0].upper()}{why[1:]}.")
        page = page_of_selection(place, number)
        click.echo(f"Ask another admin to open {page} on the management listener. Nothing is done yet.")
    progress = watch(dead.selections, number, place.options_again) if wait else dead.selections.progress(number)
    if as_json:
        click.echo(ProgressView.from_object(progress).model_dump_json(indent=1))
    else:
        click.echo(describe_outcome(progress))
        if progress.run.problem:
            click.echo(progress.run.problem)


def _dry_run(dead: StreamDeadLetters, number: int, run: RunRequest, as_json: bool) -> None:
    dry_run = dead.dry_runs.make(number, dead.describe_dry_run(run))
    if as_json:
        reported = DryRunView.from_dry_run(dry_run, list(dead.dry_runs.iterate_forecasts(number)), None)
        sys.stdout.write(reported.model_dump_json(indent=1) + "\n")
        return
    for verdict, count in sorted(dry_run.counts.items(), key=lambda pair: -pair[1]):
        click.echo(f"{count:>9,}  {verdict.value.replace('_', ' ')}")
    if dry_run.followers:
        click.echo(f"{dry_run.followers:>9,}  followers would run after them")
    rows = PrintedTable("ID", "would", "followers", "why", right=["ID", "followers"])
    for forecast in dead.dry_runs.page(number, limit=FORECASTS_SHOWN):
        rows.add(
            forecast.target.item_seq, forecast.verdict.value.replace("_", " "), forecast.followers or "", forecast.why
        )
    rows.print()
    if sum(dry_run.counts.values()) > FORECASTS_SHOWN:
        click.echo(f"the first {FORECASTS_SHOWN}; --json shows all")
    click.echo(f"{dry_run.applied:,} would be applied; {dry_run.unasked:,} more would run, outcome unknown")
    if dry_run.limits:
        click.echo(dry_run.limits)
    click.echo("Nothing was sent. The processor decides each item when it is replayed.")
