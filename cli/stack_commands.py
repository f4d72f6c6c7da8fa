"""``payhook up``, ``down``, ``status`` and ``demo``. Each imports what it alone needs when it runs."""

from __future__ import annotations

import json
import re
import sys
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any

import click
from rich.console import Console
from rich.table import Table

from cli.catching_up import catching_up
from cli.downstreams import held_back
from cli.place import Place, with_place, with_place_of_mode
from cli.tables import row
from core.clock import SystemClock
from core.routing import stream_of
from core.status_file import read_said
from stack.endpoints import Endpoints, read_endpoints
from stack.paths import STATE

ASK_TIMEOUT_S = 10.0
REFUSED_EXIT = 3
PROCESSOR_FIGURES = {
    "epoch": "epoch",
    "seq": "decisions",
    "open": "open events",
    "dead": "dead events",
    "blocked": "blocked",
}
"""What of the processor's status is shown to people, and how it is called; --json has all of it."""
NO_TEST_TRAFFIC: dict[str, Any] = {"ready": False, "problem": "no test traffic is taken: ingest.test_traffic is off"}


@click.command()
@click.option("--detach", is_flag=True, help="Return once everything answers; `payhook down` stops it.")
@with_place
def up(place: Place, detach: bool) -> None:
    """Start Kafka, Redis, the receiver and the processor on loopback.

    Everything it keeps is under the data folder: the journal, Kafka's logs, secrets (DIR/secrets/PROVIDER, made at
    random the first time), merchants.toml, logs (DIR/run/logs) and endpoints.json, which says where all of it
    answers. A process that dies is started again. Without --detach it stays in the foreground until Ctrl-C.
    """
    from stack.supervisor import State
    from stack.up import go_up, stay_up

    console = Console(stderr=True)
    with console.status("starting") as progress:

        def show(name: str, state: State) -> None:
            if state is State.STARTING:
                progress.update(f"starting {name}")
            elif state is State.BACKING_OFF:
                console.print(f"{name} ended and is started again, see {place.layout.logs / name}.log")

        if detach:
            endpoints = go_up(place.settings, place.config, show)
            progress.stop()
            _print_endpoints(endpoints)
            _print_sign_in(place)
            _exit_if_refused(place)
            return

        def is_up() -> None:
            progress.stop()
            _print_endpoints(place.endpoints())
            _print_sign_in(place)
            console.print("Ctrl-C stops everything.")

        stay_up(place.settings, place.config, is_up, show)


def _exit_if_refused(place: Place) -> None:
    """Exit 3 where a stream decides nothing until a person does; the stack runs, and webhooks are taken."""
    from stack.children import REFUSED
    from stack.settings import streams_of

    layout, modes = place.layout, place.settings.ingest.modes
    streams = [stream_of(name, mode) for mode in modes for name in streams_of(place.settings)]
    said = {stream: read_said(layout.stream(stream).status) or {} for stream in streams}
    refused = {stream: str(one.get("why")) for stream, one in said.items() if one.get("state") == REFUSED}
    for stream, why in refused.items():
        click.echo(f"{stream} decides nothing: {why}", err=True)
    if refused:
        sys.exit(REFUSED_EXIT)


@click.command()
@with_place
def down(place: Place) -> None:
    """Stop everything that `payhook up` started, in order. The data stays."""
    from stack.up import go_down

    click.echo("stopped" if go_down(place.settings.data_dir) else "nothing was running")


