"""Frees the claims that receivers hold in Redis on the keys of released events."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from typing import cast

from core.errors import SettingError
from core.event import Mode
from core.generation import Announcement, claim_name, generation_keys
from core.redis import FAILURES, Client, is_cluster, sync_redis
from core.settings import RedisSettings

TIMEOUT_S = 2.0
"""Of each connection and answer: the stream waits for them."""
NAMES_AT_ONCE = 500
"""Redis sets so many in a millisecond."""
ENDED = b"p" + bytes(24) + b"0" * 13
"""A pending claim of nobody (`ingest.redis_claims.CLAIM`) whose lease is over: it is taken over, and no confirmation of
an earlier owner makes it hold the key again.
"""
ENDED_KEPT_S = 600
"""A confirmation is sent for its lease at most, which is a fraction of this."""


class ReceiverClaims:
    """The claims that receivers of one mode hold. ``shards``: how many processors announce a generation."""

    def __init__(self, settings: RedisSettings, mode: Mode, shards: int) -> None:
        self._settings = settings
        self._mode = mode
        self._shards = shards

    def free_claims(self, event_keys: Sequence[str], generation: int) -> str | None:
        """Ends the claims on the keys, in this ``generation`` and in the highest one: receivers claim in that.

        Returns why it couldn't; then some may have ended all the same.
        """
        try:
            with contextlib.closing(sync_redis(self._settings, TIMEOUT_S)) as redis:
                generations = {generation, max(self._read_generations(redis), default=generation)}
                names = [claim_name(key, self._mode, number) for number in generations for key in event_keys]
                for start in range(0, len(names), NAMES_AT_ONCE):
                    pipeline = redis.pipeline(transaction=False)
                    for name in names[start : start + NAMES_AT_ONCE]:
                        pipeline.set(name, ENDED, ex=ENDED_KEPT_S)
                    pipeline.execute()
        except (*FAILURES, SettingError) as failed:
            return str(failed) or type(failed).__name__
        return None

    def _read_generations(self, redis: Client) -> Iterator[int]:
        for number in range(self._shards):
            for key in generation_keys(self._mode, number, cluster=is_cluster(redis)):
                announced = Announcement.decode(cast(bytes | None, redis.get(key)))
                if announced is not None:
                    yield announced.generation
