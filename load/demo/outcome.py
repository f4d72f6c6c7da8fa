"""What was expected beside what happened."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from rich.table import Table

from load.client import RunningStack
from load.demo.cast import Cast
from load.latency import first_decisions, percentile
from load.open_loop import Answer
from load.traffic import Webhook

P50_S_GOAL = 1.0
P99_S_GOAL = 3.0
"""Goals on two cores that do nothing else: shown, not judged, because a busy machine proves nothing."""

SLO_P99_S = 5.0
COLUMNS = ["event_key", "decision", "first", "attempt", "entity_key", "error_class", "item_seq", "provider"]


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
    p50, p99 = percentile(seconds, 0.5) or 0.0, percentile(seconds, 0.99) or 0.0
    within = 0 < p99 < SLO_P99_S
    outcome.holds(f"receive → commit, P50 of {len(seconds)}", f"about {P50_S_GOAL:g} s", f"{p50:.2f} s", within)
    outcome.holds("receive → commit, P99", f"< {P99_S_GOAL:g} s; SLO {SLO_P99_S:g} s", f"{p99:.2f} s", within)


def _decisions(by_key: dict[str, list[dict[str, Any]]], webhook: Webhook) -> list[str]:
    return [row["decision"] for key in webhook.event_keys for row in by_key.get(key, [])]


def _in_order(by_key: dict[str, list[dict[str, Any]]], webhooks: Sequence[Webhook]) -> str:
    """Whether every event was applied, none before the one that it follows, and the followers had been parked."""
    applied: list[int] = []
    for webhook in webhooks:
        rows = [row for key in webhook.event_keys for row in by_key.get(key, [])]
        if webhook is not webhooks[0] and rows[0]["decision"] != "parked":
            return "not parked"
        applied += [row["seq"] for row in rows if row["decision"] == "applied"]
    return "yes" if len(applied) == len(webhooks) and applied == sorted(applied) else f"no: {applied}"


def _keys(webhooks: Sequence[Webhook]) -> list[str]:
    return [key for webhook in webhooks for key in webhook.event_keys]
