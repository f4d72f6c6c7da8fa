"""What became of the raw bodies of an event: kept, removed by somebody's order, or dropped when their time was over."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Literal, TypeAlias

from deltalake import DeltaTable

from core.clock import to_rfc3339
from core.location import Location
from journal.bodies import BodyStore
from journal.schema import JournalRow
from ledger.redactions import Redactions

Fate: TypeAlias = Literal["kept", "redacted", "dropped"]


@dataclass(frozen=True, slots=True)
class BodyFate:
    """Of one body. ``actor``, ``reason`` and ``at`` are its last redaction's; one that is ``kept`` came again since."""

    body_sha256: str
    fate: Fate
    actor: str | None = None
    reason: str | None = None
    at: datetime | None = None

    def __str__(self) -> str:
        redacted = f"redacted by {self.actor} at {to_rfc3339(self.at)}: {self.reason}" if self.at is not None else ""
        if self.fate == "redacted":
            return f"body {self.body_sha256}: {redacted}"
        if self.fate == "dropped":
            return f"body {self.body_sha256}: no longer kept, dropped by retention (ledger.bodies_days)"
        return f"body {self.body_sha256}: kept" + (f"; it came again after it was {redacted}" if redacted else "")


def fates(bodies: Location, redactions: Location, rows: Sequence[JournalRow]) -> list[BodyFate]:
    """Of every body that rows refer to, in the rows' order.

    :raises JournalBroken: the bodies can't be read
    :raises RedactionsBroken: somebody wrote to the table of redactions
    """
    hashes = list(dict.fromkeys(row.body_sha256 for row in rows if row.body_sha256 is not None))
    if not hashes:
        return []
    there = BodyStore(str(bodies)).held(hashes) if DeltaTable.is_deltatable(str(bodies)) else set()
    last = {act.body_sha256: (act, done) for act, done in Redactions(redactions).orders()}
    found = []
    for sha256 in hashes:
        act, done = last.get(sha256, (None, None))
        if act is None:
            found.append(BodyFate(sha256, "kept" if sha256 in there else "dropped"))
        else:
            came_again = done is not None and sha256 in there
            found.append(BodyFate(sha256, "kept" if came_again else "redacted", act.actor, act.reason, act.at))
    return found
