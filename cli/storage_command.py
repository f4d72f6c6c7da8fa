"""``payhook storage``: where the lake is, and whether that place can hold one."""

from __future__ import annotations

import json
import sys

import click

from cli.place import Place, with_place


@click.command()
@click.option("--json", "as_json", is_flag=True, help="Print the result as JSON.")
@with_place
def storage(place: Place, as_json: bool) -> None:
    """Tell where the lake is, and try whether that place gives each name to one writer only.

    Four writers race for fifty names in a folder of their own, which is gone afterwards. Every commit rests on one of
    them getting it: do this once before payments go to another store or mount. Exit 1 where a name went to two.
    """
    # Its libraries take a third of a second to load; few commands need them.
    from journal.storage import race

    lake = place.layout.lake
    try:
        found = race(lake)
    except OSError as failed:
        click.echo(f"payhook: {lake} can't be used: {failed}", err=True)
        sys.exit(1)
    if as_json:
        told = {"lake": str(lake), "ok": found.holds, "won": found.winners, "twice": found.twice}
        click.echo(json.dumps({**told, "nobody": found.nobody}))
    elif found.holds:
        won = ", ".join(map(str, found.winners))
        click.echo(f"{lake}: each of {sum(found.winners)} names went to one of four writers ({won})")
    else:
        problem = f"{found.twice} names went to two writers, {found.nobody} to nobody"
        click.echo(f"{lake}: {problem}. Don't keep a lake there: commits would be lost.", err=True)
    sys.exit(0 if found.holds else 1)
