"""``payhook ledger rebuild-postings``: the postings made anew from the journal."""

from __future__ import annotations

import click
from deltalake import DeltaTable

from cli.place import Place, with_place_of_mode
from stack.jars import spark_jars


@click.command("rebuild-postings")
@with_place_of_mode
def rebuild_postings(place: Place) -> None:
    """Make the postings anew from the journal, which they are derived from.

    For a table that is gone or that `payhook verify` found wrong. May run on a busy stack: the table changes in one
    step; a processor that runs is started again once, and books what came meanwhile.
    """
    if not DeltaTable.is_deltatable(str(place.ledger.journal)):
        raise click.ClickException("nothing has been decided yet: there is no journal to make postings of")
    # Spark's modules take a second to load; no other command of the group needs them.
    from ledger.rebuild import run

    done = run(
        place.ledger.journal,
        place.ledger.postings,
        spark_jars(place.layout.lake),
        place.settings.data_dir,
        place.settings.ledger.maintain,
    )
    click.echo(
        f"{done.lines:,} lines of the journal up to row {done.mark:,} are the postings now (version {done.version}, "
        f"{done.seconds:.1f} s); there were {done.before:,}"
    )
