"""What is known of each invariant after one look and the next, of which some are narrower."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from ledger.verify.report import Finding, Report, remember_report

AT = datetime(2026, 1, 31, 12, tzinfo=UTC)
BEFORE = "2026-01-30T12:00:00.000000Z"


class File:
    """What alerts and pages read."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def look(self, *, since: int = 1, deep: bool = False, **wrong: int | None) -> list[str]:
        """Looks at invariants, each with the row that it finds; what is known to be wrong then."""
        findings = tuple(Finding(name, "", () if row is None else ({"seq": row},)) for name, row in wrong.items())
        remember_report(self.path, Report("ledger", 1, 9_000, AT, 0.1, findings, since), deep=deep)
        found: list[str] = self.known()["wrong"]
        return found

    def known(self) -> dict[str, Any]:
        return dict(json.loads(self.path.read_text())["ledger"])


@pytest.fixture
def file(tmp_path: Path) -> File:
    return File(tmp_path / "verified.json")


def test_a_narrower_look_that_finds_something_too_does_not_end_what_a_wider_one_found(file: File) -> None:
    assert file.look(balanced=10) == ["balanced"]
    assert file.look(since=5_000, balanced=6_000) == ["balanced"]
    assert file.known()["invariants"]["balanced"]["offenders"] == [{"seq": 6_000}]
    assert file.look(since=5_000, balanced=None) == ["balanced"], "row 10 is as it was"
    assert file.look(balanced=None) == []


def test_a_shallow_look_that_finds_something_too_does_not_end_what_a_deep_one_found(file: File) -> None:
    assert file.look(deep=True, bodies_whole=10) == ["bodies_whole"]
    assert file.look(bodies_whole=20) == ["bodies_whole"]
    assert file.look(bodies_whole=None) == ["bodies_whole"]
    assert file.look(deep=True, bodies_whole=None) == []


def test_looks_of_which_neither_is_as_wide_as_the_other_are_both_remembered(file: File) -> None:
    file.look(since=5_000, deep=True, bodies_whole=6_000)
    file.look(bodies_whole=10)
    assert file.look(bodies_whole=None) == ["bodies_whole"]
    assert file.look(since=5_000, deep=True, bodies_whole=None) == ["bodies_whole"]
    assert file.look(deep=True, bodies_whole=None) == []
