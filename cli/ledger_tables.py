"""How ``payhook ledger`` is shown to people: every table of it, and what is seen while one waits.

Keys are long: they fold within their column, and nothing is cut off.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Sequence
from datetime import datetime
from pathlib import Path
from typing import Literal

import click
from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.padding import Padding
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
from rich.table import Table

from cli.tables import row
from core.clock import to_rfc3339
from core.event import WITHHELD_SHA256
from journal.schema import JournalRow
from ledger.queries import (
    RECEIPTS_MAX,
    Balance,
    Delivery,
    EntityEvent,
    EntityStory,
    EventStory,
    Hit,
    decimal_text,
    totals,
)
from ledger.queries.story import ROWS_MAX
from ledger.redactions import BodyStatus

_INDENT = (0, 0, 0, 2)


@contextlib.contextmanager
def looking(words: str) -> Iterator[None]:
    """Says on a terminal that something is going on."""
    console = Console(stderr=True)
    with console.status(words) if console.is_terminal else contextlib.nullcontext():
        yield


@contextlib.contextmanager
def writing(out: Path) -> Iterator[Callable[[int, int], None]]:
    """A bar on a terminal; what is given takes rows written, and of how many."""
    console = Console(stderr=True)
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as progress:
        task = progress.add_task(out.name, total=None)
        yield lambda done, rows: progress.update(task, completed=done, total=rows)


def print_balances(found: Sequence[Balance]) -> None:
    """Accounts, then the sum of each currency, and whether it is in balance."""
    if not found:
        click.echo("nothing has been booked yet")
        return
    table = _table("account", "currency")
    for name in ("debit", "credit", "balance"):
        table.add_column(name, justify="right", no_wrap=True)
    for one in found:
        _sums(table, one.account, one.currency, one.debit_minor, one.credit_minor)
    table.add_section()
    sums = totals(found)
    for total in sums:
        _sums(table, "all accounts", total.currency, total.debit_minor, total.credit_minor)
    console = _console()
    console.print(table)
    if wrong := [total.currency for total in sums if not total.balanced]:
        console.print(f"debits and credits differ in {', '.join(wrong)}: run payhook verify", style="bold red")
    else:
        console.print(f"debits = credits in {', '.join(total.currency for total in sums)}")


def print_story(key: str, story: EventStory, bodies: Sequence[BodyStatus]) -> None:
    """What came, what was decided of it and why, and what was booked."""
    console = _console()
    console.print(key, style="bold", markup=False, soft_wrap=True)
    _print_receipts(console, story)
    many = len(story.deliveries)
    for number, delivery in enumerate(story.deliveries, 1):
        _print_facts(console, f"received ({number} of {many})" if many > 1 else "received", _of_delivery(delivery))
        for one in delivery.rows:
            _print_facts(console, f"seq {one.seq}: {one.decision.value}", _of_row(one, story))
    if story.cut:
        console.print(f"these are the first {ROWS_MAX:,} rows of it; there are more")
    _print_bookings(console, story)
    for body in bodies:
        if body.status != "kept":
            console.print(str(body), markup=False, soft_wrap=True)


def print_entity(story: EntityStory) -> None:
    """Each event with its decisions and lines, in Kafka's order, and what that comes to."""
    console = _console()
    console.print(story.entity_key, style="bold", markup=False, soft_wrap=True)
    for event in story.events:
        _print_event(console, event)
    if story.total > len(story.events):
        console.print(f"the first {len(story.events):,} of {story.total:,} events; --limit shows more")
    console.print("balances after these events" if story.balances() else "nothing is booked of it", style="bold")
    grid = _grid("fold", "right")
    for (account, currency), balance in sorted(story.balances().items()):
        row(grid, account, _money(balance, currency))
    console.print(Padding(grid, _INDENT))


def print_hits(hits: Sequence[Hit], limit: int) -> None:
    """A decision a row, the newest first."""
    if not hits:
        click.echo("nothing is like that")
        return
    table = _table("seq", "decided (UTC)", "decision")
    table.add_column("amount", justify="right", no_wrap=True)
    table.add_column("event, merchant", overflow="fold")
    for hit in hits:
        amount = None if hit.amount_minor is None else _money(hit.amount_minor, hit.currency or "")
        named = "\n".join(text for text in (hit.row.event_key, hit.merchant) if text is not None)
        row(table, hit.row.seq, _second(hit.row.decided_at), hit.row.decision.value, amount, named)
    _console().print(table)
    if len(hits) == limit:
        click.echo(f"the newest {limit:,}; --limit shows more, other options narrow it")


def _of_delivery(delivery: Delivery) -> list[tuple[str, str | None]]:
    first = delivery.first
    scope = (("mode", first.mode), ("tenant", first.tenant), ("zone", first.zone))
    return [
        ("at", _time(first.received_at)),
        ("by", delivery.source or first.provider),
        ("traffic", ", ".join(f"{name} {value}" for name, value in scope if value is not None) or None),
        ("claim in Redis", first.dedupe),
        ("in Kafka", delivery.location),
        ("event", first.event_key),
        ("type", first.event_type),
        ("occurred", _time(first.occurred_at)),
        ("fact", first.fact_key),
        ("entity", first.entity_key),
        ("account", first.account),
        ("body", _body(delivery)),
        ("body as sent", _original(first.original_sha256)),
        ("content", None if not first.content_sha256 else f"{first.content_sha256} (version {first.content_version})"),
        ("fact's content", first.fact_sha256),
        ("replays", str(delivery.replays) if delivery.replays else None),
    ]


def _original(keyed_sha256: str | None) -> str | None:
    if keyed_sha256 == WITHHELD_SHA256:
        return "with a card's code or track data, no hash of it is kept"
    return None if keyed_sha256 is None else f"{keyed_sha256} (keyed; with card data)"


