"""How lists, groups and statistics of `payhook dlq` are shown. What strangers wrote reaches no terminal as it came."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime

import click
from rich.padding import Padding
from rich.table import Table

from cli.dlq_form import ERROR_CHARS_MAX, age, console, duration, error_of, money
from cli.tables import row
from core.visible import visible
from dlq.index import Group, Hour, Page, Stats

HOURS_SHOWN = 12
BAR_CHARS = 20


def print_page(page: Page, now: datetime) -> None:
    """An item a row: what it is, since when, and its error."""
    if not page.items:
        click.echo("nothing is dead" if page.total == 0 else "no more")
        return
    table = Table(box=None, pad_edge=False, padding=(0, 1), show_edge=False)
    for name in ("ID", "age", "what"):
        table.add_column(name, no_wrap=True, justify="right" if name != "what" else "left")
    has_amounts = any(item.amount is not None for item in page.items)
    if has_amounts:
        table.add_column("amount", no_wrap=True, justify="right")
    table.add_column("event", overflow="fold", ratio=2)
    table.add_column("error", overflow="fold", ratio=3)
    for item in page.items:
        amount = [money(item)] if has_amounts else []
        row(table, item.item_seq, age(item.since, now), item.decision.value, *amount, item.event_key, error_of(item))
    console().print(table)
    if page.next is not None:
        click.echo(f"{len(page.items):,} of {page.total:,}; the next ones: --after {page.next}")


def print_groups(groups: Sequence[Group], now: datetime) -> None:
    """A cause a row."""
    if not groups:
        click.echo("nothing is dead")
        return
    table = Table(box=None, pad_edge=False, padding=(0, 1), show_edge=False)
    for name in ("count", "oldest", "newest"):
        table.add_column(name, no_wrap=True, justify="right")
    table.add_column("fingerprint, e.g.", no_wrap=True)
    table.add_column("cause", overflow="fold", ratio=1)
    for group in groups:
        ages = (age(group.oldest, now), age(group.newest, now))
        named = f"{group.fingerprint or 'waits only'}\nID {group.sample}"
        row(table, f"{group.count:,}", *ages, named, _cause(group))
    console().print(table)


def _cause(group: Group) -> str:
    code = f" {group.error_code}" if group.error_code else ""
    kinds = f" ({', '.join(kind.value for kind in group.kinds)})" if group.kinds else ""
    told = [f"{group.error_class or 'no error'}{code}{kinds}: {group.shape}".removesuffix(": ")]
    where = ", ".join(part for part in (group.place and f"in {group.place}", *group.providers) if part)
    return "\n".join(visible(line, ERROR_CHARS_MAX) for line in [*told, where] if line)


def print_stats(stats: Stats) -> None:
    """Depth and age, then where the items are from, then the last hours."""
    about = Table.grid(padding=(0, 2))
    for name, value in _about(stats):
        row(about, name, value)
    out = console()
    out.print(about)
    for title, counts in (
        ("by kind", stats.by_kind),
        ("by class", stats.by_class),
        ("by provider", stats.by_provider),
        ("by type", stats.by_type),
    ):
        if counts:
            out.print(title, style="bold")
            out.print(Padding(_bars((count.value or "none", count.items) for count in counts[:10]), (0, 0, 0, 2)))
    out.print(f"the last {HOURS_SHOWN} hours (UTC)", style="bold")
    out.print(Padding(_hours(stats.hours[-HOURS_SHOWN:]), (0, 0, 0, 2)))


def _about(stats: Stats) -> list[tuple[str, str]]:
    oldest = "none" if stats.oldest is None else f"{age(stats.oldest, stats.at)} ({stats.oldest:%Y-%m-%d %H:%M} UTC)"
    following = "" if stats.next_over_24h is None else f"; the next one in {duration(stats.next_over_24h - stats.at)}"
    clear = "never at this rate" if stats.time_to_clear is None else duration(stats.time_to_clear)
    return [
        ("open", f"{stats.open:,} dead, {stats.waiting:,} waiting for a try"),
        ("oldest", oldest),
        ("over 24 h", f"{stats.over_24h:,}{following}"),
        ("over 48 h", f"{stats.over_48h:,}"),
        ("a day's average", f"{stats.inflow_per_h:,.1f} die and {stats.outflow_per_h:,.1f} are closed an hour"),
        ("time to clear", clear if stats.open else "nothing is open"),
    ]


def _bars(counts: Iterable[tuple[str, int]]) -> Table:
    listed = list(counts)
    most = max((n for _, n in listed), default=1)
    grid = Table.grid(padding=(0, 2))
    grid.add_column(overflow="fold", max_width=44)
    grid.add_column(justify="right", no_wrap=True)
    grid.add_column(no_wrap=True)
    for name, n in listed:
        row(grid, name, f"{n:,}", "█" * max(1, round(BAR_CHARS * n / most)))
    return grid


def _hours(hours: Sequence[Hour]) -> Table:
    grid = Table.grid(padding=(0, 2))
    for justify in ("left", "right", "right"):
        grid.add_column(no_wrap=True, justify=justify)
    row(grid, "from", "died", "closed")
    for hour in hours:
        row(grid, f"{hour.at:%m-%d %H:%M}", f"{hour.died:,}", f"{hour.closed:,}")
    return grid
