"""What pays most to do next, the most urgent first: the page and the Markdown say the same."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias

from dlq.report.model import CauseOfWeek, WeeklyReport

CAUSES_MAX = 3
NAMED_MAX = 10

Kind: TypeAlias = Literal["text", "name", "command"]


@dataclass(frozen=True, slots=True)
class Part:
    """A piece of a step. A ``name`` comes from events and errors: whatever it holds is text."""

    kind: Kind
    text: str


Step: TypeAlias = tuple[Part, ...]


def steps(report: WeeklyReport) -> list[Step]:
    """Empty: nothing died and nothing is left."""
    return list(_steps(report))


def few(items: Sequence[int]) -> str:
    """Numbers of items, of which many aren't named."""
    named, more = ", ".join(str(item) for item in items[:NAMED_MAX]), len(items) - NAMED_MAX
    return (named or "none") + (f" and {more:,} more" if more > 0 else "")


def _steps(report: WeeklyReport) -> Iterator[Step]:
    if report.breaches.waiting:
        told = f"Decide about what is older than 48 hours and still open: {few(report.breaches.waiting)} ("
        yield _text(told), _command("payhook dlq show ID"), _text(").")
    for cause in [cause for cause in report.causes if cause.open][:CAUSES_MAX]:
        yield _text(f"{cause.open:,} × "), _cause(cause), _text(f": {cause.advice}.")
    if again := next((cause for cause in report.causes if cause.again), None):
        told = f" again before its cause is mended: {again.again:,} {_replays(again.again)} died of it anew."
        yield _text("Don't replay "), _cause(again), _text(told)
    if bug := next(iter(report.bugs or ()), None):
        cases = "case" if bug.cases == 1 else "cases"
        yield (
            _text("Send "),
            Part("name", bug.provider),
            _text(f" the evidence of {bug.cases:,} {cases} of {bug.explained}: "),
            _command(f"payhook ledger provider-bugs --provider {bug.provider} --csv"),
            _text("."),
        )


def _text(text: str) -> Part:
    return Part("text", text)


def _command(text: str) -> Part:
    return Part("command", text)


def _cause(cause: CauseOfWeek) -> Part:
    return Part("name", cause.error_class)


def _replays(count: int) -> str:
    return "replay" if count == 1 else "replays"
