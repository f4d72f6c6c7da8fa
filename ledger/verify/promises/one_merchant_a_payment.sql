-- All bookings of one payment belong to one merchant.
--
-- named: payments of which any booking names another merchant. A booking that was reversed stands for none: it and its reversal have one fact.
WITH named AS (
    SELECT entity_key FROM moved WHERE mine AND entity_key LIKE '%:%:%'
    GROUP BY entity_key HAVING min(merchant) <> max(merchant)),
standing AS (
    SELECT entity_key, merchant, min(seq) AS seq
    FROM moved WHERE mine AND entity_key IN (SELECT entity_key FROM named)
    GROUP BY entity_key, merchant, account, fact_key, currency HAVING sum(minor) <> 0)
SELECT 'the bookings of one payment name several merchants' AS problem,
       entity_key, sort_array(collect_set(merchant)) AS merchants, max(seq) AS seq
FROM standing GROUP BY entity_key HAVING count(DISTINCT merchant) > 1
ORDER BY seq
