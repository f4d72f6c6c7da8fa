"""``payhook dlq report``: the week of a dead-letter queue, as Markdown or JSON."""

from __future__ import annotations

import dataclasses
import json
from datetime import timedelta
from pathlib import Path
from typing import Any

import click

from cli.place import Place, with_place_of_stream
from core.clock import SystemClock
from core.errors import PayhookError
from dlq.report import Week, WeeklyReport, weekly
from dlq.report.markdown import markdown
from ledger.provider_bugs import bugs_of


class ReportUnwritten(PayhookError):
    """The file can't be written."""

    def __init__(self, file: Path, problem: str) -> None:
        self.file = file
        self.problem = problem
        super().__init__(f"{file} can't be written: {problem}")


@click.command()
@click.option("--week", metavar="WEEK", help="ISO week, such as 2026-W47 (default: the last whole one).")
@click.option("--out", type=click.Path(path_type=Path, dir_okay=False), help="Write it to a file.")
@click.option("--json", "as_json", is_flag=True, help="JSON instead of Markdown.")
@with_place_of_stream
def report(place: Place, week: str | None, out: Path | None, as_json: bool) -> None:
    """Report a week: what died of what, how long it took, replays that failed again, and what to do next.

    Read from the journal alone, so that any week can be reported at any time.
    """
    now = SystemClock().now()
    wanted = Week.named(week) if week is not None else Week.of(now).before()
    stream, journal = place.looked_at.stream, str(place.looked_at.journal)
    made = weekly(stream, journal, wanted, now, bugs_of(stream, journal))
    text = _json(made) if as_json else markdown(made)
    if out is None:
        click.echo(text, nl=False)
        return
    try:
        out.write_text(text, "utf-8")
    except OSError as failed:
        raise ReportUnwritten(out, failed.strerror or type(failed).__name__) from None
    click.echo(f"{out}: {wanted.name}, {made.died:,} died, {made.resolution.closed:,} closed")


def _json(made: WeeklyReport) -> str:
    """Times are RFC 3339, durations seconds."""
    tree = {**dataclasses.asdict(made), "week": made.week.name}
    return json.dumps(tree, indent=1, default=_plain) + "\n"


def _plain(value: Any) -> Any:
    if isinstance(value, timedelta):
        return value.total_seconds()
    return value.isoformat() if hasattr(value, "isoformat") else str(value)
