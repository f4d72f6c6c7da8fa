"""The webhooks of the story, and what was expected of them beside what happened."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime
from random import Random
from typing import Any

from rich.table import Table

from load.client import RunningStack
from load.latency import first_decisions, percentile
from load.open_loop import Answer
from load.traffic import Traffic, Webhook

HONEST = 420
REDELIVERED = 40
AT_ONCE_EVENTS = 5
AT_ONCE_COPIES = 10
FOLLOWERS = 3

NEWCOMER = "acct_newcomer"
CLOSED = "acct_closed"

MERCHANTS = """\
# Which internal account belongs to a provider's merchant account. Read again whenever it changes.
[stripe]
"acct_main" = "merchant-main"
"acct_closed" = {account = "merchant-closed", closed = true}

[adyen]
"MainMerchant" = "merchant-main"

[standardwebhooks]
"shop" = "merchant-main"
"""

MERCHANTS_LATER = MERCHANTS.replace(
    '"acct_closed" = {account = "merchant-closed", closed = true}',
    '"acct_closed" = "merchant-closed"\n"acct_newcomer" = "merchant-newcomer"',
)

SLO_P99_S = 5.0
COLUMNS = ["event_key", "decision", "first", "attempt", "entity_key", "error_class", "item_seq", "provider"]


@dataclass(frozen=True, slots=True)
class Cast:
    """Everything that is posted, by the part it plays.

    ``waiting`` and ``closed`` are a head and its followers, of one payment each.
    """

    honest: Sequence[Webhook]
    redelivered: Sequence[Webhook]
    at_once: Sequence[Webhook]
    after_redis_loss: Sequence[Webhook]
    first_content: Webhook
    other_content: Webhook
    poison: Webhook
    unknown_type: Webhook
    waiting: Sequence[Webhook]
    closed: Sequence[Webhook]
    money_events: set[str] = field(default_factory=set)

    @property
    def deliveries(self) -> int:
        """Webhooks that the story posts, every redelivery and copy counted."""
        once = (self.honest, self.redelivered, self.after_redis_loss, self.waiting, self.closed)
        alone = (self.first_content, self.other_content, self.poison, self.unknown_type)
        return sum(map(len, once)) + len(alone) + AT_ONCE_COPIES * len(self.at_once)


def make_cast(traffic: Traffic, random: Random) -> Cast:
    """Signed and ready; amounts and order differ from run to run."""
    honest = [traffic.single(number) for number in range(HONEST)]
    first = traffic.stripe("conflict", "charge.succeeded", 4_200, "EUR")
    other = traffic.stripe("conflict", "charge.succeeded", 9_900, "EUR")
    cast = Cast(
        honest=honest,
        redelivered=random.sample(honest[: HONEST // 2], REDELIVERED),
        at_once=[traffic.stripe(f"once-{n}", "charge.succeeded", 1_000 + n, "EUR") for n in range(AT_ONCE_EVENTS)],
        after_redis_loss=random.sample(honest[: HONEST // 2], REDELIVERED),
        first_content=first,
        other_content=other,
        poison=traffic.signed("stripe", b'{"id": "evt_broken", "type": "charge.succeeded", '),
        unknown_type=traffic.stripe("mandate", "mandate.updated", 0, "EUR"),
        waiting=_payment(traffic, "newcomer", NEWCOMER),
        closed=_payment(traffic, "closed", CLOSED),
    )
    applied = [*honest, *cast.at_once, first, *cast.waiting, *cast.closed]
    cast.money_events.update(key for webhook in applied if not _no_money(webhook) for key in webhook.event_keys)
    return cast


def _payment(traffic: Traffic, number: str, account: str) -> list[Webhook]:
    """A capture and the refunds that follow it, all of one payment."""
    head = traffic.stripe(number, "charge.succeeded", 9_000, "EUR", account=account)
    refunds = [
        traffic.stripe(f"{number}-{n}", "refund.created", 1_000, "EUR", account=account, payment=number)
        for n in range(1, FOLLOWERS + 1)
    ]
    return [head, *refunds]


def _no_money(webhook: Webhook) -> bool:
    if webhook.provider != "stripe":
        return False
    return bool(json.loads(webhook.body)["type"] == "customer.updated")


@dataclass(slots=True)
class Outcome:
    """The table's lines; ``ok`` when each came out as expected."""

    lines: list[tuple[str, str, str, bool]] = field(default_factory=list)

    @property
    def ok(self) -> bool:
        return all(good for *_, good in self.lines)

    def says(self, what: str, expected: object, got: object) -> None:
        self.lines.append((what, _words(expected), _words(got), expected == got))

    def holds(self, what: str, expected: str, got: str, good: bool) -> None:
        self.lines.append((what, expected, got, good))

    def table(self) -> Table:
        table = Table("what happened", "expected", "came out", "")
        for what, expected, got, good in self.lines:
            table.add_row(what, expected, got, "[green]ok[/]" if good else "[red]no[/]")
        return table


def _words(value: object) -> str:
    return ", ".join(value) if isinstance(value, list) else str(value)


