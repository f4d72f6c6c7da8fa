"""Prints every table of ``payhook ledger``, and its progress."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import click
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from cli.tables import PrintedTable, print_details, print_heading, print_text
from console.details import Detail, TextsShownOnce, make_timeline
from console.formats import format_money, format_second
from core.clock import to_rfc3339
from core.money import format_decimal
from core.routing import row_name
from ledger.queries.balances import Balance, OwedAmount, list_owed_parts, sum_totals
from ledger.queries.postings import PostingsPage
from ledger.queries.search import Hit
from ledger.queries.story import RECEIPTS_MAX, ROWS_MAX, EntityEvent, EntityStory, EventStory
from ledger.queries.unknown import ClosedUnknown, UnknownEvents
from ledger.redactions import StoredBodyStatus

SUMS = ("debit", "credit", "balance")
TEXT_CHARS_MAX = 2_000


@contextlib.contextmanager
def show_spinner() -> Iterator[None]:
    console = Console(stderr=True)
    with console.status("looking through the journal") if console.is_terminal else contextlib.nullcontext():
        yield


@contextlib.contextmanager
def show_export_bar(out: Path) -> Iterator[Callable[[int, int], None]]:
    console = Console(stderr=True)
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as progress:
        task = progress.add_task(out.name, total=None)
        yield lambda done, rows: progress.update(task, completed=done, total=rows)


def print_unknown(events: Sequence[UnknownEvents]) -> None:
    if not events:
        click.echo("no unknown events")
        return
    rows = PrintedTable(
        "provider", "what is unknown", "events", "first", "last", "amount", "newest", right=["events", "amount"]
    )
    for group in events:
        amounts = ", ".join(format_money(minor, currency) for currency, minor in group.amounts.items())
        rows.add(
            group.provider,
            group.what,
            group.events,
            format_second(group.first_at),
            format_second(group.last_at),
            amounts,
            group.event_key,
        )
    rows.print()
    for advice in dict.fromkeys(group.advice for group in events):
        advised = dict.fromkeys(group.what for group in events if group.advice == advice)
        click.echo(f"{', '.join(advised)}: {advice}")


def print_closed_unknown(closed: Sequence[ClosedUnknown]) -> None:
    if not closed:
        return
    rows = PrintedTable("closed", "provider", "type", "event", "as", "by", "why")
    for event in closed:
        rows.add(
            format_second(event.at),
            event.provider,
            event.event_type,
            event.event_key,
            event.decision,
            event.actor,
            event.reason,
        )
    rows.print()


def print_balances(balances: Sequence[Balance]) -> None:
    if not balances:
        click.echo("nothing has been booked yet")
        return
    rows, sums = PrintedTable("account", "currency", *SUMS, right=SUMS), sum_totals(balances)
    for balance in balances:
        _add_sums(rows, balance.account, balance.currency, balance.debit_minor, balance.credit_minor)
    for total in sums:
        _add_sums(rows, "all accounts", total.currency, total.debit_minor, total.credit_minor)
    rows.print()
    if wrong := [total.currency for total in sums if not total.balanced]:
        click.secho(f"debits and credits differ in {', '.join(wrong)}: run payhook verify", fg="red", bold=True)
    else:
        click.echo(f"debits = credits in {', '.join(total.currency for total in sums)}")


def print_postings(account: str, page: PostingsPage) -> None:
    if not page.lines:
        click.echo(f"no postings on {account}; `payhook ledger balances` lists the accounts")
        return
    rows = PrintedTable("row", "decided (UTC)", "debit", "credit", "balance", "event", right=SUMS, title=account)
    for line in page.lines:
        amount, is_debit = format_money(line.amount_minor, line.currency), line.side == "debit"
        rows.add(
            *(line.name, format_second(line.decided_at), amount if is_debit else None, None if is_debit else amount),
            *(format_money(line.balance_minor, line.currency), line.event_key),
        )
    rows.print()
    if page.next is not None:
        click.echo(f"{len(page.lines):,} of {page.count:,}; older ones: --cursor {page.next}")


def print_owed(merchants: Sequence[OwedAmount]) -> None:
    if not merchants:
        click.echo("nothing has been booked yet")
        return
    parts = list_owed_parts(merchants)
    rows = PrintedTable("merchant", "currency", *parts, "owed", right=[*parts, "owed"])
    for merchant in merchants:
        amounts = [
            format_decimal(merchant.parts[name], merchant.currency) if name in merchant.parts else None
            for name in parts
        ]
        rows.add(merchant.merchant, merchant.currency, *amounts, format_decimal(merchant.owed_minor, merchant.currency))
    rows.print()


def print_story(key: str, story: EventStory, bodies: Sequence[StoredBodyStatus]) -> None:
    print_heading(key)
    _print_receipts(story)
    many = len(story.deliveries)
    for number, delivery in enumerate(story.deliveries, 1):
        for moment in make_timeline(delivery, story):
            title = f"{moment.title}: {moment.decision}" if moment.decision else moment.title
            of_many = f" ({number} of {many})" if many > 1 and moment.decision is None else ""
            moment_detail = Detail("decided" if moment.decision else "at", None, moment.at)
            print_details(
                ((detail.name, detail.shown) for detail in (moment_detail, *moment.details)), f"{title}{of_many}"
            )
    if story.cut:
        click.echo(f"these are the first {ROWS_MAX:,} rows of it; there are more")
    _print_bookings(story)
    for name in story.others:
        click.echo(f"another shard decided it too: `payhook ledger event seq:{name}`")
    for body in bodies:
        if body.status != "kept":
            print_text(str(body), TEXT_CHARS_MAX, indent=0)


def print_entity(story: EntityStory) -> None:
    print_heading(story.entity_key)
    once = TextsShownOnce()
    for event in story.events:
        _print_event(event, once, story.stream)
    if story.total > len(story.events):
        click.echo(f"the first {len(story.events):,} of {story.total:,} events; --limit shows more")
    balances = PrintedTable("account", "balance", right=["balance"], title="balances after these events")
    for (account, currency), balance in sorted(story.last_balances().items()):
        balances.add(account, format_money(balance, currency))
    balances.print(indent=2)
    if not len(balances):
        click.echo("no postings")


def print_hits(hits: Sequence[Hit], limit: int) -> None:
    if not hits:
        click.echo("no events match")
        return
    rows = PrintedTable("seq", "decided (UTC)", "decision", "amount", "event, merchant", right=["seq", "amount"])
    for hit in hits:
        names = "\n".join(text for text in (hit.row.event_key, hit.merchant) if text is not None)
        amount = format_money(hit.amount_minor, hit.currency)
        rows.add(hit.name, format_second(hit.row.decided_at), hit.row.decision.value, amount, names)
    rows.print()
    if len(hits) == limit:
        click.echo(f"the newest {limit:,}; --limit shows more, other options narrow it")


def _print_receipts(story: EventStory) -> None:
    receipts = story.receipts or []
    rows = PrintedTable("at", "status", "outcome", "receipt", title="answered")
    for receipt in receipts[:RECEIPTS_MAX]:
        at = None if receipt.at is None else to_rfc3339(receipt.at)
        rows.add(at, receipt.status, receipt.outcome, f"{receipt.partition}/{receipt.offset}, line {receipt.line}")
    rows.print(indent=2)
    if len(receipts) > RECEIPTS_MAX:
        click.echo(f"these are the first {RECEIPTS_MAX:,} answers; there are more")


def _print_bookings(story: EventStory) -> None:
    if not story.postings:
        click.echo("no postings")
        return
    rows = PrintedTable("seq", "account", "debit", "credit", right=["seq", "debit", "credit"], title="booked")
    for line in story.postings:
        amount, is_debit = format_money(line["amount_minor"], line["currency"]), line["side"] == "debit"
        rows.add(
            row_name(story.stream, line["seq"]),
            line["account"],
            amount if is_debit else None,
            None if is_debit else amount,
        )
    rows.print(indent=2)
    if story.postings[-1]["seq"] > story.reflected:
        click.echo(f"the postings table is behind: it has decisions up to row {story.reflected}")


def _print_event(event: EntityEvent, once: TextsShownOnce, stream: str) -> None:
    names = ("row", "decided (UTC)", "decision", "why")
    decisions = PrintedTable(*names, right=["row"], title=event.first.event_key or f"item {event.first.item_seq}")
    for row in event.rows:
        late = "out of order" if row.out_of_order else None
        why = once.text(row.reason or row.error_message, f"row {row.seq}", row.error_class or "")
        reason = "; ".join(text for text in (why, late) if text)
        decisions.add(row_name(stream, row.seq), format_second(row.decided_at), row.decision.value, reason)
    decisions.print(indent=2)
    lines = PrintedTable("account", "side", "amount", "balance", right=["amount", "balance"])
    for line in event.lines:
        sums = (line.amount_minor, line.balance_minor)
        lines.add(line.account, line.side, *(format_money(value, line.currency) for value in sums))
    lines.print(indent=2)


def _add_sums(rows: PrintedTable, name: str, currency: str, debit_minor: int, credit_minor: int) -> None:
    sums = (debit_minor, credit_minor, debit_minor - credit_minor)
    rows.add(name, currency, *(format_decimal(value, currency) for value in sums))
