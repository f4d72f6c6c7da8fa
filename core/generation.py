"""The generation of claims: the journal holds it, the processor announces it in Redis, receivers read it.

It is raised where Kafka's records were lost for good, so that what the provider sends again counts as new. Claims of a
lower generation are void. Each mode has its own.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from core.event import Mode

ANNOUNCE_EVERY_S = 1.0
"""A receiver reads as often."""
ANNOUNCED_S = 15.0
"""So long an announcement holds: a processor that ended may come back to another Kafka, and learn of it only then."""

_WORDING = re.compile(rb"([0-9]{1,9}) p([0-9]{1,4})(?: k([0-9a-f,]{8,}))?( refused)?")


@dataclass(frozen=True, slots=True)
class Announced:
    """What stands in Redis: ``3 p48 k1f0b2c3d``, and ``refused`` behind it while the processor refuses to go on with
    what Kafka holds.

    ``partitions``: of ``payments.events``, by which entities are divided among them (`core.routing.partition_of`).
    ``keys``: the names of those that sign events which it believes (`core.record_keys`); none where it doesn't say.
    """

    generation: int
    partitions: int
    refused: bool = False
    keys: tuple[str, ...] = ()

    def encode(self) -> bytes:
        keys = f" k{','.join(self.keys)}" if self.keys else ""
        return f"{self.generation} p{self.partitions}{keys}{' refused' if self.refused else ''}".encode()

    @classmethod
    def decode(cls, value: bytes | None) -> Announced | None:
        """The inverse of `encode`; None where nothing stands there that can be read."""
        wording = _WORDING.fullmatch(value or b"")
        if wording is None:
            return None
        keys = tuple(wording[3].decode().split(",")) if wording[3] else ()
        return cls(int(wording[1]), int(wording[2]), wording[4] is not None, keys)


def generation_key(mode: Mode) -> str:
    """The key in Redis. A claim's has fewer characters."""
    return f"payhook:claims:generation:{mode}"


_COPIES: Mapping[Mode, tuple[int, int]] = {"live": (1500, 638), "test": (770, 1943)}


def generation_keys(mode: Mode, *, cluster: bool) -> list[str]:
    """Where an announcement stands: in one key; on a Redis Cluster in three, whose slots are a third of all apart.

    So the loss of one master doesn't take the generation with it. Each holds for `ANNOUNCED_S` by itself; the highest
    that can be read counts, and a refusal in any.
    """
    first = generation_key(mode)
    return [first, *(f"{first}:{copy}" for copy in _COPIES[mode])] if cluster else [first]
