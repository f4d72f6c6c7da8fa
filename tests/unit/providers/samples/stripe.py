"""Stripe: what its events are called and book, and which signatures prove."""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
from typing import Any

from core.errors import Unparseable
from core.money import MoneyInvalid, MovementUnknown
from providers import Request
from tests.unit.providers.samples.table import (
    Body,
    Comparison,
    MoneySequence,
    Refusal,
    Webhook,
    books,
    each,
    fails,
    moves_nothing,
)
from tests.unit.providers.shapes import NOW_S

CHARGE = {
    "id": "ch_1",
    "object": "charge",
    "amount": 1000,
    "amount_captured": 1000,
    "amount_refunded": 0,
    "captured": True,
    "currency": "usd",
    "payment_intent": "pi_1",
}
REFUND = {
    "id": "re_1",
    "object": "refund",
    "amount": 400,
    "balance_transaction": "txn_1",
    "charge": "ch_1",
    "created": 1,
    "currency": "usd",
    "failure_balance_transaction": None,
    "payment_intent": "pi_1",
    "status": "succeeded",
}
DISPUTE = {
    "id": "dp_1",
    "object": "dispute",
    "amount": 1000,
    "balance_transactions": [{"id": "txn_d", "amount": -1000}],
    "charge": "ch_1",
    "currency": "usd",
    "payment_intent": "pi_1",
    "status": "needs_response",
}
PAYOUT = {"id": "po_1", "object": "payout", "amount": 5000, "currency": "usd", "status": "paid"}
INTENT = {"id": "pi_1", "object": "payment_intent", "amount_received": 1000, "currency": "usd", "latest_charge": "ch_1"}
REFUND_EVENTS = {"stripe": {"refund_events": True}}
LEFT_TO_A_PERSON = (
    *("application_fee.refunded", "issuing_transaction.created", "topup.reversed"),
    *("topup.succeeded", "transfer.created", "transfer.reversed"),
)


def event(event_type: str, reported: Any, previous: Any = None) -> bytes:
    data = {"object": reported} if previous is None else {"object": reported, "previous_attributes": previous}
    return json.dumps({"id": "evt_1", "type": event_type, "account": "acct_1", "data": data}).encode()


def bare(**fields: Any) -> bytes:
    """An event with these fields and no others but its id and type."""
    named = {"id": "evt_1", "type": "x", **fields}
    return json.dumps({name: value for name, value in named.items() if value is not ...}).encode()


def charge(**changed: Any) -> dict[str, Any]:
    return {name: value for name, value in {**CHARGE, **changed}.items() if value is not ...}


def refund(**changed: Any) -> dict[str, Any]:
    return {name: value for name, value in {**REFUND, **changed}.items() if value is not ...}


def refunded(refunds: Any = ..., before: Any = None, **changed: Any) -> bytes:
    """``charge.refunded`` of a charge that lists these refunds."""
    return event("charge.refunded", charge(**{"amount_refunded": 400, "refunds": refunds, **changed}), before)


def listed(*refunds: dict[str, Any]) -> dict[str, Any]:
    return {"data": list(refunds)}


def dispute(event_type: str, **changed: Any) -> bytes:
    said = {name: value for name, value in {**DISPUTE, **changed}.items() if value is not ...}
    return event(f"charge.dispute.{event_type}", said)


def transaction(name: str, amount: int, created: int, currency: str = "usd") -> dict[str, Any]:
    return {"id": name, "amount": amount, "created": created, "currency": currency, "fee": 1500}


def free(of: dict[str, Any]) -> dict[str, Any]:
    """The transaction without its fee."""
    return {**of, "fee": 0}


def disputed(event_type: str, status: str, *transactions: dict[str, Any]) -> bytes:
    return dispute(event_type, status=status, balance_transactions=list(transactions))


def disputed_by_paypal(event_type: str, status: str) -> bytes:
    return dispute(event_type, status=status, payment_method_details={"type": "paypal"})


def captured(event_type: str, before: int, after: int, *, is_last: bool = True) -> bytes:
    """A charge whose captured amount grew."""
    previous = {"amount_captured": before, "balance_transaction": f"txn_{before}" if before else None}
    grown = charge(amount_captured=after, balance_transaction=f"txn_{after}", captured=is_last)
    return event(event_type, grown, previous)


# What an event is called.

NAMED = {
    "id": "evt_1",
    "type": "charge.succeeded",
    "account": "acct_1",
    "created": NOW_S,
    "livemode": True,
    "data": {"object": charge(amount=900, amount_captured=800, currency="eur")},
}
NO_TIMES: tuple[Any, ...] = (None, "soon", 1.5, True, -1, 10**12, [], "2022-02-15T00:27:45")
NO_OBJECTS: tuple[Any, ...] = (None, [], {}, {"object": None}, {"object": "ch_1"})
THIN = {"type": "v1.billing.meter.error", "created": "2022-02-15T00:27:45.330Z"}
NAMES = [
    Webhook(
        "an event with all its names",
        json.dumps(NAMED).encode(),
        id="evt_1",
        type="charge.succeeded",
        key="evt_1:charge.succeeded",
        entity="acct_1:pi_1",
        account="acct_1",
        at="2026-01-31T12:00:00+00:00",
        books="ch_1:capture 800 EUR of pi_1",
    ),
    *(
        Webhook(f"order is kept for {payment}, of {reported}", bare(data={"object": reported}), entity=f":{payment}")
        for reported, payment in (
            ({"id": "re_1", "payment_intent": "pi_1", "charge": "ch_1"}, "pi_1"),
            ({"id": "re_1", "payment_intent": None, "charge": "ch_1"}, "ch_1"),
            ({"id": "re_1", "payment_intent": {"id": "pi_1"}, "charge": {"id": "ch_1"}}, "pi_1"),
            ({"id": "re_1", "payment_intent": None, "charge": {"id": "ch_1"}}, "ch_1"),
            ({"id": "po_1"}, "po_1"),
            ({"id": "po_1", "payment_intent": 7, "charge": []}, "po_1"),
            ({}, "evt_1"),
        )
    ),
    Webhook(
        "order is kept for the merchant by configuration",
        bare(account="acct_1", data={"object": {"id": "pi_1"}}),
        entity="acct_1",
        settings={"entity": "merchant"},
    ),
    *(
        Webhook(
            f"a thin event that is related to {related!r}",
            bare(**THIN, related_object=related),
            entity=f":{entity}",
            at="2022-02-15T00:27:45.330000+00:00",
        )
        for related, entity in (
            ({"id": "mtr_1", "type": "billing.meter"}, "mtr_1"),
            (None, "evt_1"),
            ("mtr_1", "mtr_1"),
        )
    ),
    *(
        Webhook(f"a time of {created!r} is none and costs nothing", bare(created=created), at=None)
        for created in NO_TIMES
    ),
    Webhook("a signed live flag at the live endpoint", bare(livemode=True), mode="live"),
    Webhook("a signed live flag at the test endpoint", bare(livemode=True), mode="live", endpoint="test"),
    Webhook("a signed test flag at the live endpoint", bare(livemode=False), mode="test"),
    Webhook("no live flag at the test endpoint", bare(livemode=None), mode="test", endpoint="test"),
    Webhook("no live flag at the live endpoint", bare(livemode=None), mode="live"),
    *(
        Webhook(f"poison: {body!r}", body, refused=Unparseable)
        for body in (
            *(b"", b"[]", b"\xff", b'{"id":"evt_1","id":"evt_2","type":"x"}', bare(id=...), bare(type=...)),
            *(bare(id=""), bare(type=""), bare(id=1), bare(type=["x"]), bare(id=None), bare(account=1)),
            bare(livemode="true"),
        )
    ),
]

