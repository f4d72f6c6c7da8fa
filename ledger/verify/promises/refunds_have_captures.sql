-- No more is given back or withheld than was captured, and a refund that came first doesn't wait long for its
-- capture.
--
-- A refund whose provider doesn't name the payment is of the capture that it names: its fact's id is then the entity's
-- payment. Rows that await something are counted, and are no offence yet.
WITH gone AS (
    SELECT entity_key, currency,
           sum(CASE WHEN role = 'refunds' THEN minor ELSE 0 END) AS refunded,
           sum(CASE WHEN role = 'refunds' THEN 0 ELSE minor END) AS disputed,
           min(decided_at) AS since, min(CASE WHEN role <> 'refunds' THEN decided_at END) AS disputed_since,
           min(seq) AS seq, split_part(entity_key, ':', 1) || ':' || split_part(entity_key, ':', 3) AS payment
    FROM moved WHERE mine AND role IN ('refunds', 'disputes', 'dispute_losses')
    GROUP BY entity_key, currency HAVING sum(minor) > 0),
captures AS (
    SELECT entity_key, currency, -sum(minor) AS captured
    FROM moved WHERE role = 'payable' AND entity_key IN (SELECT entity_key FROM gone)
    GROUP BY entity_key, currency),
named AS (
    SELECT fact_entity AS payment, currency, -sum(minor) AS captured
    FROM moved WHERE role = 'payable' AND fact_entity IN (SELECT payment FROM gone)
    GROUP BY fact_entity, currency),
held AS (
    SELECT gone.*, coalesce(nullif(captures.captured, 0), named.captured, 0) AS captured
    FROM gone
         LEFT JOIN captures ON captures.entity_key = gone.entity_key AND captures.currency = gone.currency
         LEFT JOIN named ON named.payment = gone.payment AND named.currency = gone.currency),
found AS (
    SELECT *, CASE WHEN captured > 0 AND refunded <= captured THEN disputed_since ELSE since END AS waits_from
    FROM held WHERE refunded + disputed > captured)
SELECT CASE WHEN captured > 0 AND refunded > captured THEN 'more was given back than captured'
            WHEN captured > 0 THEN 'more was given back and withheld than captured'
            WHEN refunded > 0 THEN 'a refund waits too long for its capture'
            ELSE 'a dispute waits too long for its capture' END AS problem,
       entity_key, currency, CAST(refunded AS bigint) AS refunded, CAST(disputed AS bigint) AS disputed,
       CAST(captured AS bigint) AS captured, seq, waits_from AS since,
       NOT (captured > 0 AND refunded > captured) AND waits_from >= late_before AS awaits
FROM found, asked
