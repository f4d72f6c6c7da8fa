-- Each record of a topic that several streams divide among them was taken by at least one of them.
--
-- divided_rows: first rows of all their journals that stand for events. divided_spans: the offsets that all have passed.
WITH taken AS (
    SELECT partition, kafka_offset AS low, coalesce(offset_until, kafka_offset + 1) AS high
    FROM divided_rows
    UNION ALL SELECT partition, low, low FROM divided_spans
    UNION ALL SELECT partition, high, high FROM divided_spans),
before_each AS (
    SELECT *, max(high) OVER (PARTITION BY partition ORDER BY low, high
                              ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING) AS before
    FROM taken)
SELECT DISTINCT 'no stream took these records' AS problem, topic, divided_spans.partition AS partition,
       greatest(before, divided_spans.low) AS at_offset, least(before_each.low, divided_spans.high) AS until_offset
FROM before_each JOIN divided_spans ON divided_spans.partition = before_each.partition
WHERE greatest(before, divided_spans.low) < least(before_each.low, divided_spans.high)
ORDER BY partition, at_offset