# A thin event, and what Stripe's API says of its object.

CREATED = "2026-01-31T12:00:00.500Z"


def two_rounds(seconds: int) -> dict[str, Any]:
    """A dispute whose second round follows so soon."""
    times = NOW_S, NOW_S, NOW_S + seconds, NOW_S + seconds
    listed_ = [transaction(f"txn_{number}", (-1000, 1000)[number % 2], at) for number, at in enumerate(times)]
    return {**DISPUTE, "balance_transactions": listed_}


THIN_MONEY = ("charge.succeeded", "charge.refunded", "payout.paid", "charge.dispute.funds_withdrawn")


def thin(event_type: str, fetched: dict[str, Any] | None, **more: Any) -> Request:
    """It is fetched unless ``fetched`` is None."""
    kinds = {name: name for name in ("refund", "payout", "dispute", "application_fee")}
    kind = kinds.get(event_type.split(".")[-2], "charge")
    named = {"id": (fetched or {}).get("id", "ch_1"), "type": kind, "url": "/v1/somewhere"}
    said = {"id": "evt_2", "object": "v2.core.event", "type": f"v1.{event_type}", "created": CREATED}
    body = json.dumps({**said, "livemode": True, "context": "acct_1", "related_object": named, **more}).encode()
    return Request(body, [], views={} if fetched is None else {"https://api.example/it": json.dumps(fetched).encode()})


def changed(**attributes: tuple[Any, Any]) -> dict[str, Any]:
    """A thin event's changes, of before and after."""
    return {
        "before": {name: before for name, (before, _) in attributes.items()},
        "after": {name: after for name, (_, after) in attributes.items()},
    }


# What it books.

