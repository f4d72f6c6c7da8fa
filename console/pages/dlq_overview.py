"""``/``: how much is dead and for how long, what it is, how fast it comes and goes, and what the streams say."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

from markupsafe import Markup

from console.formats import span
from console.plots import Steps, bars_plot, steps_plot
from core.clock import from_rfc3339
from dlq.board import Board, Count, Group, Stats

BARS_MAX = 8
GROUPS_SHOWN = 5
CLEAR_WITHIN_H = 4
STATUS_AGE_MAX = timedelta(seconds=30)
"""The processor writes its status about once a second; a batch may take longer."""

NAMES = {
    "by_kind": "kind",
    "by_class": "class",
    "by_provider": "provider",
    "by_type": "type",
}


@dataclass(frozen=True, slots=True)
class Plotted:
    """One plot under its caption; ``field``: of the list's filter, by which its values are looked up."""

    caption: str
    plot: Markup
    field: str | None = None
    values: Sequence[Count] = ()


@dataclass(frozen=True, slots=True)
class StreamSaid:
    """What one stream's processor says. ``state``: ready, blocked, down; ``breakers``: what isn't called as usual."""

    name: str
    state: str
    told: str
    behind: str
    breakers: Sequence[tuple[str, str, str]]


@dataclass(frozen=True, slots=True)
class Overview:
    """Everything of the page but the streams' words. ``clears_at_per_h``: what it takes to be done in four hours."""

    stats: Stats
    groups: Sequence[Group]
    plots: Sequence[Plotted]
    clears_at_per_h: float


def overview(board: Board) -> Overview:
    """As of now.

    :raises BoardUnreadable: see there
    """
    stats = board.stats()
    needed = stats.open / CLEAR_WITHIN_H + stats.inflow_per_h
    return Overview(stats, board.groups(limit=GROUPS_SHOWN), plots(stats), needed)


def plots(stats: Stats) -> list[Plotted]:
    """Inflow and outflow by hour, then open items by what they are."""
    told = [Plotted("Died and closed, by hour", _hours(stats))]
    for name, field in NAMES.items():
        counts: Sequence[Count] = getattr(stats, name)[:BARS_MAX]
        values = [(one.value or "none", one.items) for one in counts]
        words = ", ".join(f"{value}: {items:,}" for value, items in values) or "nothing is open"
        told.append(Plotted(f"Open by {field}", bars_plot(f"Open items by {field}", words, values), field, counts))
    return told


def _hours(stats: Stats) -> Markup:
    died = Steps("died", [(hour.at, hour.died) for hour in stats.hours])
    closed = Steps("closed", [(hour.at, hour.closed) for hour in stats.hours])
    sums = sum(hour.died for hour in stats.hours), sum(hour.closed for hour in stats.hours)
    words = f"In {len(stats.hours)} hours {sums[0]:,} items died and {sums[1]:,} that had died were closed."
    return steps_plot("Items that died and that were closed, by hour", words, [died, closed], stats.at)


def said(name: str, path: Path, now: datetime) -> StreamSaid:
    """What a stream's status file has; a file that isn't there, or is old, is a stream that is down."""
    try:
        status: dict[str, Any] = json.loads(path.read_text("utf-8"))
        age = now - from_rfc3339(status["at"])
    except (OSError, ValueError, KeyError, TypeError):
        return StreamSaid(name, "down", "its processor isn't running", "", ())
    breakers = [
        (str(downstream), str(one.get("state", "")), str(one.get("text", "")))
        for downstream, one in _dict(status, "downstreams").items()
        if isinstance(one, dict) and one.get("state") != "closed"
    ]
    behind = _behind(status)
    if age > STATUS_AGE_MAX:
        return StreamSaid(name, "down", f"its processor has said nothing for {int(age.total_seconds())} s", behind, ())
    if blocked := status.get("blocked"):
        return StreamSaid(name, "blocked", str(blocked), behind, breakers)
    if status.get("state") == "off":
        return StreamSaid(name, "off", str(status.get("why", "")), behind, breakers)
    if not status.get("ready"):
        return StreamSaid(name, "failed", str(status.get("last_failure") or "it isn't ready"), behind, breakers)
    return StreamSaid(name, "running", "", behind, breakers)


def _behind(status: dict[str, Any]) -> str:
    catch_up = _dict(status, "catch_up")
    if not catch_up.get("behind"):
        return "no"
    left = catch_up.get("recover_s")
    return f"{catch_up.get('lag')} records" + (f", about {span(left)}" if isinstance(left, (int, float)) else "")


def _dict(status: dict[str, Any], name: str) -> dict[str, Any]:
    value = status.get(name)
    return value if isinstance(value, dict) else {}
