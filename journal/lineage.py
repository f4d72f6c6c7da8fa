"""Lineages: which of a journal's lives something outside of it was said in.

A journal that goes on from an older copy of itself numbers its next rows as the rows that it gave up were numbered. It
therefore gets a new id, its lineage, and remembers which it came from: what is known of it elsewhere (anchors, dead
letters) under a lineage of before, beyond the row that it went on from, was given up.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from core.clock import from_rfc3339, to_rfc3339

LINEAGES_NOTE = "lineages"
"""The journal's note of the lineages before its own, oldest first."""

LINEAGES_MAX = 32
"""Each begins by a person's decision, and every commit carries all of them: about 6 KiB."""

REASON_CHARS_MAX = 120


@dataclass(frozen=True, slots=True)
class Abandoned:
    """A lineage that was given up beyond row ``after``, at a moment (UTC), and why.

    ``after`` is 0 where none of its own rows is in this journal.
    """

    lineage: str
    after: int
    at: datetime
    reason: str = ""


def abandoned(notes: Mapping[str, str]) -> tuple[Abandoned, ...]:
    """What the journal's notes say of lineages before its own, oldest first."""
    fields = json.loads(notes.get(LINEAGES_NOTE, "[]"))
    return tuple(Abandoned(one["lineage"], one["after"], from_rfc3339(one["at"]), one["reason"]) for one in fields)


def to_note(lineages: Sequence[Abandoned]) -> str:
    """The inverse of `abandoned`; of more than `LINEAGES_MAX` the newest."""
    fields = [
        {"lineage": one.lineage, "after": one.after, "at": to_rfc3339(one.at), "reason": one.reason[:REASON_CHARS_MAX]}
        for one in lineages[-LINEAGES_MAX:]
    ]
    return json.dumps(fields, separators=(",", ":"))


def is_given_up(notes: Mapping[str, str], lineage: str, seq: int) -> bool:
    """Whether the journal with these notes gave up what was said of row ``seq`` in a lineage."""
    return any(one.lineage == lineage and seq > one.after for one in abandoned(notes))


def cuts(notes: Mapping[str, str]) -> list[tuple[int, datetime]]:
    """Each time that the journal went on from an older row: rows after that, decided before then, are given up."""
    last: dict[datetime, int] = {}
    for one in abandoned(notes):
        last[one.at] = max(one.after, last.get(one.at, 0))
    return [(after, at) for at, after in sorted(last.items())]
