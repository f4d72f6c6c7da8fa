-- An event takes effect at most once, for ever, and a duplicate always has an earlier copy that was kept. A key has
-- another first event only after two people released the one before.
SELECT found.* FROM (
    SELECT event_key,
           count(*) FILTER (WHERE decision = 'applied') AS applied,
           count(*) FILTER (WHERE holds) AS held,
           count(*) FILTER (WHERE releases) AS released,
           count(*) FILTER (WHERE decision = 'duplicate') AS duplicates,
           min(CASE WHEN holds THEN item_seq END) AS held_by,
           min(CASE WHEN decision = 'duplicate' THEN item_seq END) AS first_duplicate
    FROM journal WHERE event_key IS NOT NULL AND decision <> 'lost' GROUP BY event_key) AS found, asked
WHERE applied > 1 OR held > 1 + released OR first_duplicate < held_by OR (held = 0 AND before_seq = 0)
UNION ALL
SELECT event_key, 0, CAST(holds AS int), CAST(released_at IS NOT NULL AS int), CAST(decision = 'duplicate' AS int), held_at,
       item_seq
FROM (SELECT event_key, item_seq, decision, holds,
             max(CASE WHEN holds THEN seq END) OVER before AS held_at,
             max(CASE WHEN releases THEN seq END) OVER before AS released_at
      FROM journal
      WHERE (holds OR releases OR decision = 'duplicate')
        AND event_key IN (SELECT event_key FROM journal WHERE releases)
      WINDOW before AS (PARTITION BY event_key ORDER BY seq ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING)) AS told
WHERE (holds AND held_at > coalesce(released_at, 0))
   OR (decision = 'duplicate' AND released_at > coalesce(held_at, 0))
