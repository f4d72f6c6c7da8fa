-- Every event that its provider's own list has, and that may have moved money, has its decision in the journal, or is
-- still on its way there.
--
-- Spans of a source's list follow on each other. An event that came in by the list is named; of those that the journal
-- knew by then there must be as many still, as the provider dates them.
WITH spans AS (
    SELECT *, max(until) OVER (PARTITION BY source ORDER BY since, until
                               ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING) AS covered_until
    FROM catch_ups WHERE event_key IS NULL),
events AS (
    SELECT * FROM catch_ups WHERE event_key IS NOT NULL),
decided AS (
    SELECT DISTINCT provider, event_key, occurred_at FROM every_row WHERE occurred_at IS NOT NULL),
counted AS (
    SELECT spans.source, spans.at, spans.since, spans.until, max(known + fetched) AS wanted,
           count(DISTINCT decided.event_key) AS found
    FROM spans LEFT JOIN decided ON decided.provider = spans.provider AND decided.occurred_at >= spans.since
                                    AND decided.occurred_at < spans.until
    GROUP BY spans.source, spans.at, spans.since, spans.until),
came AS (
    SELECT spans.source, spans.at, spans.since, spans.until, max(spans.fetched) AS wanted,
           count(events.event_key) AS found
    FROM spans LEFT JOIN events ON events.source = spans.source AND events.at = spans.at
    GROUP BY spans.source, spans.at, spans.since, spans.until)
SELECT 'listed and never decided' AS problem, events.source, events.at, CAST(NULL AS timestamp) AS since,
       CAST(NULL AS timestamp) AS until, events.event_key
FROM events CROSS JOIN settled ANTI JOIN every_row ON every_row.event_key = events.event_key
WHERE events.at < settled.before
UNION ALL
SELECT 'fewer events are decided than were listed', source, counted.at, since, until, NULL
FROM counted CROSS JOIN settled WHERE counted.at < settled.before AND found < wanted
UNION ALL
SELECT 'other events came in than are named', source, came.at, since, until, NULL FROM came WHERE found <> wanted
UNION ALL
SELECT 'a span whose counts contradict each other', source, spans.at, since, until, NULL
FROM spans WHERE outcome = 'listed' AND listed <> known + passed_over + fetched
UNION ALL
SELECT 'a span that was never listed', source, spans.at, covered_until, since, NULL
FROM spans WHERE covered_until < since
ORDER BY source, since
