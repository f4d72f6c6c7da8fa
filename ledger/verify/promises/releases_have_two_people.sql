-- An event's key was freed only after one person had proposed it and another one had approved it.
--
-- A row's cause is a portion of a run, which has its entity in common with its proposal.
WITH released AS (SELECT seq, event_key, cause_seq FROM journal WHERE releases),
causes AS (SELECT seq AS caused_in, item_seq AS given_in FROM whole WHERE decision = 'portion'),
orders AS (
    SELECT seq AS order_seq, entity_key AS order_entity, actor AS approver
    FROM whole WHERE first AND decision = 'released' AND event_type = 'run_selection'),
proposals AS (
    SELECT seq AS proposed_in, entity_key AS proposal_entity, actor AS proposer
    FROM whole WHERE first AND decision = 'resolved' AND event_type = 'propose_run_selection'),
approved AS (
    SELECT order_seq, proposer, approver
    FROM orders JOIN proposals
    ON proposal_entity = order_entity
    AND proposed_in < order_seq AND lower(trim(proposer)) <> lower(trim(approver)))
SELECT seq, released.event_key AS event_key, cause_seq, given_in AS order_in
FROM released
LEFT JOIN causes ON caused_in = cause_seq
LEFT JOIN approved ON order_seq = given_in
WHERE order_seq IS NULL ORDER BY seq
