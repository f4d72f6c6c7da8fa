"""``payhook recover``: where journals and what they were read from disagree, and a person's decision about it.
``payhook split``: journals are divided among more shards.
"""

from __future__ import annotations

import json
import sys
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from rich.console import Console

from cli.acting import open_recorder, this_account
from cli.place import KEPT_TEXT, Place, with_place
from cli.tables import PrintedTable
from core.clock import SystemClock, to_rfc3339

if TYPE_CHECKING:
    from stack.maintenance.recovery import StreamComparison

DISAGREES = 3
"""The exit code where something disagrees and no decision was made."""

EVENTS_SHOWN = 10


@click.command()
@click.option("--export", "file", type=click.Path(path_type=Path, dir_okay=False), help="Write what is lost to a file.")
@click.option("--accept-loss", is_flag=True, help="Record the loss in the journal and continue with what Kafka holds.")
@click.option("--reason", type=KEPT_TEXT, help="With --accept-loss: the reason, kept on record.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
@with_place
def recover(place: Place, file: Path | None, accept_loss: bool, reason: str | None, as_json: bool) -> None:
    """Say where the journals disagree with what they were read from, what is lost by it, and what --accept-loss would
    do.

    A processor decides nothing while Kafka holds another history than the journal: an older copy of its data, a topic
    that was created again, another Kafka. Nor does it while the key index, the postings or a stream that reads the
    journal know later rows than it has: an older journal was put back. First put the newest data back, if there is
    any. Else export what is lost, ask the providers to send it again, and accept.

    Runs while the stack is up, and while it is down (it starts the data folder's Kafka for a moment then). Exit 0:
    nothing disagrees, or it was accepted. Exit 3: something does.
    """
    if accept_loss and reason is None:
        raise click.UsageError("--accept-loss needs --reason")
    from stack.maintenance.recovery import (
        accept_stream_losses,
        compare_streams,
        export_losses,
        have_listed_again,
        servers_of,
    )

    clock = SystemClock()
    with servers_of(place.settings) as servers:
        looks = compare_streams(place.settings, servers)
        if file is not None:
            lines = export_losses(looks, clock, file)
            click.echo(f"{lines} lost ranges and events are written to {file}", err=True)
        disagree = [stream_look for stream_look in looks if stream_look.has_disagreement]
        if as_json:
            click.echo(json.dumps([_as_tree(stream_look) for stream_look in looks], indent=1))
        else:
            _print(looks)
        if not disagree:
            return
        if not accept_loss:
            sys.exit(DISAGREES)
        from processor.history.losses import Acceptance

        assert reason is not None
        what = ", ".join(stream_look.layout.stream for stream_look in disagree)
        with open_recorder(place).record_act(this_account(), "accept_loss", what, reason):
            accept_stream_losses(looks, Acceptance(this_account(), reason, clock.now()))
        since = have_listed_again(place.settings, looks, clock.now())
    click.echo(
        f"accepted for {what}: the next histories begin. A processor that refused to start starts within seconds.",
        err=as_json,
    )
    if since is not None:
        _say_what_lists_bring(place, since, as_json=as_json)


def _say_what_lists_bring(place: Place, since: datetime, *, as_json: bool) -> None:
    from stack.catching_up import find_unlisted_providers, sources_of

    names = ", ".join(source.name for source in sources_of(place.settings, SystemClock()))
    if names:
        click.echo(
            f"The next catch-up reads the lists of {names} from {to_rfc3339(since)} on, and adds what they still "
            "have. See /catch-up, or payhook status.",
            err=as_json,
        )
    for name, why in find_unlisted_providers(place.settings).items():
        click.echo(f"{name}: {why}. Ask it to send again what is lost.", err=as_json)


def _print(looks: list[StreamComparison]) -> None:
    console = Console(soft_wrap=True)
    for stream_look in looks:
        findings = stream_look.findings
        if not stream_look.has_disagreement:
            console.print(f"{findings.stream}: the journal agrees (last row {findings.seq:,})", highlight=False)
            continue
        console.print(f"{findings.stream}: the journal disagrees (last row {findings.seq:,})", highlight=False)
        for older in stream_look.older:
            console.print(f"  {older.problem}", highlight=False, markup=False)
        for disagreement in findings.disagreements[:EVENTS_SHOWN]:
            console.print(f"  {disagreement.to_sentence()}", highlight=False, markup=False)
        rows = PrintedTable("partition", "decided to", "Kafka holds", "part at", "decided only", "to decide", "lost")
        for parting in stream_look.list_partings():
            lost = "" if parting.lost_range is None else f"{parting.lost_range[0]:,} to {parting.lost_range[1] - 1:,}"
            rows.add(
                f"{parting.topic.rpartition('.')[2]}[{parting.partition}]",
                f"{parting.until:,}",
                f"{parting.low:,} to {parting.high:,}",
                f"{parting.begins:,}",
                f"{parting.decided_beyond:,}",
                f"{parting.to_decide:,}",
                lost,
            )
        rows.print(indent=2)
        _print_events(stream_look, console)
    if any(stream_look.has_disagreement for stream_look in looks):
        console.print("Put the newest data back, or: payhook recover --accept-loss --reason R")


def _print_events(stream_look: StreamComparison, console: Console) -> None:
    if stream_look.claims is None:
        console.print("  claims in Redis couldn't be compared: there is no index, or Redis doesn't answer")
    elif stream_look.claims:
        console.print(
            f"  at least {len(stream_look.claims):,} events that Redis knows as published are lost", highlight=False
        )
    if not stream_look.events:
        console.print("  every receipt has its decision or its record (lost receipts can't be checked)")
        return
    console.print(f"  at least {len(stream_look.events):,} events were answered 2xx and are lost:", highlight=False)
    for event in stream_look.events[:EVENTS_SHOWN]:
        console.print(f"    {event.event_key}", highlight=False, markup=False)
    if len(stream_look.events) > EVENTS_SHOWN:
        console.print("    … --export FILE writes all of them")


_PARTITION = ("topic", "partition", "until", "low", "high", "begins", "decided_beyond", "to_decide")


def _as_tree(stream_look: StreamComparison) -> dict[str, Any]:
    findings = stream_look.findings
    return {
        "stream": findings.stream,
        "seq": findings.seq,
        "agrees": not stream_look.has_disagreement,
        "older": [{"what": each.what, "seq": each.seq, "last_seq": each.last_seq} for each in stream_look.older],
        "disagreements": [
            {
                "kind": each.kind.value,
                "topic": each.topic,
                "partition": each.partition,
                "offset": each.offset,
                "seq": each.seq or None,
            }
            for each in findings.disagreements
        ],
        "partitions": [
            {name: getattr(each, name) for name in _PARTITION} | {"lost": each.lost_range}
            for each in stream_look.list_partings()
        ],
        "lost_events": [event.event_key for event in stream_look.events],
        "lost_claims": None if stream_look.claims is None else [digest.hex() for digest in stream_look.claims],
    }


@click.command()
@click.argument("shards", type=click.IntRange(min=2))
@click.option("--reason", type=KEPT_TEXT, required=True, help="The reason, kept on record.")
@with_place
def split(place: Place, shards: int, reason: str) -> None:
    """Divide the journals of what receivers publish among SHARDS processors, a multiple of those there are.

    Stop the processors first; receivers keep running. Then split, set processor.shards to SHARDS everywhere, and start
    a processor a shard. After an interruption run it again: until it is done no processor starts. There is no way
    back to fewer: several shards may run on one machine. See docs/scaling.md.
    """
    from stack.maintenance.split import split as divide

    with open_recorder(place).record_act(this_account(), "split", f"among {shards} shards", reason):
        divided = divide(place.settings, shards, SystemClock())
    for part in divided:
        click.echo(f"{part.stream}: {part.before} → {shards} shards")
        for journal, seq in part.journals.items():
            click.echo(f"  {journal}: continues after row {seq:,}")
    if not divided:
        click.echo(f"nothing to divide: there is no journal, or it is divided among {shards} shards already")
    click.echo(f"Now set processor.shards to {shards} for every service, and start the processors.")
