"""The generation that claims are made in, as the modes' processors announce it in Redis (`core.generation`)."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any

from core.clock import Clock
from core.event import Mode
from core.generation import ANNOUNCE_EVERY_S, Announcement, generation_keys
from core.redis import FAILURES, AsyncClient, is_cluster
from core.routing import Shard
from ingest.claims import describe_failure
from ingest.errors import RequestRefused

log = logging.getLogger(__name__)

UNREAD_S_MAX = 5.0
"""A generation that couldn't be read for so long isn't claimed in any more."""


class RedisGenerations:
    """`Generations` as the modes' processors announce them. No request waits for it.

    A generation that was seen never goes down while the receiver runs: a processor that announces a lower one doesn't
    know of the loss that raised it. A refusal counts whatever generation it names. Of several shards each announces
    its own; the highest counts for all, because claims that are void too early cost a look in the index and no more.
    One that is silent or refuses defers its own entities alone.
    """

    def __init__(
        self,
        redis: AsyncClient,
        modes: Sequence[Mode],
        clock: Clock,
        partitions: int,
        key_ids: Callable[[], Sequence[str]],
    ) -> None:
        self._redis = redis
        self._modes = modes
        self._partitions = partitions
        self._key_ids = key_ids
        self._announced_last: dict[Mode, Mapping[Shard, Announcement]] = {}
        self._clock = clock
        self._seen: dict[Mode, int] = {}
        self._usable: dict[Mode, int] = {}
        self._deferring: dict[Mode, Sequence[Shard]] = {}
        self._problems: dict[Mode, str] = {}
        self._read_at = dict.fromkeys(modes, clock.monotonic_s())

    def find_generation(self, mode: Mode, entity_key: str) -> int | None:
        if any(part.has_entity(entity_key) for part in self._deferring.get(mode, ())):
            return None
        return self._usable.get(mode)

    def check(self, mode: Mode) -> None:
        if (refused := self._find_mismatch(mode)) is not None:
            raise refused

    def _find_mismatch(self, mode: Mode) -> RequestRefused | None:
        """Compares with what the processor announced last: that holds until its next word, also while it is away."""
        for announced in self._announced_last.get(mode, {}).values():
            if announced.partitions != self._partitions:
                return RequestRefused("other_partitions", own=self._partitions, announced=announced.partitions)
            if announced.keys and self._key_ids()[0] not in announced.keys:
                return RequestRefused("other_record_keys")
        return None

    @property
    def deferred_mode_count(self) -> int:
        """Counts modes whose events, or a part of them, aren't claimed, but published as deferred."""
        return sum(mode not in self._usable or bool(self._deferring.get(mode)) for mode in self._modes)

    async def follow(self) -> None:
        while True:
            await asyncio.sleep(ANNOUNCE_EVERY_S)
            await self.read()

    async def read(self) -> None:
        """Reads once; where Redis can't be asked, what was read before holds for `UNREAD_S_MAX`."""
        unread: dict[Mode, str] = dict.fromkeys(self._modes, "no answer in time")
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(ANNOUNCE_EVERY_S):
                for mode in self._modes:
                    try:
                        self._apply_announced(mode, await self._read_all_announced(mode))
                        del unread[mode]
                    except FAILURES as failed:
                        unread[mode] = describe_failure(failed)
        now = self._clock.monotonic_s()
        self._read_at |= {mode: now for mode in self._modes if mode not in unread}
        for mode, problem in unread.items():
            if mode not in self._usable or now - self._read_at[mode] >= UNREAD_S_MAX:
                self._defer_mode(mode, f"Redis can't be asked: {problem}")

    async def _read_all_announced(self, mode: Mode) -> dict[Shard, list[Announcement]]:
        first = await self._read_announced(mode, 0)
        last_known = self._announced_last.get(mode, ())
        count = max(
            (announcement.shard.count for announcement in first),
            default=max((part.count for part in last_known), default=1),
        )
        parts = [Shard(number, count) for number in range(count)]
        announcements = [first, *[await self._read_announced(mode, part.number) for part in parts[1:]]]
        return {
            part: [announcement for announcement in announced if announcement.shard == part]
            for part, announced in zip(parts, announcements, strict=True)
        }

    async def _read_announced(self, mode: Mode, number: int) -> list[Announcement]:
        values: list[Any] = []
        failures: list[Exception] = []
        for key in generation_keys(mode, number, cluster=is_cluster(self._redis)):
            try:
                values.append(await self._redis.get(key))
            except FAILURES as failed:
                failures.append(failed)
        if not values:
            raise failures[0]
        return [announced for announced in map(Announcement.decode, values) if announced is not None]

    def _apply_announced(self, mode: Mode, by_part: Mapping[Shard, Sequence[Announcement]]) -> None:
        # Of a part's copies, which differ for a moment, the one of its highest generation.
        newest = {
            part: max(announced, key=lambda announcement: announcement.generation)
            for part, announced in by_part.items()
            if announced
        }
        self._remember_announced(mode, by_part, newest)
        problems = {
            part: problem for part, announced in by_part.items() if (problem := _problem_of(announced)) is not None
        }
        if len(problems) == len(by_part):
            self._defer_mode(mode, next(iter(problems.values())))
            return
        generation, deferring = self._seen[mode], tuple(problems)
        if (self._usable.get(mode), self._deferring.get(mode, ())) == (generation, deferring):
            return
        self._usable[mode], self._deferring[mode] = generation, deferring
        self._problems.pop(mode, None)
        log.info("%s events are claimed in generation %d", mode, generation)
        for part, problem in problems.items():
            log.warning("%s events of shard %s are published as deferred, without a claim: %s", mode, part, problem)

    def _remember_announced(self, mode: Mode, parts: Collection[Shard], now: Mapping[Shard, Announcement]) -> None:
        """A silent processor's last announcement holds, for as long as there is one of its number among as many."""
        self._seen[mode] = max([self._seen.get(mode, 0), *(announcement.generation for announcement in now.values())])
        before = self._announced_last.get(mode, {})
        kept = {part: announcement for part, announcement in before.items() if part in parts}
        self._announced_last[mode] = {**kept, **now}
        if self._announced_last[mode] != before and (refused := self._find_mismatch(mode)) is not None:
            log.error("%s events are answered 503: %s", mode, refused)

    def _defer_mode(self, mode: Mode, problem: str) -> None:
        self._usable.pop(mode, None)
        self._deferring.pop(mode, None)
        if self._problems.get(mode) != problem:
            self._problems[mode] = problem
            log.warning("%s events are published as deferred, without a claim: %s", mode, problem)


def _problem_of(announced: Sequence[Announcement]) -> str | None:
    if not announced:
        return "no processor announces a generation"
    if any(announcement.refused for announcement in announced):
        return "the processor has stopped and needs an operator; run `payhook status` to see why"
    return None
