"""``endpoints.json``: where a running stack answers, for people, tests and tools."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path

from core.files import write_whole

FILE = "endpoints.json"


@dataclass(frozen=True, slots=True)
class Endpoints:
    """URLs, except ``kafka`` (host:port), and the paths of the ledger's journals; no test traffic, no test journal."""

    ingest: str
    ops: str
    kafka: str
    redis: str
    journal: str
    pids: Mapping[str, int]
    test_journal: str | None = None


def write_endpoints(data_dir: Path, endpoints: Endpoints) -> None:
    """Rewritten whole; a reader never sees half of it. What there isn't isn't named."""
    there = {name: value for name, value in asdict(endpoints).items() if value is not None}
    write_whole(data_dir / FILE, json.dumps(there, indent=2) + "\n")


def read_endpoints(data_dir: Path) -> Endpoints | None:
    """None while nothing runs there."""
    try:
        return Endpoints(**json.loads((data_dir / FILE).read_text("utf-8")))
    except FileNotFoundError:
        return None


def remove_endpoints(data_dir: Path) -> None:
    (data_dir / FILE).unlink(missing_ok=True)
