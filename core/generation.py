"""The generation of claims: the journal holds it, the processor announces it in Redis, receivers read it.

It is raised where Kafka's records were lost for good, so that what the provider sends again counts as new. Claims of a
lower generation are void. Each mode has its own.
"""

from __future__ import annotations

import functools
import itertools
import re
from dataclasses import dataclass

from redis.crc import REDIS_CLUSTER_HASH_SLOTS, key_slot

from core.event import Mode
from core.keys import hash_key
from core.routing import SHARD_MARK, WHOLE, Shard

ANNOUNCE_EVERY_S = 1.0
"""A receiver reads as often."""
ANNOUNCED_S = 15.0
"""So long an announcement holds: a processor that ended may come back to another Kafka, and learn of it only then."""

_WORDING = re.compile(rb"([0-9]{1,9}) p([0-9]{1,4})(?: s([0-9]{1,2}/[0-9]{1,2}))?(?: k([0-9a-f,]{8,}))?( refused)?")


@functools.lru_cache(maxsize=16)
def claim_prefix(mode: Mode, generation: int) -> bytes:
    """Returns what stands before an event key's hash: nothing in live traffic's generation 0, then ``1:``; ``t:``,
    ``t1:``.
    """
    if mode == "live" and generation == 0:
        return b""
    return b"%s%s:" % (b"" if mode == "live" else b"t", b"%d" % generation if generation else b"")


def claim_name(event_key: str, mode: Mode, generation: int) -> bytes:
    return claim_prefix(mode, generation) + hash_key(event_key)


@dataclass(frozen=True, slots=True)
class Announcement:
    """A text in Redis: ``3 p48 k1f0b2c3d``, with ``refused`` behind it while the processor refuses what Kafka
    holds.

    One of several shards says which: ``3 p48 s1/4 k1f0b2c3d``. ``partitions``: of ``payments.events``, by which
    entities are divided (`core.routing.partition_of`). ``keys``: names of those whose signatures it believes
    (`core.record_keys`); none where it doesn't say.
    """

    generation: int
    partitions: int
    refused: bool = False
    keys: tuple[str, ...] = ()
    shard: Shard = WHOLE

    def encode(self) -> bytes:
        keys = f" k{','.join(self.keys)}" if self.keys else ""
        part = f" s{self.shard}" if self.shard.count > 1 else ""
        return f"{self.generation} p{self.partitions}{part}{keys}{' refused' if self.refused else ''}".encode()

    @classmethod
    def decode(cls, value: bytes | None) -> Announcement | None:
        wording = _WORDING.fullmatch(value or b"")
        if wording is None:
            return None
        part = Shard.read(wording[3].decode()) if wording[3] else WHOLE
        keys = tuple(wording[4].decode().split(",")) if wording[4] else ()
        return cls(int(wording[1]), int(wording[2]), wording[5] is not None, keys, part)


def generation_key(mode: Mode, number: int = 0) -> str:
    return f"payhook:claims:generation:{mode}{SHARD_MARK}{number}" if number else f"payhook:claims:generation:{mode}"


MASTERS = range(3, 13)
"""Of a Redis Cluster: each has as many slots, in a row."""


@functools.cache
def generation_keys(mode: Mode, number: int = 0, *, cluster: bool) -> tuple[str, ...]:
    """Lists the keys of an announcement: one; on a Redis Cluster three, on three of its `MASTERS`.

    So the loss of one master doesn't lose the generation. Each holds for `ANNOUNCED_S`; the highest that can be read
    counts, and a refusal in any.
    """
    first = generation_key(mode, number)
    if not cluster:
        return (first,)
    names = (f"{first}:{number}" for number in itertools.count())
    copies: list[str] = []
    for name in names:
        second = next((copy for copy in copies if _are_apart(first, copy, name)), None)
        if second is not None:
            return (first, second, name)
        copies.append(name)
    raise AssertionError("names don't end")


def _are_apart(*keys: str) -> bool:
    slots = [key_slot(key.encode()) for key in keys]
    return all(len({slot * masters // REDIS_CLUSTER_HASH_SLOTS for slot in slots}) == len(keys) for masters in MASTERS)
