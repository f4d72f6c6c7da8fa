"""Lists the details of an item, an event and an entity, in the order and words of pages and commands."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Literal

import orjson

from console.formats import format_money, format_second, format_span
from console.waits import EventWait
from core.clock import to_rfc3339
from core.decision import Decision, ErrorKind
from core.event import WITHHELD_SHA256
from core.log import TRACEPARENT, trace_id_of
from core.routing import row_name
from dead_letters.item import Item, Mark
from dead_letters.rates import HOUR_S, Rate
from dead_letters.stats import Stats
from dead_letters.story import ItemStory
from journal.schema import JournalRow
from ledger.queries.story import Delivery, EventStory
from ledger.reconciliations import Difference, ReconciledJournal, Reconciliation

CLEAR_WITHIN_H = 4


@dataclass(frozen=True, slots=True)
class Detail:
    """Shows one thing that is known, under its name: a text, or a moment.

    ``about``: the key of an event or an entity, or a trace's id, whose page says more. ``is_key``: it is for machines
    to read.
    """

    name: str
    text: str | None
    at: datetime | None = None
    about: tuple[Literal["event", "entity", "trace"], str] | None = None
    is_key: bool = False

    @property
    def shown(self) -> str | None:
        return self.text if self.at is None else to_rfc3339(self.at)


@dataclass(frozen=True, slots=True)
class Moment:
    at: datetime | None
    title: str
    decision: str | None
    details: Sequence[Detail]
    lines: Sequence[dict[str, Any]] = ()
    log_lines: str | None = None


class TextsShownOnce:
    """Shows long texts once: the same text again is a reference to where it stands."""

    def __init__(self) -> None:
        self._places: dict[str, str] = {}

    def text(self, text: str | None, place: str, short: str = "") -> str | None:
        if not text:
            return text
        first = self._places.setdefault(text, place)
        return text if first == place else f"{short} (as {first})".strip()


def error_text(
    error_class: str | None,
    error_code: str | None,
    kinds: Sequence[ErrorKind | Mark | None],
    message: str | None,
) -> str:
    """Writes ``MerchantUnknown 404 (NRE): no such merchant``; empty where there was no error."""
    error_name = " ".join(part for part in (error_class, error_code) if part)
    kind_names = ", ".join(kind.value for kind in kinds if kind is not None)
    error_name = f"{error_name} ({kind_names})" if error_name and kind_names else error_name
    return ": ".join(part for part in (error_name, message) if part)


def item_error(item: Item) -> str:
    error = error_text(item.error_class, item.error_code, (item.kind, item.mark), item.message)
    return error or item.reason or ""


def died_of(story: ItemStory) -> str:
    died = story.died_of
    return "" if died is None else error_text(died.error_class, died.error_code, (died.kind,), died.message)


def item_details(story: ItemStory, wait: EventWait | None = None) -> list[Detail]:
    """Says where an item is from, what it is about, and where it stands; its error stands apart (`died_of`).

    ``wait``: what it waits for now, where that is known. Without it, the item's last row says when it is due.
    """
    item, first = story.item, story.first_row
    tries = f"{len(story.attempts)}; died {item.times_died} ×, replayed {item.replays} ×"
    return _drop_empty(
        [
            _event_detail("event", item.event_key) if item.event_key else Detail("event", "no identity"),
            _entity_detail(item.entity_key),
            _event_detail("fact", first.fact_key),
            Detail("type", item.event_type),
            Detail("provider", item.provider),
            Detail("account", item.account),
            Detail("tenant", item.tenant),
            Detail("amount", format_money(item.amount_minor, item.currency) or "not known"),
            Detail("stream", story.stream),
            Detail("in Kafka", f"{item.topic}, partition {item.partition}, offset {item.offset}", is_key=True),
            Detail("occurred", None, first.occurred_at),
            Detail("received", None, item.received_at),
            Detail("died first", None, item.first_dead_at),
            Detail("last decided", None, item.last_decided_at),
            Detail("last row", str(item.seen_seq)),
            *_wait_details(item, wait),
            Detail("tries", tries),
            Detail("retry policy", next((row.retry_policy for row in reversed(story.rows) if row.retry_policy), None)),
            Detail("next", next_step(story.rows[-1])),
            trace_of(story.headers.get(TRACEPARENT)),
            Detail("reason", None if item.reason == f"{item.error_class}: {item.message}" else item.reason),
            Detail("cause", item.fingerprint, is_key=True),
            Detail("body", first.body_sha256, is_key=True),
        ]
    )


def _wait_details(item: Item, wait: EventWait | None) -> list[Detail]:
    if wait is None:
        return [Detail("due, by its last row", None, item.due_at)]
    return [
        Detail("waits for", f"{wait.wait.value}. {wait.text}"),
        Detail("waits since", None, wait.since),
        Detail("next try", None, wait.until),
    ]


def trace_of(traceparent: str | None) -> Detail:
    trace_id = None if traceparent is None else trace_id_of(traceparent)
    return Detail("trace", trace_id, about=None if trace_id is None else ("trace", trace_id), is_key=True)


def next_step(row: JournalRow) -> str | None:
    """Says what becomes of an item after its last row; None of one that is closed."""
    match row.decision:
        case Decision.RETRY:
            return f"try {row.attempt + 1}, as its retry policy says"
        case Decision.REPLAYED:
            return "try 1 of a new round"
        case Decision.PARKED if row.due_at is None:
            return "its turn, behind an earlier event of its entity"
        case Decision.PARKED:
            return "it is checked again when it is due; no try was spent"
        case Decision.DEAD if row.error_kind is ErrorKind.NRE:
            return "nothing by itself, since no retry helps: fix the cause and replay it, or close it"
        case Decision.DEAD:
            return "nothing by itself, since its retry policy has no try left: replay it, or close it"
        case _:
            return None


def tries_of(story: ItemStory) -> list[Moment]:
    once = TextsShownOnce()
    once.text(died_of(story), "above")
    moments = []
    for attempt in story.attempts:
        error = error_text(attempt.error_class, attempt.error_code, (attempt.kind,), attempt.message)
        details = [
            Detail("error", once.text(error, f"try {attempt.number}", attempt.error_class or "") or None),
            Detail("handler", attempt.handler_version),
        ]
        title = f"try {attempt.number}, row {attempt.seq}"
        moments.append(
            Moment(attempt.at, title, attempt.decision.value, _drop_empty(details), log_lines=attempt.log_lines)
        )
    return moments


@dataclass(frozen=True, slots=True)
class Figure:
    name: str
    value: str
    note: str
    level: str = ""


def figures_of(stats: Stats) -> list[Figure]:
    age = None if stats.oldest is None else stats.at - stats.oldest
    oldest = "no dead events" if stats.oldest is None else f"since {format_second(stats.oldest)}"
    next_over = "" if stats.next_over_24h is None else f"; the next in {format_span(stats.next_over_24h - stats.at)}"
    return [
        Figure("dead", f"{stats.open:,}", f"{stats.waiting:,} more wait for a try"),
        Figure("oldest", format_span(age) or "none", oldest, _age_level(stats, age)),
        Figure(
            f"past {stats.age_h_max:g} h",
            f"{stats.over_24h:,}",
            f"{stats.over_48h:,} past {stats.escalate_h:g} h{next_over}",
            "bad" if stats.over_48h else "warn" if stats.over_24h else "",
        ),
        *(_rate_figure(rate, stats.open) for rate in stats.rates),
    ]


def _rate_figure(rate: Rate, depth: int) -> Figure:
    note, level = f"time to clear: {rate.clearing}", "warn" if rate.time_to_clear_s is None else ""
    if rate.window_s == HOUR_S and depth:
        needed = math.ceil(depth / CLEAR_WITHIN_H + rate.inflow)
        note += f"; {needed:,} an hour clear it in {CLEAR_WITHIN_H} h"
    return Figure(f"last {rate.window}", rate.counted, note, level)


def run_details(run: Reconciliation) -> list[Detail]:
    period = " to ".join(format_second(at) or "open" for at in (run.since, run.until))
    listed = [Detail("not compared", f"{n:,} × {category}") for category, n in sorted(run.not_compared.items())]
    return [
        Detail("run", run.run_id, is_key=True),
        Detail("provider", run.provider),
        *([] if run.account is None else [Detail("account", run.account, is_key=True)]),
        Detail("at", None, run.at),
        Detail("report", run.report_name, is_key=True),
        Detail("sha256", run.report_sha256, is_key=True),
        Detail("period", period),
        Detail("lines", f"{run.lines:,}"),
        Detail("compared", f"{run.compared:,} movements; {run.agreed:,} agree"),
        *listed,
        Detail("journal up to", ", ".join([f"row {run.journal_seq:,}", *map(_describe_seen, run.other_shards)])),
    ]


def _describe_seen(shard: ReconciledJournal) -> str:
    return f"row {shard.journal_seq:,} of {shard.stream}"


def journal_says(difference: Difference) -> str:
    if difference.seq is None:
        return "nothing" if difference.kind == "missing_here" else ""
    account = f", not for the account {difference.account}" if difference.kind == "account_differs" else ""
    return f"{difference.decision} ({difference.event_name}){account}"


def _age_level(stats: Stats, age: timedelta | None) -> str:
    if age is None or age <= timedelta(hours=stats.age_h_max):
        return ""
    return "warn" if age <= timedelta(hours=stats.escalate_h) else "bad"


def make_timeline(delivery: Delivery, story: EventStory, rows_max: int | None = None) -> list[Moment]:
    once = TextsShownOnce()
    return [_received_moment(delivery), *(_decided_moment(row, story, once) for row in delivery.rows[:rows_max])]


def _received_moment(delivery: Delivery) -> Moment:
    first = delivery.first
    scope = (("mode", first.mode), ("tenant", first.tenant), ("zone", first.zone))
    content = f"{first.content_sha256} (version {first.content_version})" if first.content_sha256 else None
    details = [
        Detail("by", delivery.source or first.provider),
        Detail("traffic", ", ".join(f"{name} {value}" for name, value in scope if value is not None) or None),
        Detail("claim in Redis", first.dedupe),
        Detail("in Kafka", delivery.kafka_location),
        _event_detail("event", first.event_key),
        Detail("type", first.event_type),
        Detail("occurred", None, first.occurred_at),
        _event_detail("fact", first.fact_key),
        _entity_detail(first.entity_key),
        Detail("account", first.account),
        Detail("body", _describe_body(delivery), is_key=True),
        Detail("body as sent", _as_sent(first.original_sha256), is_key=True),
        Detail("content", content, is_key=True),
        Detail("fact's content", first.fact_sha256, is_key=True),
        Detail("replays", str(delivery.replay_count) if delivery.replay_count else None),
        trace_of(orjson.loads(first.headers).get(TRACEPARENT) if first.headers else None),
    ]
    return Moment(first.received_at, "received", None, _drop_empty(details))


def _decided_moment(row: JournalRow, story: EventStory, once: TextsShownOnce) -> Moment:
    error = error_text(row.error_class, row.error_code, (row.error_kind,), row.error_message)
    details = [
        Detail("reason", row.reason),
        _cause_detail(row, story),
        Detail("by", row.actor),
        Detail("attempt", str(row.attempt) if row.attempt else None),
        Detail("retry policy", row.retry_policy),
        Detail("due", None, row.due_at),
        Detail("error", once.text(error, f"row {row.seq}", row.error_class or "") or None),
        Detail("order", "later than its place in Kafka" if row.out_of_order else None),
        Detail("handler", row.handler_version),
        Detail("commit", _describe_commit(row, story)),
        Detail("row hash", row.row_hash, is_key=True),
    ]
    lines = [line for line in story.postings if line["seq"] == row.seq]
    name = row_name(story.stream, row.seq)
    return Moment(row.decided_at, f"row {name}", row.decision.value, _drop_empty(details), lines)


def _drop_empty(details: Sequence[Detail]) -> list[Detail]:
    return [detail for detail in details if detail.shown is not None]


def _event_detail(name: str, key: str | None) -> Detail:
    return Detail(name, key, about=None if key is None else ("event", key), is_key=True)


def _entity_detail(key: str | None) -> Detail:
    return Detail("entity", key, about=None if key is None else ("entity", key), is_key=True)


def _describe_body(delivery: Delivery) -> str | None:
    kept = {None: "", True: " (kept)", False: " (not kept any more)"}[delivery.body_kept]
    return None if delivery.first.body_sha256 is None else f"{delivery.first.body_sha256}{kept}"


def _as_sent(keyed_sha256: str | None) -> str | None:
    if keyed_sha256 == WITHHELD_SHA256:
        return "with a card's code or track data, no hash of it is kept"
    return None if keyed_sha256 is None else f"{keyed_sha256} (keyed; with card data)"


def _cause_detail(row: JournalRow, story: EventStory) -> Detail:
    if row.cause_seq is None:
        return Detail("cause", None)
    cause = story.causes.get(row.cause_seq)
    if cause is None:
        return Detail("cause", f"row {row.cause_seq}, which the journal doesn't hold: run payhook verify")
    whose = f" by {cause.actor}" if cause.actor else ""
    cause_name = f" of {cause.event_key}" if cause.event_key and cause.event_key != row.event_key else ""
    name = row_name(story.stream, cause.seq)
    return Detail("cause", f"row {name}: {cause.decision}{cause_name}{whose}", about=("event", f"seq:{name}"))


def _describe_commit(row: JournalRow, story: EventStory) -> str:
    commit, batch = story.commits.get(row.batch_seq), f"batch {row.batch_seq}, epoch {row.epoch}"
    if commit is None:
        return f"{batch}; its version isn't known any more: log cleaned up"
    return f"version {commit.version} ({batch}) at {to_rfc3339(commit.committed_at)}"
