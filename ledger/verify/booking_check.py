"""The invariant between what was booked and what the provider had reported."""

from __future__ import annotations

from core.keys import PART_CHARS_MAX
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
_KIND = "IF(split_part({line}.account, ':', 3) = 'clearing', 'provider', 'merchant')"
_BOOKED = f"""
    WITH rows AS (
        SELECT seq, event_key, fact_key, fact_sha256, account, tenant, provider, size(parsed) AS size,
               handler_version LIKE 'ledger-1.%' AS first_chart,
               IF(tenant IS NULL, provider, tenant || '{TENANT_MARK}' || provider) AS own,
               IF(tenant IS NULL, fact_key, substring(fact_key, length(tenant) + {len(TENANT_MARK)} + 1)) AS fact,
               try_element_at(filter(parsed, line -> line.side = 'debit'), 1) AS one,
               try_element_at(filter(parsed, line -> line.side = 'credit'), 1) AS other,
               split_part(try_element_at(filter(parsed, line -> line.account LIKE 'provider:%'), 1).account, ':', 2)
                   AS holder,
               size(array_distinct(transform(filter(parsed, line -> line.account LIKE 'merchant:%'),
                                             line -> split_part(line.account, ':', 2)))) AS merchants
        FROM journal LATERAL VIEW explode(array(lines)) AS parsed
        WHERE decision = 'applied' AND postings IS NOT NULL AND fact_sha256 IS NOT NULL
              AND handler_version LIKE 'ledger-%.%'),
    booked AS (
        SELECT seq, event_key, fact_key, fact, fact_sha256, account, tenant, own, holder, first_chart,
               one.currency, one.amount_minor,
               split_part(one.account, ':', 3) AS debit, split_part(other.account, ':', 3) AS credit,
               size = 2 AND merchants = 1 AND split_part(one.account, ':', 1) = {_KIND.format(line="one")}
               AND split_part(other.account, ':', 1) = {_KIND.format(line="other")} AS known,
               replace(replace(CASE WHEN first_chart THEN provider WHEN coalesce(account, '') = '' THEN own
                                    ELSE own || '/' || account END, '%', '%25'), ':', '%3A') AS balance
        FROM rows),
    judged AS (
        SELECT *, holder <> balance AND balance RLIKE '^[ -~]{{1,{PART_CHARS_MAX}}}$' AND (
                   first_chart OR holder = own OR startswith(holder, own || '/')
                   OR NOT IF(tenant IS NULL, holder NOT RLIKE '^[^/]*{TENANT_MARK}',
                             startswith(holder, tenant || '{TENANT_MARK}'))) AS elsewhere
        FROM (SELECT *, {_moved(swapped=False)} AS moved, {_moved(swapped=True)} AS turned FROM booked))
    SELECT CASE WHEN moved IS NULL OR NOT known THEN 'a booking that the chart of accounts does not know'
                WHEN elsewhere THEN 'a booking on another balance than that of its account'
                ELSE 'a booking that is not what was reported' END AS problem,
           seq, event_key, fact_key, debit, credit, holder, amount_minor, currency
    FROM judged
    WHERE moved IS NULL OR NOT known OR elsewhere
       OR NOT (fact_sha256 = {_FACT.format(movement="moved", amount="CAST(amount_minor AS string)")}
               OR (turned IS NOT NULL
                   AND fact_sha256 = {_FACT.format(movement="turned", amount="CAST(-amount_minor AS string)")}))
    ORDER BY seq
"""  # noqa: S608 - words of our own
"""``balance``: the holder by provider, account and tenant. A fact may name one at another provider
(`MoneyFact.holder`); whether that is right only its body tells."""


class BookingsAreReported:
    """A row keeps the hash of the fact that its event reported, so what was booked can be held against it without the
    body. Rows of a handler of one's own aren't looked at.
    """

    name = "bookings_are_reported"
    sentence = (
        "Every booking is the movement, amount, currency and account that its event reported, on the accounts of the "
        "chart."
    )

    def check(self, evidence: Evidence) -> Finding:
        return Finding(self.name, self.sentence, tuple(evidence.sample(_BOOKED)))
