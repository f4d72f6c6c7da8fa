-- What isn't decided yet is still held by Kafka or parked in the journal, and none of it is too old.
SELECT 'Kafka no longer holds undecided offsets' AS problem, topic, partition, until_offset AS at_offset,
       kafka_low AS until_offset, CAST(NULL AS bigint) AS item_seq, CAST(NULL AS timestamp) AS since
FROM marks WHERE NOT sparse AND kafka_low > until_offset
UNION ALL
SELECT 'an offset has waited too long', topic, partition, at_offset, NULL, NULL, written_at
FROM undecided, asked WHERE written_at < waits_since
UNION ALL
SELECT 'an event has waited too long', NULL, NULL, NULL, NULL, item_seq, since
FROM open_items, asked WHERE mine AND decision <> 'dead' AND item_seq > before_seq AND since < waits_since
ORDER BY since
