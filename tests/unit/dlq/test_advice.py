"""What to do next about dead events of one cause."""

from __future__ import annotations

import pytest

from core.decision import ErrorKind
from dlq.advice import advise


@pytest.mark.parametrize("kind", [None, *ErrorKind])
def test_every_cause_has_advice(kind: ErrorKind | None) -> None:
    assert advise("core.errors.SomethingNew", kind)
    assert advise("ledger.errors.MerchantUnknown", kind) == advise("MerchantUnknown", None)
    assert "never tried" in advise(None, kind)
