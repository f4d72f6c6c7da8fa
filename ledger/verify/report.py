"""What an invariant is and answers, and a verification's whole report for people, for machines and for alerts."""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from itertools import islice
from pathlib import Path
from typing import Any

from core.clock import to_rfc3339
from core.files import write_whole
from core.status_file import read_said
from ledger.verify.evidence import Evidence
from ledger.verify.promises import read_promise


@dataclass(frozen=True, slots=True)
class Finding:
    """One invariant's answer. ``offenders`` is a bounded sample; ``figures`` are what was counted on the way.

    ``unknown``: what couldn't be looked at, because only rows since some moment were. ``not_checked``: why nothing was
    checked at all; it isn't ``ok`` then, and nothing is wrong either.
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
    """One thing that always holds. ``name`` is stable; ``sentence`` is for an accountant."""

    name: str
    sentence: str

    @abstractmethod
    def check(self, evidence: Evidence) -> Finding:
        """Looks for offenders."""

    def finding(
        self,
        evidence: Evidence,
        offenders: Iterable[dict[str, Any]] = (),
        figures: dict[str, Any] | None = None,
        unknown: str | None = None,
        not_checked: str | None = None,
    ) -> Finding:
        """The answer, with ``evidence.sample_max`` of the offenders at most; no more are looked for."""
        sample = tuple(islice(offenders, evidence.sample_max))
        return Finding(self.name, self.sentence, sample, figures or {}, unknown, not_checked)


class PromiseInvariant(Invariant):
    """One that is proved by its promise's SQL (`ledger.verify.promises`), which has the sentence too.

    ``looked_past``: what isn't looked at where only the newest rows are.
    """

    looked_past: str | None = None

    def __init_subclass__(cls) -> None:
        if "name" in cls.__dict__:
            cls.sentence = read_promise(cls.name).sentence

    def check(self, evidence: Evidence) -> Finding:
        found = [self.offender(row, evidence) for row in evidence.search(self.name)]
        unknown = None if self.looked_past is None else evidence.in_part(self.looked_past)
        return self.finding(evidence, found, self.figures(evidence), unknown)

    def offender(self, row: dict[str, Any], evidence: Evidence) -> dict[str, Any]:  # noqa: ARG002
        """A row of the promise's as it is told; the row itself unless a promise finds several kinds of problems."""
        return row

    def figures(self, evidence: Evidence) -> dict[str, Any]:  # noqa: ARG002
        return {}


def without_nulls(row: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in row.items() if value is not None}


@dataclass(frozen=True, slots=True)
class Report:
    """Findings about the journal at ``version``, whose last row is ``seq``."""

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
    def wrong(self) -> bool:
        """Whether something offends an invariant; else what isn't ok couldn't be checked."""
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
        return json.dumps(self.as_dict(), indent=1, default=_text)


def reports_as_json(reports: Sequence[Report], *, complete: bool) -> str:
    """Those of several streams: ``ok`` of all of them, and each one as `Report.as_dict`.

    :param complete: no stream is missing among them
    """
    ok = complete and all(report.ok for report in reports)
    whole = {"ok": ok, "streams": [report.as_dict() for report in reports]}
    return json.dumps(whole, indent=1, default=_text)


def _text(value: object) -> str:
    return to_rfc3339(value) if isinstance(value, datetime) else str(value)


def remember(path: Path, report: Report, *, deep: bool) -> None:
    """Adds a report's wrong invariants to the file that alerts read (`dlq.alerts.looking`):
    ``{stream: {"at": …, "wrong": [names], "deep": …}}``.

    One that was wrong before isn't any more once a look at least as wide finds nothing: at all rows, and deep where the
    one before was.

    :raises OSError: nothing was changed
    """
    known = dict(read_said(path) or {})
    before = known.get(report.stream) or {"wrong": [], "deep": False}
    wrong = {finding.name for finding in report.findings if finding.offenders}
    whole = report.since <= 1 and (deep or not before["deep"])
    looked_at = {finding.name for finding in report.findings if finding.not_checked is None} if whole else set()
    left = set(before["wrong"]) - looked_at
    is_deep = bool(deep and wrong) or bool(before["deep"] and left)
    known[report.stream] = {"at": to_rfc3339(report.at), "wrong": sorted(wrong | left), "deep": is_deep}
    write_whole(path, json.dumps(known, indent=1) + "\n")
