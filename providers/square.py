"""Square: signature (https://developer.squareup.com/docs/webhooks/step3validate), identities and money facts.

The signature covers the notification URL and the raw body. The URL is the configured one, character by character as
in Square's console; it is never put together from a request's Host. So an endpoint needs its URL in the settings,
and an event that was signed for one endpoint doesn't prove at another. The header ``square-environment`` isn't
signed: where it is sent, it has to agree with the endpoint.

What books, and why (https://developer.squareup.com/docs/webhooks/v2webhook-events-tech-ref):

- Payments, refunds and disputes are reported as they are now, again whenever anything about them changes. What
  counts is the state that is reported, under the object's own id: the second report of a state is the same fact.
- A payment books when it is ``COMPLETED``, with its tip (``total_money``). Cash and external payments are only noted
  down at Square, "the payment proceeds aren't credited to the seller's Square account"
  (https://developer.squareup.com/docs/payments-api/take-payments/external-payments): what they bring, and what their
  refunds take, is outside of Square.
- A payment by Square gift card (``card_brand``, https://developer.squareup.com/docs/gift-cards/redeem-gift-cards)
  brings no money: it came when the card was sold, by a payment that books. Nor does a refund onto such a card take any.
  A refund that doesn't say which card it goes to (``destination_details``,
  https://developer.squareup.com/reference/square/objects/DestinationDetails) books.
- A refund books under its own id when it is ``COMPLETED``; before, nothing has been booked that a failed one could
  give back (https://developer.squareup.com/reference/square/objects/PaymentRefund).
- A dispute's amount is held when it is opened, unless it is only an inquiry; ``WON`` gives it back, ``LOST`` and
  ``ACCEPTED`` make the loss final (https://squareup.com/help/us/en/article/6137). In older versions of the API, whose
  event is called ``dispute.state.changed``, the dispute's id is its ``dispute_id``
  (https://developer.squareup.com/reference/square/webhooks/dispute.evidence.added). ``WON``, ``LOST`` and ``ACCEPTED``
  are ends (https://developer.squareup.com/reference/square/enums/DisputeState): a win after a loss, or a loss after a
  win, is unknown. A loss makes two events of the same bytes, one of them for the hold that came before it
  (`providers.money.types_of`).
- A payout books under its ``po_`` id when it is sent or, at the latest, paid, and back when it fails. Its amount is
  below zero where Square takes the money (https://developer.squareup.com/reference/square/objects/Payout).
- A payout that fails, or a dispute that is won, gives back only what was booked before (`MoneyFact.pair`).
- Fees are movements of their own (`providers.square_fees`): Square tells of a payment's ``processing_fee`` some time
  after it is completed, by a later ``payment.updated``, and may adjust it. ``app_fee_money`` goes to the application.
- Orders, invoices, terminal checkouts and gift cards are paid by payments, which report themselves.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import timedelta
from typing import Any

from core import strict_json
from core.errors import SettingError
from core.event import Mode
from core.money import MoneyFact, MoneyInvalid, Movement, MovementUnknown, Outside
from providers.base import Delivered, JsonAdapter, JsonObject, Named, Signed
from providers.content import fields_of
from providers.fields import an_object, names, optional_object, optional_text, text, text_at, time_of
from providers.listed import build_page_address, format_rfc3339_s, read_documents, read_items
from providers.money import PAYOUTS, Methods, moved
from providers.port import ListedPage, ModeMismatch, ProviderEndpoint, Request, Span, Wanted
from providers.signature import base64_mac, secret_error, sent, text_key
from providers.square_fees import SOURCE, read_fees, read_money, read_payout_fees
from providers.square_types import EVENT_TYPES

NAME = "square"
API_URLS: Mapping[Mode, str] = {"live": "https://connect.squareup.com", "test": "https://connect.squareupsandbox.com"}
"""https://developer.squareup.com/docs/build-basics/using-rest-api"""
PAGE_MAX = 100
"""Events on a page of the list, which holds those of the last 28 days once the application has turned it on
(https://developer.squareup.com/reference/square/events-api/SearchEvents)."""
_CREDENTIAL = re.compile(r"[A-Za-z0-9_-]{20,250}")
ENVIRONMENT_HEADER = b"square-environment"
_MODES: Mapping[bytes, Mode] = {b"production": "live", b"sandbox": "test"}
_WAYS = Methods(
    here={
        "https://developer.squareup.com/reference/square/objects/Payment": names(
            "CARD BANK_ACCOUNT WALLET BUY_NOW_PAY_LATER SQUARE_ACCOUNT"
        )
    },
    outside={
        "CASH": "https://developer.squareup.com/docs/payments-api/take-payments/cash-payments",
        "EXTERNAL": "https://developer.squareup.com/docs/payments-api/take-payments/external-payments",
    },
)
"""The ways of a payment's source and a refund's destination."""
_OUTSIDE_DETAILS = {"cash_details": "CASH", "external_details": "EXTERNAL"}
"""Details that a payment, or a refund's destination, has for that way alone: "Only populated if the destination_type is
CASH" (https://developer.squareup.com/reference/square/objects/DestinationDetails, …/objects/Payment)."""
_NOT_PAID = names("APPROVED PENDING CANCELED FAILED")
_NOT_REFUNDED = names("PENDING REJECTED FAILED")
"""States of a refund that moved nothing (https://developer.squareup.com/reference/square/objects/PaymentRefund)."""
_WAY_NAMES = {"payment": "source_type", "refund": "destination_type"}
_NOT_COMPLETED = {"payment": _NOT_PAID, "refund": _NOT_REFUNDED}
_GIFT_CARD = "SQUARE_GIFT_CARD"
_PAIRED = PAYOUTS | {Movement.DISPUTE_OPENED, Movement.DISPUTE_WON}
_INQUIRIES = names("INQUIRY_EVIDENCE_REQUIRED INQUIRY_PROCESSING INQUIRY_CLOSED")
_OPEN = names("EVIDENCE_REQUIRED PROCESSING")
"""A dispute's states (https://developer.squareup.com/reference/square/enums/DisputeState); `_ENDS` has the others."""

