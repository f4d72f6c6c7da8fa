-- Rows are numbered from 1 to the last one, each number once, and no commit overlaps another.
WITH steps AS (
    SELECT commits.*, coalesce(lag(commits.last_seq) OVER (ORDER BY batch_seq), before_seq) + 1 AS expected
    FROM commits, asked)
SELECT 'a commit begins elsewhere' AS problem, expected, first_seq, CAST(NULL AS bigint) AS last_seq,
       CAST(NULL AS bigint) AS rows, CAST(NULL AS bigint) AS recorded
FROM steps WHERE first_seq <> expected OR batch_seq <> first_seq
UNION ALL
SELECT 'a commit''s rows aren''t numbered once each', NULL, first_seq, last_seq, rows, NULL
FROM commits WHERE rows <> distinct_seqs OR rows <> last_seq - first_seq + 1
UNION ALL
SELECT 'rows are missing at the end', NULL, NULL, last_committed, NULL, last_seq
FROM (SELECT coalesce((SELECT max_by(last_seq, batch_seq) FROM commits), before_seq) AS last_committed, last_seq
      FROM asked)
WHERE last_committed <> last_seq