def judge(
    stack: RunningStack,
    cast: Cast,
    answers: Sequence[Answer],
    quiet: tuple[datetime, datetime],
    restarts: int,
    verified: tuple[bool, str],
) -> Outcome:
    """``quiet``: from the kill to when all was decided again; what was received or waited then has no latency here."""
    outcome = Outcome()
    rows = stack.rows(COLUMNS)
    by_key: dict[str, list[dict[str, Any]]] = {}
    for row in rows:
        by_key.setdefault(row["event_key"], []).append(row)
    _answers(outcome, cast, answers)
    _effects(outcome, cast, by_key)
    _troubles(outcome, cast, by_key)
    outcome.holds("processor after kill -9", "back by itself", f"{restarts} restart(s)", restarts >= 1)
    _latencies(outcome, stack, cast, quiet)
    outcome.holds("payhook verify", "clean", verified[1], verified[0])
    return outcome


def _answers(outcome: Outcome, cast: Cast, answers: Sequence[Answer]) -> None:
    accepted = sum(1 for answer in answers if answer.status == 200)
    outcome.says(f"answered 200, of {len(answers)} webhooks", cast.deliveries, accepted)
    replayed = sum(1 for answer in answers if answer.replayed)
    outcome.holds("  known to Redis already", "> 0", str(replayed), replayed > 0)


def _effects(outcome: Outcome, cast: Cast, by_key: dict[str, list[dict[str, Any]]]) -> None:
    effects = Counter(key for key, rows in by_key.items() for row in rows if row["decision"] == "applied")
    outcome.says("payments and refunds applied", len(cast.money_events), len(effects.keys() & cast.money_events))
    outcome.says("  applied twice", 0, sum(1 for count in effects.values() if count > 1))
    outcome.says("  applied, unexpected", 0, len(effects.keys() - cast.money_events))
    caught = sum(1 for rows in by_key.values() for row in rows if row["decision"] == "duplicate")
    outcome.holds(
        "copies only the journal caught",
        f"≥ {len(set(_keys(cast.after_redis_loss)))}",
        str(caught),
        caught >= len(set(_keys(cast.after_redis_loss))),
    )


def _troubles(outcome: Outcome, cast: Cast, by_key: dict[str, list[dict[str, Any]]]) -> None:
    outcome.says("same id, other content", ["applied", "dead"], _decisions(by_key, cast.first_content))
    poison = [row["decision"] for rows in by_key.values() for row in rows if row["error_class"] == "Poison"]
    outcome.says("signed, but unreadable", ["dead"], poison)
    outcome.says("a type without a handler", ["ignored"], _decisions(by_key, cast.unknown_type))
    head = _decisions(by_key, cast.waiting[0])
    retried = head.count("retry")
    outcome.holds(
        "a merchant that wasn't known yet",
        "retried, then applied",
        f"{retried} × retry, {head[-1]}",
        retried >= 1 and head[-1] == "applied",
    )
    outcome.says("  its followers in order behind it", "yes", _in_order(by_key, cast.waiting))
    outcome.says("a closed merchant", ["dead", "replayed", "applied"], _decisions(by_key, cast.closed[0]))
    outcome.says("  its followers in order behind it", "yes", _in_order(by_key, cast.closed))


def _latencies(outcome: Outcome, stack: RunningStack, cast: Cast, quiet: tuple[datetime, datetime]) -> None:
    on_purpose = set(_keys([*cast.waiting, *cast.closed]))
    seconds = [
        one.seconds
        for one in first_decisions(stack.journal, "payments.events")
        if one.event_key not in on_purpose and not (one.committed_at >= quiet[0] and one.received_at <= quiet[1])
    ]
    p50, p99 = (percentile(seconds, share) if seconds else 0.0 for share in (0.5, 0.99))
    outcome.holds(f"receive → commit, P50 of {len(seconds)}", "", f"{p50:.2f} s", bool(seconds))
    outcome.holds("receive → commit, P99", f"< {SLO_P99_S:g} s", f"{p99:.2f} s", 0 < p99 < SLO_P99_S)


def _decisions(by_key: dict[str, list[dict[str, Any]]], webhook: Webhook) -> list[str]:
    return [row["decision"] for key in webhook.event_keys for row in by_key.get(key, [])]


def _in_order(by_key: dict[str, list[dict[str, Any]]], webhooks: Sequence[Webhook]) -> str:
    """Returns whether every event was applied, none before the one that it follows, and the followers had been
    parked."""
    applied: list[int] = []
    for webhook in webhooks:
        rows = [row for key in webhook.event_keys for row in by_key.get(key, [])]
        if webhook is not webhooks[0] and rows[0]["decision"] != "parked":
            return "not parked"
        applied += [row["seq"] for row in rows if row["decision"] == "applied"]
    return "yes" if len(applied) == len(webhooks) and applied == sorted(applied) else f"no: {applied}"


def _keys(webhooks: Sequence[Webhook]) -> list[str]:
    return [key for webhook in webhooks for key in webhook.event_keys]