_COUNTS_OF_OBJECTS = """
    data.object.{kind}: id dispute_id status state payment_id order_id source_type destination_type
    data.object.{kind}.total_money: amount currency currency_code
    data.object.{kind}.amount_money: amount currency currency_code
    data.object.{kind}.app_fee_money: amount currency currency_code
    data.object.{kind}.processing_fee.*: type effective_at
    data.object.{kind}.processing_fee.*.amount_money: amount currency currency_code
    data.object.{kind}.disputed_payment: payment_id
    data.object.{kind}.card_details.card: card_brand
    data.object.{kind}.destination_details.card_details.card: card_brand
    """
_KINDS = ("payment", "refund", "dispute", "payout")
ADDED = {
    3: fields_of(
        """
        data.object.payment.external_details.source_fee_money: amount currency currency_code
        data.object.payout.payout_fee.*: type
        data.object.payout.payout_fee.*.amount_money: amount currency currency_code
        """
    )
}
COUNTS = (
    *fields_of(": event_id type merchant_id\ndata: type id"),
    *(field for kind in _KINDS for field in fields_of(_COUNTS_OF_OBJECTS.format(kind=kind))),
    *ADDED[3],
)
"""Its names, and the names and money of what moves money. Square tells an event from its copies by ``event_id``
(https://developer.squareup.com/docs/webhooks/step4manage)."""