BOOKED_CAPTURE = "ch_1:capture 1000 USD of pi_1"
BOOKED_REFUND = "re_1:refund 400 USD of pi_1"
BOOKED_DISPUTE = "dp_1:dispute_opened 1000 USD of pi_1"
REFUND_REPORTS = ("refund.created", "refund.updated", "charge.refund.updated")
CAPTURES = [
    Webhook(
        "a charge that is captured as it succeeds",
        event("charge.succeeded", CHARGE),
        books=BOOKED_CAPTURE,
        account="acct_1",
    ),
    Webhook("a capture is told again", event("charge.captured", CHARGE), books=BOOKED_CAPTURE),
    Webhook("the intent of a captured charge", event("payment_intent.succeeded", INTENT), books=None),
    Webhook("an uncaptured charge", event("charge.succeeded", charge(captured=False, amount_captured=0)), books=None),
    Webhook(
        "a later capture of a part",
        event("charge.captured", charge(amount_captured=600)),
        books="ch_1:capture 600 USD of pi_1",
    ),
    Webhook(
        "an old API version: a charge that succeeds captured is captured whole",
        event("charge.succeeded", charge(amount_captured=...)),
        books=BOOKED_CAPTURE,
    ),
    Webhook(
        "an old API version: a later capture doesn't say its amount, which is never guessed",
        event("charge.captured", charge(amount_captured=...)),
        fails=MoneyInvalid,
        says="API version",
    ),
    Webhook("the first of several captures", captured("charge.captured", 0, 300), books="ch_1:capture 300 USD of pi_1"),
    Webhook("the first of several, updated", captured("charge.updated", 0, 300), books="ch_1:capture 300 USD of pi_1"),
    *(
        Webhook(f"a further capture, {kind}", captured(kind, 300, 800), books="txn_800:capture 500 USD of pi_1")
        for kind in ("charge.updated", "charge.captured")
    ),
    *(
        Webhook(f"an update that captures nothing: {before}", event("charge.updated", CHARGE, before), books=None)
        for before in (None, {"description": "before"}, {"balance_transaction": None})
    ),
    *(
        Webhook(
            f"a capture of {before} to {after} with more to come",
            captured("charge.updated", before, after, is_last=False),
            books=books,
        )
        for before, after, books in (
            (0, 300, "ch_1:capture 300 USD of pi_1"),
            (300, 800, "txn_800:capture 500 USD of pi_1"),
        )
    ),
    Webhook(
        "a first capture whose amount before is null",
        event(
            "charge.updated",
            charge(amount_captured=700, captured=False),
            {"amount_captured": None, "balance_transaction": None},
        ),
        books="ch_1:capture 700 USD of pi_1",
    ),
    Webhook(
        "the end of the captures, which captures nothing itself",
        event("charge.captured", charge(), {"captured": False}),
        books=None,
    ),
    Webhook(
        "a capture whose amount before isn't said, though its balance transaction changed",
        event("charge.captured", charge(), {"captured": False, "balance_transaction": "txn_300"}),
        fails=MoneyInvalid,
        says="a further capture",
    ),
    Webhook(
        "a further capture without its balance transaction",
        event("charge.updated", CHARGE, {"amount_captured": 300}),
        fails=MoneyInvalid,
        says="a further capture",
    ),
]
RELEASE = refund(amount=1000, balance_transaction=None)
VOIDED: dict[str, Any] = {"captured": False, "amount_captured": 0, "amount_refunded": 1000}
NOTHING_BEFORE = {"amount_refunded": 0, "refunded": False}
PART_RELEASED = refund(id="re_0", amount=600, created=1)
PART_REFUNDED = refund(amount=150, created=2)
OLDER, NEWER = refund(created=1), refund(id="re_2", created=2)
IN_BETWEEN = listed(refund(id="re_2", amount=100, created=2), REFUND)
REFUNDS = [
    *(Webhook(f"a refund, {kind}", event(kind, REFUND), books=BOOKED_REFUND) for kind in REFUND_REPORTS),
    Webhook("a second refund of the charge", event("refund.created", NEWER), books="re_2:refund 400 USD of pi_1"),
    Webhook(
        "a charge that lists its refund, which says no currency",
        refunded(listed(refund(currency=...)), {"amount_refunded": 0}),
        books=BOOKED_REFUND,
    ),
    *(
        row
        for without in (..., None, listed(), {"data": None})
        for before in (None, {"amount_refunded": 0}, {"amount_refunded": 100}, {"captured": True})
        for row in (
            Webhook(
                f"a refunded charge with refunds {without}, before {before}",
                refunded(without, before),
                fails=MoneyInvalid,
                says="subscribe to refund.created",
            ),
            Webhook(
                f"a refunded charge with refunds {without}, before {before}, where refund.created reports",
                refunded(without, before),
                books=None,
                settings=REFUND_EVENTS,
            ),
        )
    ),
    Webhook("a charge whose refunds did not grow", refunded(before={"amount_refunded": 400}), books=None),
    Webhook("a charge without any refund", event("charge.refunded", CHARGE), books=None),
    *(
        Webhook(
            f"the newest refund is the one that is told of, {order}",
            refunded(listed(*both), before, amount_refunded=800),
            books="re_2:refund 400 USD of pi_1",
        )
        for order, both, before in (
            ("listed first", (NEWER, OLDER), None),
            ("listed last", (OLDER, NEWER), None),
            ("of the same second", ({**NEWER, "created": 1}, OLDER), {"amount_refunded": 400}),
        )
    ),
    Webhook(
        "a charge that shows a newer refund already: the total says which one is meant",
        refunded(IN_BETWEEN, {"amount_refunded": 0}),
        books=BOOKED_REFUND,
    ),
    Webhook(
        "a total that grew by none of the refunds",
        refunded(IN_BETWEEN, {"amount_refunded": 0}, amount_refunded=450),
        fails=MoneyInvalid,
        says="none of the charge's refunds",
    ),
    *(
        row
        for status in ("pending", "requires_action")
        for row in (
            Webhook(
                f"a {status} refund whose money Stripe hasn't taken",
                event("refund.created", refund(status=status, balance_transaction=None)),
                books=None,
            ),
            Webhook(
                f"a {status} refund whose money Stripe has taken",
                event("refund.created", refund(status=status)),
                books=BOOKED_REFUND,
            ),
        )
    ),
    Webhook("a released authorisation", refunded(listed(RELEASE), NOTHING_BEFORE, **VOIDED), books=None),
    Webhook("a released authorisation, unlisted", refunded(before=NOTHING_BEFORE, **VOIDED), books=None),
    *(Webhook(f"a released authorisation, {kind}", event(kind, RELEASE), books=None) for kind in REFUND_REPORTS),
    Webhook(
        "a partial capture that lists what it released as a refund",
        event("charge.captured", charge(amount_captured=400, amount_refunded=600, refunds=listed(PART_RELEASED))),
        books="ch_1:capture 400 USD of pi_1",
    ),
    *(
        row
        for before in ({"amount_refunded": 0}, None)
        for row in (
            Webhook(
                f"what a partial capture releases gives nothing back, before {before}",
                refunded(listed(PART_RELEASED), before, amount_captured=400, amount_refunded=600),
                books=None,
            ),
            Webhook(
                f"a refund after a partial capture, before {before}",
                refunded(
                    listed(PART_REFUNDED, PART_RELEASED),
                    before and {"amount_refunded": 600},
                    amount_captured=400,
                    amount_refunded=750,
                ),
                books="re_1:refund 150 USD of pi_1",
            ),
        )
    ),
    *(
        Webhook(
            f"a {status} refund gives the money back, {kind}",
            event(kind, refund(status=status, failure_balance_transaction="txn_2")),
            books="re_1:refund_failed 400 USD of pi_1",
        )
        for status in ("failed", "canceled")
        for kind in (*REFUND_REPORTS, "refund.failed")
    ),
    *fails(
        MovementUnknown,
        *(
            (
                f"a refund of a status that no table has, {taken}",
                event("refund.updated", refund(status="frozen", **taken)),
                "frozen",
            )
            for taken in each({}, {"balance_transaction": None}, {"balance_transaction": ...})
        ),
        ("a refund that tells nothing", event("refund.updated", refund(status=None, balance_transaction=...)), "None"),
    ),
    Webhook(
        "a refund without a status that was taken", event("refund.updated", refund(status=None)), books=BOOKED_REFUND
    ),
    Webhook(
        "a refund that failed before any money moved",
        event("refund.failed", refund(status="failed", balance_transaction=None)),
        books=None,
    ),
]
WITHDRAWN, BACK, AGAIN = transaction("txn_1", -1000, 1), transaction("txn_2", 1000, 2), transaction("txn_3", -1000, 3)
PART_BACK, BACK_AGAIN = transaction("txn_2", 300, 2), transaction("txn_4", 1000, 4)
SECOND_1, SECOND_2, SECOND_3 = (
    transaction(f"txn_s{number}", amount, 9) for number, amount in ((1, -1000), (2, 1000), (3, -1000))
)
LISTS_TWO = dispute("created", balance_transactions=[SECOND_3, SECOND_2, SECOND_1])
IN_EUROS, BACK_IN_EUROS = transaction("txn_1", -910, 1, "eur"), transaction("txn_2", 910, 2, "eur")
DISPUTES = [
    Webhook("a dispute takes the money", dispute("created"), books=BOOKED_DISPUTE),
    Webhook("a dispute's money is withdrawn", dispute("funds_withdrawn"), books=BOOKED_DISPUTE),
    *(
        row
        for what, changed in (
            ("an inquiry", {"status": "warning_needs_response"}),
            ("a dispute without transactions", {"balance_transactions": []}),
        )
        for row in (
            Webhook(f"{what} takes no money", dispute("created", **changed), books=None),
            Webhook(f"{what} is withdrawn", dispute("funds_withdrawn", **changed), books=BOOKED_DISPUTE),
        )
    ),
    Webhook(
        "a won dispute gives the money back",
        dispute("funds_reinstated", status="won"),
        books="dp_1:dispute_won 1000 USD of pi_1",
    ),
    Webhook("a lost dispute", dispute("closed", status="lost"), books="dp_1:dispute_lost 1000 USD of pi_1"),
    Webhook(
        "a lost dispute of which a part came back is told with the debit before it",
        disputed("closed", "lost", free(PART_BACK), free(WITHDRAWN)),
        type=["charge.dispute.closed.withheld", "charge.dispute.closed"],
        key=["evt_1:charge.dispute.closed.withheld", "evt_1:charge.dispute.closed"],
        entity=["acct_1:pi_1", "acct_1:pi_1"],
        books=["dp_1:dispute_opened 1000 USD of pi_1", "dp_1:dispute_lost 700 USD of pi_1"],
        pair=["dp_1:dispute_opened", None],
    ),
    *(
        Webhook(f"{what} is told without a debit", body, type=["charge.dispute.closed"])
        for what, body in (
            ("a won dispute", dispute("closed", status="won")),
            ("a loss of nothing", dispute("closed", status="lost", balance_transactions=[])),
            ("a loss after two withdrawals of one second", disputed("closed", "lost", free(SECOND_3), free(SECOND_1))),
        )
    ),
    Webhook(
        "a dispute that is withdrawn again is named by its transaction",
        dispute("funds_withdrawn", balance_transactions=[AGAIN, BACK, WITHDRAWN]),
        books="txn_3:dispute_opened 1000 USD of pi_1",
    ),
    Webhook(
        "a withdrawal that shares its second with another one is named by its event",
        dispute("funds_withdrawn", balance_transactions=[SECOND_3, SECOND_2, SECOND_1]),
        books="dp_1.evt_1:dispute_opened 1000 USD of pi_1",
        pair=None,
    ),
    *fails(
        MovementUnknown,
        (
            "two withdrawals of one second and of different amounts",
            dispute("funds_withdrawn", balance_transactions=[transaction("txn_4", -300, 9), SECOND_1]),
            "'of one second'",
        ),
        ("a new dispute that lists two withdrawals of one second", LISTS_TWO, "'of one second'"),
    ),
    *(
        Webhook(f"{what} names what it undoes", dispute(event_type, balance_transactions=listed_), pair=pair)
        for what, event_type, listed_, pair in (
            ("the first round", "funds_reinstated", [BACK, WITHDRAWN], "dp_1:dispute_opened"),
            ("the second withdrawal", "funds_withdrawn", [AGAIN, BACK, WITHDRAWN], "txn_3:dispute_opened"),
            ("the second round", "funds_reinstated", [BACK_AGAIN, AGAIN, BACK, WITHDRAWN], "txn_3:dispute_opened"),
            ("a part", "funds_reinstated", [PART_BACK, WITHDRAWN], None),
        )
    ),
    Webhook(
        "a part that comes back in another currency than the dispute's",
        dispute("funds_reinstated", balance_transactions=[transaction("txn_2", 300, 2, "eur"), IN_EUROS]),
        fails=MoneyInvalid,
        says="by hand",
    ),
    Webhook(
        "a transaction without an amount is not guessed",
        dispute("funds_withdrawn", balance_transactions=[{"id": "txn_1"}]),
        fails=MoneyInvalid,
        says="no whole 'amount'",
    ),
    Webhook("a dispute that closes as won", dispute("closed", status="won"), books=None),
    *(
        row
        for status in ("appeal_needs_response", "appeal_under_review")
        for row in (
            Webhook(
                f"a dispute that has the status {status} by now",
                dispute("created", status=status),
                books=BOOKED_DISPUTE,
            ),
            *fails(
                MovementUnknown,
                (f"a dispute that closes with the status {status}", dispute("closed", status=status), f"'{status}'"),
            ),
        )
    ),
    Webhook(
        "a dispute that closes as refunded, in older versions", dispute("closed", status="charge_refunded"), books=None
    ),
    *fails(
        MovementUnknown,
        *(
            (
                f"a dispute is {kind} with the status {status!r}, {more}",
                dispute(kind, status=status, **more),
                repr(status),
            )
            for kind in ("created", "closed")
            for status, more in each(("half_won", {}), ("half_won", {"balance_transactions": ...}), (None, {}))
        ),
    ),
    *moves_nothing(
        *(
            (
                f"a dispute that is {kind} and {status}, whose one transaction is a fee",
                dispute(kind, status=status, balance_transactions=[transaction("txn_0", 0, 1)]),
            )
            for kind, status in (
                *(("created", "needs_response"), ("funds_withdrawn", "needs_response")),
                *(("funds_reinstated", "won"), ("closed", "won"), ("closed", "lost")),
            )
        ),
    ),
    Webhook("an inquiry that closes", dispute("closed", status="warning_closed"), books=None),
    Webhook("a loss of nothing", dispute("closed", status="lost", balance_transactions=[]), books=None),
]
OTHERS = [
    Webhook(
        "a payout goes out", event("payout.paid", PAYOUT), books="po_1:payout_paid 5000 USD", pair="po_1:payout_paid"
    ),
    Webhook(
        "a payout of which nobody takes a fee",
        event("payout.paid", {**PAYOUT, "application_fee": None, "application_fee_amount": None}),
        fees=[],
    ),
    Webhook(
        "a payout comes back",
        event("payout.failed", {**PAYOUT, "status": "failed"}),
        books="po_1:payout_failed 5000 USD",
        pair="po_1:payout_paid",
    ),
    *(
        Webhook(
            f"{kind} is for a person",
            event(kind, {"id": "tr_1", "amount": 1, "currency": "usd"}),
            fails=MoneyInvalid,
            says="book it by a manual entry",
        )
        for kind in LEFT_TO_A_PERSON
    ),
    *(
        Webhook(f"{kind} moves nothing", event(kind, CHARGE), books=None)
        for kind in ("charge.failed", "payment_intent.succeeded", "invoice.paid", "payout.created")
    ),
    *(
        Webhook(
            f"money that can't be trusted: {changed}",
            event("charge.succeeded", charge(**changed)),
            key="evt_1:charge.succeeded",
            fails=(MoneyInvalid, Unparseable),
        )
        for changed in (
            *({"amount_captured": "1000"}, {"amount_captured": 10.5}, {"amount_captured": True}),
            *({"amount_captured": None}, {"amount_captured": 10**16}, {"currency": "us"}, {"currency": None}),
            *({"currency": "dollars"}, {"id": ""}, {"id": 7}),
        )
    ),
    *(
        Webhook(f"a charge with data {data}", bare(type="charge.succeeded", data=data), fails=Unparseable)
        for data in NO_OBJECTS
    ),
    *(
        Webhook(
            f"{amount} of {currency} in minor units of ISO 4217",
            event("charge.succeeded", charge(amount_captured=amount, currency=currency.lower())),
            books=f"ch_1:capture {minor} {currency} of pi_1",
        )
        for currency, amount, minor in (
            ("JPY", 500, 500),
            ("KWD", 1500, 1500),
            ("ISK", 50_000, 500),
            ("UGX", 50_000, 500),
            ("MGA", 500, 50_000),
        )
    ),
    Webhook(
        "an amount with more decimals than the currency has is not rounded",
        event("charge.succeeded", charge(amount_captured=50_050, currency="isk")),
        fails=MoneyInvalid,
        says="whole number",
    ),
]
# What a thin event books, once its object was fetched.

