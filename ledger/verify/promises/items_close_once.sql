-- Every later decision continues an item that was open, and nothing follows the one that closes it; only what
-- was ignored, or unknown, may be handled again, and a person may close what is unknown.
WITH steps AS (
    SELECT item_seq, seq, first, closes, decision,
           lead(decision) OVER (PARTITION BY item_seq ORDER BY seq) AS next_decision
    FROM journal
    WHERE (NOT first OR waits OR decision IN ('ignored', 'unknown')) AND decision NOT IN ('reversed', 'lost', 'portion')),
ended AS (
    SELECT *, closes
           AND NOT (decision IN ('ignored', 'unknown') AND coalesce(next_decision, '') = 'replayed')
           AND NOT (decision = 'unknown' AND coalesce(next_decision, '') IN ('purged', 'resolved')) AS ends
    FROM steps)
SELECT found.* FROM (
    SELECT item_seq, min(seq) AS first_seq, max(seq) AS last_seq, count(*) FILTER (WHERE first) AS first_rows,
           count(*) FILTER (WHERE ends) AS closings, max(CASE WHEN ends THEN seq END) AS closed_at
    FROM ended GROUP BY item_seq) AS found, asked
WHERE item_seq > before_seq
      AND (first_rows <> 1 OR first_seq <> item_seq OR closings > 1 OR closed_at <> found.last_seq)
