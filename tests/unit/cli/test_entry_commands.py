"""`payhook ledger enter`: what would be booked is shown, and what can't be is refused before anything is sent."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from cli.main import main
from tests.dead_letters import DeadLetters
from tests.filled_ledger import propose

LOST, OPEN = "merchant:m1:dispute_losses", "merchant:m1:disputes"


@pytest.fixture
def letter(tmp_path: Path) -> Path:
    path = tmp_path / "letter.pdf"
    path.write_bytes(b"from the bank")
    return path


def enter(letter: Path, *lines: str) -> Result:
    words = ["ledger", "enter", "stripe:acct_1:pi_1", *lines, "--evidence", str(letter), "--reason", "lost"]
    return CliRunner(env={"COLUMNS": "80"}).invoke(main, [*words, "--dry-run", "--data", str(letter.parent / "data")])


def test_what_would_be_booked_is_shown(letter: Path) -> None:
    said = enter(letter, "--debit", LOST, "12.50", "EUR", "--credit", OPEN, "12.50", "EUR")
    assert said.exit_code == 0, said.output
    for text in (LOST, OPEN, "12.50 EUR", hashlib.sha256(b"from the bank").hexdigest(), "nothing was sent"):
        assert text in said.output


@pytest.mark.parametrize(
    ("lines", "says"),
    [
        (("--debit", LOST, "12.50", "EUR", "--credit", OPEN, "12.00", "EUR"), "must be equal"),
        (("--debit", "merchant:m1:tips", "1", "EUR", "--credit", OPEN, "1", "EUR"), "isn't an account of the ledger"),
        (("--debit", LOST, "12.505", "EUR", "--credit", OPEN, "12.505", "EUR"), "EUR has 2 decimals"),
        (("--debit", LOST, "12.50", "JPY", "--credit", OPEN, "12.50", "JPY"), "JPY has no decimals"),
        (("--debit", LOST, "1.2345", "KWD", "--credit", OPEN, "1.2345", "KWD"), "KWD has 3 decimals"),
        (("--debit", LOST, "12,50", "EUR", "--credit", OPEN, "12,50", "EUR"), "write a number such as 1234.50"),
        (("--debit", LOST, "-5", "EUR", "--credit", OPEN, "-5", "EUR"), "above zero"),
        (("--debit", LOST, "5", "euro", "--credit", OPEN, "5", "euro"), "three capital letters"),
        ((), "2 to 100 lines"),
    ],
)
def test_what_cant_be_booked_is_refused(letter: Path, lines: tuple[str, ...], says: str) -> None:
    said = enter(letter, *lines)
    assert said.exit_code in (1, 2)
    assert says in " ".join(said.output.split()) + str(said.exception)


@pytest.mark.parametrize(
    ("typed", "currency", "shown"),
    [
        ("12.5", "EUR", "12.50 EUR"),
        ("1250", "EUR", "1,250.00 EUR"),
        ("1250", "JPY", "1,250 JPY"),
        ("1.25", "KWD", "1.250 KWD"),
    ],
)
def test_amounts_are_typed_as_they_are_shown(letter: Path, typed: str, currency: str, shown: str) -> None:
    said = enter(letter, "--debit", LOST, typed, currency, "--credit", OPEN, typed, currency)
    assert said.exit_code == 0 and shown in said.output


def test_an_entry_needs_its_document(letter: Path) -> None:
    letter.unlink()
    said = enter(letter, "--debit", LOST, "1", "EUR", "--credit", OPEN, "1", "EUR")
    assert said.exit_code == 2 and "does not exist" in said.output


def test_a_proposal_is_listed_with_what_it_would_book(tmp_path: Path) -> None:
    letters = DeadLetters(tmp_path / "data")
    propose(letters)
    command = ["ledger", "proposals", "--data", str(tmp_path / "data")]
    said = CliRunner(env={"COLUMNS": "80"}).invoke(main, command)
    assert said.exit_code == 0, said.output
    first, *lines = said.output.splitlines()
    assert first.endswith("  waits") and len(first.split()[0]) == 32
    assert lines[-4:] == [
        "  proposes  entry for stripe:acct_1:pi_0",
        "  debit     merchant:m-1:dispute_losses  1,234.50 EUR",
        "  credit    merchant:m-1:disputes  1,234.50 EUR",
        f"  document  {'ab' * 32}",
    ]
    (reported,) = json.loads(CliRunner().invoke(main, [*command, "--json"]).output)
    assert (reported["command_id"], reported["state"], reported["entity"]) == (
        first.split()[0],
        "waits",
        "stripe:acct_1:pi_0",
    )
    assert [(line["side"], line["amount_minor"], line["decimals"]) for line in reported["lines"]] == [
        ("debit", 123_450, 2),
        ("credit", 123_450, 2),
    ]
