"""Whether what providers' own lists of events have was decided."""

from __future__ import annotations

from typing import Any

import pyarrow as pa

from journal.lake import has_table, open_table
from journal.schema import TIMESTAMP
from ledger.catch_ups import TABLE
from ledger.verify.evidence import Evidence
from ledger.verify.kafka_checks import find_settled_before
from ledger.verify.report import Finding, PromiseInvariant, drop_nulls


class ListedAreDecided(PromiseInvariant):
    """A list names no entity, so an event's decision may be in the journal of any shard."""

    name = "listed_are_decided"

    def check(self, evidence: Evidence) -> Finding:
        path = str(evidence.lake.places.shared_table(TABLE))
        if not has_table(path):
            return self.build_finding(evidence, (), {"spans": None})
        evidence.engine.add_delta("catch_ups", path, open_table(path).version())
        settled = [{"before": find_settled_before(evidence)}]
        evidence.add_rows("settled", pa.schema([("before", TIMESTAMP)]), settled)
        return super().check(evidence)

    def describe_offender(self, row: dict[str, Any], evidence: Evidence) -> dict[str, Any]:  # noqa: ARG002
        return drop_nulls(row)

    def count_figures(self, evidence: Evidence) -> dict[str, Any]:
        return evidence.rows(
            """
            SELECT count(*) FILTER (WHERE event_key IS NULL) AS spans, CAST(sum(listed) AS bigint) AS listed,
                   CAST(sum(fetched) AS bigint) AS fetched,
                   count(*) FILTER (WHERE outcome = 'lost') AS lost_spans
            FROM catch_ups
            """
        )[0]
