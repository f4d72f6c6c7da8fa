"""Stripe: signature (https://docs.stripe.com/webhooks#verify-manually), identities and money facts.

What books, and why: `providers.stripe_money`, `providers.stripe_disputes`, `providers.stripe_fees`.

Stripe lists the events of the last 30 days, each as it was when it came to be
(https://docs.stripe.com/api/events/list). Those of connected accounts are in the lists of their accounts.

`providers.stripe_types` lists the types. A thin event (https://docs.stripe.com/event-destinations#thin-events) names
its object and doesn't hold it. With a key of Stripe's API (``secrets/stripe-api``) the object is fetched, and the event
is read as the one that holds it; without one what it moved is unknown. What is fetched is the object as it is now. So
``changes``, where the event has them, count before what is fetched; a dispute's transactions count up to the event's
time; and where only the changes would tell which of several movements it was, it is unknown.

One event may arrive in two API versions: during an upgrade Stripe sends it to an endpoint of each
(https://docs.stripe.com/webhooks/versioning). Which fields the object has differs between them. So what decides a
conflict is what every version says: the event's own names, its object's id, and the money. A thin event is the same in
every version, and all of it counts.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping, Sequence
from datetime import timedelta
from typing import Any, ClassVar

from core.errors import Unparseable
from core.event import Event, Mode
from core.money import MoneyFact
from providers.base import Delivered, JsonAdapter, JsonObject, Named, Signed, as_kept
from providers.event_types import Meaning
from providers.fields import an_object, content_hash, names, object_at, optional_text, path_segment, text, time_of
from providers.listed import build_page_address, read_documents, read_items
from providers.money import WITHHELD, read_if_certain
from providers.pointed import check_reference, find_event, join_bodies, read_answer
from providers.port import ListedPage, ProviderEndpoint, Request, Span, Wanted
from providers.settings import ProvidersSettings
from providers.signature import parse_timed_signatures, secret_error, sent, text_key, timestamp
from providers.stripe_fees import APPLICATION_FEE, read_fees
from providers.stripe_money import LOOKED_UP, OUTSIDE, RefundUnlisted, describe_moved, read_fact, tells_withheld
from providers.stripe_objects import NAME, find_account, find_object, find_payment, read_id
from providers.stripe_types import EVENT_TYPES, THIN, THIN_BOOKS

PAYPAL = "paypal"
LEFT_OUT = frozenset({"pending_webhooks"})
"""Counts the endpoints that haven't acknowledged it yet. Content version 1 is all but this."""
NAMED = ("id", "type", "account", "livemode", "created")
"""The event's own fields that content version 2 counts."""
API_URL = "https://api.stripe.com"
API_VERSION = "2025-08-27.basil"
"""The API version of what is fetched (https://docs.stripe.com/api/versioning).

Released authorisations are no refunds in it."""
PAGE_MAX = 100
"""Events on a page (https://docs.stripe.com/api/events/list#list_events-limit)."""
RESOURCES: Mapping[str, str] = {
    "application_fee": "application_fees/{}",
    "charge": "charges/{}?expand[]=refunds",
    "dispute": "disputes/{}",
    "payout": "payouts/{}",
    "refund": "refunds/{}",
}
"""Below ``/v1``, by ``related_object.type``. A charge lists its refunds where it is asked to
(https://docs.stripe.com/api/charges/object#charge_object-refunds)."""
_CREDENTIAL = re.compile(r"(?:sk|rk)(?:_org)?_(live|test)_[A-Za-z0-9_]{8,250}")
_CONTEXT = re.compile(r"[A-Za-z0-9_/]{1,255}")
"""Accounts with slashes between them (https://docs.stripe.com/context)."""


