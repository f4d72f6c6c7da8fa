"""What `payhook verify` last found in each stream, in a file that alerts read (`dlq.alerts.looking`)."""

from __future__ import annotations

import json
from pathlib import Path

from core.clock import to_rfc3339
from core.files import write_whole
from core.status_file import read_said
from ledger.verify.report import Report


def remember(path: Path, report: Report, *, deep: bool) -> None:
    """Adds a report's wrong invariants to the file: ``{stream: {"at": …, "wrong": [names], "deep": …}}``.

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
