-- An entity's events took effect in the order in which Kafka held them, or the row is marked as out of order.
WITH late AS (
    SELECT entity_key, item_seq, seq
    FROM journal WHERE decision = 'applied' AND entity_key IS NOT NULL AND NOT first AND NOT out_of_order),
numbered AS (
    SELECT life, partition, kafka_offset, seq,
           max(kafka_offset) OVER (PARTITION BY life, partition ORDER BY seq
                                   ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING) AS before
    FROM journal WHERE first AND partition >= 0)
SELECT 'a record was numbered behind a later one of its partition' AS problem, life AS topic, partition,
       kafka_offset AS offset, seq, before AS after_offset, CAST(NULL AS string) AS entity_key,
       CAST(NULL AS bigint) AS item_seq, CAST(NULL AS bigint) AS later_item
FROM numbered WHERE kafka_offset < before
UNION ALL
SELECT 'took effect behind a later event of its entity, and is not marked', NULL, NULL, NULL, late.seq, NULL,
       late.entity_key, late.item_seq, max(other.item_seq)
FROM late JOIN journal AS other
ON other.entity_key = late.entity_key AND other.seq < late.seq AND other.item_seq > late.item_seq
WHERE other.decision = 'applied' AND other.event_type IS DISTINCT FROM 'book_entry'
GROUP BY late.entity_key, late.item_seq, late.seq
