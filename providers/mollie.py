"""Mollie's next-gen webhooks: signature (https://docs.mollie.com/reference/webhooks-best-practices), identities, money.

One request is one event (https://docs.mollie.com/reference/webhooks-new). Money is read from the snapshot in it
(``_embedded.entity``), so the webhook has to be set to the full payload: an event of a type that moves money and
has no snapshot raises instead of being passed over.

**What books, and why**:

- ``payment.paid`` under the payment's id: what was captured of it where that is said, else its amount. One that is
  booked by its captures (`providers.mollie_money`) doesn't, as in `providers.mollieclassic`.
- ``capture.succeeded`` under the ``cpt_`` id, where the setting ``mollie.capture_events`` says that the webhook takes
  it (https://docs.mollie.com/reference/captures-api-webhooks). Without it such a payment's money is unknown.
- A refund under its ``re_`` id from ``refund.processing`` on, when it can't be canceled any more, whichever event
  says so first. ``refund.failed`` comes after that and gives the money back. A refund's own snapshot doesn't say who
  makes it (https://docs.mollie.com/reference/refunds-api-webhooks): with a key of Mollie's API
  (``secrets/mollie-api``) its payment is fetched and kept with it, which says so. Without one it is Mollie's.
- ``chargeback.received`` takes the money, ``chargeback.reversed`` gives it back, under the ``chb_`` id. Its payment is
  asked for as a refund's is.
- ``payout.completed`` under the payout's id, and ``payout.failed``: a bank may return what was transferred
  (``statusReason`` of https://docs.mollie.com/reference/get-payout).
- ``payment-link.paid`` and ``sales-invoice.paid`` report payments that have events of their own and don't name
  them. They move nothing. What ``balance-transaction.created`` tells alone is in `providers.mollie_balance`.

What gives back gives back only what was booked (`MoneyFact.pair`).

**Left to a person**: transfers from a business account, also those that come back
(https://docs.mollie.com/changelog/add-business-account-transfer-events-to-webhooks), and those between the balances of
connected accounts are neither payments nor payouts, and no movement here is either of them.

A refund and a chargeback don't say whose profile they are of, so no event has an account: the bookings of one
payment would land on two merchants. Profiles that are kept apart need endpoints of their own.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from core.errors import Unparseable
from core.event import Event, Mode
from core.money import MoneyFact, MoneyInvalid, Movement, MovementUnknown
from providers.base import Delivered, JsonAdapter, JsonObject, Named, Signed
from providers.content import fields_of
from providers.event_types import EventTypes
from providers.fields import an_object, mode_of, names, object_at, optional_text, path_segment, text, time_of
from providers.mollie_api import API_URL, OAUTH, list_queries, read_key
from providers.mollie_balance import BALANCE_TYPE, check_balance_transaction, read_balance_fees
from providers.mollie_money import ACCOUNT, fact_of, fees_of, is_booked_by_captures
from providers.pointed import EVENT, FETCHED, check_reference, find_event, find_fetched, join_bodies, read_answer
from providers.port import Request, Wanted
from providers.settings import ProvidersSettings
from providers.signature import sent, text_key

NAME = "mollie"
PREFIX = b"sha256="
IDENTITY_FIELDS = names(
    "id entityId paymentId orderId profileId customerId mandateId subscriptionId settlementId balanceId"
)
KEPT_S = 600.0
"""What a payment says of its method doesn't change."""
_MOVEMENTS: Mapping[str, Movement] = {
    "payment.paid": Movement.CAPTURE,
    "capture.succeeded": Movement.CAPTURE,
    "refund.processing": Movement.REFUND,
    "refund.refunded": Movement.REFUND,
    "refund.failed": Movement.REFUND_FAILED,
    "chargeback.received": Movement.DISPUTE_OPENED,
    "chargeback.reversed": Movement.DISPUTE_WON,
    "payout.completed": Movement.PAYOUT_PAID,
    "payout.failed": Movement.PAYOUT_FAILED,
}
EVENT_TYPES = EventTypes(
    books=frozenset(_MOVEMENTS) | {BALANCE_TYPE},
    person=names(
        "business-account-transfer.processed business-account-transfer.returned connect-balance-transfer.succeeded"
    ),
    nothing={
        "https://docs.mollie.com/reference/webhooks-new": names(
            "business-account-transfer.blocked business-account-transfer.failed "
            "business-account-transfer.initiated business-account-transfer.pending-review "
            "business-account-transfer.requested capture.failed payment-link.paid payment.authorized "
            "payment.canceled payment.expired payment.failed payment.pending payout.canceled "
            "payout.initiated payout.processing-at-bank refund.canceled refund.pending refund.queued "
            "sales-invoice.canceled sales-invoice.created sales-invoice.e-invoice-failed "
            "sales-invoice.e-invoice-issued sales-invoice.issued sales-invoice.paid"
        ),
        "https://docs.mollie.com/reference/connect-balance-transfers-api-webhooks": names(
            "connect-balance-transfer.failed"
        ),
    },
)

_GIVEN_BACK = names("refund.processing refund.refunded refund.failed chargeback.received chargeback.reversed")
"""Types of which the payment says who has the money."""
ADDED = {
    3: fields_of(
        """
        _embedded.entity: reverseRouting
        _embedded.entity.routingReversals.*.amount: value currency
        """
    ),
    4: fields_of(
        """
        _embedded.entity: type
        _embedded.entity.resultAmount: value currency
        _embedded.entity.deductions: value currency
        _embedded.entity.deductionDetails.*: value currency
        """
    ),
}
COUNTS = (
    fields_of(
        """
    : id type entityId
    _embedded.entity: resource id status paymentId orderId mode method captureMode captureDelay
    _embedded.entity.amount: value currency
    _embedded.entity.amountCaptured: value currency
    _embedded.entity.settlementAmount: value currency
    _embedded.entity.applicationFee.amount: value currency
    _embedded.entity.details: remainderMethod
    _embedded.entity.details.remainderAmount: value currency
    _embedded.entity.details.paypalFee: value currency
    _embedded.entity.details.giftcards.*: issuer
    _embedded.entity.details.giftcards.*.amount: value currency
    _embedded.entity.details.vouchers.*: issuer
    _embedded.entity.details.vouchers.*.amount: value currency
    """
    )
    + ADDED[3]
    + ADDED[4]
)
"""The event's names, and the names and money of its snapshot."""


