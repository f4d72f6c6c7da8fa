-- No more is undone than was done: of a payment's captures, refunds and disputes, and of a payout; an undo that
-- came first doesn't wait long.
--
-- A payout below zero and one that failed touch the same sides, so its fact's name tells them apart. A lost dispute
-- ends a dispute as a won one does, but for the loss of a second chargeback, which may be won still. Rows that await
-- something are counted, and are no offence yet.
WITH ways AS (
    SELECT entity_key, currency, seq, decided_at, role, minor, payout_failed, lost_again,
           CASE WHEN role = 'payable' THEN -minor ELSE minor END AS forward,
           CASE role WHEN 'payable' THEN 'capture' WHEN 'refunds' THEN 'refund' WHEN 'disputes' THEN 'dispute'
                     ELSE 'payout' END AS movement
    FROM moved WHERE mine AND role IN ('payable', 'refunds', 'disputes', 'payouts')),
steps AS (
    SELECT *,
           CASE WHEN role <> 'payouts' THEN greatest(forward, 0) WHEN payout_failed THEN 0 ELSE minor END AS does,
           CASE WHEN lost_again THEN 0 WHEN role <> 'payouts' THEN greatest(-forward, 0)
                WHEN payout_failed THEN -minor ELSE 0 END AS undoes
    FROM ways),
undone AS (SELECT entity_key FROM steps WHERE undoes <> 0),
found AS (
    SELECT entity_key, currency, movement, sum(does) AS done, sum(undoes) AS undone,
           min(CASE WHEN undoes <> 0 THEN seq END) AS seq,
           min(CASE WHEN undoes <> 0 THEN decided_at END) AS since
    FROM steps WHERE entity_key IN (SELECT entity_key FROM undone) GROUP BY entity_key, currency, movement)
SELECT CASE WHEN done <> 0 THEN 'more of a ' || movement || ' was undone than was done'
            ELSE 'a ' || movement || ' was undone that was never done' END AS problem,
       entity_key, currency, movement, CAST(done AS bigint) AS done, CAST(undone AS bigint) AS undone, seq, since,
       done = 0 AND since >= late_before AS awaits
FROM found, asked
WHERE (undone > 0 AND undone > done) OR (undone < 0 AND undone < done)
