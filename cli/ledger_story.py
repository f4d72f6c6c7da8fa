"""``payhook ledger event`` and ``payhook ledger entity``: what became of one event, or of one payment's events."""

from __future__ import annotations

import sys

import click

from cli.place import Place, with_place_of_mode


@click.command()
@click.argument("keys", nargs=-1, required=True, metavar="KEY…")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
@with_place_of_mode
def event(place: Place, keys: tuple[str, ...], as_json: bool) -> None:
    """Tell an event's whole story: what was answered, what was received and where Kafka holds it, each decision with
    its cause, what was booked, and the Delta commit of each row.

    KEY is an event key (provider:id:type), a fact key, or seq:N for the event that row N of the journal is about.
    Exit 1 if a key is unknown.
    """
    from cli import ledger_json, ledger_tables
    from ledger.queries import event_story
    from ledger.redactions import body_statuses

    layout = place.ledger
    with ledger_tables.looking("looking through the journal"):
        places = (str(layout.bodies), str(layout.derived("receipts")))
        stories = {key: event_story(str(layout.journal), str(layout.postings), key, *places) for key in keys}
        redactions = layout.derived("redactions")
        bodies = {key: body_statuses(layout.bodies, redactions, story.rows) for key, story in stories.items()}
    if as_json:
        click.echo(ledger_json.of_stories(stories, bodies))
    else:
        for key, story in stories.items():
            if story.rows or story.receipts:
                ledger_tables.print_story(key, story, bodies[key])
    for key in (key for key, story in stories.items() if not story.rows):
        click.echo(_unknown(key, place) if not stories[key].receipts else _undecided(key), err=True)
    sys.exit(0 if all(story.rows for story in stories.values()) else 1)


@click.command()
@click.argument("key", metavar="KEY")
@click.option("--limit", type=click.IntRange(1, 10_000), default=200, show_default=True, help="Most events to show.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
@with_place_of_mode
def entity(place: Place, key: str, limit: int, as_json: bool) -> None:
    """Show an entity's events (a payment's, say) in Kafka's order, with their decisions and the balances they leave.

    KEY is an entity key: provider:account:payment. Exit 1 if it is unknown.
    """
    from cli import ledger_json, ledger_tables
    from ledger.queries import entity_story

    with ledger_tables.looking("looking through the journal"):
        story = entity_story(str(place.ledger.journal), key, limit)
    if as_json:
        click.echo(ledger_json.of_entity(story))
    elif story.total:
        ledger_tables.print_entity(story)
    if not story.total:
        click.echo(_unknown(key, place), err=True)
        sys.exit(1)


def _undecided(key: str) -> str:
    return f"{key}: answered, and not decided yet: see with `payhook status` whether the processor is behind"


def _unknown(key: str, place: Place) -> str:
    other = "without --test for live traffic" if place.mode == "test" else "with --test for test traffic"
    return (
        f"{key}: unknown in the {place.mode} ledger. Look for a part of it with `payhook ledger search --text-in-keys "
        f"PART`; {other}; see with `payhook status` whether the processor is behind: what isn't decided yet isn't here"
    )
