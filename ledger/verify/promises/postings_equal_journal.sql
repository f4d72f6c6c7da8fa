-- The postings table holds exactly the lines that the journal booked, up to its mark.
--
-- portion: the rows that are looked at now, after one seq and until another. Portions together are all rows; DuckDB
-- looks at as many at once as its memory holds.
WITH booked AS (
    SELECT seq, lines, line_numbers(lines) AS numbers,
           event_key, fact_key, entity_key, provider, occurred_at, decided_at
    FROM journal, asked, portion
    WHERE books AND postings IS NOT NULL AND seq > own_after AND seq <= postings_mark
          AND seq > after_seq AND seq <= until_seq),
numbered AS (SELECT *, explode(numbers) AS number FROM booked),
lined AS (SELECT *, try_element_at(lines, CAST(number AS int)) AS posting FROM numbered),
expected AS (
    SELECT seq, CAST(number AS int) - 1 AS line, event_key, fact_key, entity_key, provider,
           CASE WHEN posting.account LIKE 'merchant:%' THEN split_part(posting.account, ':', 2)
                ELSE first_merchant(lines) END AS merchant,
           posting.account AS account, posting.side AS side, posting.amount_minor AS amount_minor,
           posting.currency AS currency, occurred_at, decided_at
    FROM lined)
SELECT seq, line, event_key, fact_key, entity_key, provider, merchant, account, side, amount_minor, currency,
       occurred_at, decided_at, CAST(sum(weight) AS bigint) AS journal_minus_postings
FROM (
    SELECT *, 1 AS weight FROM expected
    UNION ALL
    SELECT seq, line, event_key, fact_key, entity_key, provider, merchant, account, side, amount_minor, currency,
           occurred_at, decided_at, -1
    FROM postings, portion WHERE seq > after_seq AND seq <= until_seq)
GROUP BY seq, line, event_key, fact_key, entity_key, provider, merchant, account, side, amount_minor, currency,
         occurred_at, decided_at
HAVING sum(weight) <> 0