class StripeAdapter(JsonAdapter):
    """Each request is one event; its body is the event's body, of a thin one with the object that was fetched."""

    name = NAME
    identity_fields = names("id object_id payment_intent charge account")
    header = b"stripe-signature"
    content_version = 2
    key_prefix = "whsec_"
    event_types = EVENT_TYPES
    looked_up = LOOKED_UP
    moves_nothing: ClassVar[Mapping[str, str]] = {
        "charge.succeeded": "the charge is not captured: its capture is reported by itself, and books",
        APPLICATION_FEE: "what came to the platform is an event of its own, and books",
        "customer_cash_balance_transaction.created": "the customer's cash balance moved, and the account's didn't",
    }
    listed_for = timedelta(days=30)
    newest_first = True

    def __init__(self, settings: ProvidersSettings, api_url: str = API_URL) -> None:
        super().__init__(settings)
        self._api_url = api_url

    def points_to(self, request: Request, credentials: Sequence[str]) -> Sequence[Wanted]:
        for credential in credentials:
            self.check_credential(credential)
        try:
            event = find_event(an_object(request.document, "the body"))
            related, mode = object_at(event, "related_object"), _read_mode(event, request.mode)
            resource = RESOURCES.get(optional_text(related, "type") or "")
            if text(event, "type") not in THIN_BOOKS or resource is None:
                return ()
            path = resource.format(path_segment(text(related, "id")))
            context = optional_text(event, "context") or ""
        except Unparseable:
            return ()
        keys = self._select_keys(credentials, mode)
        if not keys or not _CONTEXT.fullmatch(context or "_"):
            return ()
        headers = [("stripe-version", API_VERSION), *([("stripe-context", context)] if context else [])]
        since = time_of(event.get("created"))
        url = f"{self._api_url}/v1/{path}"
        return [Wanted(url, bearers=keys, headers=tuple(headers), verified=True, may_appear=True, since=since)]

    def check_answer(self, wanted: Wanted, answer: bytes) -> None:
        check_reference(wanted, read_answer(answer))

    def page_wanted(self, span: Span, page: str | None, mode: Mode, credentials: Sequence[str]) -> Wanted | None:
        if not (keys := self._select_keys(credentials, mode)):
            return None
        created = {"created__gte": int(span.since.timestamp()), "created__lt": math.ceil(span.until.timestamp())}
        url = build_page_address(f"{self._api_url}/v1/events", limit=PAGE_MAX, starting_after=page, **created)
        return Wanted(url, bearers=keys, headers=(("stripe-version", API_VERSION),), verified=True)

    def read_page(self, answer: bytes, span: Span) -> ListedPage:  # noqa: ARG002 - Stripe was asked for the span
        document, items = read_items(answer, "data")
        if not isinstance(more := document.get("has_more"), bool):
            raise Unparseable("'has_more' is neither true nor false")
        return ListedPage(items, text(document["data"][-1], "id") if more and items else None)

    def endpoints_wanted(self, mode: Mode, credentials: Sequence[str]) -> Wanted | None:
        # An account has 16 at most (https://docs.stripe.com/webhooks#register-webhook).
        if not (keys := self._select_keys(credentials, mode)):
            return None
        url = build_page_address(f"{self._api_url}/v1/webhook_endpoints", limit=PAGE_MAX)
        return Wanted(url, bearers=keys, headers=(("stripe-version", API_VERSION),), verified=True)

    def read_endpoints(self, answer: bytes) -> list[ProviderEndpoint]:
        """Source: https://docs.stripe.com/api/webhook_endpoints/object#webhook_endpoint_object-status."""
        endpoints = read_documents(answer, "data")
        return [
            ProviderEndpoint(text(endpoint, "url"), text(endpoint, "status") != "disabled") for endpoint in endpoints
        ]

    def _select_keys(self, credentials: Sequence[str], mode: Mode) -> tuple[str, ...]:
        for credential in credentials:
            self.check_credential(credential)
        return tuple(key for key in credentials if (match := _CREDENTIAL.fullmatch(key)) and match[1] == mode)

    def check_credential(self, credential: str) -> None:
        if not _CREDENTIAL.fullmatch(credential):
            raise secret_error(
                f"{NAME}-api", "a line is a key of Stripe's API: sk_live_…, rk_live_…, sk_test_…, rk_test_…"
            )

    def events(self, request: Request, mode: Mode) -> list[Event]:
        document, body = an_object(request.document, "the body"), request.body
        for view in request.views.values():
            document, body = {"event": document, "fetched": read_answer(view)}, join_bodies(body, view)
        return self.read(Delivered(document, request, mode), body)

    def signed(self, request: Request) -> Signed:
        sent_at, signatures = parse_timed_signatures(sent(request, self.header)[0], b",", b"t", b"v1")
        return Signed(signatures, b"%b.%b" % (sent_at, request.body), timestamp(sent_at))

    def key(self, secret: str) -> bytes:
        return text_key(NAME, secret, "the endpoint's signing secret (whsec_…)")

    def named(self, delivered: Delivered[JsonObject]) -> Iterator[Named]:
        document = delivered.document
        event = find_event(document)
        event_id, event_type, occurred_at = text(event, "id"), text(event, "type"), time_of(event.get("created"))
        entity = _find_entity(document, event_id)
        is_loss = tells_withheld(document, event_type)
        mode = _read_mode(event, delivered.mode)
        yield Named(event_id, event_type, find_account(event), entity, occurred_at, mode=mode, is_loss=is_loss)

    def meaning_of(self, document: JsonObject, event_type: str) -> Meaning:
        return super().meaning_of(document, event_type.removesuffix(WITHHELD))

    def fact(self, document: JsonObject, event_type: str) -> MoneyFact | None:
        if event_type == THIN + "charge.refunded" and self._settings.stripe.refund_events:
            return None
        try:
            return read_fact(document, event_type, self._outside)
        except RefundUnlisted:
            if self._settings.stripe.refund_events:
                return None
            raise

    @property
    def _outside(self) -> Mapping[str, str]:
        return {**OUTSIDE, PAYPAL: PAYPAL} if self._settings.stripe.paypal_settles_outside else OUTSIDE

    def fees(self, document: JsonObject, event_type: str) -> list[MoneyFact]:
        return read_fees(document, event_type.removeprefix(THIN))

    def content(self, document: Mapping[str, Any], version: int) -> str:
        if version == 1:
            return content_hash(find_event(document), LEFT_OUT)
        fact = read_if_certain(lambda: read_fact(document, text(document, "type"), self._outside))
        return self.content_now(document, as_kept(fact))

    def content_now(self, document: Mapping[str, Any], fact: MoneyFact | None) -> str:
        """Makes version 2 of what every API version says. Of a thin event it is all that was sent, as what is fetched
        changes.
        """
        reported = object_at(document, "data", "object")
        if not reported:
            return content_hash(find_event(document), LEFT_OUT)
        event_fields = {name: document[name] for name in NAMED if document.get(name) is not None}
        amounts = {"amount": reported.get("amount"), "currency": reported.get("currency")}
        what_moved = describe_moved(document, reported, fact)
        return content_hash({**event_fields, "object": read_id(reported), **amounts, "moved": what_moved})


def _read_mode(document: Mapping[str, Any], endpoint: Mode) -> Mode:
    """Reads the signed flag, which routes: Stripe sends both modes to one endpoint."""
    livemode = document.get("livemode")
    if livemode is None:
        return endpoint
    if not isinstance(livemode, bool):
        raise Unparseable("'livemode' is neither true nor false")
    return "live" if livemode else "test"


def _find_entity(document: Mapping[str, Any], event_id: str) -> str:
    """Finds the payment; of a thin event that wasn't fetched what it is related to, which may be nothing."""
    related = find_event(document).get("related_object")
    return find_payment(find_object(document)) or read_id(related) or event_id
