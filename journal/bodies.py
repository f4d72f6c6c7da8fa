"""Raw bodies by their hash, apart from the journal so that they can be dropped while the proof stays."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
from deltalake import DeltaTable, write_deltalake
from deltalake.exceptions import DeltaError

BODIES_SCHEMA = pa.schema(
    [pa.field("body_sha256", pa.string(), nullable=False), pa.field("body", pa.binary(), nullable=False)]
)
HASHES_PER_LOOKUP_MAX = 5_000


class BodyStore:
    """A Delta table of bodies. A body written twice or never referred to is harmless."""

    def __init__(self, path: str) -> None:
        self._path = path
        if not DeltaTable.is_deltatable(path):
            _create(path)
        self._handle = DeltaTable(path)

    def append(self, bodies: Sequence[tuple[str, bytes]]) -> None:
        """Writes bodies, durable on return; an empty list writes nothing."""
        if not bodies:
            return
        hashes, raw = zip(*bodies, strict=True)
        table = pa.table([pa.array(hashes, pa.string()), pa.array(raw, pa.binary())], schema=BODIES_SCHEMA)
        write_deltalake(self._handle, table, mode="append")

    def fetch(self, hashes: Iterable[str]) -> dict[str, bytes]:
        """The bodies that are there, by hash. A scan: for recovery and single look-ups, not for batches."""
        found: dict[str, bytes] = {}
        wanted = sorted(set(hashes))
        for at in range(0, len(wanted), HASHES_PER_LOOKUP_MAX):
            some = pa.array(wanted[at : at + HASHES_PER_LOOKUP_MAX], pa.string())
            scanner = (
                DeltaTable(self._path)
                .to_pyarrow_dataset()
                .scanner(columns=["body_sha256", "body"], filter=pc.field("body_sha256").isin(some))
            )
            for batch in scanner.to_batches():
                found.update(zip(batch.column(0).to_pylist(), batch.column(1).to_pylist(), strict=True))
        return found


def _create(path: str) -> None:
    if "://" not in path:
        Path(path).mkdir(parents=True, exist_ok=True)
    try:
        DeltaTable.create(path, BODIES_SCHEMA, name="bodies", configuration={"delta.checkpointInterval": "100"})
    except DeltaError:
        if not DeltaTable.is_deltatable(path):
            raise
