"""What providers say of money, on the whole stack: signed requests in, what their accounts hold out.

Every order of such sequences is tried in memory (tests/unit/providers, tests/unit/ledger/test_holders.py).
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any
from zlib import crc32

import pytest

from load.embedded import embedded_stack, payhook
from tests.e2e.conftest import Stack

pytestmark = pytest.mark.more(reason="a stack of its own; each sequence is tried in memory too")

MERCHANTS = """\
[stripe]
"acct_parts" = "m-1"
"acct_twice" = "m-1"
"acct_unknown" = "m-1"

[adyen]
"Rounds" = "m-1"
"MüllerECOM" = "m-1"
"Shop 100% GmbH" = "m-1"

[mollie]
"" = "m-1"

[paddle]
"" = "m-1"
"""
SETTINGS = {"PAYHOOK_PROVIDERS__MOLLIE__CAPTURE_EVENTS": "true"}
DAY = "2026-01-31"


@dataclass(frozen=True)
class MoneyCase:
    """``holds``: what the account holds in the end, in minor units. ``decisions``: what became of each event."""

    name: str
    provider: str
    bodies: tuple[dict[str, Any], ...]
    account: str
    holds: int
    unknown: int = 0


def stripe_charge(account: str, event_type: str, so_far: int, before: int | None = None, **more: Any) -> dict[str, Any]:
    """A charge of 100.00 of which so much is captured by now."""
    reported = {
        "id": f"ch_{account}",
        "object": "charge",
        "payment_intent": f"pi_{account}",
        "amount": 10_000,
        "amount_captured": so_far,
        "currency": "eur",
        "captured": False,
        "balance_transaction": f"txn_{account}_{so_far}" if so_far else None,
        **more,
    }
    data: dict[str, Any] = {"object": reported}
    if before is not None:
        transaction = f"txn_{account}_{before}" if before else None
        data["previous_attributes"] = {"amount_captured": before, "balance_transaction": transaction}
    event_id = f"evt_{account}_{event_type}_{so_far}"
    return {"id": event_id, "type": event_type, "account": account, "livemode": True, "created": 1, "data": data}


def adyen(account: str, *items: tuple[str, str, str]) -> dict[str, Any]:
    """A notification of 100.00 each: eventCode, disputeStatus and day."""
    return {
        "live": "true",
        "notificationItems": [
            {
                "NotificationRequestItem": {
                    "pspReference": f"{'CAP' if code == 'CAPTURE' else 'DIS'}{crc32(account.encode())}",
                    "originalReference": f"PAY{crc32(account.encode())}",
                    "merchantAccountCode": account,
                    "merchantReference": "order-1",
                    "eventCode": code,
                    "eventDate": f"{day}T12:00:00+01:00",
                    "success": "true",
                    "amount": {"value": 10_000, "currency": "EUR"},
                    "additionalData": {"disputeStatus": status} if status else {},
                }
            }
            for code, status, day in items
        ],
    }


def mollie(event_type: str, entity: dict[str, Any]) -> dict[str, Any]:
    return {
        "resource": "event",
        "id": f"event_{event_type}_{entity['id']}",
        "type": event_type,
        "entityId": entity["id"],
        "createdAt": f"{DAY}T12:00:00+00:00",
        "_embedded": {"entity": {"mode": "live", **entity}},
        "_links": {},
    }


def euros(value: str) -> dict[str, str]:
    return {"value": value, "currency": "EUR"}


def paddle(number: int, event_type: str, data: dict[str, Any]) -> dict[str, Any]:
    made = {"event_id": f"evt_{number}", "event_type": event_type, "occurred_at": f"{DAY}T12:00:00Z"}
    return {**made, "notification_id": f"ntf_{number}", "data": data}


KLARNA = {"id": "tr_2", "method": "klarna", "amount": euros("100.00"), "amountCaptured": euros("100.00")}
CASES = [
    MoneyCase(
        "a charge of which a part was captured, with more to come",
        "stripe",
        (
            stripe_charge("acct_parts", "charge.succeeded", 0),
            stripe_charge("acct_parts", "charge.updated", 7_000, 0),
        ),
        "provider:stripe/acct_parts:clearing",
        7_000,
    ),
    MoneyCase(
        "a charge that is captured twice, whose end is told twice",
        "stripe",
        (
            stripe_charge("acct_twice", "charge.succeeded", 0),
            stripe_charge("acct_twice", "charge.updated", 7_000, 0),
            stripe_charge("acct_twice", "charge.updated", 9_000, 7_000, captured=True),
            stripe_charge("acct_twice", "charge.captured", 9_000, captured=True)
            | {
                "data": {
                    "object": stripe_charge("acct_twice", "charge.captured", 9_000, captured=True)["data"]["object"],
                    "previous_attributes": {"captured": False},
                }
            },
        ),
        "provider:stripe/acct_twice:clearing",
        9_000,
    ),
    MoneyCase(
        "a type that no table has, and a thin event that nobody fetched",
        "stripe",
        (
            {"id": "evt_made_up", "type": "made_up.funds_moved", "account": "acct_unknown", "livemode": True}
            | {"created": 1, "data": {"object": {"id": "x_1", "object": "made_up", "amount": 700, "currency": "eur"}}},
            {"id": "evt_thin", "object": "v2.core.event", "type": "v1.charge.succeeded", "livemode": True}
            | {"created": f"{DAY}T12:00:00Z", "context": "acct_unknown", "reason": None}
            | {"related_object": {"id": "ch_9", "type": "charge", "url": "/v1/charges/ch_9"}},
        ),
        "provider:stripe/acct_unknown:clearing",
        0,
        unknown=2,
    ),
    MoneyCase(
        "a dispute that is charged back twice and won in the end",
        "adyen",
        (
            adyen(
                "Rounds",
                ("CAPTURE", "", DAY),
                ("CHARGEBACK", "Undefended", "2026-02-10"),
                ("CHARGEBACK_REVERSED", "Pending", "2026-02-20"),
                ("SECOND_CHARGEBACK", "Lost", "2026-03-20"),
                ("SCHEME_ARBITRATION_WON", "Won", "2026-05-20"),
                ("CHARGEBACK_REVERSED", "Won", "2026-05-31"),
            ),
        ),
        "provider:adyen/Rounds:clearing",
        10_000,
    ),
    MoneyCase(
        "a payout that the bank returned, and a payment that is booked by its capture",
        "mollie",
        (
            mollie("payment.paid", {"id": "tr_1", "method": "ideal", "amount": euros("100.00")}),
            mollie("payout.completed", {"id": "payout_1", "amount": euros("90.00")}),
            mollie("payout.failed", {"id": "payout_1", "amount": euros("90.00"), "statusReason": {"code": "returned"}}),
            mollie("payment.paid", KLARNA),
            mollie("capture.succeeded", {"id": "cpt_1", "paymentId": "tr_2", "amount": euros("100.00")}),
        ),
        "provider:mollie:clearing",
        20_000,
    ),
    MoneyCase(
        "a credit that takes something off a transaction",
        "paddle",
        (
            paddle(
                1,
                "adjustment.created",
                {"id": "adj_1", "transaction_id": "txn_1", "action": "credit", "status": "approved"}
                | {"payout_totals": {"earnings": "5000", "currency_code": "EUR"}},
            ),
            paddle(
                2,
                "transaction.completed",
                {"id": "txn_1", "status": "completed"}
                | {"details": {"payout_totals": {"earnings": "9350", "currency_code": "EUR"}}},
            ),
        ),
        "provider:paddle:clearing",
        4_350,
    ),
    *(
        MoneyCase(
            f"a capture of {name}",
            "adyen",
            (adyen(name, ("CAPTURE", "", DAY)),),
            f"provider:adyen/{kept}:clearing",
            10_000,
        )
        for name, kept in (("MüllerECOM", "M%C3%BCllerECOM"), ("Shop 100% GmbH", "Shop 100%25 GmbH"))
    ),
]


@pytest.fixture(scope="module")
def stack(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stack]:
    folder = tmp_path_factory.mktemp("money")
    folder.joinpath("merchants.toml").write_text(MERCHANTS, "utf-8")
    with pytest.MonkeyPatch.context() as patched:
        for name, value in SETTINGS.items():
            patched.setenv(name, value)
        with embedded_stack(folder) as data_dir:
            yield Stack(data_dir)


@pytest.fixture(scope="module")
def told(stack: Stack) -> Stack:
    """Everything was sent three times, each event after the one before it was decided."""
    for case in CASES:
        for body in case.bodies:
            webhook = stack.traffic.signed(case.provider, json.dumps(body, ensure_ascii=False).encode())
            assert {answer.status for _ in range(3) for answer in stack.post(webhook)} == {200}, case.name
            stack.decide([webhook])
    return stack


@pytest.fixture(scope="module")
def held(told: Stack) -> dict[str, int]:
    said = payhook("ledger", "balances", "--json", "--data", str(told.data_dir))
    assert said.returncode == 0, said.stdout + said.stderr
    return {one["account"]: one["balance_minor"] for one in json.loads(said.stdout)}


@pytest.mark.row("F3")
@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_an_account_holds_what_the_provider_says(held: dict[str, int], case: MoneyCase) -> None:
    assert held.get(case.account, 0) == case.holds


def test_what_is_unknown_is_kept_listed_and_no_dead_letter(told: Stack) -> None:
    said = payhook("ledger", "unknown", "--json", "--data", str(told.data_dir))
    assert said.returncode == 1
    listed = {(one["event_type"], one["code"]): one["events"] for one in json.loads(said.stdout)}
    assert listed == {
        ("made_up.funds_moved", "type"): 1,
        ("v1.charge.succeeded", "related_object='not fetched'"): 1,
    }
    dead = payhook("dlq", "list", "--data", str(told.data_dir))
    assert "evt_" not in dead.stdout, dead.stdout


def test_all_of_it_holds(told: Stack) -> None:
    said = payhook("verify", "--deep", "--data", str(told.data_dir), env=SETTINGS)
    assert said.returncode == 0, said.stdout + said.stderr
