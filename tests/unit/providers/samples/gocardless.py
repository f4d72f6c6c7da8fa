"""GoCardless: what its events are called. No event says how much money moved, so none books."""

from __future__ import annotations

import json
from datetime import timedelta
from typing import Any

from core.money import MoneyInvalid, MovementUnknown
from load.samples import sign
from load.samples.gocardless import GoCardlessEvent, batch, payment_event
from providers import ModeMismatch, ProvidersSettings, Request, build_adapters
from providers.gocardless import ITEMS_MAX
from tests.unit.providers.samples.table import (
    Comparison,
    MoneySequence,
    Refusal,
    Webhook,
    each,
    fails,
    moves_nothing,
    unreadable,
)
from tests.unit.providers.shapes import NOW

LEFT_TO_A_PERSON = (
    *("creditors.bounced_payout", "outbound_payments.executed"),
    *("payment_account_transaction.created", "payment_account_transactions.created"),
)
PAYMENT, REFUND, PAYOUT = (
    {"payment": "PM1"},
    {"refund": "RF1"},
    {"payout": "PO1", "creditor": "CR1"},
)
BOOKED = {
    "payments.confirmed": (PAYMENT, "PM1:capture 1000 GBP of PM1"),
    "payments.late_failure_settled": (PAYMENT, "PM1:capture_failed 1000 GBP of PM1"),
    "payments.chargeback_settled": (PAYMENT, "EV1:dispute_opened 1000 GBP of PM1"),
    "payments.chargeback_cancelled": (PAYMENT, "EV1:dispute_won 1000 GBP of PM1"),
    "refunds.refund_settled": (REFUND, "RF1:refund 400 GBP of PM1"),
    "refunds.funds_returned": (REFUND, "RF1:refund_failed 400 GBP of PM1"),
    "payouts.paid": (PAYOUT, "PO1:payout_paid 9900 GBP"),
}
"""By type: the event's links, and what it books once they were followed."""
RESOURCES: dict[str, Any] = {
    "payments/PM1": {"id": "PM1", "amount": 1000, "currency": "GBP", "links": {"creditor": "CR1", "mandate": "MD1"}},
    "refunds/RF1": {"id": "RF1", "amount": 400, "currency": "GBP", "links": {"payment": "PM1", "mandate": "MD1"}},
    "payouts/PO1": {
        "id": "PO1",
        "amount": 9900,
        "deducted_fees": 100,
        "currency": "GBP",
        "payout_type": "merchant",
        "links": {"creditor": "CR1"},
    },
}
"""What the API tells, by path."""
API = "https://api.gocardless.com"
CONFIRMATIONS = f"{API}/events?resource_type=payments&action=confirmed&payment=PM1"
RETRIED = "resubmission_requested"
CAPTURE_FAILED = "PM1:capture_failed 1000 GBP of PM1"
MOVES_NOTHING = (
    *("payments.created", "payments.submitted", "payments.charged_back", "payments.paid_out"),
    *("payments.surcharge_fee_debited", "refunds.created", "refunds.paid", "refunds.failed"),
    *("payouts.fx_rate_confirmed", "mandates.active", "outbound_payments.created"),
)
LIVE, SANDBOX = b"https://api.gocardless.com", b"https://api-sandbox.gocardless.com"
BODY = payment_event("confirmed", event_id="EV1", payment="PM1", created=NOW)
OF_PARTNER = payment_event("confirmed", event_id="EV1", payment="PM1", created=NOW, organisation="OR1")


def about(event_type: str, links: dict[str, str], amount_minor: int | None = None, event_id: str = "EV1") -> bytes:
    """A batch of one event; with an amount, which no event of GoCardless's has."""
    resource_type, _, action = event_type.partition(".")
    body = batch([GoCardlessEvent(event_id, resource_type, action, links, NOW)])
    if amount_minor is None:
        return body
    document = json.loads(body)
    document["events"][0]["amount"] = amount_minor
    return json.dumps(document).encode()


def answer(path: str, **changed: Any) -> bytes:
    return json.dumps({path.partition("/")[0]: RESOURCES[path] | changed}).encode()


