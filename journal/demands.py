"""What a Delta table demands of those who write to it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from deltalake import DeltaTable

from core.errors import PayhookError

WRITER_VERSION_MAX = 3
WRITER_FEATURES = frozenset(
    {"appendOnly", "invariants", "checkConstraints", "changeDataFeed", "deletionVectors", "v2Checkpoint"}
)
"""Of Delta's protocol: what asks nothing of an append, or is done here."""

CONSTRAINT = "delta.constraints."
INDEXED_COLUMNS = "delta.dataSkippingNumIndexedCols"
INDEXED_COLUMNS_DEFAULT = 32


class TableError(PayhookError):
    """Something about one table."""

    def __init__(self, path: str, problem: str, remedy: str = "") -> None:
        self.path = path
        self.problem = problem
        super().__init__(f"table {path}: {problem}{remedy}")


class TableUnfit(TableError):
    """The table asks of its writers what isn't done here."""

    def __init__(self, path: str, problem: str) -> None:
        super().__init__(path, problem, ". Nothing was written; undo that change, or take code that knows it.")


@dataclass(frozen=True, slots=True)
class Demands:
    """What a table demands of rows, and what it wants to be told of each file."""

    types: Mapping[str, Any]
    never_null: tuple[str, ...]
    constraints: frozenset[str]
    indexed: tuple[str, ...]


def demands_of(path: str, table: DeltaTable) -> Demands:
    """
    :raises TableUnfit: it asks what isn't done here
    """
    protocol, metadata = table.protocol(), table.metadata()
    features = set(protocol.writer_features or ())
    version = protocol.min_writer_version
    if (features - WRITER_FEATURES) or (version > WRITER_VERSION_MAX and not features):
        problem = f"it asks of its writers {sorted(features - WRITER_FEATURES) or f'protocol version {version}'}"
        raise TableUnfit(path, problem)
    fields = table.schema().fields
    special = sorted(one.name for one in fields if any(key.startswith("delta.") for key in one.metadata))
    if special or metadata.partition_columns:
        raise TableUnfit(path, f"it is partitioned, or its columns {special} aren't plain ones")
    configuration = metadata.configuration
    return Demands(
        {one.name: one.type for one in fields},
        tuple(one.name for one in fields if not one.nullable),
        frozenset(name.removeprefix(CONSTRAINT) for name in configuration if name.startswith(CONSTRAINT)),
        tuple(one.name for one in fields[: int(configuration.get(INDEXED_COLUMNS) or INDEXED_COLUMNS_DEFAULT)]),
    )