def _of_row(one: JournalRow, story: EventStory) -> list[tuple[str, str | None]]:
    return [
        ("decided", _time(one.decided_at)),
        ("reason", one.reason),
        ("cause", _cause(one, story)),
        ("by", one.actor),
        ("attempt", str(one.attempt) if one.attempt else None),
        ("due", _time(one.due_at)),
        ("error", _error(one)),
        ("order", "later than its place in Kafka" if one.out_of_order else None),
        ("handler", one.handler_version),
        ("commit", _commit(one, story)),
        ("row hash", one.row_hash),
    ]


def _body(delivery: Delivery) -> str | None:
    digest = delivery.first.body_sha256
    kept = {None: "", True: " (kept)", False: " (not kept any more)"}[delivery.body_kept]
    return None if digest is None else f"{digest}{kept}"


def _cause(one: JournalRow, story: EventStory) -> str | None:
    if one.cause_seq is None:
        return None
    cause = story.causes.get(one.cause_seq)
    if cause is None:
        return f"seq {one.cause_seq}, which the journal doesn't hold: run payhook verify"
    whose = f" by {cause.actor}" if cause.actor else ""
    named = f" of {cause.event_key}" if cause.event_key and cause.event_key != one.event_key else ""
    return f"seq {cause.seq}: {cause.decision}{named}{whose}"


def _error(one: JournalRow) -> str | None:
    kind = f" ({one.error_kind.value})" if one.error_kind is not None else ""
    said = ": ".join(text for text in (one.error_class, one.error_code, one.error_message) if text)
    return f"{said}{kind}" if said else None


def _commit(one: JournalRow, story: EventStory) -> str:
    commit = story.commits.get(one.batch_seq)
    whole = f"batch {one.batch_seq}, epoch {one.epoch}"
    if commit is None:
        return f"{whole}; its version isn't known any more: log cleaned up"
    return f"version {commit.version} at {_time(commit.committed_at)} ({whole})"


def _print_receipts(console: Console, story: EventStory) -> None:
    """What was answered: deliveries that Redis knew already too, which Kafka never saw."""
    if not story.receipts:
        return
    console.print("answered", style="bold")
    grid = _grid("left", "left", "left", "fold")
    for one in story.receipts[:RECEIPTS_MAX]:
        where = f"receipt {one.partition}/{one.offset}, line {one.line}"
        row(grid, _time(one.at), "" if one.status is None else one.status, one.outcome, where)
    console.print(Padding(grid, _INDENT))
    if len(story.receipts) > RECEIPTS_MAX:
        console.print(f"these are the first {RECEIPTS_MAX:,} answers; there are more")


def _print_bookings(console: Console, story: EventStory) -> None:
    if not story.postings:
        console.print("nothing is booked of it")
        return
    table = _table("seq", "account")
    for name in ("debit", "credit"):
        table.add_column(name, justify="right", no_wrap=True)
    for line in story.postings:
        amount, is_debit = _money(line["amount_minor"], line["currency"]), line["side"] == "debit"
        row(table, line["seq"], line["account"], amount if is_debit else None, None if is_debit else amount)
    console.print(table)
    if story.postings[-1]["seq"] > story.reflected:
        console.print(f"the postings table follows: it has what was decided up to seq {story.reflected}")


def _print_event(console: Console, event: EntityEvent) -> None:
    title = event.first.event_key or f"item {event.first.item_seq}"
    console.print(title, style="bold", markup=False, soft_wrap=True)
    decisions, lines = _grid("right", "left", "left", "fold"), _grid("fold", "left", "right", "right")
    for one in event.rows:
        late = "out of order" if one.out_of_order else None
        why = "; ".join(text for text in (one.reason or one.error_message, late) if text)
        row(decisions, f"seq {one.seq}", _second(one.decided_at), one.decision.value, why)
    for line in event.lines:
        balance = f"balance {_money(line.balance_minor, line.currency)}"
        row(lines, line.account, line.side, _money(line.amount_minor, line.currency), balance)
    console.print(Padding(decisions, _INDENT))
    if event.lines:
        console.print(Padding(lines, _INDENT))


def _sums(table: Table, name: str, currency: str, debit_minor: int, credit_minor: int) -> None:
    sums = (debit_minor, credit_minor, debit_minor - credit_minor)
    row(table, name, currency, *(decimal_text(value, currency, grouped=True) for value in sums))


def _print_facts(console: Console, title: str, facts: Sequence[tuple[str, str | None]]) -> None:
    console.print(title, style="bold", markup=False)
    grid = _grid("left", "fold")
    for name, value in facts:
        if value is not None:
            row(grid, name, value)
    console.print(Padding(grid, _INDENT))


def _grid(*columns: Literal["left", "right", "fold"]) -> Table:
    """Columns without lines between them; ``fold`` is the one that gives way."""
    grid = Table.grid(padding=(0, 2))
    for one in columns:
        grid.add_column(no_wrap=one != "fold", overflow="fold", justify="right" if one == "right" else "left")
    return grid


def _table(*names: str) -> Table:
    """Columns that give way; those of a few characters stay whole."""
    table = Table(box=SIMPLE_HEAD, pad_edge=False)
    for name in names:
        table.add_column(name, no_wrap=name in ("seq", "currency", "decision"))
    return table


def _console() -> Console:
    return Console(highlight=False)


def _money(amount_minor: int, currency: str) -> str:
    return f"{decimal_text(amount_minor, currency, grouped=True)} {currency}"


def _time(at: datetime | None) -> str | None:
    return None if at is None else to_rfc3339(at)


def _second(at: datetime) -> str:
    return f"{at:%Y-%m-%d %H:%M:%S}"