class SquareAdapter(JsonAdapter):
    name = NAME
    identity_fields = names("id event_id merchant_id location_id payment_id order_id refund_id dispute_id")
    header = b"x-square-hmacsha256-signature"
    event_types = EVENT_TYPES
    splits_losses = True
    content_version = 3
    counts = COUNTS
    added = ADDED
    listed_for = timedelta(days=28)
    newest_first = False

    def signed(self, request: Request) -> Signed:
        """
        :raises SettingError: the endpoint's notification URL isn't set
        """
        return Signed(sent(request, self.header), self.notification_url(request.endpoint) + request.body)

    def signature(self, key: bytes, message: bytes) -> bytes:
        return base64_mac(key, message)

    def page_wanted(self, span: Span, page: str | None, mode: Mode, credentials: Sequence[str]) -> Wanted | None:
        for credential in credentials:
            self.check_credential(credential)
        created = {"start_at": format_rfc3339_s(span.since), "end_at": format_rfc3339_s(span.until)}
        query = {"filter": {"created_at": created}, "sort": {"field": "DEFAULT", "order": "ASC"}}
        search_request = {"limit": PAGE_MAX, "query": query} | ({} if page is None else {"cursor": page})
        content = strict_json.dump_json(search_request)
        return Wanted(f"{API_URLS[mode]}/v2/events", bearers=tuple(credentials), content=content, verified=True)

    def read_page(self, answer: bytes, span: Span) -> ListedPage:  # noqa: ARG002 - Square was asked for the span
        document, items = read_items(answer, "events")
        return ListedPage(items, optional_text(document, "cursor") or None)

    def endpoints_wanted(self, mode: Mode, credentials: Sequence[str]) -> Wanted:
        """Square tells them to the application's own access token, not to one of OAuth
        (https://developer.squareup.com/docs/webhooks/webhook-subscriptions-api).
        """
        for credential in credentials:
            self.check_credential(credential)
        url = build_page_address(f"{API_URLS[mode]}/v2/webhooks/subscriptions", include_disabled="true", limit=100)
        return Wanted(url, bearers=tuple(credentials), verified=True)

    def read_endpoints(self, answer: bytes) -> list[ProviderEndpoint]:
        """Source: https://developer.squareup.com/reference/square/objects/WebhookSubscription."""
        endpoints = read_documents(answer, "subscriptions")
        return [
            ProviderEndpoint(text(endpoint, "notification_url"), endpoint.get("enabled") is not False)
            for endpoint in endpoints
        ]

    def check_credential(self, credential: str) -> None:
        if not _CREDENTIAL.fullmatch(credential):
            raise secret_error(f"{NAME}-api", "a line is an access token of Square's")

    def key(self, secret: str) -> bytes:
        return text_key(NAME, secret, "the subscription's signature key")

    def notification_url(self, endpoint: str) -> bytes:
        url = self._settings.square.notification_urls.get(endpoint)
        if url is None:
            raise SettingError(
                f"providers.square.notification_urls.{endpoint}",
                "Square signs the notification URL: set it as it stands in Square's console",
            )
        return url.encode("utf-8")

    def named(self, delivered: Delivered[JsonObject]) -> Iterator[Named]:
        document = delivered.document
        _check_mode(delivered.request, delivered.mode)
        event_id, reported = text(document, "event_id"), text(document, "type")
        account, entity = optional_text(document, "merchant_id") or "", _find_entity(document) or event_id
        occurred_at = time_of(document.get("created_at"))
        yield Named(event_id, reported, account, entity, occurred_at, is_loss=_is_loss(document, reported))

    def fees(self, document: JsonObject, event_type: str) -> list[MoneyFact]:
        kind, _ = _READERS[event_type]
        source, account = _read_object(document, kind), optional_text(document, "merchant_id") or ""
        if kind == "payout":
            return [
                moved(NAME, Movement.FEE, text(source, "id"), money, account=account, payment=None, prefix=prefix)
                for prefix, money in read_payout_fees(source, is_failed=event_type == "payout.failed")
            ]
        states = _NOT_COMPLETED.get(kind)
        if states is None or not _is_completed(source, states):
            return []
        way, payment = _find_outside_way(source, kind), _find_entity(document)
        return [
            moved(
                NAME,
                Movement.FEE,
                text(source, "id"),
                money,
                account=account,
                payment=payment,
                prefix=prefix,
                outside=Outside(way, money.amount_minor)
                if way and prefix == SOURCE and money.amount_minor > 0
                else None,
            )
            for prefix, money in read_fees(source, kind)
        ]

    def fact(self, document: JsonObject, event_type: str) -> MoneyFact | None:
        kind, read = _READERS[event_type]
        source = _read_object(document, kind)
        movement = read(source)
        if movement is None:
            return None
        money = read_money(source.get("total_money" if kind == "payment" else "amount_money"))
        way = _find_outside_way(source, kind)
        return moved(
            NAME,
            movement,
            text(source, "dispute_id" if kind == "dispute" and source.get("id") is None else "id"),
            money,
            account=optional_text(document, "merchant_id") or "",
            payment=_find_entity(document),
            paired=movement in _PAIRED,
            outside=Outside(way, money.amount_minor) if way is not None and money.amount_minor > 0 else None,
        )


def _check_mode(request: Request, endpoint: Mode) -> None:
    for value in request.values(ENVIRONMENT_HEADER):
        if (reported := _MODES.get(value.lower())) != endpoint:
            raise ModeMismatch(endpoint, reported)


def _read_object(document: Mapping[str, Any], kind: str) -> dict[str, Any]:
    reported = an_object(an_object(document.get("data"), "'data'").get("object"), "'data.object'")
    return an_object(reported.get(kind), f"'data.object.{kind}'")