def followed(event_type: str, links: dict[str, str] | None = None, event_id: str = "EV1", **changed: Any) -> Request:
    """A batch of one event, and what the API tells of what it points to."""
    links = links or BOOKED[event_type][0]
    views = {f"{API}/{path}": answer(path, **changed) for path in RESOURCES}
    return Request(about(event_type, links, event_id=event_id), [], views=views)


def failed(*confirmed_h: int, action: str = "failed") -> Request:
    """A batch of a payment's failure, and what the API tells of it: the payment, and its confirmations, by the hours
    between them and the failure.
    """
    told = [
        GoCardlessEvent(f"EV{hours}", "payments", "confirmed", PAYMENT, NOW + timedelta(hours=hours))
        for hours in confirmed_h
    ]
    events = batch(told) if told else b'{"events":[]}'
    views = {f"{API}/payments/PM1": answer("payments/PM1"), CONFIRMATIONS: events}
    return Request(about(f"payments.{action}", PAYMENT), [], views=views)


def spoilt(field: str, wrong: Any) -> bytes:
    """A batch of three events, the second of which has another value in one field."""
    document = json.loads(batch([GoCardlessEvent(f"EV{n}", "payments", "paid_out", {}, NOW) for n in range(3)]))
    document["events"][1][field] = wrong
    if wrong is ...:
        del document["events"][1][field]
    return json.dumps(document).encode()


def beside(item: Any) -> bytes:
    return json.dumps({"events": [item, json.loads(BODY)["events"][0]]}).encode()


def from_origin(*origins: bytes) -> Request:
    return Request(BODY, [(b"origin", origin) for origin in origins])


