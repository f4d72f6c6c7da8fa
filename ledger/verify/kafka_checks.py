"""Invariants between the journal and Kafka: offsets, what is in flight, and what the receiver answered."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime, timedelta
from itertools import islice
from typing import Any

import pyarrow as pa

from core.routing import is_sparse, topics_of
from journal.schema import TIMESTAMP
from ledger.verify.evidence import Evidence
from ledger.verify.report import Finding, PromiseInvariant
from ledger.verify.views import OPEN_ITEMS


class OffsetsAccounted(PromiseInvariant):
    name = "offsets_accounted"
    looked_past = "offsets that were decided earlier"

    def check(self, evidence: Evidence) -> Finding:
        offenders = [
            offender
            for row in evidence.search_offenders(self.name)
            for offender in islice(_describe_row(row), evidence.sample_max)
        ]
        accounted = sum(span.until - span.start for span in evidence.spans())
        unknown = evidence.explain_part(self.looked_past)
        return self.build_finding(evidence, offenders, {"offsets": accounted, **self._count_lost(evidence)}, unknown)

    def _count_lost(self, evidence: Evidence) -> dict[str, Any]:
        if all(not history.ended for history in evidence.state.histories.values()):
            return {}
        [figures] = evidence.rows(
            """
            SELECT CAST(coalesce(sum(CASE WHEN first THEN offset_until - kafka_offset ELSE 0 END), 0) AS bigint)
                       AS lost_offsets,
                   count(*) FILTER (WHERE NOT first) AS lost_events,
                   count(*) FILTER (WHERE NOT first AND event_key IN (
                       SELECT event_key FROM whole WHERE decision <> 'lost' AND event_key IS NOT NULL)) AS found_again
            FROM journal WHERE decision = 'lost'
            """
        )
        return figures


def _describe_row(row: dict[str, Any]) -> Iterator[dict[str, Any]]:
    about = {name: row[name] for name in ("problem", "topic", "partition")}
    bounds = None if row["high"] is None else [row["low"], row["high"]]
    match row["problem"]:
        case "rows beyond the marks":
            yield about | {"marks": [row["start_offset"], row["until_offset"]], "rows": bounds}
        case "an offset with several first rows":
            yield about | {"offset": row["at_offset"]}
        case "an offset with no first row":
            yield from (about | {"offset": offset} for offset in range(row["at_offset"], row["until_offset"]))
        case "decided offsets that Kafka never had":
            yield about | {"until": row["until_offset"], "kafka": bounds}
        case _:
            yield about


_UNDECIDED = pa.schema(
    [("topic", pa.string()), ("partition", pa.int32()), ("at_offset", pa.int64()), ("written_at", TIMESTAMP)]
)


class InFlight(PromiseInvariant):
    name = "in_flight"
    looked_past = "items whose first decision came earlier"

    def check(self, evidence: Evidence) -> Finding:
        undecided = [
            {
                "topic": topic,
                "partition": partition,
                "at_offset": offset,
                "written_at": evidence.kafka.timestamp(topic, partition, offset),
            }
            for topic, partition, offset, _ in _find_undecided(evidence)
        ]
        evidence.add_rows("undecided", _UNDECIDED, undecided)
        evidence.engine.add_result("open_items", OPEN_ITEMS.format(rows="journal"))
        return super().check(evidence)

    def describe_offender(self, row: dict[str, Any], evidence: Evidence) -> dict[str, Any]:
        if row["item_seq"] is not None:
            about = {"item_seq": row["item_seq"]}
        else:
            about = {"topic": row["topic"], "partition": row["partition"]}
            if row["since"] is None:
                return {"problem": row["problem"], **about, "lost": [row["at_offset"], row["until_offset"]]}
            about["offset"] = row["at_offset"]
        return {"problem": row["problem"], **about, "age_s": _age_s(row["since"], evidence)}

    def count_figures(self, evidence: Evidence) -> dict[str, Any]:
        [waiting] = evidence.rows(
            """
            SELECT count(*) FILTER (WHERE decision <> 'dead') AS waiting,
                   count(*) FILTER (WHERE decision = 'dead') AS dead,
                   min(CASE WHEN decision <> 'dead' THEN since END) AS oldest
            FROM open_items, asked WHERE mine AND item_seq > before_seq
            """
        )
        return {
            "undecided": sum(count for *_, count in _find_undecided(evidence)),
            "waiting": waiting["waiting"],
            "dead": waiting["dead"],
            "oldest_waiting_s": _age_s(waiting["oldest"], evidence),
        }


def _find_undecided(evidence: Evidence) -> Iterator[tuple[str, int, int, int]]:
    for topic in evidence.state.marks:
        if is_sparse(topic):
            continue
        for partition, (low, high) in sorted(evidence.ends.get(topic, {}).items()):
            until = evidence.state.marks[topic].get(partition, low)
            if high > until:
                yield topic, partition, until, high - until


def _age_s(since: datetime | None, evidence: Evidence) -> float | None:
    return None if since is None else round(max(0.0, (evidence.now - since).total_seconds()), 3)


class ReceiptsHaveDecisions(PromiseInvariant):
    """A receipt names no entity, so its decision may be in the journal of any shard."""

    name = "receipts_have_decisions"

    def check(self, evidence: Evidence) -> Finding:
        if not evidence.has_receipts:
            none = "no receipts were collected, and their topic holds none" if evidence.seq else None
            return self.build_finding(evidence, (), {"receipts": None}, not_checked=none)
        evidence.add_rows("settled", pa.schema([("before", TIMESTAMP)]), [{"before": find_settled_before(evidence)}])
        return super().check(evidence)

    def count_figures(self, evidence: Evidence) -> dict[str, Any]:
        return evidence.rows("SELECT count(*) AS receipts, max(receipts.at) AS newest FROM receipts")[0]


SLACK = timedelta(seconds=60)
"""Between a record's time and its receipt's: a request takes seconds, and clocks differ by less than that."""


def find_settled_before(evidence: Evidence) -> datetime:
    """Returns the moment before which all answered events are decided: the oldest undecided record is younger."""
    topic = topics_of(evidence.lake.mode).events
    marks = evidence.every_mark.get(topic, {})
    waiting = (
        evidence.kafka.timestamp(topic, partition, marks.get(partition, low))
        for partition, (low, high) in evidence.every_end.get(topic, {}).items()
        if high > marks.get(partition, low)
    )
    return min([evidence.now, *(at for at in waiting if at is not None)]) - SLACK
