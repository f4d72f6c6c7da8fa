"""The masters of a Redis Cluster, each asked by itself: one that is down takes no claim of another with it.

`redis.asyncio.RedisCluster` knows who has which slot. Its own pipeline asks all masters together, fails as a whole,
and closes the connections to all of them then.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Collection, Sequence
from typing import Any

from redis.asyncio import RedisCluster
from redis.asyncio.cluster import PipelineCommand
from redis.crc import key_slot
from redis.exceptions import AskError, MovedError, SlotNotCoveredError

from core.redis import FAILURES

log = logging.getLogger(__name__)

REFRESH_S = 1.0
"""Between two looks at who has which slot, while a master fails."""

Command = Sequence[bytes | str | int]


class Masters:
    """Knows which master has a key, and sends pipelines to each.

    :param changed: called with the names of all masters when the slots were asked for again
    """

    def __init__(self, cluster: RedisCluster, changed: Callable[[Collection[str]], None]) -> None:
        self._cluster = cluster
        self._changed = changed
        self._refreshing: asyncio.Task[None] | None = None

    @property
    def has_slots(self) -> bool:
        return bool(self._cluster.nodes_manager.slots_cache)

    def find_master(self, key: bytes) -> str:
        nodes = self._cluster.nodes_manager.slots_cache.get(key_slot(key))
        return nodes[0].name if nodes else ""

    async def refresh(self) -> None:
        """Asks a node that answers who has which slot.

        :raises RedisClusterException: none answers
        """
        await (self._cluster.nodes_manager.initialize() if self.has_slots else self._cluster.initialize())
        self._changed({nodes[0].name for nodes in self._cluster.nodes_manager.slots_cache.values()})

    def refresh_soon(self) -> None:
        """Refreshes in a task of its own: no claim waits for it."""
        if self._refreshing is None or self._refreshing.done():
            self._refreshing = asyncio.get_running_loop().create_task(self._refresh())

    async def _refresh(self) -> None:
        try:
            await self.refresh()
        except FAILURES as failed:
            log.warning("the cluster can't be asked who has which slot: %s", failed)
        await asyncio.sleep(REFRESH_S)

    def close(self) -> None:
        if self._refreshing is not None:
            self._refreshing.cancel()

    async def send(self, name: str, commands: Sequence[Command]) -> list[Any]:
        """Sends a pipeline to one master; returns answers and errors in order. What moved meanwhile is sent after it.

        :raises RedisError, RedisClusterException, OSError: a master can't be reached
        """
        node = self._cluster.get_node(node_name=name) if name else None
        if node is None:
            raise SlotNotCoveredError(f"no master of the cluster has these slots: {name or 'none is named'}")
        sent = [PipelineCommand(number, *command) for number, command in enumerate(commands)]
        await node.execute_pipeline(sent)
        await self._follow(sent)
        return [command.result for command in sent]

    async def _follow(self, sent: Sequence[PipelineCommand]) -> None:
        moved: dict[tuple[str, int], list[PipelineCommand]] = {}
        for command in sent:
            if isinstance(command.result, AskError):
                to = moved.setdefault((command.result.host, command.result.port), [])
                if isinstance(command.result, MovedError):
                    await self._cluster.nodes_manager.move_slot(command.result)
                else:
                    # It holds for the next command of its connection: a slot is on its way there.
                    to.append(PipelineCommand(0, "ASKING"))
                to.append(command)
        for (host, port), commands in moved.items():
            node = self._cluster.get_node(host, port)
            if node is None:
                raise SlotNotCoveredError(f"slots moved to {host}:{port}, which isn't known yet")
            await node.execute_pipeline(commands)
