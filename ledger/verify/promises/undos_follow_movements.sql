-- An undo is booked only after a movement of its pair; a movement that was undone before it was reported isn't booked.
--
-- A pair is of one amount; its sign says which of the two a row is. An undo that came too early is unknown. Earlier rows
-- are always looked at: what they left counts.
WITH steps AS (
    SELECT seq, event_key, pair, decision, postings IS NOT NULL AS is_booked, substring(pair, 1, 1) = '-' AS undoes,
           coalesce(sum(CASE WHEN substring(pair, 1, 1) = '-' THEN -1 ELSE 1 END)
                    OVER (PARTITION BY substring(pair, 2) ORDER BY seq
                          ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING), 0) AS left_before
    FROM whole WHERE pair IS NOT NULL AND decision IN ('applied', 'unknown')),
judged AS (
    SELECT *,
           CASE WHEN undoes AND left_before <= 0 AND is_booked THEN 'an undo is booked of what isn''t'
                WHEN undoes AND left_before > 0 AND NOT is_booked THEN 'what it undoes is booked, and the undo isn''t'
                WHEN NOT undoes AND left_before < 0 AND is_booked
                THEN 'it was undone before it was reported, and is booked'
                WHEN NOT undoes AND left_before >= 0 AND NOT is_booked
                THEN 'it wasn''t undone before, and isn''t booked' END AS problem
    FROM steps)
SELECT problem, seq, event_key, pair, decision FROM judged WHERE problem IS NOT NULL
