"""The weekly report as Markdown: for a mail, a ticket, or a file that is kept."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta

from dlq.report.model import CauseOfWeek, Part, WeeklyReport, few, steps

CAUSES_SHOWN_MAX = 10
_MEANT = "\\`*_{}[]<>#|~"
"""What Markdown, or HTML within it, would take for more than text."""


def markdown(report: WeeklyReport) -> str:
    """The whole report. What comes from events and errors is text, whatever it holds."""
    blocks = [
        _head(report),
        _first(report),
        _causes(report.causes),
        _depth(report),
        _replays(report),
        _late(report),
        _bugs(report),
    ]
    return "\n\n".join("\n".join(lines) for lines in blocks if lines) + "\n"


def plain(text: str) -> str:
    """Text of strangers as one line of Markdown that means nothing but itself."""
    line = "".join(char if char.isprintable() else " " for char in text)
    return "".join(f"\\{char}" if char in _MEANT else char for char in line)


def _head(report: WeeklyReport) -> list[str]:
    last = report.week.end - timedelta(days=1)
    so_far = "" if report.until == report.week.end else f", as far as {_moment(report.until)}"
    resolution, end = report.resolution, report.depths[-1]
    return [
        f"# Dead letters of {plain(report.stream)}, {report.week.name}",
        "",
        f"{report.week.start:%d %B} to {last:%d %B %Y}, UTC{so_far}.",
        "",
        "| | |",
        "|---|---:|",
        f"| died | {report.died:,} |",
        f"| closed | {resolution.closed:,} |",
        f"| dead at the end | {end.items:,} ({end.items - report.depths[0].items:+,}) |",
        f"| time to resolution, median | {_took(resolution.median)} |",
        f"| of nine in ten | {_took(resolution.p90)} |",
        f"| open for more than 24 h / 48 h | {len(report.breaches.over_24h):,} / {len(report.breaches.over_48h):,} |",
        f"| replays that failed again | {report.replays.failed_again:,} of {report.replays.given:,} |",
    ]


def _first(report: WeeklyReport) -> list[str]:
    """What pays most to do, the most urgent first."""
    lines = ["".join(_part(part) for part in step) for step in steps(report)]
    lines = lines or ["Nothing died and nothing is left: there is nothing to do."]
    return ["## What to do next", "", *(f"{number}. {step}" for number, step in enumerate(lines, 1))]


def _part(part: Part) -> str:
    match part.kind:
        case "name":
            return f"**{plain(part.text)}**"
        case "command":
            return f"`{part.text.replace('`', '')}`"
        case "text":
            return part.text


def _causes(causes: Sequence[CauseOfWeek]) -> list[str]:
    if not causes:
        return ["## Causes", "", "Nothing died."]
    lines = ["## Causes", "", "| items | open | kind | cause | from | example |", "|---:|---:|---|---|---|---:|"]
    for cause in causes[:CAUSES_SHOWN_MAX]:
        kind = cause.kind.value if cause.kind is not None else ""
        what = f"{_named(cause)}: {plain(cause.shape)}" + (f" ({plain(cause.place)})" if cause.place else "")
        whose = plain(", ".join(cause.providers))
        lines.append(f"| {cause.items:,} | {cause.open:,} | {kind} | {what} | {whose} | {cause.example} |")
    left = len(causes) - CAUSES_SHOWN_MAX
    return [*lines, *(["", f"And {left} more; `--json` has them."] if left > 0 else [])]


def _depth(report: WeeklyReport) -> list[str]:
    lines = ["## Depth", "", "| at | dead |", "|---|---:|"]
    lines += [f"| {_moment(depth.at)} | {depth.items:,} |" for depth in report.depths]
    return [*lines, "", f"Most at a time: {report.deepest.items:,}, first at {_moment(report.deepest.at)}."]


def _replays(report: WeeklyReport) -> list[str]:
    replays, resolution = report.replays, report.resolution
    return [
        "## Replays and closures",
        "",
        f"{replays.given:,} replays: {replays.succeeded:,} succeeded, {replays.failed_again:,} failed again, "
        f"{replays.under_way:,} were under way or given again.",
        f"{resolution.closed:,} items were closed: {resolution.by_replay:,} by a replay, {resolution.by_resolve:,} "
        f"resolved, {resolution.by_purge:,} purged. The longest was open for {_took(resolution.longest)}.",
    ]


def _late(report: WeeklyReport) -> list[str]:
    return [
        "## Past their time",
        "",
        f"Came to be older than 24 hours: {few(report.breaches.over_24h)}.",
        f"Came to be older than 48 hours: {few(report.breaches.over_48h)}.",
        f"Older than 48 hours and open at the end: {few(report.breaches.waiting)}.",
    ]


def _bugs(report: WeeklyReport) -> list[str]:
    if report.bugs is None:
        return []
    if not report.bugs:
        return ["## Providers' bugs", "", "No provider reported anything twice, or in two ways."]
    lines = ["## Providers' bugs", "", "| provider | cases | what | example |", "|---|---:|---|---|"]
    return [
        *lines,
        *(f"| {plain(bug.provider)} | {bug.cases:,} | {bug.explained} | {plain(bug.example)} |" for bug in report.bugs),
    ]


def _named(cause: CauseOfWeek) -> str:
    return f"**{plain(cause.error_class)}**"


def _moment(at: datetime) -> str:
    return f"{at:%Y-%m-%d %H:%M}"


def _took(took: timedelta | None) -> str:
    if took is None:
        return "–"
    hours = took.total_seconds() / 3_600
    return f"{hours:,.1f} h" if hours < 72 else f"{hours / 24:,.1f} days"
