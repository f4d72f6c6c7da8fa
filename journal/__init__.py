"""The journal of one stream, and the key index that is derived from it.

Others use `schema`, `marks`, `state`, `writer`, `reader`, `dataset`, `bodies`, `index`, `chain` and `errors`;
`table`, `scan`, `rocksdb_store` and `open_item` are this folder's own. Nothing is imported here: an executor that needs
the rows' schema must not load Delta and RocksDB for it.
"""
