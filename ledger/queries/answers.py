"""How subscribers answered of late, from the journal of the stream that notifies them."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Any

from core.decision import Decision
from ledger.queries.lake import (
    PinnedTables,
    Tables,
    join_conditions,
    list_tables,
    match_any,
    match_decided_within,
    quote_literal,
)

_NAME = "split_part(event_key, ':', 2)"
"""Of an event's key the part that names its subscriber (`processor.source.feed` makes it)."""

_WAITS = match_any("decision", [Decision.RETRY.value, Decision.PARKED.value, Decision.REPLAYED.value])
_FAILED = f"error_class IS NOT NULL AND {match_any('decision', [Decision.RETRY.value, Decision.DEAD.value])}"
_TAKEN = f"decision = {quote_literal(Decision.APPLIED.value)}"


@dataclass(frozen=True, slots=True)
class SubscriberAnswers:
    """The deliveries to a subscriber and its answers.

    ``taken``: events that it answered with 2xx. ``waiting``: events that are still to be sent, the next one at
    ``next_try``. ``failing_since``: its first failure since it last took one; None while it takes them. ``last_at`` and
    ``last_answer``: its last answer, or failure to answer.
    """

    taken: int = 0
    waiting: int = 0
    next_try: datetime | None = None
    failing_since: datetime | None = None
    last_at: datetime | None = None
    last_answer: str = ""


def read_subscriber_answers(journal: Tables, since: datetime) -> dict[str, SubscriberAnswers]:
    """Returns the answers by subscriber, of events that were decided from ``since`` on.

    :raises LedgerUnreadable: a journal is damaged
    """
    by_subscriber: dict[str, SubscriberAnswers] = {}
    for rows in list_tables(journal):
        for name, answers in _read_journal(PinnedTables(journal=[rows]), rows.after, since).items():
            by_subscriber[name] = answers if name not in by_subscriber else _merge_answers(by_subscriber[name], answers)
    return by_subscriber


def _read_journal(lake: PinnedTables, after: int, since: datetime) -> dict[str, SubscriberAnswers]:
    if "journal" not in lake:
        return {}
    where = join_conditions(
        [*match_decided_within(since, None), f"seq > {after}", "event_key IS NOT NULL", "provider IS NOT NULL"]
    )
    summed = _ask_by_name(
        lake,
        f"SELECT {_NAME} AS name, sum(CASE WHEN {_TAKEN} THEN 1 ELSE 0 END) AS taken, "
        f"coalesce(max(CASE WHEN {_TAKEN} THEN seq END), 0) AS taken_seq, "
        f"max(CASE WHEN {_TAKEN} THEN decided_at END) AS taken_at, "
        f"coalesce(max(CASE WHEN {_FAILED} THEN seq END), 0) AS failed_seq FROM journal {where} GROUP BY 1",
    )
    waiting = _ask_by_name(
        lake,
        f"SELECT {_NAME} AS name, count(*) AS waiting, min(due_at) AS next_try FROM journal {where} AND {_WAITS} "
        "AND seq IN (SELECT max(seq) FROM journal GROUP BY item_seq) GROUP BY 1",
    )
    failing = {name: row for name, row in summed.items() if row["failed_seq"] > row["taken_seq"]}
    last = {
        row["seq"]: row
        for row in lake.ask(
            "SELECT seq, decided_at, error_class, error_message FROM journal "
            f"WHERE {match_any('seq', [failure['failed_seq'] for failure in failing.values()])}"
        ).to_pylist()
    }
    begun = " OR ".join(
        f"({_NAME} = {quote_literal(name)} AND seq > {row['taken_seq']})" for name, row in failing.items()
    )
    began = _ask_by_name(
        lake,
        f"SELECT {_NAME} AS name, min(decided_at) AS at FROM journal {where} AND {_FAILED} AND ({begun or 'false'}) "
        "GROUP BY 1",
    )
    return {
        name: SubscriberAnswers(
            taken=sums["taken"],
            waiting=waiting.get(name, {}).get("waiting", 0),
            next_try=waiting.get(name, {}).get("next_try"),
            failing_since=began[name]["at"] if name in failing else None,
            last_at=last[sums["failed_seq"]]["decided_at"] if name in failing else sums["taken_at"],
            last_answer=_describe_error(last[sums["failed_seq"]])
            if name in failing
            else "2xx"
            if sums["taken"]
            else "",
        )
        for name, sums in summed.items()
    }


def _ask_by_name(lake: PinnedTables, sql: str) -> dict[str, dict[str, Any]]:
    return {row["name"]: row for row in lake.ask(sql).to_pylist()}


def _describe_error(row: dict[str, Any]) -> str:
    return ": ".join(filter(None, (row["error_class"], row["error_message"])))


def _merge_answers(first: SubscriberAnswers, other: SubscriberAnswers) -> SubscriberAnswers:
    tries = [at for at in (first.next_try, other.next_try) if at is not None]
    failing = [at for at in (first.failing_since, other.failing_since) if at is not None]
    newest = max((first, other), key=lambda each: (each.last_at is not None, each.last_at))
    return SubscriberAnswers(
        taken=first.taken + other.taken,
        waiting=first.waiting + other.waiting,
        next_try=min(tries, default=None),
        failing_since=min(failing, default=None),
        last_at=newest.last_at,
        last_answer=newest.last_answer,
    )
