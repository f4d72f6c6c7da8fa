"""Step 1: the report's lines, written down as a table that Spark reads; nothing else is kept of a wrong file."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import datetime
from itertools import islice
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from core.keys import key_part
from core.money import Movement
from core.routing import of_tenant
from journal.schema import TIMESTAMP
from ledger.accounts import BOOKINGS, Role
from providers.settlement import NotCompared, ReportLine, SettlementLine, SettlementReport, read_report

LINES_PER_GROUP = 20_000
"""About 20 MB as Python objects: all of a report that is in memory at a time."""

ZERO = "an amount of zero"

LINES_SCHEMA = pa.schema(
    [
        pa.field("line", pa.int64(), nullable=False),
        pa.field("fact_key", pa.string(), nullable=False),
        pa.field("movement", pa.string(), nullable=False),
        pa.field("role", pa.string(), nullable=False),
        pa.field("account", pa.string(), nullable=False),
        pa.field("account_part", pa.string(), nullable=False),
        pa.field("payment", pa.string()),
        pa.field("entity_key", pa.string()),
        pa.field("minor", pa.int64(), nullable=False),
        pa.field("currency", pa.string(), nullable=False),
        pa.field("occurred_at", TIMESTAMP, nullable=False),
        pa.field("adds", pa.bool_(), nullable=False),
        pa.field("or_fact_key", pa.string()),
    ]
)
"""``minor`` is what the line does to the provider's clearing account: above zero for money that came to us."""


@dataclass(slots=True)
class Staged:
    """A report that was read whole. ``lines`` counts all of its lines; ``first_at`` and ``last_at`` are its dates."""

    path: Path
    sha256: str = ""
    lines: int = 0
    not_compared: Counter[str] = field(default_factory=Counter)
    first_at: datetime | None = None
    last_at: datetime | None = None


def stage(report: Path, reader: SettlementReport, tenant: str | None, to: Path) -> Staged:
    """Reads the report into the Parquet file ``to``, a group of lines at a time.

    :raises ReportUnreadable: it isn't that report
    :raises RowUnreadable: a line can't be read
    """
    digest = hashlib.sha256()
    staged = Staged(to)
    lines = read_report(report, reader, digest)
    with pq.ParquetWriter(to, LINES_SCHEMA) as writer:
        while chunk := list(islice(lines, LINES_PER_GROUP)):
            staged.lines += len(chunk)
            columns = list(zip(*_kept(chunk, staged, tenant), strict=True)) or [()] * len(LINES_SCHEMA)
            arrays = [pa.array(values, one.type) for values, one in zip(columns, LINES_SCHEMA, strict=True)]
            writer.write_table(pa.Table.from_arrays(arrays, schema=LINES_SCHEMA))
    staged.sha256 = digest.hexdigest()
    return staged


def role_of(movement: Movement) -> Role:
    """The account of a movement's booking that isn't the provider's clearing account."""
    debit, credit = BOOKINGS[movement]
    return credit if debit is Role.CLEARING else debit


def direction_of(movement: Movement) -> int:
    """1 for money that comes to us, -1 for money that is taken."""
    return 1 if BOOKINGS[movement][0] is Role.CLEARING else -1


def _kept(chunk: list[ReportLine], staged: Staged, tenant: str | None) -> Iterator[tuple[object, ...]]:
    for line in chunk:
        if isinstance(line, NotCompared):
            staged.not_compared[line.category] += 1
        elif line.fact.money.amount_minor == 0:
            staged.not_compared[ZERO] += 1
        else:
            staged.first_at = min(staged.first_at or line.occurred_at, line.occurred_at)
            staged.last_at = max(staged.last_at or line.occurred_at, line.occurred_at)
            yield _columns(line, tenant)


def _columns(line: SettlementLine, tenant: str | None) -> tuple[object, ...]:
    """In the order of `LINES_SCHEMA`."""
    fact = line.fact
    return (
        line.line,
        of_tenant(tenant, fact.fact_key),
        fact.movement.value,
        role_of(fact.movement).value,
        fact.account,
        key_part(fact.account),
        fact.payment,
        line.entity_key,
        direction_of(fact.movement) * fact.money.amount_minor,
        fact.money.currency,
        line.occurred_at,
        line.adds,
        None if line.or_fact_key is None else of_tenant(tenant, line.or_fact_key),
    )