def _find_entity(document: Mapping[str, Any]) -> str | None:
    dispute = ("data", "object", "dispute", "disputed_payment", "payment_id")
    return (
        text_at(document, "data", "object", "payment", "id")
        or text_at(document, "data", "object", "refund", "payment_id")
        or text_at(document, *dispute)
        or text_at(document, "data", "id")
    )


def _is_loss(document: Mapping[str, Any], event_type: str) -> bool:
    state = text_at(document, "data", "object", "dispute", "state") if event_type in _DISPUTE_ENDS else None
    return state is not None and _ENDS.get(state) is Movement.DISPUTE_LOST


def _read_state(source: Mapping[str, Any], name: str) -> str:
    state = source.get(name)
    if not isinstance(state, str) or not state:
        raise MoneyInvalid(f"{name!r} isn't said, so whether money moved isn't either")
    return state


def _is_completed(source: Mapping[str, Any], before: frozenset[str]) -> bool:
    """Returns whether it is completed; ``before``: the states in which no money has moved."""
    status = _read_state(source, "status")
    if status != "COMPLETED" and status not in before:
        raise MovementUnknown("status", status)
    return status == "COMPLETED"


def _find_outside_way(source: Mapping[str, Any], kind: str) -> str | None:
    """Finds how money moved outside of Square; where the source says nothing of that, it moved at Square."""
    name = _WAY_NAMES.get(kind)
    if name is None:
        return None
    way = source.get(name)
    if way is None:
        details = source if kind == "payment" else optional_object(source, "destination_details")
        way = next((said for field, said in _OUTSIDE_DETAILS.items() if details.get(field) is not None), None)
    if way is None:
        return None
    if not isinstance(way, str):
        raise MovementUnknown(name, way)
    return way.lower() if replace(_WAYS, field=name).is_outside(way) else None


def _read_paid(payment: Mapping[str, Any]) -> Movement | None:
    if not _is_completed(payment, _NOT_PAID):
        return None
    return None if _read_card_brand(payment) == _GIFT_CARD else Movement.CAPTURE


def _read_refunded(refund: Mapping[str, Any]) -> Movement | None:
    if not _is_completed(refund, _NOT_REFUNDED):
        return None
    return None if _read_card_brand(optional_object(refund, "destination_details")) == _GIFT_CARD else Movement.REFUND


def _read_card_brand(paid_by: Mapping[str, Any]) -> str | None:
    return optional_text(optional_object(optional_object(paid_by, "card_details"), "card"), "card_brand")


def _read_dispute_opened(dispute: Mapping[str, Any]) -> Movement | None:
    state = _read_state(dispute, "state")
    if state not in _INQUIRIES and state not in _OPEN and state not in _ENDS:
        raise MovementUnknown("state", state)
    return None if state in _INQUIRIES else Movement.DISPUTE_OPENED


def _read_dispute_changed(dispute: Mapping[str, Any]) -> Movement | None:
    """Reads an inquiry that became a dispute too: nothing else reports that."""
    state = _read_state(dispute, "state")
    if state in _INQUIRIES:
        return None
    if state in _OPEN:
        return Movement.DISPUTE_OPENED
    try:
        return _ENDS[state]
    except KeyError:
        raise MovementUnknown("state", state) from None


_ENDS: Mapping[str, Movement] = {
    "WON": Movement.DISPUTE_WON,
    "LOST": Movement.DISPUTE_LOST,
    "ACCEPTED": Movement.DISPUTE_LOST,
}
_DISPUTE_ENDS = ("dispute.state.updated", "dispute.state.changed")
_READERS: Mapping[str, tuple[str, Callable[[Mapping[str, Any]], Movement | None]]] = {
    "payment.created": ("payment", _read_paid),
    "payment.updated": ("payment", _read_paid),
    "refund.created": ("refund", _read_refunded),
    "refund.updated": ("refund", _read_refunded),
    "dispute.created": ("dispute", _read_dispute_opened),
    "dispute.state.updated": ("dispute", _read_dispute_changed),
    "dispute.state.changed": ("dispute", _read_dispute_changed),
    "payout.sent": ("payout", lambda _: Movement.PAYOUT_PAID),
    "payout.paid": ("payout", lambda _: Movement.PAYOUT_PAID),
    "payout.failed": ("payout", lambda _: Movement.PAYOUT_FAILED),
}
