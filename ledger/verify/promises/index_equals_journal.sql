-- The key index knows exactly the event keys, facts, counts of pairs and open items of the journal, up to its mark.
--
-- The index keeps the first 16 bytes of a key's hash, and the first 8 bytes of a content's: here as hex.
WITH events AS (
    SELECT event_key AS name, content_sha256 AS content, coalesce(content_version, 0) AS version
    FROM indexed ANTI JOIN (SELECT item_seq AS released FROM indexed WHERE releases) AS freed ON released = item_seq
    WHERE holds AND event_key IS NOT NULL),
facts AS (
    SELECT fact_key AS name, fact_sha256 AS content, 0 AS version
    FROM indexed WHERE decision IN ('applied', 'unknown') AND fact_key IS NOT NULL),
named AS (SELECT 'event' AS kind, * FROM events UNION ALL SELECT 'fact', * FROM facts),
wanted AS (
    SELECT kind, name, substring(sha2(name, 256), 1, 32) AS key, content,
           rpad(substring(coalesce(content, ''), 1, 16), 16, '0') AS content_1, version
    FROM named)
SELECT CASE WHEN index_keys.key IS NULL AND wanted.kind = 'event' THEN 'the index doesn''t know an event key'
            WHEN index_keys.key IS NULL THEN 'the index doesn''t know an applied fact'
            WHEN wanted.kind = 'event' THEN 'the index holds an event key with other content'
            ELSE 'the index holds a fact with other content' END AS problem,
       wanted.kind AS kind, name, content, index_keys.key IS NOT NULL AS is_known
FROM wanted LEFT JOIN index_keys ON index_keys.key = wanted.key AND index_keys.kind = wanted.kind
WHERE index_keys.key IS NULL OR index_keys.content_1 <> wanted.content_1 OR index_keys.version <> wanted.version
