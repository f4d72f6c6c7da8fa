"""An entry on the control topic: whole, balanced and of plain values, or refused with what to do."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import Any

import pytest

from core.money import Money
from core.work import Posting
from operations.command import CommandInvalid, approve, propose_entry
from operations.commands import decode, encode
from operations.entry import ManualEntry

AT = datetime(2026, 1, 31, 12, tzinfo=UTC)
ENTRY = ManualEntry(
    "stripe:acct_1:pi_1",
    AT,
    "ab" * 32,
    (
        Posting("merchant:m1:refunds", "debit", Money(400, "EUR")),
        Posting("merchant:m1:payable", "debit", Money(100, "EUR")),
        Posting("provider:stripe/acct_1:clearing", "credit", Money(500, "EUR")),
    ),
)
PROPOSED = propose_entry("ledger", "l1", ENTRY, "ada", "letter of the bank", AT)


@pytest.mark.parametrize("command", [PROPOSED, approve(PROPOSED, "bob", "read it", AT)])
def test_a_command_with_an_entry_is_read_as_it_was_written(command: Any) -> None:
    assert decode(encode(command)) == command


def test_an_approval_carries_what_was_proposed() -> None:
    assert decode(encode(approve(PROPOSED, "bob", "read it", AT))).proposed_command == PROPOSED


def tree(**changes: object) -> bytes:
    whole = json.loads(encode(PROPOSED))
    whole["entry"] |= changes
    return json.dumps(whole).encode()


def line(**changes: object) -> list[dict[str, object]]:
    lines: list[dict[str, object]] = json.loads(encode(PROPOSED))["entry"]["postings"]
    lines[0] |= changes
    return lines


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"evidence_sha256": "AB" * 32}, "evidence_sha256: expected the SHA-256 of a document"),
        ({"evidence_sha256": "ab"}, "evidence_sha256: expected the SHA-256 of a document"),
        ({"entity_key": ""}, "entity_key"),
        ({"entity_key": "a\nb"}, "entity_key"),
        ({"occurred_at": "noon"}, "occurred_at"),
        ({"occurred_at": "9999-12-31T23:59:59-01:00"}, "occurred_at"),
        ({"postings": []}, "2 to 100 lines"),
        ({"postings": line()[:1]}, "2 to 100 lines"),
        ({"postings": line()[:1] * 101}, "2 to 100 lines"),
        ({"postings": line(amount_minor=401)}, "debits of EUR are 1 minor units above its credits"),
        ({"postings": line(amount_minor=399)}, "credits of EUR are 1 minor units above its debits"),
        ({"postings": line(currency="USD")}, "must be equal"),
        ({"postings": line(amount_minor=0)}, "above zero"),
        ({"postings": line(amount_minor=-400)}, "above zero"),
        ({"postings": line(amount_minor=4.0)}, "integer"),
        ({"postings": line(amount_minor=True)}, "integer"),
        ({"postings": line(amount_minor=10**16)}, "beyond"),
        ({"postings": line(currency="eur")}, "three capital letters"),
        ({"postings": line(side="left")}, "debit or credit"),
        ({"postings": line(account=7)}, "for each line an account"),
        ({"postings": line(account="a\x1b[31m")}, "account"),
        ({"postings": line(note="more")}, "for each line"),
        ({"postings": ["line", "line"]}, "for each line"),
        ({"more": 1}, "entry: expected the fields"),
    ],
)
def test_an_entry_that_cant_be_booked_is_refused(changes: dict[str, object], says: str) -> None:
    with pytest.raises(CommandInvalid, match=says):
        decode(tree(**changes))


@pytest.mark.parametrize("of", ["command", "proposal"])
def test_a_command_that_names_more_people_is_refused(of: str) -> None:
    tree = json.loads(encode(approve(PROPOSED, "bob", "read it", AT)))
    (tree if of == "command" else tree["proposal"])["hands"] = ["ada"]
    with pytest.raises(CommandInvalid, match=r"expected the fields .*"):
        decode(json.dumps(tree).encode())


@pytest.mark.parametrize("changes", [{"targets": [[1, 1, "0" * 16]]}, {"entry": None}, {"mode": "alone"}])
def test_an_entry_has_its_own_fields(changes: dict[str, object]) -> None:
    with pytest.raises(CommandInvalid):
        decode(json.dumps(json.loads(encode(PROPOSED)) | changes).encode())


def test_an_entry_isnt_booked_without_its_proposal() -> None:
    whole = json.loads(encode(approve(PROPOSED, "bob", "read it", AT)))
    del whole["proposal"]
    with pytest.raises(CommandInvalid, match="proposal"):
        decode(json.dumps(whole).encode())
