"""An entry is proposed on accounts of the chart, with a document behind it."""

from __future__ import annotations

import hashlib
from datetime import UTC, datetime
from pathlib import Path

import pytest

from core.money import Money
from core.work import Posting
from ledger.accounts import is_account
from ledger.reversals import EntryUnfit, build_entry, hash_evidence
from operations.command import CommandInvalid

AT = datetime(2026, 1, 31, tzinfo=UTC)


def lines(debit: str, credit: str, credit_minor: int = 100) -> list[Posting]:
    return [Posting(debit, "debit", Money(100, "EUR")), Posting(credit, "credit", Money(credit_minor, "EUR"))]


@pytest.mark.parametrize(
    ("name", "known"),
    [
        ("provider:stripe/acct_1:clearing", True),
        ("provider:shop-a~stripe/acct_1:clearing", True),
        ("merchant:m1:payable", True),
        ("merchant:m%3A1:dispute_losses", True),
        ("merchant:m1:clearing", False),
        ("provider:stripe:payable", False),
        ("provider:stripe:clearing:more", False),
        ("merchant::payable", False),
        ("merchant:m1:fees", True),
        ("outside:paypal:clearing", True),
        ("merchant:m1:tips", False),
        ("bank:m1:payable", False),
        ("merchant:m\u00fc:payable", False),
        ("", False),
    ],
)
def test_the_chart_knows_its_accounts(name: str, known: bool) -> None:
    assert is_account(name) is known


def test_an_entry_is_made_of_the_charts_accounts() -> None:
    wanted = lines("merchant:m1:dispute_losses", "merchant:m1:disputes")
    assert build_entry("stripe:pi_1", AT, "ab" * 32, wanted).postings == tuple(wanted)
    with pytest.raises(EntryUnfit, match="'merchant:m1:tips' isn't an account.*payhook ledger balances"):
        build_entry("stripe:pi_1", AT, "ab" * 32, lines("merchant:m1:tips", "merchant:m1:disputes"))
    with pytest.raises(CommandInvalid, match="must be equal"):
        build_entry("stripe:pi_1", AT, "ab" * 32, lines("merchant:m1:refunds", "merchant:m1:disputes", 99))


def test_evidence_is_a_document(tmp_path: Path) -> None:
    letter = tmp_path / "letter.pdf"
    letter.write_bytes(b"from the bank")
    assert hash_evidence(letter) == hashlib.sha256(b"from the bank").hexdigest()
    with pytest.raises(EntryUnfit, match="can't be read"):
        hash_evidence(tmp_path / "none")
    letter.write_bytes(b"")
    with pytest.raises(EntryUnfit, match="is empty"):
        hash_evidence(letter)
