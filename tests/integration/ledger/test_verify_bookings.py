"""What was booked is what was reported: amounts, currencies, accounts and the chart."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from core.decision import Decision
from core.money import Money, MoneyFact, Movement, Outside
from core.routing import of_tenant
from core.work import Posting, postings_to_json
from journal.schema import JournalRow
from ledger.accounts import book_fact, holder_of
from ledger.verify import Finding
from ledger.verify.payment_checks import BookingsAreReported
from tests.integration.ledger.conftest import EVENTS, Verify, World, new_row

FACTS = [
    *(MoneyFact(f"stripe:f_{one}:{one}", one, "acct_1", "pi_1", Money(500, "EUR")) for one in Movement),
    MoneyFact("stripe:po_1:payout_paid", Movement.PAYOUT_PAID, "", None, Money(-700, "JPY")),
    MoneyFact("stripe:po_2:payout_failed", Movement.PAYOUT_FAILED, "acct_1", None, Money(-1, "KWD")),
    MoneyFact("stripe:ch_9:fee", Movement.FEE, "acct_1", "pi_1", Money(-320, "EUR")),
    *(
        MoneyFact(f"stripe:g_{one}:{part}", one, "acct_1", "pi_1", Money(500, "EUR"), outside=Outside("paypal", part))
        for one in (Movement.CAPTURE, Movement.REFUND)
        for part in (200, 500)
    ),
]


def booked(seq: int, fact: MoneyFact, tenant: str | None = None, **changes: Any) -> JournalRow:
    holder = changes.pop("holder", holder_of("stripe", fact.account, tenant))
    lines = postings_to_json(book_fact(changes.pop("as_if", fact), holder, "m-1", tenant))
    about = {"fact_key": of_tenant(tenant, fact.fact_key), "fact_sha256": fact.sha256, "account": fact.account}
    given = {"postings": lines, "tenant": tenant, "handler_version": "ledger-2.0123abcd", **about, **changes}
    return new_row(seq, EVENTS, 2, seq, Decision.APPLIED, f"evt_{seq}", **given)


@pytest.fixture
def look(report: Verify, world: World) -> Callable[..., Finding]:
    def found(*rows: JournalRow) -> Finding:
        world.rows += rows
        world.state = replace(world.state, next_seq=15 + len(rows))
        world.rewrite()
        [finding] = report(BookingsAreReported.name).findings
        return finding

    return found


CAPTURE = FACTS[0]


def test_bookings_of_every_movement_are_their_facts(look: Callable[..., Finding]) -> None:
    rows = [booked(15 + at, fact) for at, fact in enumerate(FACTS)]
    rows += [booked(15 + len(rows) + at, fact, "shop-a") for at, fact in enumerate([FACTS[0], *FACTS[-4:]])]
    for name in ("MüllerECOM", "Shop 100% GmbH", "a:b%ä/~", "a:b%/~", "a%25b", "x" * 300, " ü+\\"):
        for fact in (CAPTURE, *FACTS[-7:]):
            odd = replace(fact, account=name)
            rows.append(booked(15 + len(rows), odd))
    rows.append(booked(15 + len(rows), CAPTURE, "shop-a", holder="shop-a~adyen/Shop", provider="adyenplatform"))
    found = look(*rows)
    assert found.ok, found.offenders


OTHERS: dict[str, dict[str, Any]] = {
    "another amount": {"as_if": replace(CAPTURE, money=Money(501, "EUR"))},
    "another currency": {"as_if": replace(CAPTURE, money=Money(500, "USD"))},
    "another movement": {"as_if": replace(CAPTURE, movement=Movement.CAPTURE_FAILED)},
    "another account": {"account": "acct_2"},
    "another fact": {"fact_key": "stripe:ch_2:capture"},
    "a part outside that wasn't reported": {"as_if": replace(CAPTURE, outside=Outside("paypal", 200))},
    "all outside": {"as_if": replace(CAPTURE, outside=Outside("paypal", 500))},
}
ODD_LINES = (
    Posting("provider:stripe:clearing", "debit", Money(500, "EUR")),
    Posting("merchant:m-1:refunds", "credit", Money(500, "EUR")),
)


def test_what_was_not_reported_so_is_named(look: Callable[..., Finding]) -> None:
    rows = [booked(15 + at, CAPTURE, **change) for at, change in enumerate(OTHERS.values())]
    assert [one["seq"] for one in look(*rows).offenders] == [row.seq for row in rows]


def test_a_booking_that_no_movement_makes_is_named(look: Callable[..., Finding]) -> None:
    odd = postings_to_json([replace(ODD_LINES[0], account="merchant:m-1:payouts"), ODD_LINES[1]])
    thrice = postings_to_json([*book_fact(CAPTURE, "stripe", "m-1"), *book_fact(CAPTURE, "stripe", "m-1")])
    ours = booked(17, CAPTURE).postings or ""
    lost = booked(18, FACTS[6]).postings or ""
    assert "dispute_losses" in lost
    wrong = [odd, thrice, ours.replace("merchant:", "provider:"), lost.replace("m-1:disputes", "m-2:disputes")]
    facts = [CAPTURE, CAPTURE, CAPTURE, FACTS[6]]
    found = look(*(booked(15 + at, facts[at], postings=lines) for at, lines in enumerate(wrong)))
    assert [(one["seq"], one["problem"]) for one in found.offenders] == [
        (seq, "a booking that the chart of accounts does not know") for seq in (15, 16, 17, 18)
    ]


BALANCES: dict[str, dict[str, Any]] = {
    "another account's": {"holder": "stripe/acct_2"},
    "the provider's as a whole": {"holder": "stripe"},
    "a tenant's": {"holder": "shop-a~stripe/acct_1"},
    "another tenant's": {"holder": "shop-b~stripe/acct_1", "tenant": "shop-a"},
    "one of a like name": {"holder": "stripe/acct%5F1"},
}


def test_a_booking_on_another_balance_is_named(look: Callable[..., Finding]) -> None:
    found = look(*(booked(15 + at, CAPTURE, **change) for at, change in enumerate(BALANCES.values())))
    assert [(one["seq"], one["problem"]) for one in found.offenders] == [
        (15 + at, "a booking on another balance than that of its account") for at in range(len(BALANCES))
    ]
