"""What was found in one portion, and in all of them."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum

import numpy as np

from core.routing import WHOLE, Shard
from ledger.verify.fast_path.commits import COMMIT
from ledger.verify.fast_path.hashes import KeyDigest
from ledger.verify.fast_path.items import Items
from ledger.verify.fast_path.offsets import Runs


@dataclass(frozen=True, slots=True)
class Tables:
    """What is looked at, each at one version. ``postings``: None where there are none."""

    journal: str
    journal_version: int
    last_seq: int
    postings: str | None
    postings_version: int
    postings_mark: int
    index_seq: int
    mode: str
    shard: Shard = WHOLE
    own_after: int = 0
    """The postings have no lines of rows up to here (`journal.shards`)."""


class Doubt(StrEnum):
    """What couldn't be cleared, and is to be searched exactly. A doubt isn't an offence yet."""

    READ = "a file that can't be read, or a row that lacks what every row has"
    ORDER = "rows don't follow one another by seq, commit by commit"
    OFFSETS = "too many runs of offsets"
    PLACES = "offsets of a partition that don't rise from row to row"
    MODE = "a row of another mode"
    BALANCE = "a booking that doesn't balance, or can't be read"
    POSTINGS = "lines that aren't those of the journal"
    EVENTS = "an event key with other than one holder and one effect"
    FACTS = "a fact with other than one effect"
    ITEMS = "an item with a row before its first one or after its last one"
    GIVEN_BACK = "a payment of which more was refunded or disputed than captured"
    UNDONE = "a payment or payout of which more was undone than done"
    MERCHANTS = "a payment whose bookings name several merchants"


@dataclass(slots=True)
class PortionResult:
    """Of one portion. Its keys, items and payments go to their buckets apart from it."""

    rows: int = 0
    doubts: set[Doubt] = field(default_factory=set)
    commits: np.ndarray = field(default_factory=lambda: np.empty(0, COMMIT))
    runs: Runs = field(default_factory=dict)
    events: KeyDigest = field(default_factory=KeyDigest)
    facts: KeyDigest = field(default_factory=KeyDigest)
    dead: int = 0
    taken_back: int = 0
    """Lines of merchants' accounts that other movements than captures and payouts booked."""
    nameless: int = 0
    """Booking rows whose entity is a merchant account as a whole: they don't name their payment."""
    reversals: list[tuple[int, int]] = field(default_factory=list)
    """Items whose booking was taken back, and the seq of the row that did it."""
    late: int = 0
    """Rows that took effect after their item's first row and aren't marked as out of order."""

    purged: list[str] = field(default_factory=list)
    """Event keys of what people purged: another content may hold one of them since."""

    lines: int = 0
    files: dict[str, int] = field(default_factory=dict)
    """Of the postings: what was opened, and how many lines each file holds."""


@dataclass(frozen=True, slots=True)
class BucketResult:
    """What was found in one bucket. ``items``: up to the end; ``indexed``: up to the row that the index reflects."""

    doubts: set[Doubt]
    items: Items
    indexed: Items
