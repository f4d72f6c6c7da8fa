-- The key index knows exactly the event keys, facts, counts of pairs and open items of the journal, up to its mark.
--
-- The index keeps the first 16 bytes of a key's hash, here as two numbers, and the first 8 bytes of a content's.
WITH events AS (
    SELECT event_key AS name, sha2(event_key, 256) AS key_hash, content_sha256 AS content,
           coalesce(content_version, 0) AS version
    FROM journal CROSS JOIN asked
    ANTI JOIN (SELECT item_seq AS released FROM journal CROSS JOIN asked WHERE releases AND seq <= index_seq) AS freed
    ON released = item_seq
    WHERE holds AND event_key IS NOT NULL AND seq <= index_seq),
facts AS (
    SELECT fact_key AS name, sha2(fact_key, 256) AS key_hash, fact_sha256 AS content, 0 AS version
    FROM journal, asked WHERE decision IN ('applied', 'unknown') AND fact_key IS NOT NULL AND seq <= index_seq),
wanted AS (
    SELECT 'event' AS kind, name, hash_number(substring(key_hash, 1, 16)) AS key_1,
           hash_number(substring(key_hash, 17, 16)) AS key_2, content,
           hash_number(rpad(substring(coalesce(content, ''), 1, 16), 16, '0')) AS content_1, version
    FROM events
    UNION ALL
    SELECT 'fact', name, hash_number(substring(key_hash, 1, 16)), hash_number(substring(key_hash, 17, 16)), content,
           hash_number(rpad(substring(coalesce(content, ''), 1, 16), 16, '0')), version
    FROM facts)
SELECT CASE WHEN index_keys.key_1 IS NULL AND wanted.kind = 'event' THEN 'the index doesn''t know an event key'
            WHEN index_keys.key_1 IS NULL THEN 'the index doesn''t know an applied fact'
            WHEN wanted.kind = 'event' THEN 'the index holds an event key with other content'
            ELSE 'the index holds a fact with other content' END AS problem,
       wanted.kind AS kind, name, content, index_keys.key_1 IS NOT NULL AS is_known
FROM wanted LEFT JOIN index_keys
ON index_keys.key_1 = wanted.key_1 AND index_keys.key_2 = wanted.key_2 AND index_keys.kind = wanted.kind
WHERE index_keys.key_1 IS NULL OR index_keys.content_1 <> wanted.content_1 OR index_keys.version <> wanted.version
