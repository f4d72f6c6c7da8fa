"""The steps of the demo, in their order."""

from __future__ import annotations

import asyncio
import random
import time
import uuid
from collections.abc import Callable, Sequence
from datetime import datetime
from pathlib import Path

import redis
from rich.console import Console

from core.clock import SystemClock
from core.layout import Layout
from load.client import NotInTime, RunningStack, wait_for
from load.demo.cast import AT_ONCE_COPIES, MERCHANTS, MERCHANTS_LATER, Cast, judge, make_cast
from load.embedded import embedded_stack, payhook
from load.open_loop import Answer, post_at_once, post_at_rate
from load.scratch import empty_scratch_folder
from load.traffic import Traffic, Webhook
from stack.servers.redis import admin_url

RATE_PER_S = 60.0
KILL_AT = 0.4
BACK_AT = 0.6
BACK_S_MAX = 300.0
DECIDED_S_MAX = 120.0
RETRIED_S_MAX = 20.0


class Demo:
    """One telling. Each step is announced. ``at_end``: called once all is judged, while the stack still runs."""

    def __init__(self, data_dir: Path, console: Console, at_end: Callable[[Path], None] | None = None) -> None:
        self._at_end = at_end
        self._data_dir = data_dir
        self._console = console
        self._clock = SystemClock()
        self._stack = RunningStack(data_dir)
        self._answers: list[Answer] = []
        self._killed_at: datetime | None = None
        self._restarts = 0

    def run(self) -> bool:
        """Tells the story; true when all of it came out as expected.

        :raises NotScratch: the folder holds what no earlier demo left
        """
        empty_scratch_folder(self._data_dir, "payhook demo")
        (self._data_dir / "merchants.toml").write_text(MERCHANTS, "utf-8")
        began = time.monotonic()
        self._say("Starting Kafka, Redis, the receiver and the Spark processor on loopback …")
        with embedded_stack(self._data_dir):
            self._say(f"… all of them answer after {time.monotonic() - began:.0f} s.")
            rng = random.Random()
            traffic = Traffic(self._data_dir / "secrets", self._clock, rng, prefix=uuid.uuid4().hex[:6])
            cast = make_cast(traffic, rng)
            back_at = self._traffic(cast)
            self._troubles(cast)
            self._mend(cast)
            verified = self._verify()
            assert self._killed_at is not None
            outcome = judge(self._stack, cast, self._answers, (self._killed_at, back_at), self._restarts, verified)
            if self._at_end is not None:
                self._at_end(self._data_dir)
        self._console.print(outcome.table())
        verdict = "Everything came out right" if outcome.ok else "Something is wrong"
        self._say(f"{verdict}, {time.monotonic() - began:.0f} s in all.")
        return outcome.ok

    def _traffic(self, cast: Cast) -> datetime:
        """Honest traffic with redeliveries; the processor dies in the middle, Redis forgets later on."""
        posts = _mixed(cast)
        self._say(
            f"Posting {len(posts)} signed webhooks of Stripe, Adyen and a Standard Webhooks sender at "
            f"{RATE_PER_S:.0f}/s, {len(cast.redelivered)} of them redeliveries …"
        )
        before, meanwhile, after = _parts(posts)
        self._post(before)
        epoch = self._stack.processor_status()["epoch"]
        self._killed_at = self._clock.now()
        pid = self._stack.kill("processor")
        self._say(f"… kill -9 of the processor (pid {pid}) in the middle; webhooks keep coming …")
        self._post(meanwhile)
        self._restarts = int(wait_for(lambda: self._stack.processor_status().get("epoch", 0) > epoch, BACK_S_MAX))
        decided = self._decided([*before, *meanwhile])
        back_at = self._clock.now()
        back = "came back by itself" if self._restarts else f"isn't back after {BACK_S_MAX:g} s"
        self._say(f"… the processor {back}{' and has decided all of it' if decided else ''}; the rest comes …")
        half = len(after) // 2
        self._post(after[:half])
        folder = Layout(self._data_dir).redis
        redis.Redis.from_url(admin_url(folder, self._stack.endpoints["redis"])).flushall()
        self._say("… Redis emptied: it has forgotten every key; old webhooks come again …")
        self._post([*after[half:], *cast.after_redis_loss])
        self._decided([*posts, *cast.after_redis_loss])
        return back_at

    def _troubles(self, cast: Cast) -> None:
        self._say("The same webhooks on many connections at the same instant, and one id with two contents …")
        copies = [webhook for webhook in cast.at_once for _ in range(AT_ONCE_COPIES)]
        self._answers += asyncio.run(post_at_once(self._ingest, copies))
        self._post_in_turn([cast.first_content, cast.other_content])
        self._say("A body that can't be read, a type without a handler, an unknown merchant, a closed one …")
        self._post_in_turn([cast.poison, cast.unknown_type, *cast.waiting, *cast.closed])
        self._decided([*cast.at_once, cast.unknown_type, *cast.waiting, *cast.closed])
        head = cast.waiting[0].event_keys[0]
        wait_for(lambda: "retry" in self._said_of(head), RETRIED_S_MAX)

    def _mend(self, cast: Cast) -> None:
        (self._data_dir / "merchants.toml").write_text(MERCHANTS_LATER, "utf-8")
        self._say(
            "The merchant directory learns the newcomer, and opens the closed account: its dead event is replayed …"
        )
        head = cast.closed[0].event_keys[0]
        item = next(row["item_seq"] for row in self._stack.rows(["event_key", "item_seq"]) if row["event_key"] == head)
        said = payhook("dlq", "replay", str(item), "--reason", "account opened", "--data", str(self._data_dir))
        self._console.print((said.stdout + said.stderr).strip(), style="dim")
        late = 0
        for webhook in (*cast.waiting, *cast.closed):
            key = webhook.event_keys[0]
            if not wait_for(lambda key=key: "applied" in self._said_of(key), DECIDED_S_MAX):  # type: ignore[misc]
                self._say(f"… {key} wasn't applied in time")
                late += 1
        if not late:
            self._say("… their events and the ones that waited behind them went through.")

    def _verify(self) -> tuple[bool, str]:
        self._say("payhook verify: every Kafka offset against the journal, and everything derived against both …")
        said = payhook("verify", "--data", str(self._data_dir))
        self._console.print(said.stdout.strip())
        return said.returncode == 0, "clean" if said.returncode == 0 else (said.stdout + said.stderr)[-300:]

    def _post(self, webhooks: Sequence[Webhook]) -> None:
        seconds = len(webhooks) / RATE_PER_S
        self._answers += asyncio.run(post_at_rate(self._ingest, lambda n: webhooks[n], RATE_PER_S, seconds + 1e-9))

    def _post_in_turn(self, webhooks: Sequence[Webhook]) -> None:
        """Each after the answer to the one before, so that Kafka holds them in this order."""
        for webhook in webhooks:
            self._answers += asyncio.run(post_at_once(self._ingest, [webhook]))

    def _decided(self, webhooks: Sequence[Webhook]) -> bool:
        """Waits until all of them are decided; says what wasn't in time."""
        try:
            self._stack.wait_until_decided((key for one in webhooks for key in one.event_keys), DECIDED_S_MAX)
        except NotInTime as late:
            self._say(f"… {late}")
            return False
        return True

    def _said_of(self, event_key: str) -> list[str]:
        rows = self._stack.rows(["event_key", "decision"])
        return [row["decision"] for row in rows if row["event_key"] == event_key]

    @property
    def _ingest(self) -> str:
        return str(self._stack.endpoints["ingest"])

    def _say(self, text: str) -> None:
        self._console.print(text)


def run(data_dir: Path) -> int:
    """Exit code: 0 only if everything came out as it should.

    :raises NotScratch: the folder holds what no earlier demo left
    """
    return 0 if Demo(data_dir, Console()).run() else 1


def _parts(posts: Sequence[Webhook]) -> tuple[Sequence[Webhook], Sequence[Webhook], Sequence[Webhook]]:
    """Before the kill, while the processor is away, and after."""
    away, back = int(len(posts) * KILL_AT), int(len(posts) * BACK_AT)
    return posts[:away], posts[away:back], posts[back:]


def _mixed(cast: Cast) -> list[Webhook]:
    """The honest webhooks with each redelivery somewhere after its first delivery."""
    half = len(cast.honest) // 2
    posts = list(cast.honest[:half])
    rest: list[Webhook] = list(cast.honest[half:]) + list(cast.redelivered)
    random.shuffle(rest)
    return posts + rest