SEVERAL = {"card": {"multicapture": {"status": "available"}}}
IN_PARTS = charge(payment_method_details=SEVERAL, amount_captured=900, balance_transaction="txn_2")
ONE_REFUND = charge(amount_refunded=400, refunds=listed(REFUND))
TWO = charge(amount_refunded=700, refunds=listed(refund(), refund(id="re_2", amount=300)))
FAILED = refund(status="failed", failure_balance_transaction="txn_9")
WITHDRAWN_TWICE = {
    **DISPUTE,
    "balance_transactions": [transaction("txn_d", -1000, NOW_S), transaction("txn_e", -1000, NOW_S + 60)],
}
REINSTATED = {**DISPUTE, "balance_transactions": [transaction("txn_d", -1000, 1), transaction("txn_e", 1000, 2)]}
LOST = {**DISPUTE, "status": "lost"}
POSTED = "po_1:payout_paid 5000 USD"
THIN_EVENTS = [
    *(
        Webhook(f"a thin {event_type}: {case}", thin(event_type, fetched, **more), books=booked, account="acct_1")
        for event_type, case, fetched, more, booked in each(
            ("charge.succeeded", "captured at once", CHARGE, {}, BOOKED_CAPTURE),
            ("charge.captured", "captured whole", CHARGE, {}, BOOKED_CAPTURE),
            ("charge.updated", "told again", CHARGE, {}, BOOKED_CAPTURE),
            ("charge.succeeded", "authorised", charge(captured=False, amount_captured=0), {}, None),
            (
                *("charge.updated", "the first of several captures, fetched after the second", IN_PARTS),
                {"changes": changed(amount_captured=(0, 700), balance_transaction=(None, "txn_1"))},
                "ch_1:capture 700 USD of pi_1",
            ),
            (
                *("charge.updated", "the second of several captures", IN_PARTS),
                {"changes": changed(amount_captured=(700, 900), balance_transaction=("txn_1", "txn_2"))},
                "txn_2:capture 200 USD of pi_1",
            ),
            ("charge.refunded", "its one refund", ONE_REFUND, {}, BOOKED_REFUND),
            (
                *("charge.refunded", "which of two refunds", TWO),
                {"changes": changed(amount_refunded=(400, 700))},
                "re_2:refund 300 USD of pi_1",
            ),
            ("refund.created", "sent", REFUND, {}, BOOKED_REFUND),
            ("refund.created", "fetched after it failed", FAILED, {}, BOOKED_REFUND),
            ("refund.failed", "given back", FAILED, {}, "re_1:refund_failed 400 USD of pi_1"),
            ("payout.paid", "fetched after it failed", {**PAYOUT, "status": "failed"}, {}, POSTED),
            ("charge.dispute.created", "withdrawn", DISPUTE, {}, BOOKED_DISPUTE),
            ("charge.dispute.funds_withdrawn", "told again", DISPUTE, {}, BOOKED_DISPUTE),
            ("charge.dispute.funds_withdrawn", "fetched after a second one", WITHDRAWN_TWICE, {}, BOOKED_DISPUTE),
            ("charge.dispute.funds_reinstated", "won", REINSTATED, {}, "dp_1:dispute_won 1000 USD of pi_1"),
            ("charge.dispute.closed", "lost", LOST, {}, "dp_1:dispute_lost 1000 USD of pi_1"),
        )
    ),
    *fails(
        MovementUnknown,
        *((f"a thin {kind} that wasn't fetched", thin(kind, None), "not fetched") for kind in THIN_MONEY),
        ("a thin capture, one of several or the last", thin("charge.captured", IN_PARTS), "not told"),
        ("a thin update during several captures", thin("charge.updated", {**IN_PARTS, "captured": False}), "not told"),
        ("a thin refund of a charge that has two", thin("charge.refunded", TWO), "not told"),
        *(
            (
                f"a thin {kind} of one that has two {how}",
                thin(f"charge.dispute.{kind}", two_rounds(seconds)),
                "not told",
            )
            for kind in ("funds_withdrawn", "funds_reinstated")
            for how, seconds in (("in its second", 0), ("within the next one", 1))
        ),
        (
            "a thin change that doesn't say to what",
            thin("charge.updated", IN_PARTS, changes={"before": {"amount_captured": 0}, "after": {}}),
            "not told",
        ),
    ),
    Webhook(
        "a thin charge's refunds have events of their own",
        thin("charge.refunded", TWO),
        books=None,
        settings=REFUND_EVENTS,
    ),
    Webhook(
        "a thin event is kept in order with its payment",
        thin("refund.created", REFUND),
        entity="acct_1:pi_1",
        key="evt_2:v1.refund.created",
        at="2026-01-31T12:00:00.500000+00:00",
        mode="live",
    ),
    Webhook("a platform's thin event", thin("payout.paid", PAYOUT, context=None), account="", books=POSTED),
    Webhook("an organisation's thin event", thin("payout.paid", PAYOUT, context="org_1/acct_2"), account="acct_2"),
]
WEBHOOKS = [*NAMES, *CAPTURES, *REFUNDS, *DISPUTES, *OTHERS, *THIN_EVENTS]

