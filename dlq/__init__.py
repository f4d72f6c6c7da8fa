"""The topic of dead letters, by KIP-1191: its records, its publisher, and topics of other programs."""
