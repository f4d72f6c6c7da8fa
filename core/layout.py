"""The files of a data folder."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from core.event import Mode
from core.location import LakeUrl, Location
from core.routing import base_of, mode_of, shard_of, stream_of

LEDGER = "ledger"
"""The stream that finance's commands and `payhook verify` look at; its bodies are in a table without a suffix."""

BODIES_OF = "bodies-"
"""Before a stream's name: its bodies, where it isn't `LEDGER`."""

LAKE_FOLDERS = frozenset(
    {"acts", "bodies", "catch-up", "journal", "leases", "receipts", "reconciliation", "reconciliation-runs"}
    | {"redactions", "selections", "snapshots"}
)
"""What payhook keeps in the lake itself, beside the tables that a stream derives from its journal."""


@dataclass(frozen=True, slots=True)
class StreamLayout:
    """Places the files of one work stream: tables in the lake, the rest under ``root``. Live and test streams share no
    file.
    """

    root: Path
    lake: Location
    stream: str

    @property
    def journal(self) -> Location:
        return self.lake / "journal" / self.stream

    @property
    def bodies_table(self) -> Location:
        base = base_of(self.stream)
        return self.derived_table("bodies" if base == LEDGER else f"{BODIES_OF}{base}")

    @property
    def postings(self) -> Location:
        return self.derived_table("postings")

    @property
    def index(self) -> Path:
        return self.root / "index" / self.stream

    @property
    def dead_letter_index(self) -> Path:
        return self.root / "console" / self.stream

    @property
    def selections(self) -> Location:
        """Frozen sets of dead items (`operations.frozen`). They can't be made again: keep them."""
        return self.lake / "selections" / self.stream

    @property
    def lease(self) -> Location:
        return self.lake / "leases" / self.stream

    @property
    def lease_lock(self) -> Path:
        return self.root / "run" / f"lease-{self.stream}.lock"

    @property
    def snapshots_folder(self) -> Location:
        return self.lake / "snapshots" / self.stream

    @property
    def checkpoint(self) -> Path:
        return self.root / "checkpoints" / self.stream

    @property
    def status(self) -> Path:
        return self.root / "run" / f"processor-{self.stream}.json"

    @property
    def trying_file(self) -> Path:
        return self.root / "run" / f"trying-{self.stream}.json"

    def of_shard(self, number: int) -> StreamLayout:
        return StreamLayout(self.root, self.lake, stream_of(base_of(self.stream), self._mode, number))

    def derived_table(self, table: str) -> Location:
        return self.lake / stream_of(table, self._mode, shard_of(self.stream))

    def shared_table(self, table: str) -> Location:
        return self.lake / stream_of(table, self._mode)

    @property
    def _mode(self) -> Mode:
        return mode_of(self.stream)


@dataclass(frozen=True, slots=True)
class Layout:
    """Everything under ``root``, and the lake, which may be elsewhere. ``shards``: among how many the events are
    divided.

    The lake, Kafka's logs, secrets and merchants must be kept; the rest can be made again.
    """

    root: Path
    lake_url: str = ""
    shards: int = 1

    @property
    def lake(self) -> Location:
        return LakeUrl(self.lake_url) if self.lake_url else self.root / "lake"

    def stream(self, name: str) -> StreamLayout:
        return StreamLayout(self.root, self.lake, name)

    def ledger(self, mode: Mode = "live", number: int = 0) -> StreamLayout:
        return self.stream(stream_of(LEDGER, mode, number))

    def all_ledgers(self, mode: Mode = "live") -> list[StreamLayout]:
        return [self.ledger(mode, number) for number in range(self.shards)]

    @property
    def kafka(self) -> Path:
        return self.root / "kafka"

    @property
    def redis(self) -> Path:
        return self.root / "redis"

    @property
    def package(self) -> Path:
        return self.root / "package"

    @property
    def secrets(self) -> Path:
        return self.root / "secrets"

    @property
    def anchor_keys(self) -> Path:
        return self.secrets / "anchors"

    @property
    def record_keys(self) -> Path:
        return self.secrets / "records"

    @property
    def merchants_file(self) -> Path:
        return self.root / "merchants.toml"

    @property
    def subscribers_file(self) -> Path:
        return self.root / "subscribers.toml"

    @property
    def users(self) -> Path:
        return self.root / "console" / "users.json"

    @property
    def sessions_file(self) -> Path:
        return self.root / "console" / "sessions.sqlite"

    @property
    def audit_log(self) -> Location:
        return self.lake / "acts"

    @property
    def run(self) -> Path:
        return self.root / "run"

    @property
    def logs_folder(self) -> Path:
        return self.run / "logs"

    @property
    def supervisor_file(self) -> Path:
        return self.run / "supervisor.json"

    @property
    def maintained_file(self) -> Path:
        return self.run / "maintained.json"

    @property
    def backed_up(self) -> Path:
        return self.run / "backed-up.json"

    @property
    def verified_file(self) -> Path:
        return self.run / "verified.json"

    @property
    def verification_file(self) -> Path:
        return self.run / "verification.json"

    @property
    def caught_up(self) -> Path:
        return self.run / "caught-up.json"

    @property
    def list_again(self) -> Path:
        """Places the time from which the providers' lists are read again, after a loss was accepted."""
        return self.run / "list-again.json"

    @property
    def restoring_folder(self) -> Path:
        return self.root / "restoring"

    @property
    def restore_moves(self) -> Path:
        return self.restoring_folder / "moves.json"

    @property
    def alerts(self) -> Path:
        return self.run / "alerts.json"

    @property
    def rhythms_file(self) -> Path:
        return self.run / "rhythms.json"

    @property
    def alerts_lock(self) -> Path:
        return self.run / "alerts.lock"

    @property
    def ports_file(self) -> Path:
        return self.root / "ports.json"

    @property
    def supervisor_lock(self) -> Path:
        """A file that a living supervisor locks and names itself in. It lies beside ``run``, which people delete as
        leftovers.
        """
        return self.root / "supervisor.lock"
