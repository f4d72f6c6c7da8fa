-- An event takes effect at most once, for ever, and a duplicate always has an earlier copy that was kept.
SELECT found.* FROM (
    SELECT event_key,
           count(*) FILTER (WHERE decision = 'applied') AS applied,
           count(*) FILTER (WHERE holds) AS held,
           count(*) FILTER (WHERE decision = 'duplicate') AS duplicates,
           min(CASE WHEN holds THEN item_seq END) AS held_by,
           min(CASE WHEN decision = 'duplicate' THEN item_seq END) AS first_duplicate
    FROM journal WHERE event_key IS NOT NULL AND decision <> 'lost' GROUP BY event_key) AS found, asked
WHERE applied > 1 OR held > 1 OR first_duplicate < held_by OR (held = 0 AND before_seq = 0)