# What is the same.

PAID_FEE = "fee_1:application_fee 123 USD of pi_1"
FEE_OF_PLATFORM = {"application_fee": "fee_1", "application_fee_amount": 123}
WITH_APPLICATION_FEE = charge(**FEE_OF_PLATFORM)
APPLICATION_FEE = {
    "id": "fee_1",
    "object": "application_fee",
    "account": "acct_1",
    "amount": 123,
    "currency": "usd",
    "charge": "ch_1",
    "originating_transaction": None,
    "refunded": False,
}
OF_PLATFORM = event("application_fee.created", APPLICATION_FEE).replace(b'"account": "acct_1", "data"', b'"data"')
FEES: tuple[tuple[str, Body, list[str]], ...] = (
    ("a charge", event("charge.succeeded", WITH_APPLICATION_FEE), [PAID_FEE]),
    ("a charge, told later", event("charge.updated", WITH_APPLICATION_FEE, {"application_fee": None}), [PAID_FEE]),
    (
        "a charge that is expanded",
        event("charge.captured", charge(**FEE_OF_PLATFORM | {"application_fee": {"id": "fee_1"}})),
        [PAID_FEE],
    ),
    ("another update of a charge", event("charge.updated", WITH_APPLICATION_FEE, {"description": None}), []),
    ("a charge that isn't captured", event("charge.succeeded", charge(captured=False, **FEE_OF_PLATFORM)), []),
    ("a charge, not taken yet", event("charge.succeeded", charge(application_fee_amount=123)), []),
    *(
        (
            f"a charge of the platform's, with {name}",
            event("charge.succeeded", charge(**FEE_OF_PLATFORM, **more)),
            [],
        )
        for name, more in (
            ("transfer data", {"transfer_data": {"destination": "acct_2"}}),
            ("a destination", {"destination": "acct_2"}),
        )
    ),
    ("a thin charge", thin("charge.succeeded", WITH_APPLICATION_FEE), [PAID_FEE]),
    ("an application", OF_PLATFORM, ["fee_1:platform_fee -123 USD of ch_1"]),
    (
        "a thin one of an application",
        thin("application_fee.created", APPLICATION_FEE),
        ["fee_1:platform_fee -123 USD of ch_1"],
    ),
    ("a dispute that lists nothing yet", disputed("created", "needs_response"), []),
    (
        "a dispute",
        disputed("funds_withdrawn", "needs_response", WITHDRAWN),
        ["txn_1:fee 1500 USD of pi_1"],
    ),
    (
        "a dispute that is won, and gives its fee back",
        disputed("funds_reinstated", "won", WITHDRAWN, BACK | {"fee": -1500}),
        ["txn_1:fee 1500 USD of pi_1", "txn_2:fee -1500 USD of pi_1"],
    ),
    (
        "an account that settles in another currency",
        disputed("funds_withdrawn", "needs_response", IN_EUROS),
        ["txn_1:fee 1500 EUR of pi_1"],
    ),
)
WEBHOOKS += [Webhook(f"fees of {case}", body, fees=fees) for case, body, fees in FEES]

CASH = "customer_cash_balance_transaction.created"


def cash(kind: str) -> bytes:
    """A movement of a customer's cash balance."""
    return event(CASH, {"id": "ccsbtxn_1", "currency": "usd", "customer": "cus_1", "net_amount": -500, "type": kind})


WEBHOOKS += [
    *moves_nothing(
        *(
            (f"a customer's cash balance: {kind}", cash(kind))
            for kind in (
                *("applied_to_payment", "funded", "funding_reversed", "refunded_from_payment", "return_canceled"),
                *("return_initiated", "unapplied_from_payment"),
            )
        )
    ),
    *fails(
        MoneyInvalid,
        *(
            (f"a customer's cash balance, and the account's: {kind}", cash(kind), f"{kind} moves money")
            for kind in ("adjusted_for_overdraft", "transferred_to_balance")
        ),
    ),
    *fails(
        MovementUnknown,
        ("a customer's cash balance in a new way", cash("burned"), "type 'burned'"),
        ("a customer's cash balance, told thinly", thin(CASH, None), "not fetched"),
    ),
]

