"""A ledger with something on every page of the console: bookings, what died, strangers' texts, a reconciliation."""

from __future__ import annotations

import json

import pyarrow as pa
from deltalake import write_deltalake

from console.pages.ledger import open_reconciliations
from core.money import Money, Movement
from core.work import Posting
from ledger.queries.journals import LedgerJournals
from ledger.reconciliations import DIFFERENCES_SCHEMA, KINDS, KindTotal
from operations.command import propose_entry
from operations.commands import encode
from operations.entry import ManualEntry
from tests.dead_letters import HOSTILE, DeadLetters, Rejected, UnknownMerchant
from tests.settlement_reports import make_run
from tests.unit.processor.harness import CONTROL


def fill(letters: DeadLetters) -> None:
    """Bookings in three currencies, three dead of one cause, one stuck with a follower, poison, bytes, a hostile one
    for each of `HOSTILE`: 14 are dead.
    """
    for number, currency in enumerate(("EUR", "JPY", "KWD")):
        letters.books(letters.receive(f"evt_paid{number}", payment=f"pi_{number}"), 123_450, currency)
    letters.books(letters.receive("evt_back", payment="pi_0"), 450, "EUR", Movement.REFUND)
    for number in range(3):
        letters.dies(letters.receive(f"evt_bug{number}"), ZeroDivisionError("division by zero"))
    letters.dies(letters.receive("evt_stuck", payment="pi_stuck"), UnknownMerchant("no merchant for acct_1"), 99)
    letters.receive("evt_behind", payment="pi_stuck")
    letters.poison(b"\xff\xfe{ not an event")
    letters.dies(letters.receive("evt_bytes", body=b"\xff\xfe{ no text"), Rejected("unreadable"))
    for number, text in enumerate(HOSTILE):
        body = json.dumps({"id": text, text: [text, {"deep": text}], "long": "<b>" * 30}).encode()
        key = letters.receive(
            f"evt_hostile{number}{text}",
            event_type=f"type {text}",
            payment=f"pi_hostile{text}",
            body=body,
            headers=[("x-hostile", text.encode("utf-8", "replace"))],
        )
        letters.dies(key, Rejected(f"{text} and {'A' * 100_000 if number == 0 else ''}"))
    letters.batch()
    for _ in range(7):
        letters.advance(30)
    propose(letters)


def propose(letters: DeadLetters) -> None:
    """An entry by hand that waits for its approval, of a hostile person."""
    lines = (
        Posting("merchant:m-1:dispute_losses", "debit", Money(123_450, "EUR")),
        Posting("merchant:m-1:disputes", "credit", Money(123_450, "EUR")),
    )
    at = letters.clock.now()
    entry = ManualEntry("stripe:acct_1:pi_0", at, "ab" * 32, lines)
    command = propose_entry(letters.layout.stream, letters.lineage, entry, HOSTILE[0], HOSTILE[1], at)
    letters.send(CONTROL, encode(command), [])
    letters.batch()


def reconcile(letters: DeadLetters) -> None:
    """A run ``r1`` of stripe's report ``jan.csv``, in which one amount differs."""
    shards, at = LedgerJournals([letters.layout]), letters.clock.now()
    found = open_reconciliations(shards)
    found.make_tables()
    base = dict.fromkeys(DIFFERENCES_SCHEMA.names)
    row = {**base, "run_id": "r1", "at": at, "provider": "stripe", "report_name": "jan.csv", "report_sha256": "ab"}
    row |= {"kind": "amount_differs", "fact_key": "stripe:<b>f", "reported_minor": -1_234, "reported_currency": "JPY"}
    write_deltalake(
        str(shards.locate_shared("reconciliation")), pa.Table.from_pylist([row], DIFFERENCES_SCHEMA), mode="append"
    )
    run = make_run(
        at,
        run_id="r1",
        report_name="jan.csv",
        lines=3,
        compared=3,
        agreed=2,
        counts={kind: int(kind == "amount_differs") for kind in KINDS},
        not_compared={"payout": 1},
        totals=[
            KindTotal.build("payments", "EUR", 2, 124_450, 1, 123_450),
            KindTotal.build("refunds", "EUR", 1, -450, 1, -450),
            KindTotal.build("fees", "EUR", 2, -350, 0, 0),
        ],
    )
    found.add_run(run)
