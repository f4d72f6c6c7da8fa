"""How `payhook ledger reprocess` tells what would become of ignored events, and what did."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import click
from rich.console import Console
from rich.table import Table

from cli.reprocess_run import Ran
from cli.tables import row
from core.decision import Decision
from core.money import decimals_of
from core.visible import visible
from core.work import Posting
from ledger.queries import decimal_text
from ledger.reprocess import Forecast, Verdict

SHOWN = 50
WORDS = {
    Verdict.BOOKS: "would be booked",
    Verdict.IGNORED: "would be ignored again",
    Verdict.BOOKED_BEFORE: "report a movement that is booked already",
    Verdict.NOTHING: "would book nothing",
    Verdict.NO_BODY: "can't be: their body isn't kept",
    Verdict.UNREADABLE: "can't be: their adapter can't read them",
    Verdict.FAILS: "would fail",
}


@dataclass(frozen=True, slots=True)
class Told:
    """``found`` are ignored, of which so many were ``looked_at``. ``others``: what named keys are that aren't."""

    found: int
    looked_at: int
    counts: Counter[Verdict]
    forecasts: Sequence[Forecast]
    others: Mapping[str, str]


def print_forecasts(told: Told, *, as_json: bool, sent: bool) -> None:
    if as_json:
        click.echo(json.dumps(_tree(told) | {"sent": sent}, indent=1))
        return
    for verdict in Verdict:
        if told.counts[verdict]:
            click.echo(f"{told.counts[verdict]:>9,}  {WORDS[verdict]}")
    if told.forecasts:
        _print_table(told.forecasts)
    _print_rest(told)
    if not told.found and not told.others:
        click.echo("no event is ignored that is like that")
    click.echo("nothing was sent")


def print_run(told: Told, ran: Ran, *, as_json: bool) -> None:
    """What was sent, and what became of it."""
    if as_json:
        items = [_row(one.row.item_seq, ran) for one in told.forecasts if one.row.item_seq in ran.rows]
        commands = [{"command_id": number, "decided": decided} for number, decided in ran.commands.items()]
        click.echo(json.dumps(_tree(told) | {"sent": True, "commands": commands, "items": items}, indent=1))
        return
    for number, decided in ran.commands.items():
        waits = "not decided yet: `payhook status` tells whether the processor is behind" if ran.waited else "sent"
        click.echo(f"command {number}: {visible(decided) if decided else waits}")
    counts = Counter(one.decision for one in ran.rows.values())
    for decision, count in counts.most_common():
        click.echo(f"{count:>9,}  {_became(decision)}")
    if others := [one for one in ran.rows.values() if one.decision is not Decision.APPLIED]:
        table = Table("seq", "event", "became", "why")
        for one in others[:SHOWN]:
            row(table, one.seq, one.event_key, one.decision.value, one.reason)
        Console(soft_wrap=True, highlight=False).print(table)
    _print_rest(told)
    if not ran.waited:
        click.echo("`payhook ledger event KEY` tells what became of one")


def _became(decision: Decision) -> str:
    words = {
        Decision.APPLIED: "booked",
        Decision.IGNORED: "ignored: see why below",
        Decision.DUPLICATE_FACT: "not booked: another event reported the same movement",
        Decision.DEAD: "dead: `payhook dlq list` shows them",
    }
    return words.get(decision, f"{decision.value}: not settled yet")


def _print_table(forecasts: Sequence[Forecast]) -> None:
    """Those that would be booked first: the others may be many."""
    table = Table("seq", "event", "would", "what", "")
    ordered = sorted(forecasts, key=lambda one: (one.verdict is not Verdict.BOOKS, one.row.seq))
    for one in ordered[:SHOWN]:
        would = "be booked" if one.verdict is Verdict.BOOKS else one.verdict.value
        late = "behind later events" if one.late and one.verdict is Verdict.BOOKS else ""
        row(table, one.row.seq, one.row.event_key, would, "\n".join(map(_line, one.postings)) or one.why, late)
    Console(soft_wrap=True, highlight=False).print(table)
    if len(ordered) > SHOWN:
        click.echo(f"the first {SHOWN} of {len(ordered):,}; --json shows all")


def _print_rest(told: Told) -> None:
    for key, what in told.others.items():
        click.echo(f"{visible(key)}: {what}", err=True)
    if told.looked_at < told.found:
        left = told.found - told.looked_at
        click.echo(
            f"{left:,} more are ignored and weren't looked at: run it again, or narrow it (--type, --from, --to)"
        )


def _line(posting: Posting) -> str:
    money = posting.money
    amount = decimal_text(money.amount_minor, money.currency, grouped=True)
    return f"{posting.side} {posting.account} {amount} {money.currency}"


def _tree(told: Told) -> dict[str, Any]:
    return {
        "ignored": told.found,
        "looked_at": told.looked_at,
        "counts": {verdict.value: told.counts[verdict] for verdict in Verdict if told.counts[verdict]},
        "events": [_forecast(one) for one in told.forecasts],
        "others": dict(told.others),
    }


def _forecast(one: Forecast) -> dict[str, Any]:
    lines = [
        {
            "account": line.account,
            "side": line.side,
            "amount_minor": line.money.amount_minor,
            "currency": line.money.currency,
            "decimals": decimals_of(line.money.currency),
        }
        for line in one.postings
    ]
    return {
        "seq": one.row.seq,
        "event_key": one.row.event_key,
        "event_type": one.row.event_type,
        "verdict": one.verdict.value,
        "why": one.why,
        "postings": lines,
        "fact_key": one.fact_key,
        "behind_later_events": one.late,
    }


def _row(item_seq: int, ran: Ran) -> dict[str, Any]:
    last = ran.rows[item_seq]
    names = {"item_seq": item_seq, "seq": last.seq, "event_key": last.event_key}
    return names | {"decision": last.decision.value, "reason": last.reason, "handler_version": last.handler_version}
