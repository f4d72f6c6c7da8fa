-- Every Kafka offset has exactly one first decision, in each history of its topic from start to end.
--
-- spans: what each history decided of a partition. Of a sparse topic, another journal, not every offset is there.
-- An offender with at_offset and until_offset stands for each offset between them.
-- elsewhere: the row decides offsets that aren't the stream's; those between them that are have rows of their own.
WITH decided AS (
    SELECT life, partition, kafka_offset AS low, coalesce(offset_until, kafka_offset + 1) AS high,
           coalesce(event_type, '') = 'payhook.elsewhere' AS elsewhere
    FROM journal WHERE first),
ends AS (SELECT life, partition, min(low) AS low, max(high) AS high FROM decided GROUP BY life, partition),
before_each AS (
    SELECT *, max(high) OVER (PARTITION BY life, partition ORDER BY low, high
                              ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING) AS before
    FROM decided),
overlapping AS (SELECT DISTINCT life AS in_life, partition AS in_partition FROM before_each WHERE low < before),
before_alike AS (
    SELECT life, partition, low,
           max(high) OVER (PARTITION BY life, partition, elsewhere ORDER BY low, high
                           ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING) AS before
    FROM decided JOIN overlapping ON life = in_life AND partition = in_partition),
breaks AS (
    SELECT DISTINCT life, partition, low, before FROM before_each WHERE low > before
    UNION SELECT DISTINCT life, partition, low, before FROM before_alike WHERE low < before),
decided_spans AS (
    SELECT spans.*, coalesce(low, until_offset) AS low, coalesce(high, until_offset) AS high
    FROM spans LEFT JOIN ends ON ends.life = spans.life AND ends.partition = spans.partition),
gaps AS (
    SELECT life, partition, before AS low, low AS high FROM breaks WHERE low > before
    UNION ALL SELECT life, partition, start_offset, low FROM decided_spans
    UNION ALL SELECT life, partition, high, until_offset FROM decided_spans)
SELECT 'rows beyond the marks' AS problem, life AS topic, partition, CAST(NULL AS bigint) AS at_offset,
       until_offset, start_offset, low, high
FROM decided_spans WHERE low < start_offset OR high > until_offset
UNION ALL
SELECT 'an offset with several first rows', breaks.life, breaks.partition, breaks.low, NULL, NULL, NULL, NULL
FROM breaks JOIN spans ON spans.life = breaks.life AND spans.partition = breaks.partition
WHERE breaks.low < before
UNION ALL
SELECT 'an offset with no first row', gaps.life, gaps.partition, greatest(low, start_offset),
       least(high, until_offset), NULL, NULL, NULL
FROM gaps JOIN spans ON spans.life = gaps.life AND spans.partition = gaps.partition
WHERE NOT sparse AND greatest(low, start_offset) < least(high, until_offset)
UNION ALL
SELECT 'decided offsets that Kafka never had', topic, partition, NULL, until_offset, NULL, kafka_low, kafka_high
FROM marks WHERE kafka_high IS NULL OR until_offset > kafka_high
UNION ALL
SELECT 'rows of a partition without a mark', ends.life, ends.partition, NULL, NULL, NULL, NULL, NULL
FROM ends ANTI JOIN spans ON spans.life = ends.life AND spans.partition = ends.partition
ORDER BY topic, partition, at_offset
