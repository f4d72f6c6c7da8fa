"""``payhook up``, ``down``, ``demo`` and ``package``. Each imports what it alone needs when it runs."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import click
from rich.console import Console

from cli.place import Place, with_place
from cli.tables import print_details
from stack.endpoints import Endpoints
from stack.machine import STATE
from stack.package import make_package

STOPPED_EXIT = 3


@click.command()
@click.option("--detach", is_flag=True, help="Return once everything answers; `payhook down` stops it.")
@with_place
def up(place: Place, detach: bool) -> None:
    """Start Kafka, Redis, the receiver and the processor on loopback.

    Everything it keeps is under the data folder: the journal, Kafka's logs, secrets (DIR/secrets/PROVIDER, made at
    random the first time), merchants.toml, logs (DIR/run/logs) and endpoints.json, which says where all of it
    answers. A process that dies is started again. Without --detach it stays in the foreground until Ctrl-C.

    Exit 3 with --detach: everything runs but a work stream, and the reason is printed. One that is off doesn't count.
    """
    from stack.supervisor import ChildState
    from stack.up import go_up, stay_up

    console = Console(stderr=True)
    with console.status("starting") as progress:

        def show(name: str, state: ChildState) -> None:
            if state is ChildState.STARTING:
                progress.update(f"starting {name}")
            elif state is ChildState.BACKING_OFF:
                console.print(f"{name} ended and is started again, see {place.layout.logs_folder / name}.log")

        if detach:
            endpoints = go_up(place.settings, place.config, show)
            progress.stop()
            _print_endpoints(place, endpoints)
            _print_sign_in(place)
            _exit_if_stopped(place)
            return

        def is_up() -> None:
            progress.stop()
            _print_endpoints(place, place.endpoints())
            _print_sign_in(place)
            console.print("Ctrl-C stops everything.")

        stay_up(place.settings, place.config, is_up, show)


def _exit_if_stopped(place: Place) -> None:
    from stack.watching import await_streams

    stopped = await_streams(place.settings)
    for stream, why in stopped.items():
        click.echo(f"{stream} is stopped: {why}", err=True)
    if stopped:
        click.echo("webhooks are accepted and wait in Kafka; look these words up in docs/runbook.md", err=True)
        sys.exit(STOPPED_EXIT)


@click.command()
@with_place
def down(place: Place) -> None:
    """Stop everything that `payhook up` started, in order. The data stays."""
    from stack.up import go_down

    click.echo("stopped" if go_down(place.settings.data_dir) else "nothing was running")


@click.command()
@click.option(
    "--data",
    type=click.Path(path_type=Path, file_okay=False),
    default=STATE / "demo",
    help="Data folder of the demo (default: .payhook/demo): a new one, or an earlier demo's, which is emptied first.",
)
def demo(data: Path) -> None:
    """Run the story: signed webhooks with every kind of trouble, a kill -9, and the proof at the end."""
    from load.demo.story import run
    from load.scratch import NotScratch

    try:
        sys.exit(run(data.absolute()))
    except NotScratch as refused:
        raise click.ClickException(str(refused)) from refused


@click.command()
@with_place
def package(place: Place) -> None:
    """Pack the code for executors on other machines, and print where the archive is.

    A processor whose master isn't local does so itself at its start, if the archive isn't there yet.
    """
    archive = make_package(place.settings.layout.package)
    click.echo(f"{archive} ({archive.stat().st_size >> 20} MiB)")


def _print_endpoints(place: Place, endpoints: Endpoints) -> None:
    from stack.up import taken_ports

    details = [
        ("post webhooks to", f"{endpoints.ingest}/webhooks/PROVIDER"),
        ("management", f"{endpoints.ops}/"),
        ("Kafka", endpoints.kafka),
        ("Redis", re.sub(r":[^:@/]*@", "@", endpoints.redis)),
        ("journal", endpoints.journal),
        ("test journal", endpoints.test_journal or None),
    ]
    print_details(details)
    for name, (usual, actual) in taken_ports(place.settings, endpoints).items():
        click.echo(f"port {usual} was taken: {name} is on {actual}, and stays there after a restart", err=True)


def _print_sign_in(place: Place) -> None:
    from console.access.users import Users

    if not Users(place.layout.users).read_accounts():
        click.echo("the management pages have no user yet: payhook users add NAME --role admin", err=True)