@click.command()
@click.option("--entity", metavar="KEY", help="Show what waits of one payment instead, and why: stripe:acct_1:pi_1.")
@click.option("--stream", default="ledger", show_default=True, metavar="NAME", help="With --entity: the work stream.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
@with_place_of_mode
def status(place: Place, entity: str | None, stream: str, as_json: bool) -> None:
    """Show whether webhooks get all the way, and how far behind the processor is. Exit 1 if they don't.

    With --test: whether test traffic does. With --entity: that entity's open events in Kafka's order, each with its
    attempt, when it is due, and its reason; read from the stream's index, whether the processor runs or not.
    """
    if entity is not None:
        _print_entity(place, stream, entity, as_json=as_json)
        return
    endpoints = read_endpoints(place.settings.data_dir)
    said: dict[str, Any] = {"up": endpoints is not None, "ready": False}
    if endpoints is not None:
        said |= {"endpoints": _as_dict(endpoints), **_ask(endpoints.ops)}
    side = said if place.mode == "live" else said.get("test", NO_TEST_TRAFFIC)
    if as_json:
        click.echo(json.dumps(said, indent=2))
    else:
        _print_status(said, side)
    sys.exit(0 if side["ready"] else 1)


@click.command()
@click.option(
    "--data",
    type=click.Path(path_type=Path, file_okay=False),
    default=STATE / "demo",
    help="Data folder of the demo (default: .payhook/demo). It is emptied first.",
)
def demo(data: Path) -> None:
    """Run the story: 500 signed webhooks with every kind of trouble, a kill -9, and the proof at the end."""
    from load.demo.story import run

    sys.exit(run(data.absolute()))


def _print_entity(place: Place, stream: str, entity: str, *, as_json: bool) -> None:
    from cli.entity_status import print_entity
    from journal.entity_queue import read_entity

    name = stream_of(stream, place.mode)
    queue = read_entity(place.layout.stream(name).index, entity)
    print_entity(name, queue, SystemClock().now(), as_json=as_json)


def _ask(ops: str) -> dict[str, Any]:
    try:
        with urllib.request.urlopen(f"{ops}/status", timeout=ASK_TIMEOUT_S) as answer:  # noqa: S310 - our own listener
            read: dict[str, Any] = json.loads(answer.read())
    except (OSError, urllib.error.URLError, ValueError) as failed:
        return {"ready": False, "problem": f"the management listener doesn't answer: {failed}"}
    return read


def _as_dict(endpoints: Endpoints) -> dict[str, Any]:
    return {
        "ingest": endpoints.ingest,
        "ops": endpoints.ops,
        "kafka": endpoints.kafka,
        "redis": endpoints.redis,
        "journal": endpoints.journal,
        "pids": dict(endpoints.pids),
        **({"test_journal": endpoints.test_journal} if endpoints.test_journal else {}),
    }


def _print_endpoints(endpoints: Endpoints) -> None:
    table = Table(show_header=False, box=None, pad_edge=False)
    row(table, "post webhooks to", f"{endpoints.ingest}/webhooks/PROVIDER")
    row(table, "management", f"{endpoints.ops}/")
    row(table, "Kafka", endpoints.kafka)
    row(table, "Redis", re.sub(r":[^:@/]*@", "@", endpoints.redis))
    row(table, "journal", endpoints.journal)
    if endpoints.test_journal:
        row(table, "test journal", endpoints.test_journal)
    Console(soft_wrap=True).print(table)


def _print_sign_in(place: Place) -> None:
    """There is no user and no password until somebody makes one."""
    from console.access import Users

    if not Users(place.layout.users).all():
        click.echo("nobody can sign in at the management pages yet: payhook users add NAME --role admin", err=True)


def _print_status(said: dict[str, Any], side: dict[str, Any]) -> None:
    """``side`` is what is said of live traffic, or of test traffic."""
    if not said["up"]:
        click.echo("not running: `payhook up --detach` starts it")
        return
    processor, lag = side.get("processor", {}), side.get("lag")
    table = Table(show_header=False, box=None, pad_edge=False)
    row(table, "ready", "yes" if side["ready"] else "no")
    row(table, "receiver", "ready" if said.get("ingest", {}).get("ready") else "not ready")
    row(table, "processor", "ready" if processor.get("ready") else "not ready")
    for name, shown in PROCESSOR_FIGURES.items():
        if processor.get(name) is not None:
            row(table, shown, processor[name])
    if lag is not None:
        row(table, "undecided", ", ".join(f"{topic} {count}" for topic, count in lag.items()))
    for what, words in catching_up(processor.get("catch_up", {})):
        row(table, what, words)
    if processor.get("by_range"):
        gone = "Kafka no longer holds the last decided record of"
        row(table, "compared by id and range", f"{gone} {', '.join(processor['by_range'])}")
    for name, stream in said.get("streams", {}).items():
        row(table, f"stream {name}", _stream_told(stream))
    for what, words in held_back([processor, *said.get("streams", {}).values()]):
        row(table, what, words)
    if side is said and "test" in said:
        row(table, "test traffic", "ready" if said["test"]["ready"] else "not ready")
    row(table, "pids", ", ".join(f"{name} {pid}" for name, pid in said["endpoints"]["pids"].items()))
    if problem := side.get("problem", said.get("problem")):
        row(table, "problem", problem)
    Console(soft_wrap=True).print(table)


def _stream_told(stream: dict[str, Any]) -> str:
    """One work stream in a line: where it stands, and why if it doesn't run."""
    ready, state = stream.get("ready"), str(stream.get("state", "not started"))
    why = stream.get("why") or stream.get("blocked") or (None if ready else stream.get("last_failure"))
    told = "not ready" if state == "running" and not ready else state
    restarts = stream.get("restarts", 0)
    return told + (f" ({why})" if why else "") + (f", begun again {restarts} times" if restarts else "")
