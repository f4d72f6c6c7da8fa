-- Every booking is the movement, amount, currency and account that its event reported, on the accounts of the
-- chart.
--
-- A row keeps the hash of the fact that its event reported. balance: the holder by provider, account and tenant. A fact
-- may name one at another provider; whether that is right shows only in its body. A payout below zero is turned: its
-- sides are swapped, and so are those of a fee that is given back. What is outside of the provider clears on the account
-- of its payment method: the whole, or a part, which is the third line. Rows of a handler of one's own aren't looked at.
WITH bookings AS (
    SELECT seq, event_key, fact_key, fact_sha256, account, tenant, provider, size(lines) AS line_count,
           CASE WHEN tenant IS NULL THEN provider ELSE tenant || '~' || provider END AS own,
           CASE WHEN tenant IS NULL THEN fact_key ELSE substring(fact_key, CAST(length(tenant) AS int) + 2) END AS fact,
           try_element_at(lines, 1) AS line_1, try_element_at(lines, 2) AS line_2, try_element_at(lines, 3) AS line_3
    FROM journal
    WHERE decision = 'applied' AND postings IS NOT NULL AND fact_sha256 IS NOT NULL
          AND handler_version LIKE 'ledger-%.%'),
sides AS (
    SELECT *, CASE WHEN line_1.side = 'debit' THEN line_1.account ELSE line_2.account END AS debited,
           CASE WHEN line_1.side = 'debit' THEN line_2.account ELSE line_1.account END AS credited,
           CASE WHEN line_1.side = 'debit' AND line_count = 2 THEN line_1.amount_minor ELSE line_2.amount_minor END
               AS amount_minor,
           CASE WHEN line_1.side = 'debit' THEN line_1.currency ELSE line_2.currency END AS currency,
           coalesce(line_1.side || line_2.side, '') IN ('debitcredit', 'creditdebit') AS has_both_sides,
           CASE WHEN line_count = 3 THEN line_3.account WHEN line_1.account LIKE 'outside:%' THEN line_1.account
                WHEN line_2.account LIKE 'outside:%' THEN line_2.account END AS outside,
           CASE WHEN line_count = 3 THEN line_3.amount_minor ELSE line_2.amount_minor END AS outside_minor,
           line_count = 2
               OR (line_count = 3 AND line_1.account LIKE 'provider:%' AND line_3.account LIKE 'outside:%:clearing'
                   AND line_1.side = line_3.side AND line_1.amount_minor + line_3.amount_minor = line_2.amount_minor
                   AND line_1.currency = line_2.currency AND line_3.currency = line_2.currency) AS has_known_lines
    FROM bookings),
roles AS (
    SELECT *, split_part(debited, ':', 3) AS debit, split_part(credited, ':', 3) AS credit,
           split_part(CASE WHEN debited LIKE 'provider:%' THEN debited WHEN credited LIKE 'provider:%' THEN credited END,
                      ':', 2) AS holder,
           debited LIKE 'merchant:%' AND credited LIKE 'merchant:%'
               AND split_part(debited, ':', 2) <> split_part(credited, ':', 2) AS has_two_merchants,
           split_part(outside, ':', 2) AS outside_owner,
           CASE WHEN line_count = 2 AND outside IS NOT NULL THEN 'outside' ELSE 'provider' END AS clearing_kind,
           coalesce(account, '') AS named
    FROM sides),
moves AS (
    SELECT *,
           has_known_lines AND has_both_sides AND NOT has_two_merchants
               AND split_part(debited, ':', 1) = CASE WHEN debit = 'clearing' THEN clearing_kind ELSE 'merchant' END
               AND split_part(credited, ':', 1) = CASE WHEN credit = 'clearing' THEN clearing_kind ELSE 'merchant' END
               AS is_known,
           CASE WHEN tenant IS NULL OR startswith(outside_owner, tenant || '~')
                THEN 'outside' || chr(31)
                     || CASE WHEN tenant IS NULL THEN outside_owner
                             ELSE substring(outside_owner, CAST(length(tenant) AS int) + 2) END
                     || chr(31) || CAST(outside_minor AS string) ELSE outside END AS outside_parts,
           CASE WHEN debit = 'clearing' AND credit = 'payable' THEN 'capture'
                WHEN debit = 'payable' AND credit = 'clearing' THEN 'capture_failed'
                WHEN debit = 'refunds' AND credit = 'clearing' THEN 'refund'
                WHEN debit = 'clearing' AND credit = 'refunds' THEN 'refund_failed'
                WHEN debit = 'disputes' AND credit = 'clearing' THEN 'dispute_opened'
                WHEN debit = 'clearing' AND credit = 'disputes' THEN 'dispute_won'
                WHEN debit = 'dispute_losses' AND credit = 'disputes' THEN 'dispute_lost'
                WHEN debit = 'payouts' AND credit = 'clearing' THEN 'payout_paid'
                WHEN debit = 'clearing' AND credit = 'payouts' THEN 'payout_failed'
                WHEN debit = 'fees' AND credit = 'clearing' THEN 'fee'
                WHEN debit = 'clearing' AND credit = 'fees' THEN 'fee that is given back' END AS moved,
           CASE WHEN debit = 'clearing' AND credit = 'payouts' THEN 'payout_paid'
                WHEN debit = 'payouts' AND credit = 'clearing' THEN 'payout_failed'
                WHEN debit = 'clearing' AND credit = 'fees' THEN 'fee' END AS turned
    FROM roles),
hashed AS (
    SELECT *,
           sha2(concat_ws(chr(31), fact, moved, named, CAST(amount_minor AS string), currency, outside_parts), 256)
               AS as_moved,
           CASE WHEN turned IS NOT NULL THEN
               sha2(concat_ws(chr(31), fact, turned, named, CAST(-amount_minor AS string), currency), 256)
               END AS as_turned
    FROM moves),
balances AS (
    SELECT *, fact_sha256 IN (as_moved, coalesce(as_turned, '')) AS is_reported,
           CASE WHEN named = '' THEN own ELSE own || '/' || named END AS balance
    FROM hashed),
judged AS (
    SELECT *, CASE WHEN decoded_name(holder) <> balance THEN holder <> 'sha256-' || sha2(balance, 256) AND (
               holder = own OR startswith(holder, own || '/')
               OR NOT CASE WHEN tenant IS NULL THEN NOT regexp_like(holder, '^[^/]*~')
                           ELSE startswith(holder, tenant || '~') OR startswith(holder, 'sha256-') END)
           END AS is_elsewhere
    FROM balances)
SELECT CASE WHEN moved IS NULL OR NOT coalesce(is_known, false)
                THEN 'a booking that the chart of accounts does not know'
            WHEN is_elsewhere THEN 'a booking on another balance than that of its account'
            ELSE 'a booking that is not what was reported' END AS problem,
       seq, event_key, fact_key, debit, credit, holder, amount_minor, currency
FROM judged
WHERE moved IS NULL OR NOT coalesce(is_known, false) OR coalesce(is_elsewhere, false)
      OR NOT coalesce(is_reported, false)
ORDER BY seq
