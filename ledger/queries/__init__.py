"""Finance's queries of the ledger: functions that read, and the plain values that they answer with.

They need the tables' paths and nothing else, so the command line, web pages and tests ask alike.
"""
