"""``payhook split``: divides the journals among more shards."""

from __future__ import annotations

import click

from cli.acting import on_record
from cli.place import KEPT_TEXT, Place, with_place
from core.clock import SystemClock


@click.command()
@click.argument("shards", type=click.IntRange(min=2))
@click.option("--reason", type=KEPT_TEXT, required=True, help="Why; a person reads it years later.")
@with_place
def split(place: Place, shards: int, reason: str) -> None:
    """Divide the journals of what receivers publish among SHARDS processors, a multiple of those there are.

    Stop the processors first; receivers go on. Then split, set processor.shards to SHARDS for every service, and start
    a processor a shard. Interrupted, the same command goes on; until it is done no processor starts. There is no way
    back to fewer: several shards may run on one machine. See docs/scaling.md.
    """
    from stack.split import split as divide

    with on_record(place, "split", f"among {shards} shards", reason):
        divided = divide(place.settings, shards, SystemClock())
    for one in divided:
        click.echo(f"{one.stream}: {one.before} → {shards} shards")
        for journal, seq in one.journals.items():
            click.echo(f"  {journal}: goes on after row {seq:,}")
    if not divided:
        click.echo(f"nothing to divide: there is no journal, or it is divided among {shards} shards already")
    click.echo(f"Now set processor.shards to {shards} for every service, and start the processors.")
