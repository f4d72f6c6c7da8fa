"""Which generation claims are made in: read from Redis beside the requests, once a second."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence

from redis.asyncio import Redis
from redis.exceptions import RedisError

from core.clock import Clock
from core.event import Mode
from core.generation import ANNOUNCE_EVERY_S, Announced, generation_key

log = logging.getLogger(__name__)

UNREAD_S_MAX = 5.0
"""A generation that couldn't be read for so long isn't claimed in any more."""


class RedisGenerations:
    """`Generations` as the modes' processors announce them. No request waits for it.

    A generation that was seen never goes down while the receiver runs: whoever announces a lower one doesn't know of
    the loss that raised it. A refusal counts whatever generation it names.
    """

    def __init__(self, redis: Redis, modes: Sequence[Mode], clock: Clock) -> None:
        self._redis = redis
        self._modes = modes
        self._clock = clock
        self._seen: dict[Mode, int] = {}
        self._usable: dict[Mode, int] = {}
        self._problems: dict[Mode, str] = {}
        self._read_at = clock.monotonic()

    def of(self, mode: Mode) -> int | None:
        return self._usable.get(mode)

    @property
    def missing(self) -> int:
        """Modes whose events aren't claimed, but go on deferred."""
        return len(self._modes) - len(self._usable)

    async def follow(self) -> None:
        """Reads for ever."""
        while True:
            await asyncio.sleep(ANNOUNCE_EVERY_S)
            await self.read()

    async def read(self) -> None:
        """Reads once; where Redis can't be asked, what was read before holds for `UNREAD_S_MAX`."""
        pipeline = self._redis.pipeline(transaction=False)
        for mode in self._modes:
            pipeline.get(generation_key(mode))
        try:
            async with asyncio.timeout(ANNOUNCE_EVERY_S):
                values = await pipeline.execute()
        except (TimeoutError, RedisError, OSError):
            if self._clock.monotonic() - self._read_at >= UNREAD_S_MAX:
                for mode in self._modes:
                    self._defer(mode, "Redis can't be asked")
            return
        self._read_at = self._clock.monotonic()
        for mode, value in zip(self._modes, values, strict=True):
            self._take(mode, Announced.decode(value))

    def _take(self, mode: Mode, announced: Announced | None) -> None:
        if announced is None:
            self._defer(mode, "no processor announces a generation")
            return
        generation = self._seen[mode] = max(announced.generation, self._seen.get(mode, 0))
        if announced.refused:
            self._defer(mode, "the processor refuses to go on; `payhook status` says why")
        elif self._usable.get(mode) != generation:
            self._usable[mode] = generation
            self._problems.pop(mode, None)
            log.info("%s events are claimed in generation %d", mode, generation)

    def _defer(self, mode: Mode, problem: str) -> None:
        self._usable.pop(mode, None)
        if self._problems.get(mode) != problem:
            self._problems[mode] = problem
            log.warning("%s events go on as deferred, without a claim: %s", mode, problem)
