"""Invariants between the journal and Kafka: offsets, what is in flight, and what the receiver answered."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import datetime, timedelta
from typing import Any

from core.routing import is_sparse, topics_of
from ledger.verify.evidence import Evidence, Span
from ledger.verify.fast_path import Doubt
from ledger.verify.report import Finding, Invariant

_RANGES = "SELECT life, partition, offset AS low, coalesce(offset_until, offset + 1) AS high FROM journal WHERE first"
_ENDS = f"SELECT life, partition, min(low) AS low, max(high) AS high FROM ({_RANGES}) GROUP BY life, partition"  # noqa: S608
_BREAKS = f"""
    SELECT DISTINCT life, partition, low, before
    FROM (SELECT *, max(high) OVER (PARTITION BY life, partition ORDER BY low, high
                                    ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING) AS before
          FROM ({_RANGES}))
    WHERE low < before OR (low > before{{gaps}})
    ORDER BY life, partition, low
"""  # noqa: S608 - words of our own


class OffsetsAccounted(Invariant):
    name = "offsets_accounted"
    sentence = "Every Kafka offset has exactly one first decision, in each history of its topic from start to end."

    def check(self, evidence: Evidence) -> Finding:
        every = self._never_held(evidence) if self._are_whole(evidence) else self._offenders(evidence)
        accounted = sum(span.until - span.start for span in evidence.spans())
        unknown = evidence.in_part("offsets that were decided earlier")
        figures = {"offsets": accounted, **self._lost(evidence)}
        return self.finding(evidence, every, figures, unknown)

    def _lost(self, evidence: Evidence) -> dict[str, Any]:
        """What a person accepted as lost, and how many of the lost events were decided later."""
        if all(not history.ended for history in evidence.state.histories.values()):
            return {}
        [figures] = evidence.rows(
            """
            SELECT coalesce(sum(IF(first, offset_until - offset, 0)), 0) AS lost_offsets,
                   count_if(NOT first) AS lost_events,
                   count_if(NOT first AND event_key IN (
                       SELECT event_key FROM whole WHERE decision <> 'lost' AND event_key IS NOT NULL)) AS found_again
            FROM journal WHERE decision = 'lost'
            """
        )
        return figures

    def _are_whole(self, evidence: Evidence) -> bool:
        """Whether each partition's offsets are one run in each history, from its start to its mark or end."""
        fast = evidence.fast_path()
        if not fast.clears(Doubt.OFFSETS):
            return False
        runs = dict(fast.runs)
        for span in evidence.spans():
            mine = runs.pop((span.life, span.partition), [])
            whole = [(span.start, span.until)] if span.until > span.start else []
            if not (_are_within(mine, span) if is_sparse(span.topic) else mine == whole):
                return False
        return not runs

    def _never_held(self, evidence: Evidence) -> Iterator[dict[str, Any]]:
        for topic, partition, _, until in evidence.partitions():
            held = evidence.ends.get(topic, {}).get(partition)
            if held is None or until > held[1]:
                where = {"topic": topic, "partition": partition}
                yield where | {"problem": "decided offsets that Kafka never had", "until": until, "kafka": held}

    def _offenders(self, evidence: Evidence) -> Iterator[dict[str, Any]]:
        ends = {(row["life"], row["partition"]): (row["low"], row["high"]) for row in evidence.rows(_ENDS)}
        spans = list(evidence.spans())
        breaks = self._breaks(evidence, {span.life for span in spans if is_sparse(span.topic)})
        for span in spans:
            where = {"topic": span.life, "partition": span.partition}
            low, high = ends.pop((span.life, span.partition), (span.until, span.until))
            if low < span.start or high > span.until:
                marks = [span.start, span.until]
                yield where | {"problem": "rows beyond the marks", "marks": marks, "rows": [low, high]}
            mine = breaks.get((span.life, span.partition), [])
            twice = [at for before, at in mine if at < before]
            gaps = [] if is_sparse(span.topic) else [(span.start, low), *mine, (high, span.until)]
            never = (one for since, to in gaps for one in range(max(since, span.start), min(to, span.until)))
            yield from (where | {"problem": "an offset with several first rows", "offset": one} for one in twice)
            yield from (where | {"problem": "an offset with no first row", "offset": one} for one in never)
        yield from self._never_held(evidence)
        for topic, partition in ends:
            yield {"problem": "rows of a partition without a mark", "topic": topic, "partition": partition}

    def _breaks(self, evidence: Evidence, sparse: set[str]) -> dict[tuple[str, int], list[tuple[int, int]]]:
        """Where a first row doesn't follow the ones before it: the offset after those, and its own.

        :param sparse: topics in which there may be gaps
        """
        gaps = " AND life NOT IN ({})".format(", ".join(f"'{life}'" for life in sorted(sparse))) if sparse else ""
        found: dict[tuple[str, int], list[tuple[int, int]]] = {}
        for row in evidence.sample(_BREAKS.format(gaps=gaps)):
            found.setdefault((row["life"], row["partition"]), []).append((row["before"], row["low"]))
        return found


def _are_within(runs: Sequence[tuple[int, int]], span: Span) -> bool:
    """Whether each offset is there once at most, where there may be gaps between them."""
    ends = [span.start, *(end for run in sorted(runs) for end in run), span.until]
    return ends == sorted(ends)


