"""How fast a frozen selection is replayed, and what live traffic notices of it: the whole stack."""

from __future__ import annotations

import json
import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from core.decision import Decision
from core.layout import Layout
from core.record_keys import RecordKeys
from core.routing import topics_of
from journal.reader import JournalReader
from load.bench.drain import commit_times, fill
from load.bench.e2e import RATE_PER_S, signed_when_sent
from load.bench.figures import Run
from load.client import NotInTime, RunningStack, wait_for
from load.embedded import embedded_stack, payhook
from load.latency import Decided, first_decisions, percentile
from load.wire import SteadyLoad
from providers.registry import build_adapters
from providers.settings import ProvidersSettings

ITEMS, ITEMS_SHORT = 60_000, 8_000
CLOSED_ACCOUNT = "acct_load"
"""Whose events `load.bench.drain.fill` publishes: they die at once, for good, until the account is opened."""

BEFORE_S, BEFORE_S_SHORT = 20.0, 8.0
"""Of live traffic before the replay: neither its connections nor the processor are cold then."""

DIED_S_MAX = 180.0
DECIDED_S_MAX = 120.0
SLOWEST_PER_S = 100.0
"""Slower than this a replay isn't waited for."""


def measure_replay(run: Run) -> dict[str, float]:
    """Items a second from the order of a run to the commit of its last decision, and the P99 of what the receiver took
    meanwhile, in seconds from receipt to its commit.

    :raises RuntimeError: an item didn't end applied, or less live traffic was sent than was meant
    """
    count = run.count(ITEMS, ITEMS_SHORT)
    run.folder.mkdir(parents=True)
    _merchants(run.folder, closed=True)
    with embedded_stack(run.folder) as data_dir:
        stack = RunningStack(data_dir)
        _die(stack, count, run)
        _merchants(run.folder, closed=False)
        before = JournalReader(str(stack.journal)).last_seq
        with _live(stack) as live:
            time.sleep(run.length(BEFORE_S, BEFORE_S_SHORT))
            began = _order(stack, count)
            _wait(stack, count, run)
        ended = _ended(stack, count)
        decided = _decided(stack, before, live.sent)
    seconds = (ended - began).total_seconds()
    beside = percentile([one.seconds for one in decided if began <= one.received_at <= ended], 0.99)
    alone = percentile([one.seconds for one in decided if one.received_at < began], 0.99)
    run.console.print(
        f"{count:,} items in {seconds:.1f} s: {count / seconds:,.0f}/s; live traffic at {RATE_PER_S:.0f}/s: "
        f"p99 {beside:.2f} s meanwhile, {alone:.2f} s before"
    )
    return {"dlq.replay_per_s": count / seconds, "dlq.replay_live_p99_s": beside}


def _merchants(folder: Path, *, closed: bool) -> None:
    """Every account is known; one is closed, or opened again. Replaced whole: it is read while it is written."""
    lines = [f'[{name}]\n"*" = "merchant-main"' for name in build_adapters(ProvidersSettings())]
    if closed:
        shut = f'"{CLOSED_ACCOUNT}" = {{account = "merchant-closed", closed = true}}'
        lines = [f"{line}\n{shut}" if line.startswith("[stripe]") else line for line in lines]
    fresh = folder / ".merchants.toml"
    fresh.write_text("\n\n".join(lines) + "\n", "utf-8")
    fresh.replace(folder / "merchants.toml")


def _die(stack: RunningStack, count: int, run: Run) -> None:
    with run.progress(f"{count:,} events that die", count) as done:
        keys = RecordKeys(Layout(stack.data_dir).record_keys)
        fill(stack.kafka, topics_of("live").events, count, uuid.uuid4().hex[:6], keys, done)
    if not wait_for(lambda: stack.processor_status().get("dead") == count, DIED_S_MAX):
        raise NotInTime(f"{count} dead events; there are {stack.processor_status().get('dead')}", DIED_S_MAX)


@contextmanager
def _live(stack: RunningStack) -> Iterator[SteadyLoad]:
    """
    :raises RuntimeError: an answer wasn't 200
    """
    live = SteadyLoad(stack.endpoints["ingest"], RATE_PER_S, lambda count: signed_when_sent(stack, count))
    with live.going():
        yield live
    if set(live.statuses) != {200}:
        raise RuntimeError(f"answers by status: {dict(live.statuses)}")


def _order(stack: RunningStack, count: int) -> datetime:
    """Freezes all that is dead and begins its run, as a person would; when that was."""
    frozen = _said(stack, "select", "--json")
    if frozen["count"] != count:
        raise RuntimeError(f"{frozen['count']} of {count} items were frozen")
    run = _said(stack, "replay", f"s{frozen['number']}", "--reason", "account opened", "--no-wait", "--json")["run"]
    return datetime.fromisoformat(run["started_at"]).astimezone(UTC)


def _wait(stack: RunningStack, count: int, run: Run) -> None:
    seconds = count / SLOWEST_PER_S
    with run.progress(f"{count:,} items are replayed", count) as done:

        def over() -> bool:
            dead = stack.processor_status().get("dead", count)
            done(count - dead)
            return bool(dead == 0) and bool(_said(stack, "selections", "s1", "--json")["finished"])

        if not wait_for(over, seconds):
            raise NotInTime(f"{count} replayed items", seconds)


def _ended(stack: RunningStack, count: int) -> datetime:
    """When the last item was decided.

    :raises RuntimeError: not each was applied, or not each is shown so
    """
    rows = [row for row in stack.rows(["first", "decision"]) if not row["first"]]
    applied = [row["seq"] for row in rows if row["decision"] == Decision.APPLIED.value]
    shown = _said(stack, "selections", "s1", "--json")["states"]
    if len(applied) != count or shown.get("applied") != count:
        raise RuntimeError(f"{len(applied)} of {count} items were applied; the run says {shown}")
    return next(at for seq, at in commit_times(Path(str(stack.journal))) if seq >= applied[-1])


def _decided(stack: RunningStack, before: int, sent: int) -> list[Decided]:
    decided: list[Decided] = []

    def all_there() -> bool:
        decided[:] = first_decisions(stack.journal, topics_of("live").events, before)
        return len(decided) >= sent

    if not wait_for(all_there, DECIDED_S_MAX):
        raise NotInTime(f"{sent} live events decided; {len(decided)} are", DECIDED_S_MAX)
    return decided


def _said(stack: RunningStack, *words: str) -> Any:
    said = payhook("dlq", *words, "--data", str(stack.data_dir))
    if said.returncode != 0:
        raise RuntimeError(f"payhook dlq {' '.join(words)}: {said.stdout}{said.stderr}")
    return json.loads(said.stdout)
