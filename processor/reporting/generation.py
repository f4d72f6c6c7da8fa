"""Announces the generation of the receiver's claims in Redis (`core.generation`)."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from dataclasses import replace

from core.errors import SettingError
from core.event import Mode
from core.generation import ANNOUNCE_EVERY_S, ANNOUNCED_S, Announcement, generation_keys
from core.redis import FAILURES, Client, check_redis, is_cluster, sync_redis
from core.settings import RedisSettings

log = logging.getLogger(__name__)

TIMEOUT_S = 0.5

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
        """Announces that the stream doesn't go on until a person has decided."""
        if self._announced is not None and not self._announced.refused:
            self.publish(replace(self._announced, refused=True))

    def withdraw_announcement(self) -> None:
        """Announces nothing any more. The stream failed: another process may be the one that knows."""
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
            log.warning("receivers go on without claims, for their generation can't be written: %s", problems[0])
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
    """Makes a writer for the receivers' Redis, which isn't asked for anything yet.

    :raises SettingError: a file that the settings name can't be read
    """
    check_redis(settings)
    return GenerationWriter(lambda: sync_redis(settings, TIMEOUT_S), mode, key_ids, number)
