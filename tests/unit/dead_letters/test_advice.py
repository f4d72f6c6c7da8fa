"""What to do next about dead events of one cause."""

from __future__ import annotations

import pytest

from core.decision import ErrorKind
from dead_letters.stats import give_advice


@pytest.mark.parametrize("kind", [None, *ErrorKind])
def test_every_cause_has_advice(kind: ErrorKind | None) -> None:
    assert give_advice("core.errors.SomethingNew", kind)
    assert give_advice("ledger.errors.MerchantUnknown", kind) == give_advice("MerchantUnknown", None)
    assert "never tried" in give_advice(None, kind)
