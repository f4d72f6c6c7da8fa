-- Every dead row that counts as published is on the dead-letter topic with its bytes, and nothing else is.
WITH dead AS (
    SELECT seq, journal.partition AS partition, body_sha256 AS row_sha256,
           seq <= published_upto AND coalesce(decided_at >= held_since, true) AS expected
    FROM journal CROSS JOIN asked LEFT JOIN letters_held ON letters_held.partition = journal.partition
    WHERE decision = 'dead' AND seq > own_after),
both_sides AS (
    SELECT seq, partition, false AS is_record, row_sha256, CAST(NULL AS string) AS record_sha256, expected FROM dead
    UNION ALL
    SELECT seq, partition, true, NULL, record_sha256, false
    FROM letters, asked WHERE seq = -1 OR (seq > before_seq AND seq <= last_seq))
SELECT * FROM (
    SELECT seq, count(*) FILTER (WHERE NOT is_record) AS dead_rows, count(*) FILTER (WHERE is_record) AS records,
           count(record_sha256) AS with_bytes, max(row_sha256) AS row_sha256,
           min(record_sha256) AS record_sha256, max(record_sha256) AS other_sha256,
           min(partition) AS partition, max(partition) AS other_partition, bool_or(expected) AS expected
    FROM both_sides GROUP BY seq)
WHERE dead_rows = 0 OR (expected AND records = 0) OR partition <> other_partition
      OR (with_bytes > 0 AND (row_sha256 IS DISTINCT FROM record_sha256 OR row_sha256 IS DISTINCT FROM other_sha256))