WEBHOOKS = [
    *(
        Webhook(f"order of {resource_type} with {links}", about(f"{resource_type}.updated", links), entity=f":{entity}")
        for resource_type, links, entity in (
            ("payments", {"payment": "PM1"}, "PM1"),
            ("payments", {"payment": "PM1", "payout": "PO1", "parent_event": "EV0"}, "PM1"),
            ("payments", {"payment": "PM1", "creditor": "CR1"}, "PM1"),
            ("payments", {}, "EV1"),
            ("refunds", {"refund": "RF1", "payment": "PM1"}, "PM1"),
            ("refunds", {"refund": "RF1"}, "RF1"),
            ("refunds", {"refund": "RF1", "creditor": "CR1"}, "RF1"),
            ("subscriptions", {"subscription": "SB1", "payment": "PM1"}, "PM1"),
            ("subscriptions", {"subscription": "SB1"}, "SB1"),
            ("mandates", {"mandate": "MD1", "customer_bank_account": "BA1"}, "MD1"),
            ("payouts", {"payout": "PO1"}, "PO1"),
            ("instalment_schedules", {"instalment_schedule": "IS1"}, "IS1"),
            ("billing_requests", {"billing_request": "BRQ1", "customer": "CU1"}, "BRQ1"),
            ("payer_authorisations", {"payer_authorisation": "PAU1", "mandate": "MD1"}, "PAU1"),
            ("customer_bank_accounts", {"customer_bank_account": "BA1", "customer": "CU1"}, "BA1"),
            ("something_new", {"customer": "CU1"}, "EV1"),
        )
    ),
    *(
        Webhook(f"account of {resource_type} with {links}", about(f"{resource_type}.updated", links), account=account)
        for resource_type, links, account in (
            ("creditors", {"creditor": "CR1"}, "CR1"),
            ("creditors", {"creditor": "CR1", "organisation": "OR1"}, "OR1"),
            ("organisations", {"organisation": "OR1"}, "OR1"),
            ("payouts", {"payout": "PO1", "creditor": "CR1"}, ""),
            ("payouts", {"payout": "PO1", "creditor": "CR1", "organisation": "OR1"}, "OR1"),
            ("payments", {"payment": "PM1", "creditor": "CR1"}, ""),
            ("mandates", {"mandate": "MD1"}, ""),
        )
    ),
    Webhook("a partner's merchant", OF_PARTNER, account="OR1", entity="OR1:PM1"),
    Webhook("order is kept for the merchant", OF_PARTNER, entity="OR1", settings={"entity": "merchant"}),
    *(
        Webhook(
            f"one bad event, whose {field} is {wrong!r}, beside good ones",
            spoilt(field, wrong),
            is_poison=[False, True, False],
        )
        for field, wrong in each(
            *(("id", ...), ("id", ""), ("id", 7), ("action", None), ("resource_type", []), ("links", "PM1"))
        )
    ),
    *(
        Webhook(f"no event, {item!r}, beside a good one", beside(item), is_poison=[True, False])
        for item in each(None, 7, "EV1", [], True)
    ),
    *unreadable(
        *(b"", b"[]", b"{}", b'{"events":{}}', b'{"events":[]}', b'{"events":null}', b'{"events":[1],"events":[2]}'),
        b'{"events":[' + b",".join([b"{}"] * (ITEMS_MAX + 1)) + b"]}",
        BODY.decode().encode("utf-16"),
    ),
    *(
        Webhook(f"from origins {origins} at the {endpoint} endpoint", from_origin(*origins), endpoint=endpoint, **said)
        for origins, endpoint, said in each(
            ([LIVE], "live", {"mode": "live"}),
            ([SANDBOX], "test", {"mode": "test"}),
            ([], "live", {"mode": "live"}),
            ([], "test", {"mode": "test"}),
            ([b"https://somewhere.example.com"], "live", {"mode": "live"}),
            *(
                (origins, endpoint, {"refused": ModeMismatch, "says": f"this endpoint takes {endpoint} traffic"})
                for origins, endpoint in (
                    ([SANDBOX], "live"),
                    ([LIVE], "test"),
                    ([LIVE, SANDBOX], "live"),
                    ([LIVE, SANDBOX], "test"),
                )
            ),
        )
    ),
    *moves_nothing(
        *((f"{kind} announces, or tells again", about(kind, {"payment": "PM1"}, 1_250)) for kind in MOVES_NOTHING)
    ),
    *(
        Webhook(f"{kind}, followed", followed(kind), books=booked, account="", type=kind, id="EV1")
        for kind, (_, booked) in BOOKED.items()
    ),
    *(
        Webhook(f"a payment fails, confirmed {hours} hours after it", failed(*hours), books=booked, entity=":PM1")
        for hours, booked in each(((), None), ((-72,), CAPTURE_FAILED), ((72,), None), ((72, -72), CAPTURE_FAILED))
    ),
    *(
        Webhook(f"a payment is tried again, confirmed {hours} hours after", failed(*hours, action=RETRIED), books=None)
        for hours in ((), (72,))
    ),
    *fails(
        MovementUnknown,
        ("a payment is tried again that was confirmed before", failed(-72, action=RETRIED), "of a confirmed payment"),
        ("a payment that is tried again, not asked for", about(f"payments.{RETRIED}", PAYMENT), "not fetched"),
        ("a payment that failed, not asked for", about("payments.failed", PAYMENT), "not fetched"),
    ),
    Webhook("a payment that failed late names its capture", failed(-72), pair="PM1:capture"),
    Webhook(
        "a payment that fails, and of which only one answer came",
        Request(failed(-72).body, [], views={CONFIRMATIONS: failed(-72).views[CONFIRMATIONS]}),
        fails=MovementUnknown,
        says="not fetched",
    ),
    Webhook(
        "a refund is kept in order with its payment, which only the API tells",
        followed("refunds.refund_settled"),
        entity=":PM1",
        key="EV1:refunds.refund_settled",
    ),
    Webhook(
        "a partner's merchant's payment",
        followed("payments.confirmed", {**PAYMENT, "organisation": "OR1"}),
        account="OR1",
        entity="OR1:PM1",
    ),
    *fails(
        MovementUnknown,
        *((f"{kind} that wasn't followed", about(kind, links), "not fetched") for kind, (links, _) in BOOKED.items()),
        ("a payment that it doesn't name", followed("payments.confirmed", {"mandate": "MD1"}), "not fetched"),
        ("a payout of a partner's fees", followed("payouts.paid", payout_type="partner"), "partner"),
    ),
    *(
        Webhook(f"fees of a payout, {fees!r}", followed("payouts.paid", deducted_fees=fees), fees=told)
        for fees, told in each((100, ["PO1:fee 100 GBP"]), (-50, ["PO1:fee -50 GBP"]), (0, []), (None, []))
    ),
    Webhook("no fees of a partner's payout", followed("payouts.paid", payout_type="partner"), fees=[]),
    *fails(
        MoneyInvalid,
        ("a payment without an amount", followed("payments.confirmed", amount=None)),
        ("a payment in no currency", followed("payments.confirmed", currency="pence")),
    ),
    *fails(
        MovementUnknown, ("a type that no table has", about("payments.moved", {"payment": "PM1"}), "payments.moved")
    ),
    *(
        Webhook(
            f"{kind} is for a person",
            about(kind, {"payment": "PM1"}),
            type=kind,
            is_poison=False,
            fails=MoneyInvalid,
            says=f"{kind} .* manual entry",
        )
        for kind in LEFT_TO_A_PERSON
    ),
]
SECRET = "new-webhook-secret"
GOOD = sign(build_adapters(ProvidersSettings())["gocardless"], BODY, SECRET, NOW).headers["Webhook-Signature"].encode()
REFUSALS = [
    Refusal(
        "two origins prove nothing",
        Request(BODY, [(b"webhook-signature", GOOD), (b"origin", LIVE), (b"origin", SANDBOX)]),
        "several",
        (SECRET,),
    )
]
AGAIN = payment_event("confirmed", event_id="EV1", payment="PM1", created=NOW, delivery=2)
COMPARISONS = [
    Comparison("the content is the event's own and not its batch's", BODY, AGAIN, key=True, content=True),
    Comparison(
        "an event that was followed at another time, or not at all",
        followed("payments.confirmed"),
        about("payments.confirmed", PAYMENT),
        key=True,
        content=True,
    ),
    Comparison("another cause", BODY, BODY.replace(b"payment_confirmed", b"other"), key=True, content=True),
    Comparison("another payment", BODY, BODY.replace(b"PM1", b"PM2"), key=True, content=False),
]
SEQUENCES = [
    MoneySequence(
        "ten payments, and a payout of what is left of them",
        [
            *(
                Request(
                    about("payments.confirmed", {"payment": f"PM{n}"}),
                    [],
                    views={f"{API}/payments/PM{n}": answer("payments/PM1", id=f"PM{n}")},
                )
                for n in range(10)
            ),
            followed("payouts.paid"),
        ],
        {"payouts": 9900, "fees": 100},
    ),
    MoneySequence(
        "a payout with more fees given back than taken, and one whose fees are invoiced",
        [followed("payouts.paid", deducted_fees=-50), followed("payouts.paid", id="PO2", amount=100, deducted_fees=0)],
        {"clearing": -9950, "payouts": 10_000, "fees": -50},
    ),
    MoneySequence("a late failure", [followed("payments.confirmed"), followed("payments.late_failure_settled")], {}),
    MoneySequence("a late failure before the payment is paid out", [followed("payments.confirmed"), failed(-72)], {}),
    MoneySequence(
        "a late failure that is settled",
        [followed("payments.confirmed"), failed(-72), followed("payments.late_failure_settled")],
        {},
    ),
    MoneySequence("a failure before the bank took anything", [failed()], {}),
    MoneySequence(
        "a failure, and a second try that goes well", [failed(72), followed("payments.confirmed")], {"clearing": 1000}
    ),
    MoneySequence("a late failure of what was before", [followed("payments.late_failure_settled")], {}),
    MoneySequence(
        "a chargeback that is cancelled",
        [followed(f"payments.{one}") for one in ("confirmed", "chargeback_settled", "chargeback_cancelled")],
        {"clearing": 1000},
    ),
    MoneySequence(
        "a chargeback that comes again after it was cancelled",
        [
            followed("payments.confirmed"),
            *(
                followed(f"payments.chargeback_{action}", event_id=event_id)
                for event_id, action in (("EV1", "settled"), ("EV2", "cancelled"), ("EV3", "settled"))
            ),
        ],
        {"disputes": 1000},
    ),
    MoneySequence(
        "a refund that comes back",
        [followed("payments.confirmed"), followed("refunds.refund_settled"), followed("refunds.funds_returned")],
        {"clearing": 1000},
    ),
]