class InFlight(Invariant):
    name = "in_flight"
    sentence = "What isn't decided yet is still held by Kafka or parked in the journal, and none of it is too old."

    def check(self, evidence: Evidence) -> Finding:
        waiting = _waiting(evidence)
        undecided = list(self._undecided(evidence))
        figures = {
            "undecided": sum(count for *_, count in undecided),
            "waiting": waiting["waiting"],
            "dead": waiting["dead"],
            "oldest_waiting_s": _age_s(waiting["oldest"], evidence),
        }
        offenders = list(self._offenders(evidence, undecided, waiting))
        unknown = evidence.in_part("items whose first decision came earlier")
        return self.finding(evidence, offenders, figures, unknown)

    def _undecided(self, evidence: Evidence) -> Iterator[tuple[str, int, int, int]]:
        """Topic, partition, next offset, and how many offsets wait behind it."""
        for topic in evidence.state.marks:
            if is_sparse(topic):
                continue
            for partition, (low, high) in sorted(evidence.ends.get(topic, {}).items()):
                until = evidence.state.marks[topic].get(partition, low)
                if high > until:
                    yield topic, partition, until, high - until

    def _offenders(
        self, evidence: Evidence, undecided: list[tuple[str, int, int, int]], waiting: dict[str, Any]
    ) -> Iterator[dict[str, Any]]:
        for topic, partition, _, until in evidence.partitions():
            if is_sparse(topic):
                continue
            low = evidence.ends.get(topic, {}).get(partition, (0, 0))[0]
            if low > until:
                yield {
                    "problem": "Kafka no longer holds undecided offsets",
                    "topic": topic,
                    "partition": partition,
                    "lost": [until, low],
                }
        for topic, partition, offset, _ in undecided:
            age = _age_s(evidence.kafka.timestamp(topic, partition, offset), evidence)
            if age is not None and age > evidence.limits.in_flight_age_s_max:
                yield {
                    "problem": "an offset has waited too long",
                    "topic": topic,
                    "partition": partition,
                    "offset": offset,
                    "age_s": age,
                }
        age = _age_s(waiting["oldest"], evidence)
        if age is not None and age > evidence.limits.in_flight_age_s_max:
            yield {"problem": "an event has waited too long", "item_seq": waiting["oldest_item"], "age_s": age}


def _waiting(evidence: Evidence) -> dict[str, Any]:
    """How many items wait or are dead, and the one that has waited longest."""
    fast = evidence.fast_path()
    if fast.clears(Doubt.ITEMS):
        item, since = fast.open.oldest_waiting() or (None, None)
        counts = {"waiting": fast.open.waiting(), "dead": fast.open.dead()}
        return counts | {"oldest": since, "oldest_item": item}
    (found,) = evidence.rows(
        f"""
        SELECT count_if(decision <> 'dead') AS waiting, count_if(decision = 'dead') AS dead,
               min(IF(decision <> 'dead', since, NULL)) AS oldest,
               min_by(item_seq, since) FILTER (WHERE decision <> 'dead') AS oldest_item
        FROM (
            SELECT item_seq, max_by(decision, seq) AS decision, max_by(waits, seq) AS waits,
                   min_by(IF(decision = 'replayed', decided_at, coalesce(received_at, decided_at)), seq) AS since
            FROM journal
            WHERE mine AND (NOT first OR waits) AND decision <> 'reversed' AND item_seq >= {evidence.since}
            GROUP BY item_seq)
        WHERE waits
        """  # noqa: S608 - a number
    )
    return found


def _age_s(since: datetime | None, evidence: Evidence) -> float | None:
    return None if since is None else round(max(0.0, (evidence.now - since).total_seconds()), 3)


SLACK = timedelta(seconds=60)
"""Between a record's time and its receipt's: a request takes seconds, and clocks differ by less than that."""


class ReceiptsHaveDecisions(Invariant):
    """A receipt names no entity: its decision may be in the journal of any shard."""

    name = "receipts_have_decisions"
    sentence = "Every event that was answered with a 2xx has its decision in the journal, or is still on its way there."

    def check(self, evidence: Evidence) -> Finding:
        if not evidence.has_receipts:
            none = "no receipts were collected, and their topic holds none" if evidence.seq else None
            return self.finding(evidence, (), {"receipts": None}, not_checked=none)
        settled = _settled(evidence)
        offenders = evidence.sample(
            f"""
            SELECT 'answered with a 2xx and never decided' AS problem, at, event_key, outcome, status
            FROM receipts LEFT ANTI JOIN every_row ON every_row.event_key = receipts.event_key
            WHERE status BETWEEN 200 AND 299 AND event_key IS NOT NULL AND at < timestamp'{settled.isoformat()}'
            """  # noqa: S608 - a moment of our own making
        )
        [count] = evidence.rows("SELECT count(*) AS receipts, max(at) AS newest FROM receipts")
        return self.finding(evidence, offenders, count)


def _settled(evidence: Evidence) -> datetime:
    """Before this moment everything that was answered is decided: the oldest record that isn't is younger."""
    topic = topics_of(evidence.lake.mode).events
    marks = evidence.every_mark.get(topic, {})
    waiting = (
        evidence.kafka.timestamp(topic, partition, marks.get(partition, low))
        for partition, (low, high) in evidence.every_end.get(topic, {}).items()
        if high > marks.get(partition, low)
    )
    return min([evidence.now, *(at for at in waiting if at is not None)]) - SLACK
