"""Says what Kafka's topics must be like, so that an acknowledged record outlasts the broker that has it."""

from __future__ import annotations

from typing import Literal, TypeAlias

Durability: TypeAlias = Literal["replicated", "single"]
"""``single``: one broker may be all there is, and what it loses is lost."""

REPLICAS_MIN = 3
IN_SYNC_MIN = 2
"""A record is acknowledged when two brokers have it; with three, one may be down and records are still taken."""

RECORD_BYTES_MAX = 2 << 20
"""A record with its key and headers, as payhook's producers send it and its topics take it."""

BODY_BYTES_MAX = RECORD_BYTES_MAX - (256 << 10)
"""Its value; the rest is for headers and for the batch around it."""

CLEANUP, RECORD_BYTES = "cleanup.policy", "max.message.bytes"
UNCLEAN, IN_SYNC = "unclean.leader.election.enable", "min.insync.replicas"


def topic_config(replication: int) -> dict[str, str]:
    """Returns the configuration with which a topic is made that has so many replicas."""
    return {
        CLEANUP: "delete",
        RECORD_BYTES: str(RECORD_BYTES_MAX),
        UNCLEAN: "false",
        IN_SYNC: str(IN_SYNC_MIN if replication >= REPLICAS_MIN else 1),
    }


def replicas_min(durability: Durability) -> int:
    return REPLICAS_MIN if durability == "replicated" else 1
