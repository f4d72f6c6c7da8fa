"""The invariant between what was booked and what the provider had reported."""

from __future__ import annotations

from core.money import Movement
from core.routing import TENANT_MARK
from ledger.accounts import BOOKINGS
from ledger.verify.evidence import Evidence
from ledger.verify.invariant import Finding

_PAYOUTS = (Movement.PAYOUT_PAID, Movement.PAYOUT_FAILED)


def _moved(swapped: bool) -> str:
    """The movement that books these two roles, as SQL; with its sides swapped, of an amount below zero."""
    cases = [
        f"WHEN debit = '{(credit if swapped else debit).value}' AND credit = '{(debit if swapped else credit).value}' "
        f"THEN '{movement.value}'"
        for movement, (debit, credit) in BOOKINGS.items()
        if movement in _PAYOUTS or not swapped
    ]
    return f"CASE {' '.join(cases)} END"


_FACT = "sha2(concat_ws(char(31), fact, {movement}, coalesce(account, ''), {amount}, currency), 256)"
_BOOKED = f"""
    WITH rows AS (
        SELECT seq, event_key, fact_key, fact_sha256, account, size(parsed) AS size,
               IF(tenant IS NULL, fact_key, substring(fact_key, length(tenant) + {len(TENANT_MARK)} + 1)) AS fact,
               element_at(filter(parsed, line -> line.side = 'debit'), 1) AS one,
               element_at(filter(parsed, line -> line.side = 'credit'), 1) AS other
        FROM journal LATERAL VIEW explode(array(lines)) AS parsed
        WHERE decision = 'applied' AND postings IS NOT NULL AND fact_sha256 IS NOT NULL
              AND handler_version LIKE 'ledger-%.%'),
    booked AS (
        SELECT seq, event_key, fact_key, fact, fact_sha256, account, size, one.currency, one.amount_minor,
               split_part(one.account, ':', 3) AS debit, split_part(other.account, ':', 3) AS credit
        FROM rows)
    SELECT CASE WHEN moved IS NULL OR size <> 2 THEN 'a booking that the chart of accounts does not know'
                ELSE 'a booking that is not what was reported' END AS problem,
           seq, event_key, fact_key, debit, credit, amount_minor, currency
    FROM (SELECT *, {_moved(swapped=False)} AS moved, {_moved(swapped=True)} AS turned FROM booked)
    WHERE moved IS NULL OR size <> 2
       OR NOT (fact_sha256 = {_FACT.format(movement="moved", amount="CAST(amount_minor AS string)")}
               OR (turned IS NOT NULL
                   AND fact_sha256 = {_FACT.format(movement="turned", amount="CAST(-amount_minor AS string)")}))
    ORDER BY seq
"""  # noqa: S608 - words of our own


class BookingsAreReported:
    """A row keeps the hash of the fact that its event reported, so what was booked can be held against it without the
    body. Rows of a handler of one's own aren't looked at.
    """

    name = "bookings_are_reported"
    sentence = "Every booking is the movement, amount, currency and account that its event reported."

    def check(self, evidence: Evidence) -> Finding:
        return Finding(self.name, self.sentence, tuple(evidence.sample(_BOOKED)))
