"""``payhook package``: the code, as executors on other machines get it."""

from __future__ import annotations

import click

from cli.place import Place, with_place
from stack.package import make_package


@click.command()
@with_place
def package(place: Place) -> None:
    """Pack the code for executors on other machines, and print where the archive is.

    A processor whose master isn't local does so itself at its start, if the archive isn't there yet.
    """
    archive = make_package(place.settings.layout.package)
    click.echo(f"{archive} ({archive.stat().st_size >> 20} MiB)")
