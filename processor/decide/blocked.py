"""Decides whether the whole stream is blocked, which event is tried next to find out, and what lifts the block."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple, TypeAlias

from core.decision import ErrorKind
from core.work import Held, Outcome
from journal.open_item import OpenItem
from journal.schema import JournalRow
from processor.calls.budget import CallReport
from processor.decide.item import BatchItem, is_rescheduled, is_suspect
from processor.errors.classify import Failure
from processor.errors.retry import RetryPolicy
from processor.workers.outcomes import is_disproof

PROBE_S_FIRST = 1.0

AGAIN_S = 1.0
"""From the probe of an event that had been put off to the next one: as often as a stream that isn't blocked looks."""

LOOKED_AT_MAX = 1_000
"""Events among which a probe chooses: of those that wait, and of those that are read and not decided."""

NEEDS_MAX, NEEDS_CHARS_MAX = 50, 13_000
"""Characters as the note has them: 50 names of 256 plain letters fit. Any other letter takes up to 12 there."""

REASON_CHARS_MAX = 500
"""Each takes up to 12 in the note, so that it fits, with the breakers' (32,768), into the journal's 65,536 characters.
The whole message is in the rows of the events that failed so."""

ANY = ""
"""Needed where a failed try had called no downstream, or where too many were called to note them: any event that is
applied."""

NOTE = "blocked"
"""The journal's note of why the whole stream is blocked, so that the next start doesn't decide into it."""

Account: TypeAlias = tuple[str | None, str | None, str | None]


class Rank(NamedTuple):
    """Orders the candidates for a probe: the lowest shows most."""

    is_suspect: bool
    of_suspect: bool
    is_put_off: bool


@dataclass(frozen=True, slots=True)
class Blocked:
    """A stream's state: ``reason`` is None while it isn't blocked.

    ``probe_s``: seconds from a probe that failed to the next one; ``probes`` have failed. ``needs``: the downstreams
    that the failed tries had called; the block ends once events have called each of them with success. ``since``: when
    it began (RFC 3339).
    """

    reason: str | None = None
    probe_s: float = 0.0
    needs: frozenset[str] = frozenset()
    since: str = ""
    probes: int = 0

    @classmethod
    def from_notes(cls, notes: Mapping[str, str]) -> Blocked:
        if NOTE not in notes:
            return cls()
        kept = json.loads(notes[NOTE])
        if kept["reason"] is None:
            return cls()
        probe_s, needs = max(PROBE_S_FIRST, float(kept["probe_s"])), frozenset(kept.get("needs", [ANY]))
        return cls(kept["reason"], probe_s, needs, kept.get("since", ""), max(1, kept.get("probes", 0)))

    def make_note(self) -> dict[str, str]:
        note = {"reason": self.reason, "probe_s": self.probe_s, "needs": sorted(self.needs), "probes": self.probes}
        return {NOTE: json.dumps(note | ({"since": self.since} if self.since else {}))}

    def after_failures(self, failures: Sequence[Failure], outage: RetryPolicy) -> Blocked:
        """Returns the state after failures that block the stream. The first probe comes at once, in case the fault is
        the event's own.

        :param outage: when the next probes come; after its last try they come at its longest delay
        """
        called = {name for failure in failures for name in failure.called or (ANY,)}
        needs = self.needs | called
        probes = 0 if self.reason is None else self.probes + 1
        reason = f"{failures[0].error_class}: {failures[0].message}"[:REASON_CHARS_MAX]
        return Blocked(
            reason, _wait_s(probes, outage), needs if _may_be_noted(needs) else frozenset((ANY,)), self.since, probes
        )

    def after_result(
        self, result: Outcome | Failure, reports: Mapping[str, CallReport], outage: RetryPolicy
    ) -> Blocked:
        if self.is_prolonged_by(result):
            return replace(self, probe_s=_wait_s(self.probes + 1, outage), probes=self.probes + 1)
        answered = {name for name, report in reports.items() if report.calls - report.late > report.failed}
        needs = frozenset(
            name for name in self.needs if not is_disproof(result, answered, () if name == ANY else (name,))
        )
        return replace(self, needs=needs) if needs else Blocked()

    def is_prolonged_by(self, result: Outcome | Failure) -> bool:
        """Returns whether an event's result says that the block isn't over.

        It failed as the block's events did, or a needed downstream fails otherwise or isn't called now. Any other
        result says nothing of the block: the next event may be tried at once.
        """
        if isinstance(result, Failure):
            return result.is_blocking or (result.kind is not ErrorKind.NRE and result.downstream in self.needs)
        return isinstance(result, Held) and result.downstream in self.needs


def _wait_s(probes: int, outage: RetryPolicy) -> float:
    least_s = outage.least_s(probes) if probes else 0.0
    return outage.longest_s if least_s is None else least_s


def _may_be_noted(needs: frozenset[str]) -> bool:
    return len(needs) <= NEEDS_MAX and len(json.dumps(sorted(needs))) <= NEEDS_CHARS_MAX


def choose_probe(waiting: Iterable[OpenItem], arrived: Iterable[BatchItem]) -> tuple[Rank, OpenItem | BatchItem] | None:
    of_waiting = list(waiting)
    suspects = {_account_of(item.row) for item in of_waiting if is_suspect(item.row)}

    def rank(item: OpenItem | BatchItem) -> Rank:
        is_waiting = isinstance(item, OpenItem)
        return Rank(
            is_waiting and is_suspect(item.row),
            _account_of(item.row) in suspects,
            is_waiting and is_rescheduled(item.row),
        )

    every: list[OpenItem | BatchItem] = [*of_waiting, *arrived]
    best = min(every, key=rank, default=None)
    return None if best is None else (rank(best), best)


def _account_of(row: JournalRow) -> Account:
    return row.tenant, row.provider, row.account
