-- Every booking's debits equal its credits in each currency, and only what took effect is booked.
--
-- Bookings are written in one form, so the text of what was read in one is the text that was read. Where it isn't,
-- for a name in it is escaped, amounts are digits.
WITH bookings AS (
    SELECT seq, event_key, decision, postings, books, lines, size(lines) AS line_count,
           try_element_at(lines, 1) AS line_1, try_element_at(lines, 2) AS line_2,
           CASE WHEN CAST(to_json(lines) AS string) = postings THEN true
                ELSE contains(postings, chr(92)) AND NOT regexp_like(postings, '"amount_minor":[^,}]*[^0-9,}]')
           END AS is_as_read
    FROM journal WHERE postings IS NOT NULL),
judged AS (
    SELECT *, coalesce(books AND is_as_read, false) AS is_in_form,
           coalesce(line_count = 2 AND line_1.amount_minor > 0 AND line_1.amount_minor = line_2.amount_minor
                    AND line_1.currency = line_2.currency AND line_1.account IS NOT NULL AND line_2.account IS NOT NULL
                    AND (line_1.side || line_2.side) IN ('debitcredit', 'creditdebit'), false) AS is_a_pair
    FROM bookings),
doubtful AS (SELECT * FROM judged WHERE NOT is_in_form OR NOT is_a_pair),
sums AS (
    SELECT seq, currency, count(*) AS line_count,
           sum(CASE WHEN side = 'debit' THEN amount_minor ELSE -amount_minor END) AS balance,
           bool_and(coalesce(line_account IS NOT NULL AND currency IS NOT NULL AND side IN ('debit', 'credit')
                             AND amount_minor > 0, false)) AS are_lines
    FROM (SELECT seq, posting.account AS line_account, posting.side AS side, posting.currency AS currency,
                 posting.amount_minor AS amount_minor
          FROM (SELECT seq, explode(lines) AS posting FROM doubtful
                WHERE line_count <> 2 OR line_1.currency <> line_2.currency))
    GROUP BY seq, currency),
of_more_lines AS (
    SELECT seq FROM sums GROUP BY seq HAVING sum(line_count) > 1 AND bool_and(are_lines AND balance = 0))
SELECT seq, event_key, decision, postings
FROM doubtful
WHERE NOT is_in_form OR seq NOT IN (SELECT seq FROM of_more_lines)
