"""What is backed up, and in which order the tables' versions are pinned."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from core.place import Place
from core.routing import MODES, stream_of
from stack.settings import Settings, streams_of

JOURNAL, BODIES, RECEIPTS, REDACTIONS, ACTS = "journal", "bodies", "receipts", "redactions", "acts"
REFERRING = (RECEIPTS, "reconciliation", "reconciliation-runs")
"""Tables of a mode that refer to rows of its journal, which never refers to them."""


@dataclass(frozen=True, slots=True)
class SourceTable:
    """A table of the lake: its kind, its path in the lake, and its work stream, if it is one's."""

    kind: str
    path: str
    stream: str = ""


def tables(settings: Settings) -> list[SourceTable]:
    """Every table that can't be made again, in the order in which versions are pinned: what refers to other things
    first, so that what it refers to is in the copy.

    A journal is pinned before the bodies and the acts that it refers to, which were written before its rows; that of a
    stream that reads another's comes before that one's. Redactions and bodies change under the maintenance lock alone.
    Postings, indexes and lists of dead events are made again from the journal.
    """
    streams = sorted(streams_of(settings).values(), key=lambda one: one.source_stream is None)
    own = [stream_of(one.name, mode) for mode in MODES for one in streams]
    layout = settings.layout
    return [
        *(SourceTable(kind, stream_of(kind, mode)) for mode in MODES for kind in REFERRING),
        *(SourceTable(JOURNAL, f"journal/{stream}", stream) for stream in own),
        *(SourceTable(BODIES, layout.stream(stream).bodies.name, stream) for stream in own),
        *(SourceTable(REDACTIONS, stream_of(REDACTIONS, mode)) for mode in MODES),
        SourceTable(ACTS, layout.acts.name),
    ]


def files(settings: Settings) -> dict[str, Path]:
    """Files that people's work is in, by their path in a backup. Secrets aren't among them."""
    return {
        "console/users.json": settings.layout.users,
        "merchants.toml": Path(settings.ledger.merchants_file),
        "subscribers.toml": Path(settings.notify.subscribers_file),
    }


def place_of(lake: Place, table: str) -> Place:
    """Where a table is, by its path in the lake."""
    for part in table.split("/"):
        lake = lake / part
    return lake
