"""What a report finds wrong."""

from __future__ import annotations

from collections.abc import Callable

from ledger.verify import Finding, Report


def failed(report: Report) -> dict[str, Finding]:
    return {finding.name: finding for finding in report.findings if not finding.ok}


def only(report: Report, name: str) -> Finding:
    """The one finding that isn't fine."""
    assert set(failed(report)) == {name}, report.as_json()
    return failed(report)[name]


def wrong(report: Callable[[str], Report], name: str) -> Finding:
    """What the invariant finds, which has to be something."""
    return only(report(name), name)


def problems(finding: Finding) -> str:
    return " ".join(str(offender.get("problem", "")) for offender in finding.offenders)
