"""Prints lists, groups, statistics and one item for ``payhook dlq``."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import TypeAlias

import click

from cli.tables import PrintedTable, print_details, print_heading, print_text
from console.details import TextsShownOnce, died_of, error_text, figures_of, item_details, item_error, tries_of
from console.formats import format_money, format_second, format_span
from console.waits import EventWait
from dead_letters.item import Item
from dead_letters.joined import JoinedPage
from dead_letters.listing import Page
from dead_letters.stats import Group, Stats
from dead_letters.story import ItemStory, Neighbour

HOURS_SHOWN = 12
COUNTS_SHOWN = 10
IDS_SHOWN = 3
BAR_CHARS = 20
BODY_SHOWN_CHARS_MAX = 4_000
STACK_SHOWN_CHARS_MAX = 5_000
ERROR_CHARS_MAX = 240

Listed: TypeAlias = tuple[int, datetime, str, str | None, str | None, str]
"""Item, moment, decision, event key, why, and why in short."""


def print_page(page: Page | JoinedPage, now: datetime) -> None:
    if not page.items:
        click.echo("no events match" if page.total == 0 else "no more events")
        return
    rows = PrintedTable("ID", "age", "state", "event, amount", "error", right=["ID", "age"])
    errors: dict[str, list[str]] = {}
    for item in page.items:
        amount = format_money(item.amount_minor, item.currency)
        names = "\n".join(part for part in (item.event_key, amount) if part)
        error = error_text(item.error_class, item.error_code, (item.kind, item.mark), None)
        rows.add(item.name, format_span(now - item.since, 1), item.decision.value, names, error)
        errors.setdefault(item_error(item)[:ERROR_CHARS_MAX], []).append(item.name)
    rows.print()
    print_details(((_format_ids(ids), text) for text, ids in errors.items() if text), "errors")
    if page.next is not None:
        click.echo(f"{len(page.items):,} of {page.total:,}; the next ones: --after {page.next}")


def _format_ids(ids: Sequence[str]) -> str:
    more = f" +{len(ids) - IDS_SHOWN:,}" if len(ids) > IDS_SHOWN else ""
    return "ID " + ", ".join(ids[:IDS_SHOWN]) + more


def print_groups(groups: Sequence[Group], now: datetime) -> None:
    if not groups:
        click.echo("no events match")
        return
    names = ("count", "oldest", "newest")
    rows = PrintedTable(*names, "fingerprint, e.g.", "cause", right=names)
    for group in groups:
        ages = (format_span(now - group.oldest, 1), format_span(now - group.newest, 1))
        cell = f"{group.fingerprint or 'waits only'}\nID {group.sample_name}"
        rows.add(f"{group.count:,}", *ages, cell, f"{_describe_cause(group)}\nnext: {group.advice}")
    rows.print()


def print_stats(stats: Stats, causes: Sequence[Group]) -> None:
    print_details((figure.name, f"{figure.value}; {figure.note}") for figure in figures_of(stats))
    steps = PrintedTable("items", "cause", "what to do next", right=["items"], title="causes")
    for cause in causes:
        steps.add(f"{cause.count:,}", cause.error_class or "no error", cause.advice)
    steps.print(indent=2)
    for title, counts in (
        ("by kind", stats.by_kind),
        ("by class", stats.by_class),
        ("by provider", stats.by_provider),
        ("by type", stats.by_type),
    ):
        most = max((count.items for count in counts), default=1)
        rows = PrintedTable("of", "items", "", right=["items"], title=title)
        for count in counts[:COUNTS_SHOWN]:
            rows.add(count.value or "none", f"{count.items:,}", "█" * max(1, round(BAR_CHARS * count.items / most)))
        rows.print(indent=2)
    hours = PrintedTable(
        "from", "died", "closed", right=["died", "closed"], title=f"the last {HOURS_SHOWN} hours (UTC)"
    )
    for hour in stats.hours[-HOURS_SHOWN:]:
        hours.add(f"{hour.at:%m-%d %H:%M}", f"{hour.died:,}", f"{hour.closed:,}")
    hours.print(indent=2)


def print_story(story: ItemStory, wait: EventWait | None, now: datetime, name: str) -> None:
    item = story.item
    died = f", died first {format_span(now - item.first_dead_at)} ago" if item.first_dead_at is not None else ""
    details = ((detail.name, detail.shown) for detail in item_details(story, wait))
    print_details(details, f"item {name}: {item.state.value} ({item.decision.value}){died}")
    once = TextsShownOnce()
    if (failed := story.died_of) is not None:
        print_heading("died of")
        print_text(died_of(story), STACK_SHOWN_CHARS_MAX)
        for name, text in (("stack", failed.stack), ("log", failed.log_lines)):
            if text:
                click.secho(f"  {name}", bold=True)
                print_text(text, STACK_SHOWN_CHARS_MAX, indent=4)
    _print_decisions(story, once)
    for attempt in tries_of(story):
        known = [
            ("at", format_second(attempt.at)),
            ("ended", attempt.decision),
            *((detail.name, detail.shown) for detail in attempt.details),
        ]
        print_details(known, attempt.title)
    _print_items(f"before it, of {item.entity_key}", map(_neighbour_row, story.before), once)
    _print_items("after it", map(_neighbour_row, story.after), once)
    _print_items(_title_with_total("held by it", story.held, story.held_total), map(_item_row, story.held), once)
    _print_items(
        _title_with_total("earlier ones like it", story.alike, story.alike_total), map(_item_row, story.alike), once
    )
    print_details(sorted(story.headers.items()), "headers")
    print_heading("body")
    print_text(story.payload.note, BODY_SHOWN_CHARS_MAX)
    if story.payload.raw is not None:
        print_text(story.payload.pretty or story.payload.raw.decode("utf-8", "replace"), BODY_SHOWN_CHARS_MAX)


def _print_decisions(story: ItemStory, once: TextsShownOnce) -> None:
    rows = PrintedTable("seq", "decided (UTC)", "decision", "who", "why", right=["seq"], title="decisions")
    for row in story.rows:
        cause = f"row {row.cause_seq}" if row.cause_seq is not None else ""
        why = "; ".join(part for part in (once.text(row.reason, f"row {row.seq}"), cause) if part)
        rows.add(row.seq, format_second(row.decided_at), row.decision.value, row.actor, why)
    rows.print(indent=2)
    if story.rows_cut:
        click.echo(f"  these are its first and last {len(story.rows)} rows; there are more between")


def _print_items(title: str, items: Iterable[Listed], once: TextsShownOnce) -> None:
    rows = PrintedTable("ID", "since (UTC)", "decision", "event", "why", right=["ID"], title=title)
    for item_seq, at, decision, event_key, why, short in items:
        rows.add(item_seq, format_second(at), decision, event_key, once.text(why, f"item {item_seq}", short))
    rows.print(indent=2)


def _neighbour_row(neighbour: Neighbour) -> Listed:
    return neighbour.item_seq, neighbour.decided_at, neighbour.decision.value, neighbour.event_key, neighbour.reason, ""


def _item_row(item: Item) -> Listed:
    why, short = item_error(item)[:ERROR_CHARS_MAX], item.error_class or ""
    return item.item_seq, item.since, item.decision.value, item.event_key, why, short


def _title_with_total(title: str, shown: Sequence[Item], total: int) -> str:
    return f"{title} (the first {len(shown)} of {total:,})" if total > len(shown) else title


def _describe_cause(group: Group) -> str:
    code = f" {group.error_code}" if group.error_code else ""
    kinds = f" ({', '.join(kind.value for kind in group.kinds)})" if group.kinds else ""
    cause = f"{group.error_class or 'no error'}{code}{kinds}: {group.shape}".removesuffix(": ")
    where = ", ".join(part for part in (group.place and f"in {group.place}", *group.providers) if part)
    return "\n".join(line[:ERROR_CHARS_MAX] for line in (cause, where) if line)