class MollieAdapter(JsonAdapter):
    name = NAME
    identity_fields = IDENTITY_FIELDS
    header = b"x-mollie-signature"
    left_out = names("_links")
    """Links say where to read on, not what happened."""
    content_version = 4
    counts = COUNTS
    added = ADDED
    event_types = EVENT_TYPES
    looked_up = "in Mollie's Dashboard"

    def __init__(self, settings: ProvidersSettings, api_url: str = API_URL) -> None:
        super().__init__(settings)
        self._api_url = api_url

    def points_to(self, request: Request, credentials: Sequence[str]) -> Sequence[Wanted]:
        for credential in credentials:
            self.check_credential(credential)
        try:
            document = an_object(request.document, "the body")
            url, mode = self._find_address(document), mode_of(object_at(document, "_embedded", "entity"), "mode")
        except Unparseable:
            return ()
        keys = [key for key in credentials if key.startswith((mode or request.mode, OAUTH))]
        if url is None or not keys:
            return ()
        return [
            Wanted(
                url,
                kept_s=KEPT_S,
                bearers=tuple(keys),
                queries=list_queries(keys, is_test=(mode or request.mode) == "test"),
                verified=True,
                may_appear=True,
                since=time_of(document.get("createdAt")),
            )
        ]

    def _find_address(self, document: Mapping[str, Any]) -> str | None:
        """Finds the address of the payment of a refund or a chargeback that doesn't say what Mollie settles of it; None
        for any other event.
        """
        given_back = object_at(document, "_embedded", "entity")
        if text(document, "type") not in _GIVEN_BACK or given_back.get("settlementAmount") is not None:
            return None
        payment = optional_text(given_back, "paymentId")
        return None if payment is None else f"{self._api_url}/v2/payments/{path_segment(payment)}"

    def check_answer(self, wanted: Wanted, answer: bytes) -> None:
        check_reference(wanted, read_answer(answer))

    def check_credential(self, credential: str) -> None:
        read_key(f"{NAME}-api", credential)

    def events(self, request: Request, mode: Mode) -> list[Event]:
        if not request.views:
            return super().events(request, mode)
        document = an_object(request.document, "the body")
        [view] = request.views.values()
        joined = {EVENT: document, FETCHED: read_answer(view)}
        return self.read(Delivered(joined, request, mode), join_bodies(request.body, view))

    def content(self, document: Mapping[str, Any], version: int) -> str:
        """Hashes the event alone: what is fetched differs in time."""
        return super().content(find_event(document), version)

    def signed(self, request: Request) -> Signed:
        return Signed([signature.removeprefix(PREFIX) for signature in sent(request, self.header)], request.body)

    def key(self, secret: str) -> bytes:
        return text_key(NAME, secret, "the webhook's signing secret")

    def named(self, delivered: Delivered[JsonObject]) -> Iterator[Named]:
        document = find_event(delivered.document)
        event_id, event_type, concerned = text(document, "id"), text(document, "type"), text(document, "entityId")
        snapshot = object_at(document, "_embedded", "entity")
        payment, occurred_at = optional_text(snapshot, "paymentId") or concerned, time_of(document.get("createdAt"))
        yield Named(event_id, event_type, ACCOUNT, payment, occurred_at, mode=mode_of(snapshot, "mode"))

    def fact(self, document: JsonObject, event_type: str) -> MoneyFact | None:
        event = find_event(document)
        snapshot = object_at(event, "_embedded", "entity")
        if not snapshot:
            raise MoneyInvalid("there is no snapshot of what moved: set the webhook to the full payload")
        if snapshot.get("id") != text(event, "entityId"):
            raise MoneyInvalid("the snapshot isn't of the entity that the event is about")
        _check_kind(snapshot, event_type)
        if event_type == BALANCE_TYPE:
            check_balance_transaction(snapshot)
            return None
        captures = self._settings.mollie.capture_events
        if event_type == "capture.succeeded" and not captures:
            raise MoneyInvalid(
                "a capture books only where providers.mollie.capture_events is set: payment.paid did else"
            )
        if event_type == "payment.paid" and is_booked_by_captures(snapshot):
            if not captures:
                raise MovementUnknown("captures", "set providers.mollie.capture_events, and subscribe to them")
            return None
        return fact_of(snapshot, _MOVEMENTS[event_type], find_fetched(document))

    def fees(self, document: JsonObject, event_type: str) -> list[MoneyFact]:
        read = {"payment.paid": fees_of, BALANCE_TYPE: read_balance_fees}.get(event_type)
        return [] if read is None else read(object_at(document, "_embedded", "entity"))


def _check_kind(snapshot: Mapping[str, Any], event_type: str) -> None:
    """
    :raises MovementUnknown: the snapshot says that it is of another kind than its type, or of a payment that isn't paid
    """
    said = {"resource": event_type.partition(".")[0]} | ({"status": "paid"} if event_type == "payment.paid" else {})
    for name, wanted in said.items():
        if snapshot.get(name, wanted) != wanted:
            raise MovementUnknown(name, snapshot[name])
