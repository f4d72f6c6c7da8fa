"""Names what can be decided of an event: the words of the journal."""

from __future__ import annotations

from enum import StrEnum


class Decision(StrEnum):
    """Names what was decided. Every journal row holds one of these."""

    APPLIED = "applied"
    IGNORED = "ignored"
    UNKNOWN = "unknown"
    """Nothing here says what the event means for money: it is kept, holds nothing back, and a person looks."""
    DUPLICATE = "duplicate"
    DUPLICATE_FACT = "duplicate_fact"
    RETRY = "retry"
    PARKED = "parked"
    DEAD = "dead"
    REPLAYED = "replayed"
    PURGED = "purged"
    RELEASED = "released"
    """Ended without effect, and its event key is free: what the provider sends again is a first event."""
    RESOLVED = "resolved"
    REVERSED = "reversed"
    LOST = "lost"
    PORTION = "portion"
    """Of no event: a row of the command that began a run says how far the run is, and what it refused of a portion."""


OPEN_DECISIONS = frozenset({Decision.RETRY, Decision.PARKED, Decision.DEAD, Decision.REPLAYED})
"""After these an item still waits for something: time, its entity's head, or a person."""

NO_STEP_DECISIONS = frozenset({Decision.REVERSED, Decision.LOST, Decision.PORTION})
"""These neither leave an item open nor end it."""


WITHOUT_EFFECT = frozenset({Decision.IGNORED, Decision.UNKNOWN})
"""These end an event that had no effect; a person may have it replayed once a handler knows more."""


TAKES_FACT = frozenset({Decision.APPLIED, Decision.UNKNOWN})
"""A row with a fact and one of these has it for good. Of what is unknown only an undo has one: what it takes back was
never booked, and books nothing if it comes after it."""


NO_RETRIES = "has spent its retry budget"
"""How the reason of an event ends that waits for the retry budget of what it calls."""


class ErrorKind(StrEnum):
    """Says what a failure means for the next try."""

    NRE = "NRE"
    """Non-retriable: no retry will help."""
    SLE = "SLE"
    """Short-lived: likely gone in a moment."""
    SNBE = "SNBE"
    """Slow, not blocking others: only this event is stuck."""
    SBE = "SBE"
    """Slow and blocking: every event of the stream would fail."""
