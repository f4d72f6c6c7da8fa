"""Reconciliation: a provider's settlement report against what the ledger booked, and what may be done about it.

What it finds is kept, and read again, by `ledger.reconciliations`.
"""
