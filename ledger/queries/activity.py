"""A stream's activity over time, from its journal alone: tries, retries by attempt, what died, and how late it was."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime

from core.decision import Decision
from ledger.queries.lake import PinnedTables, Tables, join_conditions, list_tables, match_decided_within, quote_literal

ATTEMPT_MAX = 5
"""Tries of this attempt and later ones are counted together."""

_TRIED = (Decision.APPLIED, Decision.IGNORED, Decision.UNKNOWN, Decision.RETRY, Decision.DEAD)


@dataclass(frozen=True, slots=True)
class Activity:
    """The decisions of a step of time that begins ``at``.

    ``events`` counts events whose first decision was then. ``first_tries`` and ``retries`` are a handler's tries,
    whatever came of them; retries by attempt from 2 on, where `ATTEMPT_MAX` stands for all later ones. ``dead``: events
    that died. ``p50_s`` and ``p99_s``: seconds from an event's receipt to its first decision; None where none came.
    """

    at: datetime
    events: int = 0
    first_tries: int = 0
    retries: Mapping[int, int] = field(default_factory=dict)
    dead: int = 0
    p50_s: float | None = None
    p99_s: float | None = None


def read_activity(journal: Tables, since: datetime, until: datetime, step_s: int) -> list[Activity]:
    """Reads the steps in which anything was decided, oldest first. Of several journals the slowest one's delays count.

    :raises LedgerUnreadable: a journal is damaged
    """
    assert step_s > 0
    by_time: dict[datetime, Activity] = {}
    for rows in list_tables(journal):
        for step in _read_journal(PinnedTables(journal=[rows]), rows.after, since, until, step_s):
            by_time[step.at] = step if step.at not in by_time else _merge_activity(by_time[step.at], step)
    return [by_time[at] for at in sorted(by_time)]


def _read_journal(lake: PinnedTables, after: int, since: datetime, until: datetime, step_s: int) -> list[Activity]:
    if "journal" not in lake:
        return []
    begin = f"date_bin(INTERVAL '{step_s} seconds', decided_at)"
    # Commands of people have no provider: they are no events.
    where = join_conditions([*match_decided_within(since, until), f"seq > {after}", "provider IS NOT NULL"])
    delay = "(arrow_cast(decided_at, 'Int64') - arrow_cast(received_at, 'Int64')) / 1e6"
    is_first = "first AND received_at IS NOT NULL"
    steps = lake.ask(
        f"SELECT {begin} AS at, sum(CASE WHEN first THEN 1 ELSE 0 END) AS events, "
        f"sum(CASE WHEN decision = {quote_literal(Decision.DEAD.value)} THEN 1 ELSE 0 END) AS dead, "
        f"approx_percentile_cont(0.5) WITHIN GROUP (ORDER BY CASE WHEN {is_first} THEN {delay} END) AS p50_s, "
        f"approx_percentile_cont(0.99) WITHIN GROUP (ORDER BY CASE WHEN {is_first} THEN {delay} END) AS p99_s "
        f"FROM journal {where} GROUP BY 1"
    ).to_pylist()
    tried = ", ".join(quote_literal(decision.value) for decision in _TRIED)
    # A row's attempt counts the failures that another try followed.
    number = f"CASE WHEN decision = {quote_literal(Decision.RETRY.value)} THEN attempt ELSE attempt + 1 END"
    tries = lake.ask(
        f"SELECT {begin} AS at, least({number}, {ATTEMPT_MAX}) AS attempt, count(*) AS tries "
        f"FROM journal {where} AND decision IN ({tried}) GROUP BY 1, 2"
    ).to_pylist()
    by_step: dict[datetime, dict[int, int]] = {}
    for row in tries:
        by_step.setdefault(row["at"], {})[row["attempt"]] = row["tries"]
    return [
        Activity(
            **{name: step[name] for name in ("at", "events", "dead", "p50_s", "p99_s")},
            first_tries=by_step.get(step["at"], {}).get(1, 0),
            retries={attempt: n for attempt, n in sorted(by_step.get(step["at"], {}).items()) if attempt > 1},
        )
        for step in steps
    ]


def _merge_activity(first: Activity, other: Activity) -> Activity:
    attempts = sorted(first.retries.keys() | other.retries.keys())
    return Activity(
        at=first.at,
        events=first.events + other.events,
        first_tries=first.first_tries + other.first_tries,
        retries={attempt: first.retries.get(attempt, 0) + other.retries.get(attempt, 0) for attempt in attempts},
        dead=first.dead + other.dead,
        p50_s=_pick_slower(first.p50_s, other.p50_s),
        p99_s=_pick_slower(first.p99_s, other.p99_s),
    )


def _pick_slower(first: float | None, other: float | None) -> float | None:
    return max((value for value in (first, other) if value is not None), default=None)
