-- A movement of money is booked at most once, under whatever event ids it was reported.
--
-- An undo that is unknown, for what it takes back was never booked, has its fact as one that was applied.
SELECT found.* FROM (
    SELECT fact_key,
           count(*) FILTER (WHERE decision <> 'duplicate_fact') AS applied,
           count(*) FILTER (WHERE decision = 'duplicate_fact') AS duplicates,
           min(CASE WHEN decision <> 'duplicate_fact' THEN batch_seq END) AS applied_in,
           min(CASE WHEN decision = 'duplicate_fact' THEN batch_seq END) AS first_duplicate_in
    FROM journal
    WHERE fact_key IS NOT NULL AND decision IN ('applied', 'unknown', 'duplicate_fact')
    GROUP BY fact_key) AS found, asked
WHERE applied > 1 OR first_duplicate_in < applied_in OR (applied = 0 AND before_seq = 0)
