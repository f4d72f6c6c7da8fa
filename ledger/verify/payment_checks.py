"""Invariants of bookings, and of each payment: what was given back, what was undone, and whose it is."""

from __future__ import annotations

from typing import Any

from ledger.verify.body_checks import BodyFacts
from ledger.verify.engine import read_promise
from ledger.verify.evidence import Evidence
from ledger.verify.report import Finding, PromiseInvariant
from ledger.verify.views import MOVED, NAMED


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


MOVED_VIEW, NAMED_VIEW = "moved", "named_lines"


class _PaymentInvariant(PromiseInvariant):
    def __init__(self, bodies: BodyFacts | None = None) -> None:
        self.bodies = bodies

    def _is_asked(self, evidence: Evidence) -> bool:
        return evidence.is_whole or evidence.count_taken_back() > 0

    def _add_view(self, evidence: Evidence) -> None:
        lines = "every_line"
        if self.bodies is not None and evidence.is_whole and evidence.count_nameless() > 0:
            self.bodies.register_once(evidence)
            evidence.engine.add_view(NAMED_VIEW, NAMED)
            lines = NAMED_VIEW
        evidence.engine.add_view(MOVED_VIEW, MOVED.format(lines=lines))

    def _explain_unknown(self, evidence: Evidence) -> str | None:
        since = "" if self._is_asked(evidence) else "payments of which nothing was taken back since"
        by_body = "--deep reads it in the bodies" if self.bodies is None else "bodies that are kept name it"
        count = evidence.count_nameless()
        nameless = f"payments by themselves: {count} bookings name a merchant account as a whole; {by_body}"
        return "; ".join([part for part in (since, nameless if count else "") if part]) or None


class _AwaitingInvariant(_PaymentInvariant):
    """An event that is under way may still put things right, so an offence counts only after a while."""

    def check(self, evidence: Evidence) -> Finding:
        unknown = self._explain_unknown(evidence)
        if not self._is_asked(evidence):
            return self.build_finding(evidence, (), {"awaiting": 0}, unknown)
        self._add_view(evidence)
        evidence.engine.add_result("found", read_promise(self.name).sql)
        offenders, waiting = (
            evidence.ask_sample(f"SELECT * FROM found WHERE {which} ORDER BY seq")  # noqa: S608 - one of two words
            for which in ("NOT awaits", "awaits")
        )
        [counts] = evidence.rows("SELECT count(*) AS awaiting, min(since) AS oldest FROM found WHERE awaits")
        figures = {**counts, **({"payments": [row["entity_key"] for row in waiting]} if waiting else {})}
        described = ({name: value for name, value in row.items() if name != "awaits"} for row in offenders)
        return self.build_finding(evidence, described, figures, unknown)


class RefundsHaveCaptures(_AwaitingInvariant):
    name = "refunds_have_captures"


class UndosFollowMovements(PromiseInvariant):
    name = "undos_follow_movements"


class UndosHaveMovements(_AwaitingInvariant):
    name = "undos_have_movements"


class OneMerchantAPayment(_PaymentInvariant):
    name = "one_merchant_a_payment"

    def check(self, evidence: Evidence) -> Finding:
        unknown = self._explain_unknown(evidence)
        if not self._is_asked(evidence):
            return self.build_finding(evidence, unknown=unknown)
        self._add_view(evidence)
        return self.build_finding(evidence, evidence.search_offenders(self.name), unknown=unknown)
