-- Every manual entry was proposed by one person and approved by another one before it was booked.
--
-- A row of an entry has its proposal as its fact, and the hash of its lines.
WITH entries AS (
    SELECT seq, event_key, fact_key, fact_sha256, event_type, postings, actor
    FROM journal WHERE decision = 'applied' AND provider = 'payhook'),
proposals AS (
    SELECT seq AS proposed_in, event_key AS proposal, actor AS proposer
    FROM whole WHERE decision = 'resolved' AND event_type = 'propose_entry' AND first)
SELECT * FROM (
    SELECT CASE WHEN event_type IS DISTINCT FROM 'book_entry' OR postings IS NULL THEN 'it is no entry'
                WHEN proposed_in IS NULL OR proposed_in >= seq THEN 'it was not proposed before'
                WHEN lower(trim(proposer)) IS NOT DISTINCT FROM lower(trim(actor))
                    THEN 'one person proposed and approved it'
                WHEN fact_sha256 IS DISTINCT FROM sha2(postings, 256)
                    THEN 'its lines are not those that were approved' END AS problem,
           seq, event_key, proposal, proposer, actor
    FROM entries LEFT JOIN proposals ON proposal = fact_key)
WHERE problem IS NOT NULL ORDER BY seq
