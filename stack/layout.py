"""The files of a data folder."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class Layout:
    """Everything under ``root``. The lake, Kafka's logs, secrets and merchants matter; the rest can be made again."""

    root: Path

    @property
    def journal(self) -> Path:
        return self.root / "lake" / "journal" / "ledger"

    @property
    def bodies(self) -> Path:
        return self.root / "lake" / "bodies"

    @property
    def postings(self) -> Path:
        return self.root / "lake" / "postings"

    @property
    def index(self) -> Path:
        return self.root / "index" / "ledger"

    @property
    def kafka(self) -> Path:
        return self.root / "kafka"

    @property
    def redis(self) -> Path:
        return self.root / "redis"

    @property
    def secrets(self) -> Path:
        return self.root / "secrets"

    @property
    def merchants(self) -> Path:
        return self.root / "merchants.toml"

    @property
    def run(self) -> Path:
        return self.root / "run"

    @property
    def logs(self) -> Path:
        return self.run / "logs"

    @property
    def processor_status(self) -> Path:
        return self.run / "processor-ledger.json"

    @property
    def supervisor(self) -> Path:
        """What runs now, rewritten with every change."""
        return self.run / "supervisor.json"

    @property
    def supervisor_lock(self) -> Path:
        """Held while a supervisor lives."""
        return self.run / "supervisor.lock"
