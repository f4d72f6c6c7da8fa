"""The journal of one stream, the tables beside it, and the key index that is derived from it.

Nothing is imported here: an executor that needs the rows' schema must not load Delta and RocksDB for it.
"""
