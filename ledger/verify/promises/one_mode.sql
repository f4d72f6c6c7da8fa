-- Every event of a ledger has the ledger's mode: a live ledger holds no test traffic.
SELECT seq, event_key, topic, journal.mode AS mode
FROM journal, asked
WHERE journal.mode <> own_mode OR (journal.mode IS NULL AND event_key IS NOT NULL)
