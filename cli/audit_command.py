"""``payhook dlq audit``: who did what, was refused what, when and why."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import click
from rich.console import Console
from rich.table import Column, Table

from cli.place import Place, with_place
from cli.tables import row
from core.clock import to_rfc3339
from dlq.audit_log import AuditLog, RecordedEntry

LIMIT_MAX = 100_000


@click.command("audit")
@click.option("--limit", type=click.IntRange(1, LIMIT_MAX), default=50, show_default=True, help="How many at most.")
@click.option("--before", type=click.IntRange(1), metavar="NUMBER", help="Only acts before this one.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
@with_place
def audit(place: Place, limit: int, before: int | None, as_json: bool) -> None:
    """Show what people did and were refused, the newest first: orders, sign-ins, changes of users.

    Live and test traffic have one record. Nothing in it can be changed: its rows are chained, and `payhook verify`
    checks the chain.
    """
    found = AuditLog(place.layout.acts).read(limit, before)
    if as_json:
        click.echo(json.dumps([_as_dict(one) for one in found], indent=1))
    elif not found:
        click.echo("nothing is on record")
    else:
        _print(found)


def _as_dict(one: RecordedEntry) -> dict[str, Any]:
    return {**one.as_row(), "at": to_rfc3339(one.at)}


def _print(found: list[RecordedEntry]) -> None:
    """Five columns, which fit 80 characters; what an act changed stands below it."""
    table = Table("no.", "when", "who", "outcome", Column("act", overflow="fold"))
    for one in found:
        when = one.at.isoformat(" ", "seconds").removesuffix("+00:00")
        row(table, one.number, when, f"{one.actor} ({one.channel})", one.outcome.value, "\n".join(_told(one)))
    Console(soft_wrap=True).print(table)


def _told(one: RecordedEntry) -> Iterator[str]:
    yield f"{one.action} {one.what}".strip()
    for name, value in (("why", one.reason), ("before", one.before), ("after", one.after)):
        if value:
            yield f"{name}: {value}"