BY_GIFT_CARD = {"type": "gift_card", "gift_card": {}}
BY_MEAL_VOUCHER = {"type": "card", "card": {"benefits": {"issuer": "up", "fr_meal_voucher": {"siret": "4242"}}}}
WEBHOOKS += books(
    (
        "a payment by gift card",
        event("charge.succeeded", charge(balance_transaction=None, payment_method_details=BY_GIFT_CARD)),
        "ch_1:capture 1000 USD of pi_1, 1000 outside:giftcard",
    ),
    (
        "its refund, which moves nothing at Stripe",
        event("refund.created", refund(balance_transaction=None, destination_details=BY_GIFT_CARD)),
        "re_1:refund 400 USD of pi_1, 400 outside:giftcard",
    ),
    (
        "its refund, told by its charge",
        refunded(listed(refund(balance_transaction=None)), payment_method_details=BY_GIFT_CARD),
        "re_1:refund 400 USD of pi_1, 400 outside:giftcard",
    ),
)

BY_PAYPAL = event("charge.succeeded", charge(payment_method_details={"type": "paypal", "paypal": {}}))
BACK_BY_PAYPAL = event("refund.created", refund(destination_details={"type": "paypal", "paypal": {}}))
PAYPAL_OUTSIDE = {"stripe": {"paypal_settles_outside": True, "refund_events": True}}
WEBHOOKS += [
    *books(
        ("a payment by PayPal that Stripe settles", BY_PAYPAL, "ch_1:capture 1000 USD of pi_1"),
        (
            "a payment by a method that no table has, on Stripe's balance",
            event("charge.succeeded", charge(payment_method_details={"type": "shells"}, balance_transaction="txn_1")),
            "ch_1:capture 1000 USD of pi_1",
        ),
    ),
    *fails(
        MovementUnknown,
        *(
            (
                f"a payment by a method that no table has, {kind!r}, {event_type}",
                event(event_type, charge(payment_method_details={"type": kind}, balance_transaction=None)),
                "the payment_method_details.type",
            )
            for event_type in ("charge.succeeded", "charge.captured")
            for kind in each("shells", 7)
        ),
    ),
    *books(
        ("a payment by PayPal that PayPal settles", BY_PAYPAL, "ch_1:capture 1000 USD of pi_1, 1000 outside:paypal"),
        ("its refund", BACK_BY_PAYPAL, "re_1:refund 400 USD of pi_1, 400 outside:paypal"),
        ("a payment by card", event("charge.succeeded", CHARGE), "ch_1:capture 1000 USD of pi_1"),
        settings=PAYPAL_OUTSIDE,
    ),
]

COMPARISONS = [
    Comparison(
        "a capture told by its success", event("charge.succeeded", CHARGE), event("charge.captured", CHARGE), fact=True
    ),
    Comparison(
        "a dispute that closes as won, with its return listed and without",
        disputed("closed", "won", free(BACK), free(WITHDRAWN)),
        disputed("closed", "won", free(WITHDRAWN)),
        key=True,
        content=True,
        fact=False,
    ),
    Comparison("a refund told by its charge", refunded(listed(REFUND)), event("refund.created", REFUND), fact=True),
    *(
        Comparison(f"{kind}, fat and thin", event(kind, told), thin(kind, told), fact=True, entity=True, key=False)
        for kind, told in (
            *(("charge.succeeded", CHARGE), ("charge.captured", CHARGE), ("refund.created", REFUND)),
            *(("payout.paid", PAYOUT), ("charge.dispute.created", DISPUTE), ("charge.dispute.closed", LOST)),
            *(("refund.failed", FAILED), ("payout.failed", PAYOUT), ("charge.dispute.funds_withdrawn", DISPUTE)),
            *(("charge.dispute.funds_reinstated", REINSTATED), ("charge.refunded", ONE_REFUND)),
        )
    ),
    Comparison(
        "a thin event that was fetched at another time, or not at all",
        thin("charge.captured", CHARGE),
        thin("charge.captured", None),
        key=True,
        content=True,
    ),
    Comparison("ids that hold the separator", bare(id="a:b", type="c"), bare(id="a", type="b:c"), key=False),
    Comparison(
        "a redelivery",
        b'{"id":"evt_1","type":"x","pending_webhooks":2,"data":{"object":{"a":1,"b":2}}}',
        b'{"type":"x", "id":"evt_1", "pending_webhooks":1, "data":{"object":{"b":2,"a":1}}}',
        key=True,
        content=True,
    ),
    Comparison(
        "only the outer pending_webhooks is left out",
        bare(data={"pending_webhooks": 2}),
        bare(data={"pending_webhooks": 1}),
        content=False,
    ),
    *(
        Comparison(
            f"content that is as close as {one} and {other}",
            f'{{"id":"evt_1","type":"x","amount":{one}}}'.encode(),
            f'{{"id":"evt_1","type":"x","amount":{other}}}'.encode(),
            key=True,
            content=False,
        )
        for one, other in (
            ("1", "2"),
            ("0.1", "0.10000000000000000001"),
            ("9007199254740993.0", "9007199254740992.0"),
            ('"1"', "1"),
        )
    ),
]

# What it comes to.

CAPTURED = event("charge.succeeded", CHARGE)


def named(event_id: str, body: bytes) -> bytes:
    return body.replace(b'"id": "evt_1"', b'"id": "%b"' % event_id.encode(), 1)


