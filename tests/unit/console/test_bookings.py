"""A booking by hand, as the API is asked for it."""

from __future__ import annotations

import pytest

from console.bookings import EntryAsked, LineAsked
from ingest.idempotency.request import Problem


@pytest.mark.parametrize("occurred_at", ["soon", "2026-01-31T12:00:00", "9999-12-31T23:59:59-01:00"])
def test_a_time_that_cannot_be_read_is_not_valid(occurred_at: str) -> None:
    lines = [
        LineAsked(account="merchant:m-1:payable", side="debit", amount_minor=1, currency="EUR"),
        LineAsked(account="merchant:m-1:disputes", side="credit", amount_minor=1, currency="EUR"),
    ]
    asked = EntryAsked(
        entity="stripe:acct_1:pi_1", occurred_at=occurred_at, evidence_sha256="ab" * 32, lines=lines, reason="moved"
    )
    with pytest.raises(Problem, match="occurred_at") as refused:
        asked.entry()
    assert refused.value.status == 422
