-- Every closed event that was handled again had been ignored or unknown, and a command that names it was the cause.
WITH openings AS (SELECT DISTINCT item_seq FROM journal WHERE decision = 'replayed' AND NOT first),
steps AS (
    SELECT item_seq, seq, cause_seq, decision, event_key, first,
           lag(decision) OVER (PARTITION BY item_seq ORDER BY seq) AS was,
           lag(closes) OVER (PARTITION BY item_seq ORDER BY seq) AS was_closed
    FROM whole
    WHERE item_seq IN (SELECT item_seq FROM openings) AND decision NOT IN ('reversed', 'lost', 'portion')),
reopenings AS (
    SELECT item_seq, seq, cause_seq, was, event_key
    FROM steps WHERE decision = 'replayed' AND NOT first AND coalesce(was_closed, true)),
commands AS (
    SELECT seq AS given_by
    FROM whole
    WHERE (decision = 'replayed' AND first AND event_type = 'replay') OR (decision = 'portion' AND NOT first))
SELECT item_seq, seq, was, cause_seq
FROM reopenings LEFT JOIN commands ON given_by = cause_seq
WHERE coalesce(was, '') NOT IN ('ignored', 'unknown') OR given_by IS NULL OR event_key IS NULL
