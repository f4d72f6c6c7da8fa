"""The results of reconciliations, as two append-only Delta tables, and how they are read again.

A run exists once its row is in ``reconciliation-runs``, which is written last: differences without one are of a run
that didn't get to its end, and aren't read.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from datetime import datetime
from pathlib import Path
from typing import Any, Literal, TypeAlias

import pyarrow as pa
import pyarrow.compute as pc

from core.errors import PayhookError
from core.location import Location, location_of
from core.money import decimals_of
from journal.append import Appender
from journal.lake import ensure_table, has_table, open_table
from journal.reader import read_rows
from journal.schema import TIMESTAMP

Kind: TypeAlias = Literal[
    "missing_here", "missing_there", "amount_differs", "currency_differs", "account_differs", "twice"
]
KINDS: Mapping[Kind, str] = {
    "missing_here": "the report has it, the ledger hasn't booked it",
    "missing_there": "the ledger booked it, the report lacks it",
    "amount_differs": "both have it, with other amounts",
    "currency_differs": "both have it, in other currencies",
    "account_differs": "both have it, on other accounts of the provider",
    "twice": "the report has one movement in several lines",
}

KINDS_OF_MONEY: Mapping[str, str] = {
    "payable": "payments",
    "refunds": "refunds",
    "disputes": "disputes",
    "fees": "fees",
    "payouts": "payouts",
}
"""What totals are made of, by the account of the chart that isn't the provider's."""

_OF_A_RUN = (
    pa.field("run_id", pa.string(), nullable=False),
    pa.field("at", TIMESTAMP, nullable=False),
    pa.field("provider", pa.string(), nullable=False),
    pa.field("tenant", pa.string()),
    pa.field("report_name", pa.string(), nullable=False),
    pa.field("report_sha256", pa.string(), nullable=False),
)
DIFFERENCES_SCHEMA = pa.schema(
    [
        *_OF_A_RUN,
        pa.field("kind", pa.string(), nullable=False),
        pa.field("fact_key", pa.string(), nullable=False),
        pa.field("movement", pa.string()),
        pa.field("account", pa.string()),
        pa.field("payment", pa.string()),
        pa.field("entity_key", pa.string()),
        pa.field("reported_minor", pa.int64()),
        pa.field("reported_currency", pa.string()),
        pa.field("booked_minor", pa.int64()),
        pa.field("booked_currency", pa.string()),
        pa.field("event_key", pa.string()),
        pa.field("seq", pa.int64()),
        pa.field("decision", pa.string()),
        pa.field("absent", pa.bool_()),
        pa.field("occurred_at", TIMESTAMP),
        pa.field("line", pa.int64()),
        pa.field("pair", pa.string()),
    ]
)
RUNS_SCHEMA = pa.schema(
    [
        *_OF_A_RUN,
        pa.field("since", TIMESTAMP),
        pa.field("until", TIMESTAMP),
        pa.field("lines", pa.int64(), nullable=False),
        pa.field("compared", pa.int64(), nullable=False),
        pa.field("agreed", pa.int64(), nullable=False),
        *(pa.field(kind, pa.int64(), nullable=False) for kind in KINDS),
        pa.field("not_compared", pa.string(), nullable=False),
        pa.field("journal_version", pa.int64(), nullable=False),
        pa.field("journal_seq", pa.int64(), nullable=False),
        pa.field("postings_version", pa.int64()),
        pa.field("seconds", pa.float64(), nullable=False),
        pa.field("other_shards", pa.string()),
        pa.field("account", pa.string()),
        pa.field("totals", pa.string()),
    ]
)
_CONFIGURATION = {"delta.appendOnly": "true", "delta.checkpointInterval": "100"}


class UnknownRun(PayhookError):
    def __init__(self, run_id: str) -> None:
        self.run_id = run_id
        super().__init__(f"there is no reconciliation {run_id!r}; `payhook ledger reconciliations` lists them")


@dataclass(frozen=True, slots=True, kw_only=True)
class Difference:
    """A difference between report and ledger. Amounts are minor units, above zero for money that came to us.

    ``event_key``, ``seq`` and ``decision`` are the journal's: of what was booked, or of the fact's dead, parked,
    ignored or unknown event. ``absent``: the journal holds nothing of the fact, so that `payhook` may make its event.
    ``line`` is the report's, and so is ``pair`` (`core.money.MoneyFact.pair`), in the tenant's names.
    """

    kind: Kind
    fact_key: str
    movement: str | None = None
    account: str | None = None
    payment: str | None = None
    entity_key: str | None = None
    reported_minor: int | None = None
    reported_currency: str | None = None
    booked_minor: int | None = None
    booked_currency: str | None = None
    event_key: str | None = None
    seq: int | None = None
    decision: str | None = None
    absent: bool = False
    occurred_at: datetime | None = None
    line: int | None = None
    pair: str | None = None

    @property
    def event_name(self) -> str:
        return self.event_key or f"row {self.seq}"


@dataclass(frozen=True, slots=True)
class ReconciledJournal:
    stream: str
    journal_version: int
    journal_seq: int
    postings_version: int | None


@dataclass(frozen=True, slots=True)
class KindTotal:
    """All movements of one kind and currency, in minor units: above zero came to us.

    ``reported`` and ``booked`` count the report's lines and the ledger's facts in its period.
    """

    kind: str
    currency: str
    reported: int
    reported_minor: int
    booked: int
    booked_minor: int
    decimals: int

    @classmethod
    def build(
        cls, kind: str, currency: str, reported: int, reported_minor: int, booked: int, booked_minor: int
    ) -> KindTotal:
        return cls(kind, currency, reported, reported_minor, booked, booked_minor, decimals_of(currency))

    @property
    def differs_minor(self) -> int:
        """Returns the amount by which the report exceeds the ledger."""
        return self.reported_minor - self.booked_minor


@dataclass(frozen=True, slots=True, kw_only=True)
class Reconciliation:
    """A run of a reconciliation. ``since`` and ``until`` are the period in which the ledger's facts were looked for.

    ``compared`` counts the report's facts, ``agreed`` those that the ledger has unchanged; ``not_compared`` by category
    lines that move no booked money, and booked facts that such a report doesn't list. ``account``: whose report it is,
    as the person said or its lines name it, several with commas between; None where neither does. Versions and
    ``journal_seq`` are the first journal's, the others' in ``other_shards``.
    """

    run_id: str
    at: datetime
    provider: str
    tenant: str | None
    report_name: str
    report_sha256: str
    since: datetime | None
    until: datetime | None
    lines: int
    compared: int
    agreed: int
    counts: Mapping[Kind, int]
    not_compared: Mapping[str, int]
    journal_version: int
    journal_seq: int
    postings_version: int | None
    seconds: float
    other_shards: Sequence[ReconciledJournal] = ()
    account: str | None = None
    totals: Sequence[KindTotal] = ()

    @property
    def clean(self) -> bool:
        return not any(self.counts.values())


class Reconciliations:
    def __init__(self, differences: Location, runs: Location) -> None:
        self._differences = str(differences)
        self._runs = str(runs)

    def make_tables(self) -> None:
        for path, schema in ((self._differences, DIFFERENCES_SCHEMA), (self._runs, RUNS_SCHEMA)):
            ensure_table(path, schema, location_of(path).name, _CONFIGURATION)

    def append_differences(self, staged: Sequence[Path]) -> None:
        """Adds differences: Parquet files of this machine by `DIFFERENCES_SCHEMA`, which are gone afterwards.

        :raises RowsRefused, CommitFailed, OSError: as `journal.append`; without its row no run exists
        """
        if staged:
            Appender.open(self._differences).append_files(staged)

    def add_run(self, run: Reconciliation) -> None:
        """Writes the row of a run, which makes it exist. Write its differences first."""
        row: dict[str, Any] = {field.name: getattr(run, field.name) for field in fields(run)}
        row.update(row.pop("counts"))
        row["not_compared"] = json.dumps(dict(sorted(run.not_compared.items())))
        row["other_shards"] = json.dumps([asdict(shard) for shard in run.other_shards])
        row["totals"] = json.dumps([asdict(total) for total in run.totals])
        Appender.open(self._runs).append(pa.Table.from_pylist([row], schema=RUNS_SCHEMA))

    def count_differences(self, run_id: str) -> dict[Kind, int]:
        kinds = self._read_columns(run_id, pc.field("run_id") == run_id, ["kind"])
        counts = {count["values"]: count["counts"] for count in pc.value_counts(kinds["kind"]).to_pylist()}
        return {kind: counts.get(kind, 0) for kind in KINDS}

    def list_runs(self) -> list[Reconciliation]:
        if not has_table(self._runs):
            return []
        table = read_rows(open_table(self._runs))
        return [_parse_run(row) for row in table.sort_by([("at", "descending"), ("run_id", "descending")]).to_pylist()]

    def find_run(self, run_id: str) -> Reconciliation:
        for run in self.list_runs():
            if run.run_id == run_id:
                return run
        raise UnknownRun(run_id)

    def read_differences(
        self, run_id: str, kind: Kind | None = None, at_most: int | None = None
    ) -> Iterator[Difference]:
        """Reads a run's differences, kind by kind, each in the order of the report's lines and of the journal's rows.

        One kind at a time is in memory.
        """
        for each_kind in KINDS if kind is None else (kind,):
            condition = (pc.field("run_id") == run_id) & (pc.field("kind") == each_kind)
            table = self._read_columns(run_id, condition, _DIFFERENCE_COLUMNS)
            ordered = table.sort_by([("line", "ascending"), ("seq", "ascending")])
            for batch in ordered.slice(0, at_most).to_batches(max_chunksize=10_000):
                yield from (Difference(**row) for row in batch.to_pylist())

    def _read_columns(self, run_id: str, condition: pc.Expression, columns: Sequence[str]) -> pa.Table:
        return read_rows(open_table(self._differences), condition, columns, [("run_id", "=", run_id)])


_DIFFERENCE_COLUMNS = [field.name for field in fields(Difference)]


def _parse_run(row: dict[str, Any]) -> Reconciliation:
    counts: dict[Kind, int] = {kind: row.pop(kind) for kind in KINDS}
    others = [ReconciledJournal(**shard) for shard in json.loads(row.pop("other_shards") or "[]")]
    not_compared = json.loads(row.pop("not_compared"))
    totals = [KindTotal(**total) for total in json.loads(row.pop("totals", None) or "[]")]
    return Reconciliation(counts=counts, not_compared=not_compared, other_shards=others, totals=totals, **row)


def run_as_dict(run: Reconciliation) -> dict[str, Any]:
    return {**asdict(run), "clean": run.clean}
