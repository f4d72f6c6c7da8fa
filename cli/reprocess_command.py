"""``payhook ledger reprocess``: ignored events are handed to the handler that knows their type by now."""

from __future__ import annotations

import sys
from collections import Counter
from datetime import datetime
from typing import TYPE_CHECKING

import click

from cli import moments
from cli.kept_text import KEPT_TEXT
from cli.place import Place, with_place_of_mode
from cli.proposal_tables import APPROVED_WHERE

if TYPE_CHECKING:
    from ledger.reprocess import Forecast, Ignored, Wanted

LIMIT = 1_000
LIMIT_MAX = 20_000
LOOKED_AT_MAX = 100_000
"""Ignored events that are read for one call: most are of types that move no money."""


@click.command("reprocess")
@click.option("--provider", help="Only this provider's (stripe, adyen, …).")
@click.option("--type", "event_types", multiple=True, metavar="TYPE", help="Only events of this type; may be repeated.")
@click.option("--event-key", "event_keys", multiple=True, metavar="KEY", help="Only this event; may be repeated.")
@click.option(
    "--from", "since", callback=moments.since, metavar="TIME", help="Only ignored then or later: a day or a time, UTC."
)
@click.option(
    "--to", "until", callback=moments.until, metavar="TIME", help="Only ignored before then; a day counts as a whole."
)
@click.option("--reason", type=KEPT_TEXT, help="Why; it is kept with each decision. Needed unless it is a dry run.")
@click.option("--dry-run", is_flag=True, help="Say of each event what would be booked, or why not, and send nothing.")
@click.option("--limit", type=click.IntRange(1, LIMIT_MAX), default=LIMIT, show_default=True, help="Most to reprocess.")
@click.option(
    "--rate", "per_s", type=click.FloatRange(0.05, 10_000), help="Events a second; else as fast as they are decided."
)
@click.option("--propose", is_flag=True, help="Have another person approve it, even below the limits.")
@click.option("--wait/--no-wait", default=True, help="Wait for what becomes of them.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON, amounts in minor units.")
@with_place_of_mode
def reprocess(
    place: Place,
    provider: str | None,
    event_types: tuple[str, ...],
    event_keys: tuple[str, ...],
    since: datetime | None,
    until: datetime | None,
    reason: str | None,
    dry_run: bool,
    limit: int,
    per_s: float | None,
    propose: bool,
    wait: bool,
    as_json: bool,
) -> None:
    """Book events that were ignored because nobody handled their type, now that somebody does.

    Without options that narrow it, all ignored events are looked at. The handler that is installed here is asked about
    each, the oldest first; only what it would book is sent, and the processor decides. An event takes effect once:
    asking again finds nothing left. Beyond the stream's limits of a day (dlq.alone_replay_items_max,
    dlq.alone_replay_amounts_minor_max) it is refused unless another person approves it (--propose). Exit 1 if an event
    that was named can't be reprocessed, or one wasn't booked.
    """
    from cli import reprocess_report as report
    from cli.reprocess_run import run
    from ledger.reprocess import Verdict, Wanted, ignored, what_else

    if not dry_run and not reason:
        raise click.UsageError("--reason is wanted: it is kept with each decision (or --dry-run)")
    wanted = Wanted(provider, event_types, event_keys, since, until)
    found = ignored(place.ledger.journal, wanted)
    looked_at, forecasts = _forecasts(place, found, limit)
    named = {one.row.event_key for one in forecasts}
    others = what_else(place.ledger.journal, [key for key in event_keys if key not in named])
    books = [one for one in forecasts if one.verdict is Verdict.BOOKS]
    told = report.Told(found.count, looked_at, Counter(one.verdict for one in forecasts), forecasts, others)
    if dry_run or not books:
        report.print_forecasts(told, as_json=as_json, sent=False)
        left_out = [one for one in forecasts if one.row.event_key in event_keys and one.verdict is not Verdict.BOOKS]
        sys.exit(1 if others or left_out else 0)
    ran = run(place, books, reason or "", per_s, what=_what(wanted, len(books)), wait=wait, propose=propose)
    report.print_run(told, ran, as_json=as_json)
    if propose and not as_json:
        click.echo(APPROVED_WHERE)
    sys.exit(0 if not others and ran.is_well else 1)


def _forecasts(place: Place, found: Ignored, limit: int) -> tuple[int, list[Forecast]]:
    """How many were looked at, and what would become of them, until so many would be booked."""
    from cli import ledger_tables
    from ledger.handler import build
    from ledger.reprocess import Forecaster, Verdict
    from providers.registry import build_adapters

    layout, settings = place.ledger, place.settings
    handler, adapters = build(settings.ledger, settings.providers), build_adapters(settings.providers)
    forecaster = Forecaster(found.lake, layout.bodies, layout.derived("redactions"), adapters, handler)
    looked_at, books = 0, 0
    forecasts: list[Forecast] = []
    with ledger_tables.looking(f"asking the handler about {found.count:,} ignored events"):
        for rows in found.rows():
            for one in forecaster.of(rows):
                if books == limit:
                    return looked_at, forecasts
                looked_at += 1
                books += one.verdict is Verdict.BOOKS
                forecasts.append(one)
            if looked_at >= LOOKED_AT_MAX:
                break
    return looked_at, forecasts


def _what(wanted: Wanted, count: int) -> str:
    """What was ordered, for the record of acts."""
    parts = [f"{count} ignored events"]
    parts += [f"of {wanted.provider}"] if wanted.provider else []
    parts += [f"of type {', '.join(wanted.event_types)}"] if wanted.event_types else []
    parts += [", ".join(wanted.event_keys[:5])] if wanted.event_keys else []
    bounds = (("from", wanted.since), ("to before", wanted.until))
    parts += [f"ignored {word} {at.isoformat()}" for word, at in bounds if at is not None]
    return "; ".join(parts)
