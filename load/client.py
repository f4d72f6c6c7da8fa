"""A running stack seen from outside: its endpoints file, its secrets, its journal."""

from __future__ import annotations

import json
import os
import signal
import time
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

import pyarrow.compute as pc
from deltalake import DeltaTable

from core.errors import PayhookError
from core.layout import Layout
from core.location import Location, location_of
from core.routing import SHARD_MARK
from core.settings import KafkaSettings
from core.status_file import read_said
from journal.journals import own_rows_after
from journal.lake import has_table
from journal.reader import dataset_of
from stack.servers.kafka_users import embedded_kafka

POLL_S = 0.2


class NotInTime(PayhookError):
    """Something that was waited for didn't happen."""

    def __init__(self, what: str, seconds: float) -> None:
        self.what = what
        self.seconds = seconds
        super().__init__(f"{what}: not within {seconds:g} s")


class RunningStack:
    """What `payhook up --detach` left behind in its data folder."""

    def __init__(self, data_dir: Path) -> None:
        self.data_dir = data_dir

    @property
    def endpoints(self) -> dict[str, Any]:
        """Reads ``endpoints.json``, which changes when something restarts."""
        read: dict[str, Any] = json.loads((self.data_dir / "endpoints.json").read_text("utf-8"))
        return read

    @property
    def kafka(self) -> KafkaSettings:
        """The stack's own broker, as its administrator."""
        return embedded_kafka(Layout(self.data_dir).kafka, self.endpoints["kafka"])

    @property
    def journal(self) -> Location:
        return location_of(self.endpoints["journal"])

    def journals(self) -> list[Location]:
        """Returns the journals of all shards, in their order."""
        found = [self.journal]
        while has_table(f"{self.journal}{SHARD_MARK}{len(found)}"):
            found.append(location_of(f"{self.journal}{SHARD_MARK}{len(found)}"))
        return found

    def secrets(self, provider: str) -> list[str]:
        """Newest first."""
        return (self.data_dir / "secrets" / provider).read_text("utf-8").split()

    def kill(self, name: str) -> int:
        """SIGKILL to one of the stack's processes; returns the pid that died."""
        pid = int(self.endpoints["pids"][name])
        os.kill(pid, signal.SIGKILL)
        return pid

    def rows(self, columns: Sequence[str], topic: str | None = "payments.events") -> list[dict[str, Any]]:
        """Journal rows in seq order; shard by shard where there are several, each with its own rows."""
        wanted = [*dict.fromkeys([*columns, "seq"])]
        rows: list[dict[str, Any]] = []
        for journal in self.journals():
            where = pc.field("seq") > own_rows_after(journal)
            if topic is not None:
                where &= pc.field("topic") == topic
            table = dataset_of(DeltaTable(str(journal))).to_table(columns=wanted, filter=where)
            rows += table.sort_by("seq").to_pylist()
        return rows

    def processor_status(self) -> dict[str, Any]:
        """Returns what the ledger stream says of itself; empty while the processor starts."""
        return self.stream_status("ledger")

    def epoch(self, seconds: float) -> int:
        """The epoch of the ledger's processor, once it reports one; after its start that takes some batches.

        :raises NotInTime: it reports none
        """
        if not wait_for(lambda: "epoch" in self.processor_status(), seconds):
            raise NotInTime("an epoch in the processor's status", seconds)
        return int(self.processor_status()["epoch"])

    def stream_status(self, stream: str) -> dict[str, Any]:
        """A work stream's status file; empty while it isn't there."""
        return dict(read_said(self.data_dir / "run" / f"processor-{stream}.json") or {})

    def wait_until_decided(self, event_keys: Iterable[str], seconds: float) -> list[dict[str, Any]]:
        """Waits until every key has a row; returns all rows of the events topic.

        :raises NotInTime: names some of the keys that have none
        """
        wanted = set(event_keys)

        def missing() -> set[str]:
            return wanted - {row["event_key"] for row in self.rows(["event_key"])}

        if not wait_for(lambda: not missing(), seconds):
            raise NotInTime(f"a decision for {sorted(missing())[:5]}", seconds)
        return self.rows(["event_key", "decision", "first", "attempt", "entity_key", "reason", "item_seq"])


def wait_for(condition: Callable[[], bool], seconds: float) -> bool:
    """Asks until it holds; False when it never did."""
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        if condition():
            return True
        time.sleep(POLL_S)
    return condition()
