"""What became of the raw bodies of an event: kept, removed by somebody's order, or dropped when their time was over."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Literal, TypeAlias

from deltalake import DeltaTable

from core.clock import to_rfc3339
from journal.bodies import BodyStore
from journal.place import Place
from journal.schema import JournalRow
from ledger.redactions import ORDERED, Redactions

Fate: TypeAlias = Literal["kept", "redacted", "dropped"]


@dataclass(frozen=True, slots=True)
class BodyFate:
    """Of one body. ``actor``, ``reason`` and ``at`` are a redaction's."""

    body_sha256: str
    fate: Fate
    actor: str | None = None
    reason: str | None = None
    at: datetime | None = None

    def __str__(self) -> str:
        if self.fate == "redacted" and self.at is not None:
            return f"body {self.body_sha256}: redacted by {self.actor} at {to_rfc3339(self.at)}: {self.reason}"
        if self.fate == "dropped":
            return f"body {self.body_sha256}: no longer kept, dropped by retention (ledger.bodies_days)"
        return f"body {self.body_sha256}: kept"


def fates(bodies: Place, redactions: Place, rows: Sequence[JournalRow]) -> list[BodyFate]:
    """Of every body that rows refer to, in the rows' order.

    :raises JournalBroken: the bodies can't be read
    :raises RedactionsBroken: somebody wrote to the table of redactions
    """
    hashes = list(dict.fromkeys(row.body_sha256 for row in rows if row.body_sha256 is not None))
    if not hashes:
        return []
    there = BodyStore(str(bodies)).held(hashes) if DeltaTable.is_deltatable(str(bodies)) else set()
    ordered = {act.body_sha256: act for act in Redactions(redactions).all() if act.act == ORDERED}
    found = []
    for sha256 in hashes:
        if act := ordered.get(sha256):
            found.append(BodyFate(sha256, "redacted", act.actor, act.reason, act.at))
        else:
            found.append(BodyFate(sha256, "kept" if sha256 in there else "dropped"))
    return found
