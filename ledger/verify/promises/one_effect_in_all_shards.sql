-- No event and no movement of money took effect in the journals of two shards.
SELECT 'it took effect in the journals of several shards' AS problem, event_key, CAST(NULL AS string) AS fact_key,
       sort_array(collect_set(place_of(stream, seq))) AS in
FROM every_row WHERE decision = 'applied' AND event_key IS NOT NULL
GROUP BY event_key HAVING count(DISTINCT stream) > 1 AND bool_or(recent)
UNION ALL
SELECT 'it took effect in the journals of several shards', NULL, fact_key, sort_array(collect_set(place_of(stream, seq)))
FROM every_row WHERE decision IN ('applied', 'unknown') AND fact_key IS NOT NULL
GROUP BY fact_key HAVING count(DISTINCT stream) > 1 AND bool_or(recent)
