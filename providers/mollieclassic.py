"""Mollie's classic webhooks (https://docs.mollie.com/reference/webhooks): only an id comes, what it means is fetched.

A delivery is ``id=tr_…`` without a signature, so it proves nothing. What Mollie answers over
TLS to our own API key does, so the secrets of this provider are API keys; each delivery is a new observation of
the payment (https://docs.mollie.com/reference/get-payment), and of its captures, refunds and chargebacks. An id
that Mollie doesn't know is asked for again, and then answered as if it were known, as Mollie recommends ("How to handle
unknown IDs?", https://docs.mollie.com/reference/webhooks). Ids other than a payment's or an order's are refused:
dropping them in silence would hide a webhook that is set in the wrong place.

One event tells one stage of one resource and is named by both: ``re_1`` and ``refund.sent``. The same stage again
is a duplicate, however much else has changed in the document; with another amount it is a conflict: what counts is
listed since content version 1 (`MollieClassicAdapter.content`). A stage that
must have been passed is reported as well, so that nothing is missed between two deliveries: a failed refund was sent
before, a reversed chargeback was received before.

**What books, and why**:

- A paid payment, under its own id; one that is booked by its captures (`providers.mollie_money`) moves nothing itself,
  they do, each under its ``cpt_`` id as it succeeds. An order's answer holds no captures
  (https://docs.mollie.com/reference/get-order), so what such a payment of it moved is unknown by the order alone: the
  webhook of the payment tells it. Captures of a payment that books itself aren't told: they are the same money.
- A refund under its ``re_`` id once it is sent (Mollie says processing, refunded or failed): until then it can be
  canceled. A failed one gives the money back. One of a payment by PayPal that doesn't say who makes it is kept with its
  payment, which does.
- A chargeback takes the money, a reversed one gives it back, under the ``chb_`` id. One of a payment by PayPal is kept
  with its payment, too.

What gives back gives back only what was booked (`MoneyFact.pair`). No stage that moves money is left to
a person. Payouts and transfers have no classic webhook.

As in `providers.mollie` there is no account. Both name a movement alike, so a payment may come by both.
"""

from __future__ import annotations

import re
import secrets as random_secrets
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from typing import Any, NamedTuple
from urllib.parse import unquote_to_bytes

from core import strict_json
from core.card_numbers import quote_masked
from core.errors import Unparseable
from core.event import Event, Mode, poison_event
from core.money import MoneyFact, Movement, MovementUnknown
from providers.base import Delivered, JsonAdapter, JsonObject, Named
from providers.event_types import EventTypes
from providers.fields import (
    an_object,
    array_items,
    content_hash,
    mode_of,
    names,
    optional_text,
    path_segment,
    text,
    time_of,
)
from providers.mollie import IDENTITY_FIELDS
from providers.mollie_api import API_URL, list_queries, read_key
from providers.mollie_money import ACCOUNT, LEDGER, PAYPAL, amount_of, fact_of, fees_of, is_booked_by_captures, money_at
from providers.pointed import EVENT, FETCHED, find_event, find_fetched, join_bodies
from providers.port import FORM, Fetched, Request, SignatureInvalid, Wanted
from providers.settings import ProvidersSettings

NAME = "mollieclassic"
WITHIN_S = 10.0
"""Mollie waits for 15 s (https://docs.mollie.com/reference/webhooks), and Kafka may take 4 of them."""
_DELIVERY = re.compile(rb"id=([^&=\x00-\x20\x7f]+)")
_KEY_CHARS = 30


class _FetchedResource(NamedTuple):
    """A resource that is fetched for an id: the path below ``/v2``, and what Mollie embeds on request."""

    name: str
    path: str
    embedded: tuple[str, ...]


_FETCHED: Mapping[str, _FetchedResource] = {
    "tr": _FetchedResource("payment", "payments", ("captures", "refunds", "chargebacks")),
    "ord": _FetchedResource("order", "orders", ("payments", "refunds")),
}
_SENT = frozenset({"processing", "refunded", "failed"})
_MOVEMENTS: Mapping[str, Movement] = {
    "payment.paid": Movement.CAPTURE,
    "capture.succeeded": Movement.CAPTURE,
    "refund.sent": Movement.REFUND,
    "refund.failed": Movement.REFUND_FAILED,
    "chargeback.received": Movement.DISPUTE_OPENED,
    "chargeback.reversed": Movement.DISPUTE_WON,
}
EVENT_TYPES = EventTypes(
    books=frozenset(_MOVEMENTS),
    nothing={
        "https://docs.mollie.com/reference/get-payment": names(
            "payment.open payment.pending payment.authorized payment.canceled payment.expired payment.failed"
        ),
        "https://docs.mollie.com/reference/get-capture": names("capture.pending capture.failed"),
        "https://docs.mollie.com/reference/get-refund": names("refund.queued refund.pending refund.canceled"),
    },
)
"""Stages: a resource and its status. ``refund.sent`` stands for any of `_SENT`."""
_TIMES: Mapping[str, str] = {
    "payment.open": "createdAt",
    "payment.authorized": "authorizedAt",
    "payment.paid": "paidAt",
    "payment.canceled": "canceledAt",
    "payment.expired": "expiredAt",
    "payment.failed": "failedAt",
    "capture.pending": "createdAt",
    "refund.queued": "createdAt",
    "refund.pending": "createdAt",
    "chargeback.received": "createdAt",
    "chargeback.reversed": "reversedAt",
}
"""By stage: the field that says when. Of other stages Mollie tells no time."""


