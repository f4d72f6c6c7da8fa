"""``payhook ledger reprocess``: ignored events are handed to the handler that knows their type by now."""

from __future__ import annotations

import sys
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any

import click

from cli.acting import APPROVED_WHERE, orders, this_account
from cli.ledger_tables import looking
from cli.place import KEPT_TEXT, Place, read_since, read_until, with_place_of_mode
from cli.tables import Rows
from console.as_json import Line, dumped
from console.details import Once
from console.formats import money
from core.clock import Clock, SystemClock
from core.decision import OPEN_DECISIONS, Decision
from core.layout import StreamLayout
from core.routing import row_name, topics_of
from core.visible import visible
from core.work import Posting
from dlq.command import PROPOSE_REPROCESS, REPROCESS, REPROCESS_MAX, SPREAD_S_MAX, Command, Target
from dlq.orders import DeltaView
from journal.schema import JournalRow
from ledger.reprocess import Forecast, Forecaster, Ignored, Verdict, Wanted, ignored, what_else

SPAN_SEQS_MAX = 250_000
"""From a command's first event to its last: the processor reads their rows again while its stream waits, and rows lie
by their seq."""

DECIDED_S_MAX = 60.0
SETTLED_S_MAX = 90.0
"""Beside the time that a rate takes: a retry or two."""
LOOK_S = 0.5

WELL = frozenset({Decision.APPLIED, Decision.DUPLICATE_FACT})
"""Its movement is booked, by it or by another event that reported the same one."""


@dataclass(slots=True)
class Ran:
    """``commands``: each command's id and what was decided of it, None: not decided yet. ``rows``: the last row of each
    item that was named, by its stream and number, as far as it was waited for."""

    commands: dict[str, str | None] = field(default_factory=dict)
    rows: dict[tuple[str, int], JournalRow] = field(default_factory=dict)
    waited: bool = False

    @property
    def is_well(self) -> bool:
        return not self.waited or all(row.decision in WELL for row in self.rows.values())


def run(
    place: Place,
    books: Sequence[Forecast],
    reason: str,
    per_s: float | None,
    *,
    what: str,
    wait: bool,
    propose: bool = False,
) -> Ran:
    """Gives one command after the other: a next one only when the processor has decided the one before.

    ``propose``: each is a proposal, and nothing becomes of the events yet.

    :raises CommandNotSent: Kafka didn't acknowledge one; those before it are on their way
    :raises AuditLogUnwritable: it can't be put on record
    """
    clock, ran = SystemClock(), Ran(waited=wait and not propose)
    interval_us = 0 if per_s is None else round(1_000_000 / per_s)
    action = PROPOSE_REPROCESS if propose else REPROCESS
    giving = orders(place).giving(this_account(), action, f"{place.mode} {what}", reason)
    shards = [(at, own) for at in place.ledger.places if (own := [one for one in books if one.stream == at.stream])]
    views = {at.stream: DeltaView(at.journal, topics_of(place.mode).control) for at, _ in shards}
    with giving as act, looking("the processor decides"):
        for at, own in shards:
            view = views[at.stream]
            lineage = view.lineage()
            for targets in commands_of([Target.of(one.row) for one in own], interval_us):
                if ran.commands and not propose:
                    time.sleep(at_once_of(interval_us) * interval_us / 1_000_000)
                command = Command.new(at.stream, lineage, action, targets, this_account(), reason, clock.now())
                act.send(replace(command, interval_us=interval_us))
                decided = _decided(view, command.command_id, clock) if wait else None
                ran.commands[command.command_id] = (decided.reason or decided.decision.value) if decided else None
                if wait and decided is None:
                    break
    if ran.waited:
        for at, own in shards:
            settled = _settled(views[at.stream], [one.row.item_seq for one in own], clock)
            ran.rows |= {(at.stream, item_seq): row for item_seq, row in settled.items()}
    return ran


def commands_of(targets: Sequence[Target], interval_us: int) -> Iterator[list[Target]]:
    """What goes into one command each: neighbours in the journal, and no more than are due within a command's time."""
    at_once = at_once_of(interval_us)
    some: list[Target] = []
    for target in sorted(targets, key=lambda one: one.seen_seq):
        if some and (len(some) == at_once or target.seen_seq - some[0].seen_seq >= SPAN_SEQS_MAX):
            yield some
            some = []
        some.append(target)
    if some:
        yield some