WON_AND_WITHDRAWN_AGAIN = [
    CAPTURED,
    disputed("created", "needs_response"),
    disputed("funds_withdrawn", "needs_response", WITHDRAWN),
    disputed("funds_reinstated", "won", BACK, WITHDRAWN),
    disputed("closed", "won", BACK, WITHDRAWN),
    disputed("funds_withdrawn", "needs_response", AGAIN, BACK, WITHDRAWN),
]
AUTHORISED = event("charge.succeeded", charge(captured=False, amount_captured=0, balance_transaction=None))
PREVENTED = {
    "status": "prevented",
    "balance_transactions": ...,
    "payment_method_details": {"card": {"case_type": "block"}},
}
LOST_OF_1000 = {"dispute_losses": 1000}
OPENED = disputed("created", "needs_response", free(WITHDRAWN))
CLOSED_AS_WON = named("evt_2", disputed("closed", "won", free(BACK), free(WITHDRAWN)))
SEQUENCES = [
    *(
        MoneySequence(f"a dispute that is won, {case}", [CAPTURED, OPENED, *more], {"clearing": held})
        for case, more, held in (
            ("which its end alone tells", [CLOSED_AS_WON], 1000),
            (
                "which its end and its return tell",
                [CLOSED_AS_WON, named("evt_3", disputed("funds_reinstated", "won", free(BACK), free(WITHDRAWN)))],
                1000,
            ),
        )
    ),
    MoneySequence(
        "a dispute that is won by two rounds, which its ends alone tell",
        [
            CAPTURED,
            OPENED,
            CLOSED_AS_WON,
            named("evt_3", disputed("funds_withdrawn", "needs_response", *map(free, (AGAIN, BACK, WITHDRAWN)))),
            named("evt_4", disputed("closed", "won", *map(free, (BACK_AGAIN, AGAIN, BACK, WITHDRAWN)))),
        ],
        {"clearing": 1000},
    ),
    *(
        MoneySequence(
            f"a dispute that is lost, and won by an appeal, {case}",
            [
                CAPTURED,
                OPENED,
                named("evt_2", disputed("closed", "lost", free(WITHDRAWN))),
                named("evt_3", disputed("updated", "appeal_under_review", free(WITHDRAWN))),
                *(named(f"evt_4{kind}", disputed(kind, "won", free(BACK), free(WITHDRAWN))) for kind in ends),
            ],
            {"clearing": 1000, "disputes": -1000, "dispute_losses": 1000},
        )
        for case, ends in (
            ("which its return tells", ["funds_reinstated"]),
            ("which both tell", ["closed", "funds_reinstated"]),
        )
    ),
    MoneySequence(
        "a payment by meal voucher, which its issuer settles",
        [event("charge.succeeded", charge(currency="eur", payment_method_details=BY_MEAL_VOUCHER))],
        {"outside:meal_voucher:clearing": 1000},
    ),
    MoneySequence(
        "a refund that is first told of by its failure",
        [
            event("charge.succeeded", charge()),
            event("refund.failed", refund(status="failed", balance_transaction="txn_1")),
        ],
        {"clearing": 1000},
    ),
    MoneySequence(
        "a dispute that is won, and was withdrawn before the first day",
        [
            event("charge.succeeded", charge()),
            disputed(
                "funds_reinstated", "won", *({"id": f"txn_{n}", "amount": n, "created": 9} for n in (-1000, 1000))
            ),
        ],
        {"clearing": 1000},
    ),
    MoneySequence(
        "a charge of which a part was captured, with more to come",
        [AUTHORISED, captured("charge.updated", 0, 700, is_last=False)],
        {"clearing": 700},
    ),
    MoneySequence(
        "a charge that is captured twice; its end is told by itself",
        [
            AUTHORISED,
            captured("charge.updated", 0, 700, is_last=False),
            captured("charge.updated", 700, 900),
            event("charge.captured", charge(amount_captured=900, balance_transaction="txn_900"), {"captured": False}),
        ],
        {"clearing": 900},
    ),
    MoneySequence(
        "a charge that is captured twice; its end tells the last capture once more",
        [
            AUTHORISED,
            captured("charge.updated", 0, 700, is_last=False),
            captured("charge.updated", 700, 900),
            captured("charge.captured", 700, 900),
        ],
        {"clearing": 900},
    ),
    MoneySequence(
        "a charge that is captured twice, with a refund in between that fails later",
        [
            AUTHORISED,
            captured("charge.updated", 0, 300, is_last=False),
            event("refund.created", refund(amount=100)),
            captured("charge.updated", 300, 900),
            event("refund.failed", refund(amount=100, status="failed", failure_balance_transaction="txn_2")),
        ],
        {"clearing": 900},
        REFUND_EVENTS,
    ),
    MoneySequence(
        "a payout that is taken back by another one, which the bank refuses later",
        [
            event("payout.paid", PAYOUT),
            event("payout.paid", {**PAYOUT, "id": "po_2", "amount": -5000, "original_payout": "po_1"}),
            event("payout.failed", {**PAYOUT, "id": "po_2", "amount": -5000, "status": "failed"}),
        ],
        {"clearing": -5000, "payouts": 5000},
    ),
    MoneySequence(
        "a payment by gift card and two refunds, of which one fails",
        [
            event("charge.succeeded", charge(balance_transaction=None, payment_method_details=BY_GIFT_CARD)),
            *(
                event(f"refund.{kind}", refund(id=name, balance_transaction=None, **how))
                for name in ("re_1", "re_2")
                for kind, how in (
                    ("created", {"destination_details": BY_GIFT_CARD}),
                    ("failed", {"destination_details": BY_GIFT_CARD, "status": "failed"}),
                )
                if (name, kind) != ("re_1", "failed")
            ),
        ],
        {"outside:giftcard:clearing": 600, "refunds": 400},
    ),
    MoneySequence(
        "a dispute of a part of a charge, of which another part was refunded",
        [
            CAPTURED,
            event("refund.created", refund()),
            *(
                dispute(kind, amount=600, balance_transactions=[transaction("txn_1", -600, 1)], status=status)
                for kind, status in (("created", "needs_response"), ("closed", "lost"))
            ),
        ],
        {"clearing": -1500, "fees": 1500, "refunds": 400, "dispute_losses": 600},
        REFUND_EVENTS,
    ),
    MoneySequence(
        "a dispute that was prevented",
        [CAPTURED, dispute("created", **PREVENTED), dispute("updated", **PREVENTED), dispute("closed", **PREVENTED)],
        {"clearing": 1000},
    ),
    MoneySequence(
        "a dispute that was prevented by giving the money back",
        [
            CAPTURED,
            dispute("created", **PREVENTED),
            disputed("funds_withdrawn", "prevented", WITHDRAWN),
            disputed("closed", "prevented", WITHDRAWN),
        ],
        {"clearing": -1500, "fees": 1500, "dispute_losses": 1000},
    ),
    MoneySequence(
        "of a disputed charge of 1000, 300 were refunded before: they come back, and 700 are lost",
        [
            CAPTURED,
            disputed("created", "needs_response", WITHDRAWN),
            disputed("funds_withdrawn", "needs_response", WITHDRAWN),
            disputed("funds_reinstated", "under_review", PART_BACK, WITHDRAWN),
            disputed("closed", "lost", PART_BACK, WITHDRAWN),
        ],
        {"clearing": 300 - 3000, "fees": 3000, "dispute_losses": 700},
    ),
    *(
        MoneySequence(
            f"a lost dispute, {told}", [CAPTURED, *before, *[dispute("closed", status="lost", **more)] * 2], held
        )
        for told, before, more, held in (
            ("its debit untold", [], {}, LOST_OF_1000),
            ("its debit told", [dispute("created"), dispute("funds_withdrawn")], {}, LOST_OF_1000),
            ("its debit untold and not listed", [], {"balance_transactions": None}, LOST_OF_1000),
            (
                "its debit told and not listed",
                [dispute("funds_withdrawn", balance_transactions=None)],
                {"balance_transactions": None},
                LOST_OF_1000,
            ),
            (
                "its debit untold, and what it cost",
                [],
                {"balance_transactions": [WITHDRAWN]},
                {"clearing": -1500, "fees": 1500, "dispute_losses": 1000},
            ),
        )
    ),
    MoneySequence(
        "a dispute that is won and withdrawn again",
        WON_AND_WITHDRAWN_AGAIN,
        {"clearing": -4500, "fees": 4500, "disputes": 1000},
    ),
    MoneySequence(
        "a dispute that is won, withdrawn again and lost",
        [*WON_AND_WITHDRAWN_AGAIN, disputed("closed", "lost", AGAIN, BACK, WITHDRAWN)],
        {"clearing": -4500, "fees": 4500, "dispute_losses": 1000},
    ),
    *(
        MoneySequence(
            f"a dispute that is withdrawn, won and withdrawn again within one second, listed {how}",
            [
                CAPTURED,
                disputed("funds_withdrawn", "needs_response", *order([SECOND_1])),
                named("evt_2", disputed("funds_reinstated", "won", *order([SECOND_2, SECOND_1]))),
                named("evt_3", disputed("funds_withdrawn", "needs_response", *order([SECOND_3, SECOND_2, SECOND_1]))),
            ],
            {"clearing": -4500, "fees": 4500, "disputes": 1000},
        )
        for how, order in (("the newest first", list), ("the oldest first", reversed))
    ),
    MoneySequence(
        "two withdrawals of one second, each of which lists both",
        [
            CAPTURED,
            *(
                named(name, disputed("funds_withdrawn", "needs_response", SECOND_3, SECOND_1))
                for name in ("evt_2", "evt_3")
            ),
        ],
        {"clearing": -1000 - 3000, "fees": 3000, "disputes": 2000},
    ),
    MoneySequence(
        "a dispute that is withdrawn again, and whose second round is won",
        [*WON_AND_WITHDRAWN_AGAIN, disputed("funds_reinstated", "won", BACK_AGAIN, AGAIN, BACK, WITHDRAWN)],
        {"clearing": 1000 - 6000, "fees": 6000},
    ),
    MoneySequence(
        "a second round that is won, and whose withdrawal was never told",
        [*WON_AND_WITHDRAWN_AGAIN[:-1], disputed("funds_reinstated", "won", BACK_AGAIN, AGAIN, BACK, WITHDRAWN)],
        {"clearing": 1000 - 6000, "fees": 6000},
    ),
    MoneySequence(
        "a charge on a connected account, whose application's fee is told later, and once more",
        [
            event("charge.succeeded", charge(application_fee_amount=123)),
            named("evt_2", event("charge.updated", WITH_APPLICATION_FEE, {"application_fee": None})),
            named("evt_3", event("charge.captured", WITH_APPLICATION_FEE, {"description": None})),
        ],
        {"clearing": 877, "fees": 123},
    ),
    MoneySequence(
        "an application's fee, taken from an account and come to the platform",
        [event("charge.succeeded", WITH_APPLICATION_FEE), OF_PLATFORM],
        {"clearing": 1000},
    ),
    MoneySequence(
        "a dispute of an account that settles in another currency: the dispute's own amount counts",
        [CAPTURED, disputed("funds_withdrawn", "needs_response", IN_EUROS)],
        {"clearing": -1500, "fees": 1500, "disputes": 1000},
    ),
    MoneySequence(
        "a dispute of an account that settles in another currency is won",
        [
            CAPTURED,
            disputed("funds_withdrawn", "needs_response", IN_EUROS),
            disputed("funds_reinstated", "won", BACK_IN_EUROS, IN_EUROS),
        ],
        {"clearing": 1000 - 3000, "fees": 3000},
    ),
]

