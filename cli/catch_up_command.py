"""``payhook catch-up``: what providers generated and no webhook brought."""

from __future__ import annotations

import asyncio
import json
import sys
from dataclasses import asdict
from datetime import datetime
from typing import TYPE_CHECKING

import click

from cli.place import Place, read_since, with_place
from cli.tables import PrintedTable
from core.clock import SystemClock, to_rfc3339
from core.visible import make_visible
from stack.endpoints import read_endpoints
from stack.servers.kafka_users import security_of
from stack.servers.redis import redis_url

if TYPE_CHECKING:
    from stack.catching_up import CatchUpOutcome
    from stack.settings import Settings


@click.command("catch-up")
@click.argument("provider", required=False)
@click.option(
    "--since",
    callback=read_since,
    metavar="TIME",
    help="Ask for events since then (UTC); a provider's API keeps a few weeks. Default: since the last catch-up.",
)
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
@with_place
def catch_up(place: Place, provider: str | None, since: datetime | None, as_json: bool) -> None:
    """Ask providers for the events that they generated, and take those that no webhook brought.

    PROVIDER: stripe, paypal, …; default: all whose API's credentials lie in `secrets/PROVIDER-api`. What is missing
    comes in as its webhook would have, marked as caught up; a webhook that comes later is a duplicate. The running
    stack does this by itself every `ingest.catch_up_every_s`. Exit 1: a list couldn't be read to its end.
    """
    from stack import catching_up

    clock, settings = SystemClock(), _of_running_stack(place)
    sources = catching_up.sources_of(settings, clock, provider)
    if not sources:
        raise click.ClickException(catching_up.why_nothing(settings, provider))
    began_at = clock.now()
    outcomes = asyncio.run(catching_up.catch_up(settings, sources, clock, since))
    catching_up.write_outcomes(settings, outcomes, began_at, clock.now())
    if as_json:
        click.echo(json.dumps([asdict(outcome) for outcome in outcomes], indent=1, default=_as_text))
    else:
        _print_outcomes(outcomes)
    sys.exit(1 if any(outcome.problem for outcome in outcomes) else 0)


def _of_running_stack(place: Place) -> Settings:
    kafka, settings = place.kafka(), place.settings
    if not settings.kafka.is_outside:
        kafka = kafka.model_copy(update={"security": security_of(settings.layout.kafka, "receiver")})
    settings = settings.model_copy(update={"kafka": kafka})
    if read_endpoints(settings.data_dir) is None:
        return settings
    redis = settings.redis.model_copy(update={"url": redis_url(settings.layout.redis)})
    return settings.model_copy(update={"redis": redis})


def _print_outcomes(outcomes: list[CatchUpOutcome]) -> None:
    rows = PrintedTable("source", "listed until", "came in", "problem", right=["came in"])
    for outcome in outcomes:
        until = "never" if outcome.until is None else to_rfc3339(outcome.until)
        rows.add(outcome.source, until, f"{outcome.fetched:,}", make_visible(outcome.problem or ""))
    rows.print()
    for outcome in outcomes:
        if outcome.lost is not None:
            span = f"from {to_rfc3339(outcome.lost.since)} to {to_rfc3339(outcome.lost.until)}"
            click.echo(
                f"{outcome.source} no longer lists events {span}: compare a settlement report of that time "
                "(payhook ledger reconcile)"
            )


def _as_text(value: object) -> str:
    return to_rfc3339(value) if isinstance(value, datetime) else str(value)
