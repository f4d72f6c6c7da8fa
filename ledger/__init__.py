"""The ledger: from money facts to a double-entry table, and the proof that all of it adds up."""