def at_once_of(interval_us: int) -> int:
    """Events of one command at a rate."""
    return min(REPROCESS_MAX, int(SPREAD_S_MAX * 1_000_000 // interval_us) + 1) if interval_us else REPROCESS_MAX


def _decided(view: DeltaView, command_id: str, clock: Clock) -> JournalRow | None:
    until = clock.monotonic() + DECIDED_S_MAX
    while (row := view.command_row(command_id)) is None and clock.monotonic() < until:
        time.sleep(LOOK_S)
    return row


def _settled(view: DeltaView, items: Sequence[int], clock: Clock) -> dict[int, JournalRow]:
    """The items' last rows, once none of them is open; after a while as they are."""
    until = clock.monotonic() + SETTLED_S_MAX
    rows = view.last_rows(items)
    while any(row.decision in OPEN_DECISIONS and row.decision is not Decision.DEAD for row in rows.values()):
        if clock.monotonic() >= until:
            break
        time.sleep(LOOK_S)
        rows = view.last_rows(items)
    return rows


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
class Reported:
    """``found`` are ignored, of which so many were ``looked_at``. ``others``: what named keys are that aren't."""

    found: int
    looked_at: int
    counts: Counter[Verdict]
    forecasts: Sequence[Forecast]
    others: Mapping[str, str]


def print_forecasts(reported: Reported, *, as_json: bool, sent: bool) -> None:
    if as_json:
        click.echo(dumped(_tree(reported) | {"sent": sent}))
        return
    for verdict in Verdict:
        if reported.counts[verdict]:
            click.echo(f"{reported.counts[verdict]:>9,}  {WORDS[verdict]}")
    if reported.forecasts:
        _print_table(reported.forecasts)
    _print_rest(reported)
    if not reported.found and not reported.others:
        click.echo("no event is ignored that is like that")
    click.echo("nothing was sent")


def print_run(reported: Reported, ran: Ran, *, as_json: bool) -> None:
    """What was sent, and what became of it."""
    if as_json:
        keys = [(one.stream, one.row.item_seq) for one in reported.forecasts]
        items = [_row(key, ran) for key in keys if key in ran.rows]
        commands = [{"command_id": number, "decided": decided} for number, decided in ran.commands.items()]
        click.echo(dumped(_tree(reported) | {"sent": True, "commands": commands, "items": items}))
        return
    for number, decided in ran.commands.items():
        waits = "not decided yet: `payhook status` tells whether the processor is behind" if ran.waited else "sent"
        click.echo(f"command {number}: {visible(decided) if decided else waits}")
    counts = Counter(one.decision for one in ran.rows.values())
    for decision, count in counts.most_common():
        click.echo(f"{count:>9,}  {_became(decision)}")
    if others := [(stream, row) for (stream, _), row in ran.rows.items() if row.decision is not Decision.APPLIED]:
        rows, once = Rows("seq", "event", "became", "why", right=["seq"]), Once()
        for stream, one in others[:SHOWN]:
            seq = row_name(stream, one.seq)
            rows.add(seq, one.event_key, one.decision.value, once.text(one.reason, f"row {seq}"))
        rows.print()
    _print_rest(reported)
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
    rows, once = Rows("seq", "event", "would", "what", "", right=["seq"]), Once()
    ordered = sorted(forecasts, key=lambda one: (one.verdict is not Verdict.BOOKS, one.row.seq))
    for one in ordered[:SHOWN]:
        seq = row_name(one.stream, one.row.seq)
        would = "be booked" if one.verdict is Verdict.BOOKS else one.verdict.value
        late = "behind later events" if one.late and one.verdict is Verdict.BOOKS else ""
        what = "\n".join(map(_line, one.postings)) or once.text(one.why, f"row {seq}")
        rows.add(seq, one.row.event_key, would, what, late)
    rows.print()
    if len(ordered) > SHOWN:
        click.echo(f"the first {SHOWN} of {len(ordered):,}; --json shows all")


def _print_rest(reported: Reported) -> None:
    for key, what in reported.others.items():
        click.echo(f"{visible(key)}: {what}", err=True)
    if reported.looked_at < reported.found:
        left = reported.found - reported.looked_at
        click.echo(
            f"{left:,} more are ignored and weren't looked at: run it again, or narrow it (--type, --from, --to)"
        )


def _line(posting: Posting) -> str:
    return f"{posting.side} {posting.account} {money(posting.money.amount_minor, posting.money.currency)}"


def _tree(reported: Reported) -> dict[str, Any]:
    return {
        "ignored": reported.found,
        "looked_at": reported.looked_at,
        "counts": {verdict.value: reported.counts[verdict] for verdict in Verdict if reported.counts[verdict]},
        "events": [_forecast(one) for one in reported.forecasts],
        "others": dict(reported.others),
    }


def _forecast(one: Forecast) -> dict[str, Any]:
    return {
        "stream": one.stream,
        "seq": one.row.seq,
        "event_key": one.row.event_key,
        "event_type": one.row.event_type,
        "verdict": one.verdict.value,
        "why": one.why,
        "postings": [Line.of(line) for line in one.postings],
        "fact_key": one.fact_key,
        "behind_later_events": one.late,
    }


def _row(item: tuple[str, int], ran: Ran) -> dict[str, Any]:
    last = ran.rows[item]
    names = {"stream": item[0], "item_seq": item[1], "seq": last.seq, "event_key": last.event_key}
    return names | {"decision": last.decision.value, "reason": last.reason, "handler_version": last.handler_version}


LIMIT = 1_000
LIMIT_MAX = 20_000
LOOKED_AT_MAX = 100_000
"""Ignored events that are read for one call: most are of types that move no money."""


@click.command("reprocess")
@click.option("--provider", help="Only this provider's (stripe, adyen, …).")
@click.option("--type", "event_types", multiple=True, metavar="TYPE", help="Only events of this type; may be repeated.")
@click.option("--event-key", "event_keys", multiple=True, metavar="KEY", help="Only this event; may be repeated.")
@click.option(
    "--from", "since", callback=read_since, metavar="TIME", help="Only ignored then or later: a day or a time, UTC."
)
@click.option(
    "--to", "until", callback=read_until, metavar="TIME", help="Only ignored before then; a day counts as a whole."
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
    """Book events that were ignored because no handler took their type, now that one does.

    Without options that narrow it, all ignored events are looked at. The handler that is installed here is asked about
    each, the oldest first; only what it would book is sent, and the processor decides. An event takes effect once:
    asking again finds nothing left. Beyond the stream's limits of a day (dlq.alone_replay_items_max,
    dlq.alone_replay_amounts_minor_max) it is refused unless another person approves it (--propose). Exit 1 if an event
    that was named can't be reprocessed, or one wasn't booked.
    """
    if not dry_run and not reason:
        raise click.UsageError("--reason is wanted: it is kept with each decision (or --dry-run)")
    wanted = Wanted(provider, event_types, event_keys, since, until)
    ledger = place.ledger
    found = {at: ignored(at.journal, wanted, ledger.shard(at)) for at in ledger.places}
    looked_at, forecasts = _forecasts(place, found, limit)
    named = {one.row.event_key for one in forecasts}
    others: dict[str, str] = {}
    for key in (key for key in event_keys if key not in named):
        at, _, _ = ledger.of_event(key)
        others |= what_else(at.journal, [key])
    books = [one for one in forecasts if one.verdict is Verdict.BOOKS]
    reported = Reported(_count(found), looked_at, Counter(one.verdict for one in forecasts), forecasts, others)
    if dry_run or not books:
        print_forecasts(reported, as_json=as_json, sent=False)
        left_out = [one for one in forecasts if one.row.event_key in event_keys and one.verdict is not Verdict.BOOKS]
        sys.exit(1 if others or left_out else 0)
    ran = run(place, books, reason or "", per_s, what=_what(wanted, len(books)), wait=wait, propose=propose)
    print_run(reported, ran, as_json=as_json)
    if propose and not as_json:
        click.echo(APPROVED_WHERE)
    sys.exit(0 if not others and ran.is_well else 1)


def _count(found: Mapping[StreamLayout, Ignored]) -> int:
    return sum(one.count for one in found.values())


def _forecasts(place: Place, found: Mapping[StreamLayout, Ignored], limit: int) -> tuple[int, list[Forecast]]:
    """How many were looked at, and what would become of them, until so many would be booked."""
    from ledger.handler import build
    from providers.registry import build_adapters

    settings = place.settings
    handler, adapters = build(settings.ledger, settings.providers), build_adapters(settings.providers)
    books = 0
    forecasts: list[Forecast] = []
    with looking(f"asking the handler about {_count(found):,} ignored events"):
        for at, own in found.items():
            redactions = at.shared("redactions")
            forecaster = Forecaster(own.lake, at.bodies, redactions, adapters, handler, at.stream)
            for rows in own.rows():
                if len(forecasts) >= LOOKED_AT_MAX:
                    break
                for one in forecaster.of(rows):
                    if books == limit:
                        return len(forecasts), forecasts
                    books += one.verdict is Verdict.BOOKS
                    forecasts.append(one)
    return len(forecasts), forecasts


def _what(wanted: Wanted, count: int) -> str:
    """What was ordered, for the audit log."""
    parts = [f"{count} ignored events"]
    parts += [f"of {wanted.provider}"] if wanted.provider else []
    parts += [f"of type {', '.join(wanted.event_types)}"] if wanted.event_types else []
    parts += [", ".join(wanted.event_keys[:5])] if wanted.event_keys else []
    bounds = (("from", wanted.since), ("to before", wanted.until))
    parts += [f"ignored {word} {at.isoformat()}" for word, at in bounds if at is not None]
    return "; ".join(parts)
