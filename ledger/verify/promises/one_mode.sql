-- Every event of the ledger is of its own mode: a live ledger holds nothing of test traffic.
SELECT seq, event_key, topic, journal.mode AS mode
FROM journal, asked
WHERE journal.mode <> own_mode OR (journal.mode IS NULL AND event_key IS NOT NULL)