class MollieClassicAdapter(JsonAdapter):
    """Each request is one observation: several events, each with the exact bytes of the resource that it tells of."""

    name = NAME
    identity_fields = IDENTITY_FIELDS
    media_type = FORM
    event_types = EVENT_TYPES
    key_prefix = "test_"
    ledger = LEDGER

    def __init__(self, settings: ProvidersSettings, api_url: str = API_URL) -> None:
        super().__init__(settings)
        self._api_url = api_url

    def wants(self, request: Request, secrets: Sequence[str]) -> Wanted | None:
        reference, resource = _parse_delivery(request.body)
        for secret in secrets:
            self.check_secret(secret)
        url = f"{self._api_url}/v2/{resource.path}/{path_segment(reference)}?embed={','.join(resource.embedded)}"
        queries = list_queries(secrets, is_test=request.mode == "test")
        return Wanted(url, bearers=tuple(secrets), queries=queries, may_appear=True, within_s=WITHIN_S)

    def verify(self, request: Request, secrets: Sequence[str], now: datetime) -> int:  # noqa: ARG002 - signs no time
        reference, resource = _parse_delivery(request.body)
        for secret in secrets:
            self.check_secret(secret)
        fetched = request.fetched
        if fetched is None or not 0 <= fetched.bearer < len(secrets):
            raise SignatureInvalid("missing")
        if fetched.is_there:
            try:
                document = _read_document(fetched)
            except Unparseable:
                raise SignatureInvalid("malformed") from None
            if document.get("id") != reference or document.get("resource") != resource.name:
                raise SignatureInvalid("mismatch")
        return fetched.bearer

    def key(self, secret: str) -> bytes:
        return read_key(NAME, secret)

    def new_secret(self) -> str:
        return self.key_prefix + random_secrets.token_hex(_KEY_CHARS // 2)

    def events(self, request: Request, mode: Mode) -> list[Event]:
        fetched = request.fetched
        if fetched is None:
            raise Unparseable("what the id stands for wasn't fetched")
        if not fetched.is_there:
            return []
        try:
            document = _read_document(fetched)
            mode = mode_of(document, "mode") or mode
            resources = list(_list_resources(document, fetched.body))
        except Unparseable as unreadable:
            return [poison_event(NAME, fetched.body, mode, unreadable.problem)]
        return [event for item, body in resources for event in self.read_or_poison(item, body, request, mode)]

    def named(self, delivered: Delivered[JsonObject]) -> Iterator[Named]:
        resource = find_event(delivered.document)
        for stage in _find_stages(resource):
            reference, occurred_at = text(resource, "id"), time_of(resource.get(_TIMES.get(stage, "")))
            yield Named(reference, stage, ACCOUNT, optional_text(resource, "paymentId") or reference, occurred_at)

    def fact(self, document: JsonObject, event_type: str) -> MoneyFact | None:
        resource = find_event(document)
        if event_type not in _find_stages(resource):
            raise Unparseable(f"the body isn't of the stage {quote_masked(event_type, 80)}")
        if event_type == "payment.paid":
            _check_captures(resource)
            if is_booked_by_captures(resource):
                return None
        fact = fact_of(resource, _MOVEMENTS[event_type], find_fetched(document))
        return replace(fact, holder=(LEDGER, ACCOUNT))

    def fees(self, document: JsonObject, event_type: str) -> list[MoneyFact]:
        fees = fees_of(document) if event_type == "payment.paid" else []
        return [replace(fee, holder=(LEDGER, ACCOUNT)) for fee in fees]

    def content(self, document: Mapping[str, Any], version: int) -> str:  # noqa: ARG002 - there is one
        """Hashes what a stage rests on. The rest of a document changes without anything having happened: totals, links,
        and how much was captured of a payment whose captures book.
        """
        resource = find_event(document)
        rests_on = {name: resource.get(name) for name in ("id", "resource", "paymentId")}
        amount = resource.get("amount") if is_booked_by_captures(resource) else amount_of(resource)
        return content_hash({**rests_on, "amount": amount})


def _parse_delivery(body: bytes) -> tuple[str, _FetchedResource]:
    """Parses the form's only field. An id tells nothing but how it begins: that says whose it is.

    :raises SignatureInvalid: it is no such form, or the id isn't a payment's or an order's
    """
    match = _DELIVERY.fullmatch(body)
    try:
        reference = "" if match is None else unquote_to_bytes(match[1].replace(b"+", b" ")).decode("utf-8")
        path_segment(reference)
    except (UnicodeDecodeError, Unparseable):
        raise SignatureInvalid("malformed") from None
    kind, _, rest = reference.partition("_")
    if kind not in _FETCHED or not rest:
        raise SignatureInvalid("malformed")
    return reference, _FETCHED[kind]


def _read_document(fetched: Fetched) -> dict[str, Any]:
    return an_object(strict_json.load_json(fetched.body), "what was fetched")


def _list_resources(document: Mapping[str, Any], body: bytes) -> Iterator[tuple[object, bytes]]:
    """Lists the payment itself, then what is embedded, each with its exact bytes; in an order that is possible."""
    kind = document.get("resource")
    payments: list[tuple[object, bytes]] = []
    if kind == "payment":
        payments = [(document, body)]
        yield document, body
    embedded = [fetched.embedded for fetched in _FETCHED.values() if fetched.name == kind]
    if not embedded:
        raise Unparseable("what was fetched is neither a payment nor an order")
    left_out = () if is_booked_by_captures(document) else ("captures",)
    for name in embedded[0]:
        if name not in left_out and (items := _read_embedded(document, name)):
            listed = list(zip(items, array_items(body, "_embedded", name), strict=True))
            payments += listed if name == "payments" else []
            yield from (_join_payment(item, part, payments) for item, part in listed)


def _join_payment(item: object, body: bytes, payments: Sequence[tuple[object, bytes]]) -> tuple[object, bytes]:
    """Joins a refund or a chargeback that doesn't say what Mollie settles of it with its payment, where that is by
    PayPal.
    """
    is_given_back = isinstance(item, dict) and item.get("resource") in ("refund", "chargeback")
    if not isinstance(item, dict) or not is_given_back or item.get("settlementAmount") is not None:
        return item, body
    for payment, payment_body in payments:
        if isinstance(payment, dict) and payment.get("id") == item.get("paymentId") and payment.get("method") == PAYPAL:
            return {EVENT: item, FETCHED: payment}, join_bodies(body, payment_body)
    return item, body


def _check_captures(payment: Mapping[str, Any]) -> None:
    """Checks that a view's captures agree with who books: the payment, or its captures.

    :raises MovementUnknown: the view holds no list of the captures that book, or an empty one; or it lists captures of
        another amount than the payment that books
    """
    embedded = _find_embedded(payment)
    captures = [an_object(capture, "a capture") for capture in _read_embedded(payment, "captures")]
    going = [capture for capture in captures if capture.get("status") != "failed"]
    if is_booked_by_captures(payment):
        if not going:
            raise MovementUnknown("captures", "none" if "captures" in embedded else "not in this view")
    elif going and sum(money_at(capture.get("amount")).amount_minor for capture in going) != _read_amount_minor(
        payment
    ):
        raise MovementUnknown("captures", "of another amount than the payment's")


def _read_amount_minor(payment: Mapping[str, Any]) -> int:
    return money_at(amount_of(payment)).amount_minor


def _find_embedded(document: Mapping[str, Any]) -> Mapping[str, Any]:
    embedded = document.get("_embedded")
    return {} if embedded is None else an_object(embedded, "'_embedded'")


def _read_embedded(document: Mapping[str, Any], name: str) -> list[Any]:
    items = _find_embedded(document).get(name)
    if items is not None and not isinstance(items, list):
        raise Unparseable(f"the embedded {name!r} aren't an array")
    return items or []


def _find_stages(resource: Mapping[str, Any]) -> list[str]:
    """Lists the stages that the resource's state tells: its own, and one that was passed on the way for sure."""
    kind = text(resource, "resource")
    read = _READERS.get(kind)
    if read is None:
        raise Unparseable(f"{quote_masked(kind, 40)} is none of the resources that a payment has")
    return read(resource)


def _list_status_stage(resource: Mapping[str, Any]) -> list[str]:
    return [f"{text(resource, 'resource')}.{text(resource, 'status')}"]


def _list_refund_stages(resource: Mapping[str, Any]) -> list[str]:
    status = text(resource, "status")
    if status not in _SENT:
        return [f"refund.{status}"]
    return ["refund.sent", "refund.failed"] if status == "failed" else ["refund.sent"]


def _list_chargeback_stages(resource: Mapping[str, Any]) -> list[str]:
    reversed_at = optional_text(resource, "reversedAt")
    return ["chargeback.received"] if reversed_at is None else ["chargeback.received", "chargeback.reversed"]


_READERS: Mapping[str, Callable[[Mapping[str, Any]], list[str]]] = {
    "payment": _list_status_stage,
    "capture": _list_status_stage,
    "refund": _list_refund_stages,
    "chargeback": _list_chargeback_stages,
}
