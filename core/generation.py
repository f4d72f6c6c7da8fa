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

_WORDING = re.compile(rb"([0-9]{1,9}) p([0-9]{1,4})( refused)?")


@dataclass(frozen=True, slots=True)
class Announced:
    """What stands in Redis: ``3 p48``, or ``3 p48 refused`` while the processor refuses to go on with what Kafka holds.

    ``partitions``: of ``payments.events``, by which entities are divided among them (`core.routing.partition_of`).
    """

    generation: int
    partitions: int
    refused: bool = False

    def encode(self) -> bytes:
        return b"%d p%d%s" % (self.generation, self.partitions, b" refused" if self.refused else b"")

    @classmethod
    def decode(cls, value: bytes | None) -> Announced | None:
        """The inverse of `encode`; None where nothing stands there that can be read."""
        wording = _WORDING.fullmatch(value or b"")
        return None if wording is None else cls(int(wording[1]), int(wording[2]), wording[3] is not None)


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
