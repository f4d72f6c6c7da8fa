"""A booking that people make by hand, as a command carries it."""

from __future__ import annotations

import hashlib
import json
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from core.clock import to_rfc3339
from core.money import Money, MoneyInvalid
from core.work import Posting, postings_to_json
from operations.command import CommandInvalid, text_of, time_of

ENTRY_LINES_MAX = 100
_SHA256 = re.compile(r"[0-9a-f]{64}")
_FIELDS = frozenset({"entity_key", "occurred_at", "evidence_sha256", "postings"})
_LINE_FIELDS = frozenset({"account", "side", "amount_minor", "currency"})


@dataclass(frozen=True, slots=True)
class ManualEntry:
    """A booking by hand: its postings, its payment (``entity_key``), and when the money moved.

    ``evidence_sha256``: hex, of the document that shows it. The document itself is kept elsewhere.
    """

    entity_key: str
    occurred_at: datetime
    evidence_sha256: str
    postings: tuple[Posting, ...]

    @property
    def postings_json(self) -> str:
        return postings_to_json(self.postings) or ""

    @property
    def postings_sha256(self) -> str:
        return hashlib.sha256(self.postings_json.encode("utf-8")).hexdigest()


def entry_to_tree(entry: ManualEntry) -> dict[str, Any]:
    return {
        "entity_key": entry.entity_key,
        "occurred_at": to_rfc3339(entry.occurred_at),
        "evidence_sha256": entry.evidence_sha256,
        "postings": json.loads(entry.postings_json or "[]"),
    }


def entry_of_tree(tree: object) -> ManualEntry:
    if not isinstance(tree, dict) or tree.keys() != _FIELDS:
        raise CommandInvalid(f"entry: expected the fields {', '.join(sorted(_FIELDS))}")
    evidence = text_of(tree, "evidence_sha256")
    if not _SHA256.fullmatch(evidence):
        raise CommandInvalid("evidence_sha256: expected the SHA-256 of a document, 64 hex digits in lower case")
    lines = tree["postings"]
    if not isinstance(lines, list):
        raise CommandInvalid("postings: expected a list")
    postings = tuple(_parse_line(line) for line in lines)
    check_booking(postings)
    return ManualEntry(text_of(tree, "entity_key"), time_of(tree, "occurred_at"), evidence, postings)


def check_booking(postings: Sequence[Posting]) -> None:
    """
    :raises CommandInvalid: too few or too many lines, an amount that isn't above zero, or debits and credits of a
        currency differ
    """
    if not 2 <= len(postings) <= ENTRY_LINES_MAX:
        raise CommandInvalid(f"postings: expected 2 to {ENTRY_LINES_MAX} lines")
    sums: Counter[str] = Counter()
    for line in postings:
        amount_minor = line.money.amount_minor
        if amount_minor <= 0:
            raise CommandInvalid("postings: expected an amount above zero; its side says which way the money went")
        sums[line.money.currency] += amount_minor if line.side == "debit" else -amount_minor
    for currency, difference in sorted(sums.items()):
        if difference:
            more, less = ("debits", "credits") if difference > 0 else ("credits", "debits")
            raise CommandInvalid(
                f"postings: {more} of {currency} are {abs(difference)} minor units above its {less}, they must be equal"
            )


def _parse_line(tree: object) -> Posting:
    if isinstance(tree, dict) and tree.keys() == _LINE_FIELDS and isinstance(tree["account"], str):
        side = tree["side"]
        if side in ("debit", "credit"):
            return Posting(text_of(tree, "account"), side, _parse_money(tree))
    raise CommandInvalid(
        "postings: expected for each line an account, a side (debit or credit), an amount_minor and a currency"
    )


def _parse_money(tree: Mapping[str, Any]) -> Money:
    try:
        return Money(tree["amount_minor"], tree["currency"])
    except MoneyInvalid as wrong:
        raise CommandInvalid(f"postings: {wrong}") from wrong
