-- Every event that was answered with a 2xx has its decision in the journal, or is still on its way there.
--
-- A test event that came to a live endpoint while no test traffic is taken has none.
SELECT 'answered with a 2xx and never decided' AS problem, receipts.at, receipts.event_key, outcome, status
FROM receipts CROSS JOIN settled ANTI JOIN every_row ON every_row.event_key = receipts.event_key
WHERE status BETWEEN 200 AND 299 AND receipts.event_key IS NOT NULL AND outcome <> 'test_traffic_off'
      AND receipts.at < settled.before
