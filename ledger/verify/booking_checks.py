"""Invariants of bookings: balance, what was reported, what was taken back, and what was booked by hand."""

from __future__ import annotations

from typing import Any

from ledger.verify.evidence import Evidence
from ledger.verify.report import PromiseInvariant


class BookingsAreReported(PromiseInvariant):
    """Compares a booking with its row's hash of the fact that the event reported, so the body isn't needed.

    Rows of a handler of one's own aren't compared.
    """

    name = "bookings_are_reported"


class Balanced(PromiseInvariant):
    name = "balanced"


class ReversalsMirrorBookings(PromiseInvariant):
    name = "reversals_mirror_bookings"

    def count_figures(self, evidence: Evidence) -> dict[str, Any]:
        return evidence.rows("SELECT count(*) AS reversals FROM journal WHERE decision = 'reversed' AND NOT first")[0]


class ReprocessedWereIgnored(PromiseInvariant):
    name = "reprocessed_were_ignored"

    def count_figures(self, evidence: Evidence) -> dict[str, Any]:
        return evidence.rows(
            """
            SELECT count(DISTINCT item_seq) AS reprocessed FROM (
                SELECT item_seq, decision, lag(decision) OVER (PARTITION BY item_seq ORDER BY seq) AS was
                FROM journal
                WHERE decision IN ('ignored', 'unknown') OR (decision = 'replayed' AND NOT first))
            WHERE decision = 'replayed' AND was IN ('ignored', 'unknown')
            """
        )[0]


class ReleasesHaveTwoPeople(PromiseInvariant):
    name = "releases_have_two_people"


class EntriesHaveTwoPeople(PromiseInvariant):
    name = "entries_have_two_people"
