"""Posts at a set rate whether or not answers come: a slow receiver gets a queue, not a rest."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import httpx2

from load.traffic import Webhook

TIMEOUT_S = 20.0
CONNECTIONS_MAX = 64


@dataclass(frozen=True, slots=True)
class Answer:
    """What the receiver said, and when. ``status`` is 0 where no answer came; times in seconds."""

    webhook: Webhook
    status: int
    seconds: float
    replayed: bool = False


async def post_at_rate(
    base_url: str,
    make: Callable[[int], Webhook],
    rate_per_s: float,
    seconds: float,
    progress: Callable[[int], None] = lambda sent: None,
) -> list[Answer]:
    """Sends ``rate_per_s × seconds`` webhooks, each at its own time, and waits for all answers.

    Those that find no free connection wait here, not in the client: its pool goes through all that wait at each step,
    so that a sender would never get out of a queue that one slow moment began.
    """
    limits = httpx2.Limits(max_connections=CONNECTIONS_MAX, max_keepalive_connections=CONNECTIONS_MAX)
    free = asyncio.Semaphore(CONNECTIONS_MAX)
    async with httpx2.AsyncClient(base_url=base_url, timeout=TIMEOUT_S, limits=limits) as client:
        began = time.monotonic()
        tasks: list[asyncio.Task[Answer]] = []
        for number in range(int(rate_per_s * seconds)):
            wait = began + number / rate_per_s - time.monotonic()
            if wait > 0:
                await asyncio.sleep(wait)
            tasks.append(asyncio.create_task(_post_when_free(free, client, make(number))))
            progress(number + 1)
        return list(await asyncio.gather(*tasks))


async def post_at_once(base_url: str, webhooks: Sequence[Webhook]) -> list[Answer]:
    """Sends all at the same instant, each on a connection of its own."""
    limits = httpx2.Limits(max_connections=len(webhooks))
    async with httpx2.AsyncClient(base_url=base_url, timeout=TIMEOUT_S, limits=limits) as client:
        return list(await asyncio.gather(*(post(client, webhook) for webhook in webhooks)))


async def _post_when_free(free: asyncio.Semaphore, client: httpx2.AsyncClient, webhook: Webhook) -> Answer:
    due = time.monotonic()
    async with free:
        answer = await post(client, webhook)
    return replace(answer, seconds=time.monotonic() - due)


async def post(client: httpx2.AsyncClient, webhook: Webhook) -> Answer:
    """One delivery."""
    began = time.monotonic()
    try:
        answer = await client.post(webhook.path, content=webhook.body, headers=webhook.headers)
    except httpx2.HTTPError:
        return Answer(webhook, 0, time.monotonic() - began)
    replayed = answer.headers.get("idempotent-replayed") == "true"
    return Answer(webhook, answer.status_code, time.monotonic() - began, replayed)
