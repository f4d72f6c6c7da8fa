"""Tells receivers by Redis: announces the generation of their claims, and frees claims on released events' keys."""

from __future__ import annotations

import contextlib
import logging
import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import cast

from core.errors import SettingError
from core.event import Mode
from core.generation import ANNOUNCE_EVERY_S, ANNOUNCED_S, Announcement, claim_name, generation_keys
from core.redis import FAILURES, Client, check_redis, is_cluster, sync_redis
from core.settings import RedisSettings

log = logging.getLogger(__name__)

ANNOUNCE_TIMEOUT_S = 0.5

WRITE = """
local held = redis.call('GET', KEYS[1])
local higher = held and tonumber(held:match('^%d+'))
if not higher or higher <= tonumber(ARGV[1]) then redis.call('SET', KEYS[1], ARGV[2], 'PX', ARGV[3]) end
return 0
"""
"""ARGV: the generation, its wording, how long it holds in ms. A higher one of another process stays."""


class GenerationWriter:
    """Writes one processor's generation every second, on a thread of its own; a Redis that is down holds nothing up.

    Nothing is written before `publish`, nor after `withdraw_announcement` until it is published again. What was written
    then expires (`ANNOUNCED_S`), and receivers publish without claims.

    :param open_redis: called in the thread; it may fail, and is called again then
    :param key_ids: names of the keys by which the processor believes events, as they are now
    """

    def __init__(
        self, open_redis: Callable[[], Client], mode: Mode, key_ids: Callable[[], tuple[str, ...]], number: int = 0
    ) -> None:
        self._number = number
        self._open_redis = open_redis
        self._key_ids = key_ids
        self._redis: Client | None = None
        self._mode = mode
        self._announced: Announcement | None = None
        self._wake = threading.Event()
        self._ends = False
        self._fails = False
        self._thread = threading.Thread(target=self._run_thread, name=f"generation-{mode}", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def publish(self, announced: Announcement) -> None:
        self._announced = announced
        self._wake.set()

    def refuse(self) -> None:
        if self._announced is not None and not self._announced.refused:
            self.publish(replace(self._announced, refused=True))

    def withdraw_announcement(self) -> None:
        """Announces nothing any more: the stream failed, and another process may decide it now."""
        self._announced = None

    def close(self) -> None:
        self._ends = True
        self._wake.set()
        self._thread.join()
        if self._redis is not None:
            self._redis.close()

    def _run_thread(self) -> None:
        while not self._ends:
            self._wake.wait(ANNOUNCE_EVERY_S)
            self._wake.clear()
            announced = self._announced  # read once: `withdraw_announcement` may come at any time
            if announced is not None and not self._ends:
                self._write(replace(announced, keys=self._key_ids()))

    def _write(self, announced: Announcement) -> None:
        problems: list[Exception] = []
        try:
            if self._redis is None:
                self._redis = self._open_redis()
            keys = generation_keys(self._mode, self._number, cluster=is_cluster(self._redis))
            problems = [failed for key in keys if (failed := self._write_one(self._redis, key, announced)) is not None]
            fails = len(problems) == len(keys)
        except (*FAILURES, SettingError) as failed:
            problems, fails = [failed], True
        if fails and not self._fails:
            log.warning("receivers publish without claims: their generation can't be written: %s", problems[0])
        self._fails = fails

    def _write_one(self, redis: Client, key: str, announced: Announcement) -> Exception | None:
        try:
            redis.eval(WRITE, 1, key, announced.generation, announced.encode(), int(ANNOUNCED_S * 1000))
        except FAILURES as failed:
            return failed
        return None


def open_generation_writer(
    settings: RedisSettings, mode: Mode, key_ids: Callable[[], tuple[str, ...]], number: int = 0
) -> GenerationWriter:
    check_redis(settings)
    return GenerationWriter(lambda: sync_redis(settings, ANNOUNCE_TIMEOUT_S), mode, key_ids, number)


FREE_TIMEOUT_S = 2.0
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
    def __init__(self, settings: RedisSettings, mode: Mode, shards: int) -> None:
        self._settings = settings
        self._mode = mode
        self._shards = shards

    def free_claims(self, event_keys: Sequence[str], generation: int) -> str | None:
        """Ends the claims on the keys, in this ``generation`` and in the highest one, in which receivers claim now.

        Returns why it couldn't; then some may have ended all the same.
        """
        try:
            with contextlib.closing(sync_redis(self._settings, FREE_TIMEOUT_S)) as redis:
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
