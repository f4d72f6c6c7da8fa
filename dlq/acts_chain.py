"""One act, its row, and the chain over rows: a row that is changed, removed or put in afterwards breaks it."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass, fields, replace
from datetime import datetime
from enum import StrEnum
from typing import Any

import pyarrow as pa

from core.clock import from_micros, to_micros, to_rfc3339
from journal.schema import GENESIS, TIMESTAMP, extend

TEXT_CHARS_MAX = 2_000
SHOWN_CHARS_MAX = 20_000
"""Of ``before`` and ``after``. What is longer is cut, and says so: no act goes unrecorded for its length."""

ACTS_SCHEMA = pa.schema(
    [
        pa.field("number", pa.int64(), nullable=False),
        pa.field("act_id", pa.string(), nullable=False),
        pa.field("at", TIMESTAMP, nullable=False),
        pa.field("actor", pa.string(), nullable=False),
        pa.field("channel", pa.string(), nullable=False),
        pa.field("action", pa.string(), nullable=False),
        pa.field("outcome", pa.string(), nullable=False),
        pa.field("what", pa.string(), nullable=False),
        pa.field("reason", pa.string(), nullable=False),
        pa.field("before", pa.string()),
        pa.field("after", pa.string()),
        pa.field("chain", pa.string(), nullable=False),
    ]
)


class Outcome(StrEnum):
    """What became of an act."""

    DONE = "done"
    REFUSED = "refused"
    FAILED = "failed"


@dataclass(frozen=True, slots=True, kw_only=True)
class Act:
    """What somebody did or wanted to do. ``at`` is UTC.

    ``actor``: a user's name, or with ``channel`` ``cli`` the account of the machine; other channels are ``page`` and
    ``api``. ``action`` is a verb (``replay``, ``sign_in``), ``what`` its object. ``before`` and ``after``: what it
    changed, as JSON or plain text; None where nothing is to be shown.
    """

    at: datetime
    actor: str
    action: str
    outcome: Outcome
    channel: str
    what: str = ""
    reason: str = ""
    before: str | None = None
    after: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordedAct(Act):
    """An act in its place. ``chain`` is the head after it; ``act_id`` is random."""

    number: int
    act_id: str
    chain: str

    def as_row(self) -> dict[str, Any]:
        """By the columns of `ACTS_SCHEMA`."""
        return {**asdict(self), "outcome": self.outcome.value}


def chained(act: Act, act_id: str, number: int, head: str) -> RecordedAct:
    """The act as the row that follows a head; texts are cut to what a row holds."""
    row = RecordedAct(
        number=number,
        act_id=act_id,
        chain="",
        at=from_micros(to_micros(act.at)),
        actor=_cut(act.actor, TEXT_CHARS_MAX),
        channel=_cut(act.channel, TEXT_CHARS_MAX),
        action=_cut(act.action, TEXT_CHARS_MAX),
        outcome=act.outcome,
        what=_cut(act.what, TEXT_CHARS_MAX),
        reason=_cut(act.reason, TEXT_CHARS_MAX),
        before=None if act.before is None else _cut(act.before, SHOWN_CHARS_MAX),
        after=None if act.after is None else _cut(act.after, SHOWN_CHARS_MAX),
    )
    return replace(row, chain=_head_after(row, head))


def recorded(row: dict[str, Any]) -> RecordedAct:
    """The inverse of `RecordedAct.as_row`, from Arrow.

    :raises ValueError: a value that no writer of ours would have put there
    """
    known = {field.name: row[field.name] for field in fields(RecordedAct)}
    return RecordedAct(**{**known, "at": from_micros(to_micros(row["at"])), "outcome": Outcome(row["outcome"])})


class ChainWalk:
    """Goes through rows in the order of their numbers and says what is wrong where. ``heads``: the head after each
    number that is wanted.
    """

    def __init__(self, wanted: Iterable[int] = ()) -> None:
        self._wanted = frozenset(wanted)
        self.heads: dict[int, str] = {0: GENESIS}
        self.number = 0

    def offenders(self, rows: Iterable[dict[str, Any]]) -> Iterator[dict[str, Any]]:
        """After an offender the walk goes on from what is there: each change is named once."""
        head = GENESIS
        for row in rows:
            number = row["number"]
            if number == self.number:
                yield {"problem": "two acts have this number", "number": number}
                continue
            if number != self.number + 1:
                yield {"problem": "acts are missing", "after": self.number, "before": number}
            elif (problem := _problem(row, head)) is not None:
                yield {"problem": problem, "number": number, "actor": row["actor"], "action": row["action"]}
            self.number, head = number, row["chain"]
            if number in self._wanted:
                self.heads[number] = head


def _problem(row: dict[str, Any], head: str) -> str | None:
    try:
        follows = _head_after(recorded(row), head) == row["chain"]
    except ValueError as stranger:
        return f"it isn't an act ({stranger})"
    return None if follows else "it, or the act before it, isn't what it was when it was recorded"


def _head_after(row: RecordedAct, head: str) -> str:
    told = {**row.as_row(), "at": to_rfc3339(row.at)}
    del told["chain"]
    text = json.dumps(told, sort_keys=True, separators=(",", ":"), ensure_ascii=True)
    return extend(head, hashlib.sha256(text.encode()).hexdigest())


def _cut(text: str, chars_max: int) -> str:
    text = text.encode("utf-8", "replace").decode()
    return text if len(text) <= chars_max else f"{text[:chars_max]}… ({len(text) - chars_max} more characters)"
