-- No row was changed, removed or put in after its commit: every hash and the chain over them hold.
--
-- chain_heads: the head that follows from the commits, and the one that the last commit recorded.
WITH steps AS (
    SELECT *, coalesce(max(epoch_last) OVER (ORDER BY batch_seq ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING), 0)
                  AS epoch
    FROM commits)
SELECT 'rows don''t match their hash' AS problem, wrong_seq AS seq, wrong_hashes AS rows,
       CAST(NULL AS bigint) AS batch_seq, CAST(NULL AS bigint) AS epoch,
       CAST(NULL AS string) AS computed, CAST(NULL AS string) AS recorded
FROM commits WHERE wrong_hashes > 0
UNION ALL
SELECT 'an epoch wrote after its successor', NULL, NULL, batch_seq, epoch, NULL, NULL
FROM steps WHERE epoch_first < epoch OR epoch_first <> epoch_last
UNION ALL
SELECT 'the chain''s head isn''t the one that the last commit recorded', NULL, NULL, NULL, NULL, computed, recorded
FROM chain_heads WHERE computed <> recorded
