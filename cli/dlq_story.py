"""How ``payhook dlq show`` tells one item's story. What strangers wrote reaches no terminal as it came."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime

from rich.console import Console
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from cli.dlq_form import age, console, error_of, money
from cli.tables import row
from core.clock import to_rfc3339
from core.visible import visible, visible_lines
from dlq.index import Attempt, Item, ItemStory, Neighbour, Some

BODY_SHOWN_CHARS_MAX = 4_000
STACK_SHOWN_CHARS_MAX = 5_000
_INDENT = (0, 0, 0, 2)


def print_story(story: ItemStory, now: datetime) -> None:
    """Where it stands, then why, then what is around it, then its bytes."""
    out = console()
    _facts(out, f"item {story.item.item_seq}: {_standing(story, now)}", _about(story))
    _table(out, "decisions", ("seq", "decided (UTC)", "decision", "who", "why"), _decisions(story))
    if story.cut:
        out.print(f"  these are its first and last {len(story.rows)} rows; there are more between")
    for attempt in story.attempts:
        _print_attempt(out, attempt, whole=attempt is story.died_of)
    _neighbours(out, f"before it, of {story.item.entity_key}", story.before)
    _neighbours(out, "after it", story.after)
    _some(out, "held by it", story.held)
    _some(out, "earlier ones like it", story.alike)
    _facts(out, "headers", sorted(story.headers.items()))
    _print_payload(out, story)


def _standing(story: ItemStory, now: datetime) -> str:
    item = story.item
    since = item.first_dead_at
    died = f", died first {age(since, now)} ago" if since is not None else ""
    times = f", {item.times_died} times" if item.times_died > 1 else ""
    return f"{item.state.value} ({item.decision.value}){died}{times}"


def _about(story: ItemStory) -> list[tuple[str, str | None]]:
    item, first = story.item, story.first
    return [
        ("stream", story.stream),
        ("event", first.event_key),
        ("entity", first.entity_key),
        ("fact", first.fact_key),
        ("type", first.event_type),
        ("provider", first.provider),
        ("account", first.account),
        ("tenant", first.tenant),
        ("amount", money(item)),
        ("occurred", _time(first.occurred_at)),
        ("received", _time(first.received_at)),
        ("Kafka", f"{first.topic}[{first.partition}]@{first.offset}"),
        ("error", error_of(item) if item.error_class is not None else None),
        ("fingerprint", item.fingerprint),
        ("due", _time(item.due_at)),
        ("last row", str(item.seen_seq)),
    ]


def _decisions(story: ItemStory) -> Iterable[tuple[object, ...]]:
    for one in story.rows:
        cause = f"seq {one.cause_seq}" if one.cause_seq is not None else ""
        why = "; ".join(part for part in (one.reason, cause) if part)
        yield one.seq, _second(one.decided_at), one.decision.value, one.actor, why


def _print_attempt(out: Console, attempt: Attempt, *, whole: bool) -> None:
    """A try; of the one that it died of stack and log lines too."""
    facts = [
        ("at", _time(attempt.at)),
        ("ended", attempt.decision.value),
        (
            "error",
            ": ".join(part for part in (attempt.error_class, attempt.error_code, attempt.message) if part) or None,
        ),
        ("kind", attempt.kind.value if attempt.kind is not None else None),
        ("handler", attempt.handler_version),
    ]
    _facts(out, f"try {attempt.number}", facts)
    for title, text in (("stack", attempt.stack), ("log", attempt.log_lines)):
        if whole and text:
            out.print(f"  {title}", style="bold")
            _text(out, visible_lines(text, STACK_SHOWN_CHARS_MAX), indent=4)


def _neighbours(out: Console, title: str, events: Sequence[Neighbour]) -> None:
    rows = [(one.item_seq, _second(one.decided_at), one.decision.value, one.event_key, one.reason) for one in events]
    _table(out, title, ("ID", "decided (UTC)", "decision", "event", "why"), rows)


def _some(out: Console, title: str, some: Some) -> None:
    more = f" (the first {len(some.items)} of {some.total:,})" if some.total > len(some.items) else ""
    _table(out, title + more, ("ID", "since (UTC)", "decision", "event", "why"), map(_item, some.items))


def _item(item: Item) -> tuple[object, ...]:
    return item.item_seq, _second(item.since), item.decision.value, item.event_key, error_of(item)


def _print_payload(out: Console, story: ItemStory) -> None:
    payload = story.payload
    _facts(out, "body", [("", payload.told)])
    if payload.raw is not None:
        text = payload.pretty or payload.raw.decode("utf-8", "replace")
        _text(out, visible_lines(text, BODY_SHOWN_CHARS_MAX), indent=2)


def _facts(out: Console, title: str, facts: Iterable[tuple[str, str | None]]) -> None:
    there = [(name, value) for name, value in facts if value is not None]
    if not there:
        return
    out.print(visible(title), style="bold", markup=False)
    grid = Table.grid(padding=(0, 2))
    grid.add_column(no_wrap=True)
    grid.add_column(overflow="fold")
    for name, value in there:
        row(grid, name, value)
    out.print(Padding(grid, _INDENT))


def _table(out: Console, title: str, names: Sequence[str], rows: Iterable[tuple[object, ...]]) -> None:
    """The last two columns give way; nothing is printed of no rows."""
    listed = list(rows)
    if not listed:
        return
    out.print(visible(title), style="bold", markup=False)
    table = Table(box=None, pad_edge=False, padding=(0, 1), show_edge=False)
    for place, name in enumerate(names):
        folds = place >= len(names) - 2
        table.add_column(name, no_wrap=not folds, overflow="fold", ratio=1 if folds else None)
    for cells in listed:
        row(table, *cells)
    out.print(Padding(table, _INDENT))


def _text(out: Console, text: str, indent: int) -> None:
    out.print(Padding(Text(text, overflow="fold"), (0, 0, 0, indent)))


def _time(at: datetime | None) -> str | None:
    return None if at is None else to_rfc3339(at)


def _second(at: datetime) -> str:
    return f"{at:%Y-%m-%d %H:%M:%S}"
