"""An invariant and its answer, and a verification's whole report for people, for machines and for alerts."""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from itertools import islice
from pathlib import Path
from typing import Any, TypedDict

from core.clock import to_rfc3339
from core.files import hold_lock, write_whole
from core.status_file import read_said
from ledger.verify.engine import read_promise
from ledger.verify.evidence import Evidence


@dataclass(frozen=True, slots=True)
class Finding:
    """An invariant's answer. ``offenders`` is a bounded sample; ``figures`` were counted on the way.

    ``unknown``: what wasn't looked at, because only rows since some moment were. ``not_checked``: why nothing was
    checked at all; then it isn't ``ok``, but nothing is wrong either.
    """

    name: str
    sentence: str
    offenders: tuple[dict[str, Any], ...] = ()
    figures: dict[str, Any] = field(default_factory=dict)
    unknown: str | None = None
    not_checked: str | None = None

    @property
    def ok(self) -> bool:
        return not self.offenders and self.not_checked is None


class Invariant(ABC):
    """A condition that always holds. ``name`` is stable; ``sentence`` is for an accountant."""

    name: str
    sentence: str

    @abstractmethod
    def check(self, evidence: Evidence) -> Finding: ...

    def build_finding(
        self,
        evidence: Evidence,
        offenders: Iterable[dict[str, Any]] = (),
        figures: dict[str, Any] | None = None,
        unknown: str | None = None,
        not_checked: str | None = None,
    ) -> Finding:
        """Builds the answer from ``evidence.sample_max`` offenders at most, and looks for no more."""
        sample = tuple(islice(offenders, evidence.sample_max))
        return Finding(self.name, self.sentence, sample, figures or {}, unknown, not_checked)


class PromiseInvariant(Invariant):
    """An invariant that is proved by its promise's SQL (`ledger.verify.engine`), which has the sentence too.

    ``looked_past``: what isn't looked at where only the newest rows are.
    """

    looked_past: str | None = None

    def __init_subclass__(cls) -> None:
        if "name" in cls.__dict__:
            cls.sentence = read_promise(cls.name).sentence

    def check(self, evidence: Evidence) -> Finding:
        offenders = [self.describe_offender(row, evidence) for row in evidence.search_offenders(self.name)]
        unknown = None if self.looked_past is None else evidence.explain_part(self.looked_past)
        return self.build_finding(evidence, offenders, self.count_figures(evidence), unknown)

    def describe_offender(self, row: dict[str, Any], evidence: Evidence) -> dict[str, Any]:  # noqa: ARG002
        return row

    def count_figures(self, evidence: Evidence) -> dict[str, Any]:  # noqa: ARG002
        return {}


def drop_nulls(row: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in row.items() if value is not None}


@dataclass(frozen=True, slots=True)
class Report:
    stream: str
    version: int
    seq: int
    at: datetime
    seconds: float
    findings: tuple[Finding, ...]
    since: int = 1
    """The first row that was looked at."""

    @property
    def ok(self) -> bool:
        return all(finding.ok for finding in self.findings)

    @property
    def has_offenders(self) -> bool:
        return any(finding.offenders for finding in self.findings)

    def as_dict(self) -> dict[str, Any]:
        return {
            "ok": self.ok,
            "stream": self.stream,
            "version": self.version,
            "seq": self.seq,
            "since": self.since,
            "at": to_rfc3339(self.at),
            "seconds": round(self.seconds, 3),
            "invariants": [
                {
                    "name": finding.name,
                    "ok": finding.ok,
                    "sentence": finding.sentence,
                    "unknown": finding.unknown,
                    "not_checked": finding.not_checked,
                    "figures": finding.figures,
                    "offenders": list(finding.offenders),
                }
                for finding in self.findings
            ],
        }

    def as_json(self) -> str:
        return json.dumps(self.as_dict(), indent=1, default=_format_value)


def reports_as_json(reports: Sequence[Report], *, complete: bool) -> str:
    """Returns the reports of several streams: ``ok`` of all of them, and each one as `Report.as_dict`.

    :param complete: no stream is missing among them
    """
    ok = complete and all(report.ok for report in reports)
    both = {"ok": ok, "streams": [report.as_dict() for report in reports]}
    return json.dumps(both, indent=1, default=_format_value)


def _format_value(value: object) -> str:
    return to_rfc3339(value) if isinstance(value, datetime) else str(value)


class InvariantState(TypedDict):
    """The last known state of an invariant: ``state`` is HOLDS or WRONG, as a check at ``at`` found it (RFC 3339), or
    UNKNOWN.

    ``deep``: that check was a deep one. ``since``: the first row that it covered. Where the state is WRONG, both cover
    all checks that found offenders: it holds again after one check of as many rows found none. ``offenders``: some of
    what the check found. ``not_checked``: why a later check, or the only one, couldn't be made.
    """

    state: str
    at: str
    deep: bool
    since: int
    offenders: list[dict[str, Any]]
    not_checked: str | None


HOLDS, WRONG, UNKNOWN = "holds", "wrong", "unknown"

OFFENDERS_KEPT_MAX = 3


def remember_report(path: Path, report: Report, *, deep: bool) -> None:
    """Adds a report to the file that alerts and pages read:
    ``{stream: {"at": …, "version": …, "seq": …, "wrong": [names], "invariants": {name: Known}}}``.

    An invariant that was wrong holds again only after a check of at least the same rows, and as deep, found nothing.
    One that can't be checked keeps its last known state. Several processes may do this at once.

    :raises OSError: nothing was changed
    """
    with hold_lock(path.with_suffix(".lock")):
        known = dict(read_said(path) or {})
        of_stream = known.get(report.stream) or {}
        invariants = read_known_invariants(of_stream)
        for finding in report.findings:
            invariants[finding.name] = _update_state(invariants.get(finding.name), finding, report, deep=deep)
        known[report.stream] = {
            "at": to_rfc3339(report.at),
            "version": report.version,
            "seq": report.seq,
            "wrong": sorted(name for name, state_now in invariants.items() if state_now["state"] == WRONG),
            "invariants": invariants,
        }
        write_whole(path, json.dumps(known, indent=1, default=_format_value) + "\n")


def read_known_invariants(of_stream: Mapping[str, Any]) -> dict[str, InvariantState]:
    return dict(of_stream.get("invariants") or {})


def _update_state(before: InvariantState | None, finding: Finding, report: Report, *, deep: bool) -> InvariantState:
    now: InvariantState = {
        "state": WRONG if finding.offenders else HOLDS if finding.ok else UNKNOWN,
        "at": to_rfc3339(report.at),
        "deep": deep,
        "since": report.since,
        "offenders": list(finding.offenders[:OFFENDERS_KEPT_MAX]),
        "not_checked": finding.not_checked,
    }
    if before is None or before["state"] == UNKNOWN:
        return now
    if now["state"] == WRONG:
        if before["state"] == WRONG:
            # What a wider look found may be there still.
            now["since"], now["deep"] = min(report.since, before["since"]), deep or before["deep"]
        return now
    if now["state"] == UNKNOWN:
        return {**before, "not_checked": finding.not_checked}
    is_as_wide = report.since <= before["since"] and (deep or not before["deep"] or before["state"] == HOLDS)
    return now if is_as_wide else before
