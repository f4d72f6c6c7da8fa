"""What to do next about dead events of one cause."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from core.decision import ErrorKind
from dead_letters.stats import give_advice


@pytest.mark.parametrize("kind", [None, *ErrorKind])
def test_every_cause_has_advice(kind: ErrorKind | None) -> None:
    assert give_advice("core.errors.SomethingNew", kind)
    assert give_advice("ledger.errors.MerchantUnknown", kind) == give_advice("MerchantUnknown", None)
    assert "never tried" in give_advice(None, kind)


def test_what_the_runbook_names_has_advice_of_its_own() -> None:
    runbook = (Path(__file__).parents[3] / "docs/runbook.md").read_text("utf-8")
    _, _, causes = runbook.partition("### By class")
    named = re.findall(r"^\| `([A-Z][A-Za-z]+)`", causes, re.MULTILINE)
    assert len(named) > 5
    assert [name for name in named if give_advice(name, None) == give_advice("SomethingNew", None)] == []