# Which signatures prove.

SECRET = "whsec_sample"
BODY = b'{"id":"evt_1","type":"charge.succeeded"}'
BAD_SECRETS = ("",)
SECRET_PREFIX = "whsec_"
ANSWER = (200, b'{"status":"accepted"}', "application/json")
ENCODED = "whsec_" + base64.b64encode(b"k" * 24).decode()


def mac(body: bytes = BODY, signed_at: object = NOW_S, secret: str = SECRET) -> str:
    return hmac.new(secret.encode(), f"{signed_at}.".encode() + body, hashlib.sha256).hexdigest()


def header(signed_at: object = NOW_S, *, body: bytes = BODY, secret: str = SECRET, scheme: str = "v1") -> str:
    return f"t={signed_at},{scheme}={mac(body, signed_at, secret)}"


def sent(*headers: str | bytes, body: bytes = BODY) -> Request:
    raw = [value if isinstance(value, bytes) else value.encode() for value in headers]
    return Request(body, [(b"stripe-signature", value) for value in raw])


SIGNED = sent(header())


def refusal(case: str, *headers: str | bytes, reason: str | None, body: bytes = BODY, **more: Any) -> Refusal:
    return Refusal(case, sent(*headers, body=body), reason, **{"secrets": (SECRET,), **more})


BAD = "0" * 64
NOT_TEN_DIGITS = (
    *("", "now", "1_769_8608", "١٧٦٩٨٦٠٨٠٠", " 1769860800", "1769860800\n", "+769860800", "-769860800"),
    *("1769860800.0", "nan", "inf", "0x69696969", "176986080", "17698608000"),
)
REFUSALS = [
    refusal("a good signature before a bad one", f"{header()},v1={BAD}", reason=None),
    refusal("a good signature behind a bad one", f"t={NOW_S},v1={BAD},v1={mac()}", reason=None),
    refusal("no header", reason="missing"),
    refusal("version 0 never counts", header(scheme="v0"), reason="missing"),
    refusal("a version in capitals", header(scheme="V1"), reason="missing"),
    *(refusal(f"a timestamp of {at!r}", header(at), reason="malformed") for at in NOT_TEN_DIGITS),
    refusal("no timestamp", f"v1={mac()}", reason="malformed"),
    refusal("two timestamps", f"{header()},t={NOW_S}", reason="malformed"),
    refusal("as old as the tolerance", header(), reason=None, age_s=300),
    refusal("as far ahead as the tolerance", header(), reason=None, age_s=-300),
    refusal("too old by a second", header(), reason="stale", age_s=301),
    refusal("ahead by a second too much", header(), reason="future", age_s=-301),
    refusal("too old by a microsecond", header(), reason="stale", age_s=300.000001),
    refusal("forged and old: nothing is learnt", header(secret="other"), reason="mismatch", age_s=999),
    *(
        refusal(f"a signature of {value!r}", b"t=%d,v1=%b" % (NOW_S, value), reason="mismatch")
        for value in (b"\xff\xfe", "é".encode(), b"0" * 63, b"0" * 65, b"", b"=", b"\x00" * 64)
    ),
    refusal("the case of the signature counts", f"t={NOW_S},v1={mac().upper()}", reason="mismatch"),
    refusal("seventeen signatures", header() + ",v1=0" * 16, reason="malformed"),
    refusal("sixteen signatures", header() + ",v1=0" * 15, reason=None),
    *(
        row
        for body in (b"", b"\xff\xfe", b"{", b'{"a": 1}\n')
        for row in (
            refusal(f"a body of {body!r}", header(body=body), body=body, reason=None),
            refusal(f"a body of {body!r} and a blank", header(body=body), body=body + b" ", reason="mismatch"),
        )
    ),
    refusal("the key is the secret's whole text", header(secret=ENCODED), reason=None, secrets=(ENCODED,)),
    refusal(
        "a key that is the secret without its prefix",
        header(secret=ENCODED.removeprefix("whsec_")),
        reason="mismatch",
        secrets=(ENCODED,),
    ),
]
