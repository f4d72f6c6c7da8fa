"""Reads which events Redis knows as published, to compare them with what Kafka and the journal know."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice

from redis import Redis

from core.event import Mode
from ingest.claims import HASH_BYTES, name_prefix

KEYS_AT_ONCE = 1_000


def confirmed_hashes(redis: Redis, mode: Mode, generation: int) -> Iterator[list[bytes]]:
    """The event keys that are confirmed in a generation, as `core.keys.hash16`: the index holds them by the same hash.

    Lists of at most `KEYS_AT_ONCE`, without an order. One that is there all the while comes at least once, and may come
    again; one that comes or goes meanwhile may be missing. Only reads. ``redis``: opened with ``decode_responses`` off.

    :raises RedisError: Redis can't be asked
    """
    prefix = name_prefix(mode, generation)
    names = redis.scan_iter(match=prefix + b"?" * HASH_BYTES, count=KEYS_AT_ONCE)
    while part := list(islice(names, KEYS_AT_ONCE)):
        pipeline = redis.pipeline(transaction=False)
        for name in part:
            pipeline.getrange(name, 0, 0)
        kinds = pipeline.execute()
        yield [name[len(prefix) :] for name, kind in zip(part, kinds, strict=True) if kind == b"d"]
