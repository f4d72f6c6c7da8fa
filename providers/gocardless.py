"""GoCardless: signature, split and identities of its batches.

Sources: https://developer.gocardless.com/api-reference/#appendix-webhooks (signature, Origin, status 498) and
https://developer.gocardless.com/api-reference/#core-endpoints-events (what an event holds).

One request holds several events, which need not have anything in common; the whole body is signed.

**What books, and why**. An event says which payment, refund or payout changed and how, and never how much. With a
token of GoCardless's API (``secrets/gocardless-api``) what it is about is fetched and kept with it. The amount is then
what it was: of a payment, a refund and a payout only the metadata can be changed
(https://developer.gocardless.com/api-reference/#payments-update-a-payment). Without a token what moved is unknown. What
happened to it is the event's own word:

- A payment under its ``PM`` id once it is confirmed. "Payments can fail after being confirmed if the failure message is
  sent late by the banks" (https://developer.gocardless.com/api-reference/#core-endpoints-payments): a failure gives it
  back where the API lists a confirmation before it, and moves nothing else. Of one that had been paid out already,
  ``late_failure_settled`` tells once more. What a payment brings that is tried again after that isn't known by its
  next confirmation: it would be the same one.
- A chargeback takes the money when it is settled, and one that is cancelled gives it back, each under its event's id:
  after a cancelled one the bank may charge the payment back again. What is given back is of the payment.
- A refund under its ``RF`` id when it is settled; one whose funds are returned gives them back.
- A payout of a merchant under its ``PO`` id when it is paid. It is net of fees: its ``deducted_fees`` ("Fees that have
  already been deducted from the payout amount", less those given back) are a movement of their own
  (https://developer.gocardless.com/api-reference/#core-endpoints-payouts). A partner's payout is of fees, which no
  payment here brought: unknown.

What gives back gives back only what was booked (`MoneyFact.pair`). Left to a person: a payout that bounces, a payment
to somebody else, and what moves in a payment account. The other types announce these or report them again, and move
nothing.

An event's account is its organisation, which the events of a partner's merchants name
(https://developer.gocardless.com/partners/webhooks-for-partners). Not every event about a payment names the creditor,
so payments, refunds and payouts have none.

GoCardless says in ``Origin`` which of its environments sends. That isn't signed, so it must agree with the endpoint;
without the header, or with an address that is neither, the endpoint's mode stands.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from datetime import timedelta
from typing import Any
from urllib.parse import urlsplit

from core.errors import Unparseable
from core.event import Event, Mode
from core.money import MoneyFact, Movement, MovementUnknown
from providers.base import Delivered, JsonAdapter, JsonObject, Named, Signed
from providers.content import fields_of
from providers.event_types import EventTypes, types_of_objects
from providers.fields import (
    an_object,
    array_items,
    names,
    object_at,
    optional_text,
    path_segment,
    text,
    time_of,
)
from providers.listed import build_page_address, format_rfc3339_s, read_items
from providers.money import money_of, moved
from providers.pointed import (
    EVENT,
    FETCHED,
    NOT_FETCHED,
    check_reference,
    find_event,
    find_fetched,
    join_bodies,
    read_answer,
)
from providers.port import ListedPage, ModeMismatch, Request, Span, Wanted
from providers.settings import ProvidersSettings
from providers.signature import secret_error, text_key

NAME = "gocardless"
ORIGIN = b"origin"
ITEMS = "events"
ITEMS_MAX = 1000
"""GoCardless sends up to 250 at once."""
API_URLS: Mapping[Mode, str] = {"live": "https://api.gocardless.com", "test": "https://api-sandbox.gocardless.com"}
API_VERSION = "2015-07-06"
"""https://developer.gocardless.com/api-reference/#api-usage-making-requests"""
KEPT_S = 600.0
"""Amounts don't change. A batch that takes longer than GoCardless waits goes on where it was when it is sent again."""
LINKS: Mapping[str, str] = {"payments": "payment", "refunds": "refund", "payouts": "payout"}
"""The link that names an event's resource, by resource type, which is also its path in the API
(https://developer.gocardless.com/api-reference/#core-endpoints-payments, …-refunds, …-payouts)."""
PAGE_MAX = 500
"""https://developer.gocardless.com/api-reference/#api-usage-cursor-pagination"""
MERCHANT = "merchant"
"""The ``payout_type`` of what payments brought (https://developer.gocardless.com/api-reference/#core-endpoints-payouts)."""
FAILED, RETRIED = "payments.failed", "payments.resubmission_requested"
_AFTER_A_CONFIRMATION = frozenset({FAILED, RETRIED})
"""Actions whose meaning depends on whether the payment was confirmed before."""
RESOURCE, CONFIRMED = b"resource", b"confirmed"
"""The names of what is fetched for these: the payment, and its confirmations."""
_MOVEMENTS: Mapping[str, Movement] = {
    "payments.confirmed": Movement.CAPTURE,
    FAILED: Movement.CAPTURE_FAILED,
    "payments.late_failure_settled": Movement.CAPTURE_FAILED,
    "payments.chargeback_settled": Movement.DISPUTE_OPENED,
    "payments.chargeback_cancelled": Movement.DISPUTE_WON,
    "refunds.refund_settled": Movement.REFUND,
    "refunds.funds_returned": Movement.REFUND_FAILED,
    "payouts.paid": Movement.PAYOUT_PAID,
}
_CHARGEBACKS = frozenset({"payments.chargeback_settled", "payments.chargeback_cancelled"})
"""Of one payment there may be several; no other event tells of them."""
_CREDENTIAL = re.compile(r"[A-Za-z0-9_-]{20,250}")
EVENT_TYPES = EventTypes(
    books=frozenset(_MOVEMENTS) | {RETRIED},
    # An event's resource_type is ``payment_account_transactions``; the list of actions spells it without the s.
    person=names(
        "creditors.bounced_payout outbound_payments.executed payment_account_transaction.created "
        "payment_account_transactions.created"
    ),
    nothing={
        "https://developer.gocardless.com/api-reference/#core-endpoints-events": types_of_objects(
            """
            billing_requests: bank_authorisation_authorised bank_authorisation_denied
              bank_authorisation_expired bank_authorisation_failed bank_authorisation_visited cancelled
              choose_currency collect_amount collect_bank_account collect_customer_details created failed
              flow_created flow_exited flow_visited fulfilled payer_details_confirmed payer_geo_blocked
              select_institution
            creditors: account_auto_frozen account_auto_frozen_reverted new_payout_currency_added updated
            customers: approved request_for_information_required under_review
            exports: completed failed started
            instalment_schedules: cancelled completed created creation_failed errored resumed
            mandates: active blocked cancelled consumed created customer_approval_granted
              customer_approval_skipped expired failed reinstated replaced resubmission_requested submitted
              transferred
            outbound_payments: cancelled created failed set_to_executing set_to_pending_approval
            payer_authorisations: completed failed
            payments: cancelled charged_back created customer_approval_denied customer_approval_granted
              paid_out sds_settlement_delayed submitted surcharge_fee_debited
            payouts: fx_rate_confirmed tax_exchange_rates_confirmed
            refunds: created failed paid
            scheme_identifiers: activated
            subscriptions: amended cancelled created customer_approval_denied customer_approval_granted
              finished paused payment_created resumed scheduled_pause scheduled_pause_cancelled
              scheduled_resume
            """
        )
    },
)

_MODES: Mapping[bytes, Mode] = {b"https://api.gocardless.com": "live", b"https://api-sandbox.gocardless.com": "test"}

COUNTS = fields_of(
    """
    : id resource_type action
    links: organisation creditor customer mandate payment refund payout subscription instalment_schedule
      billing_request outbound_payment payment_account_transaction scheme_identifier export parent_event
    : created_at
    """
)
ADDED = {3: fields_of(": created_at")}
"""An event's names, as it has no money, and its time, which says whether a payment failed after it was confirmed.
``details`` word why, and ``resource_metadata`` is the merchant's."""


class GoCardlessAdapter(JsonAdapter):
    """Each request has one or several events; an event's body is the exact bytes of its item."""

    name = NAME
    identity_fields = names("id payment refund mandate payout subscription billing_request organisation parent_event")
    header = b"webhook-signature"
    signature_status = 498
    event_types = EVENT_TYPES
    looked_up = "in GoCardless's payout reports, as its events name no amount"
    content_version = 3
    counts = COUNTS
    added = ADDED
    listed_for = timedelta(days=30)
    """As catch-up looks back at most; GoCardless keeps events for longer."""
    newest_first = True

    def __init__(self, settings: ProvidersSettings, api_urls: Mapping[Mode, str] = API_URLS) -> None:
        super().__init__(settings)
        self._api_urls = api_urls

    def points_to(self, request: Request, credentials: Sequence[str]) -> Sequence[Wanted]:
        for credential in credentials:
            self.check_credential(credential)
        try:
            items = _read_items(request.document)
        except Unparseable:
            return ()
        _check_mode(request, request.mode)
        addresses = ((url, item) for item in items for url in self._list_addresses(item, request.mode))
        return [self._build_wanted(url, item, credentials) for url, item in addresses]

    def _build_wanted(self, url: str, item: Mapping[str, Any], credentials: Sequence[str]) -> Wanted:
        return Wanted(
            url,
            kept_s=KEPT_S,
            bearers=tuple(credentials),
            headers=(("gocardless-version", API_VERSION),),
            verified=True,
            may_appear=True,
            since=time_of(item.get("created_at")),
        )

    def _list_addresses(self, item: object, mode: Mode) -> list[str]:
        try:
            event = find_event(an_object(item, "an event"))
            resource_type, action = text(event, "resource_type"), text(event, "action")
            if f"{resource_type}.{action}" not in EVENT_TYPES.books:
                return []
            segment = path_segment(text(object_at(event, "links"), LINKS[resource_type]))
        except Unparseable:
            return []
        resource = f"{self._api_urls[mode]}/{resource_type}/{segment}"
        if f"{resource_type}.{action}" not in _AFTER_A_CONFIRMATION:
            return [resource]
        return [resource, f"{self._api_urls[mode]}/{ITEMS}?resource_type=payments&action=confirmed&payment={segment}"]

    def check_answer(self, wanted: Wanted, answer: bytes) -> None:
        resource_type = urlsplit(wanted.url).path.split("/")[1]
        if resource_type == ITEMS:
            _read_items(read_answer(answer), at_least=0)
            return
        check_reference(wanted, an_object(read_answer(answer).get(resource_type), "the resource"))

    def page_wanted(self, span: Span, page: str | None, mode: Mode, credentials: Sequence[str]) -> Wanted | None:
        for credential in credentials:
            self.check_credential(credential)
        created = {"created_at__gte": format_rfc3339_s(span.since), "created_at__lt": format_rfc3339_s(span.until)}
        url = build_page_address(f"{self._api_urls[mode]}/{ITEMS}", limit=PAGE_MAX, after=page, **created)
        headers = (("gocardless-version", API_VERSION),)
        return Wanted(url, bearers=tuple(credentials), headers=headers, verified=True)

    def read_page(self, answer: bytes, span: Span) -> ListedPage:  # noqa: ARG002 - it was asked for the span
        document, items = read_items(answer, ITEMS)
        after = object_at(document, "meta", "cursors").get("after")
        return ListedPage([self.request_of(item, "live") for item in items], after if isinstance(after, str) else None)

    def check_credential(self, credential: str) -> None:
        if not _CREDENTIAL.fullmatch(credential):
            raise secret_error(f"{NAME}-api", "a line is an access token of GoCardless's API")

    def signed(self, request: Request) -> Signed:
        request.one(ORIGIN)
        return super().signed(request)

    def key(self, secret: str) -> bytes:
        return text_key(NAME, secret, "the webhook endpoint's secret")

    def events(self, request: Request, mode: Mode) -> list[Event]:
        items = _read_items(request.document)
        _check_mode(request, mode)
        pairs = zip(items, array_items(request.body, ITEMS), strict=True)
        kept = (self._join_view(item, body, request) for item, body in pairs)
        return [event for item, body in kept for event in self.read_or_poison(item, body, request, mode)]

    def _join_view(self, item: object, body: bytes, request: Request) -> tuple[object, bytes]:
        views = [request.views.get(url) for url in self._list_addresses(item, request.mode)]
        told = [view for view in views if view is not None]
        if not told or len(told) < len(views):
            return item, body
        fetched = told[0] if len(told) == 1 else b'{"%b":%b,"%b":%b}' % (RESOURCE, told[0], CONFIRMED, told[1])
        return {EVENT: item, FETCHED: read_answer(fetched)}, join_bodies(body, fetched)

    def request_of(self, item: bytes, mode: Mode) -> bytes:  # noqa: ARG002 - only a header says it
        return b'{"%b":[%b]}' % (ITEMS.encode(), item)

    def named(self, delivered: Delivered[JsonObject]) -> Iterator[Named]:
        document = delivered.document
        event = find_event(document)
        event_id, resource_type = text(event, "id"), text(event, "resource_type")
        event_type = f"{resource_type}.{text(event, 'action')}"
        entity = _find_entity(document) or event_id
        yield Named(event_id, event_type, _find_account(event), entity, time_of(event.get("created_at")))

    def fact(self, document: JsonObject, event_type: str) -> MoneyFact | None:
        resource = _find_resource(document)
        if resource is None:
            raise MovementUnknown("amount", NOT_FETCHED)
        if event_type in _AFTER_A_CONFIRMATION and not _was_confirmed(document):
            return None
        if event_type == RETRIED:
            raise MovementUnknown("action", "of a confirmed payment")
        payout_type = resource.get("payout_type", MERCHANT)
        if payout_type != MERCHANT:
            raise MovementUnknown("payout_type", payout_type)
        event, resource_id = find_event(document), text(resource, "id")
        return moved(
            NAME,
            _MOVEMENTS[event_type],
            text(event, "id") if event_type in _CHARGEBACKS else resource_id,
            money_of(resource.get("amount"), resource.get("currency")),
            account=_find_account(event),
            payment=_find_entity(document),
            pair=resource_id,
        )

    def fees(self, document: JsonObject, event_type: str) -> list[MoneyFact]:
        """Reads what was taken off a payout, below zero where more was given back."""
        payout = _find_resource(document) if event_type == "payouts.paid" else None
        if payout is None or payout.get("deducted_fees") in (None, 0):
            return []
        if self.fact(document, event_type) is None:
            return []
        fees, account = money_of(payout["deducted_fees"], payout.get("currency")), _find_account(find_event(document))
        return [moved(NAME, Movement.FEE, text(payout, "id"), fees, account=account, payment=None)]

    def content(self, document: Mapping[str, Any], version: int) -> str:
        """Hashes the event alone: what is fetched differs in time."""
        return super().content(find_event(document), version)


def _read_items(document: object, *, at_least: int = 1) -> list[Any]:
    """
    :raises Unparseable: not a batch; an empty one is none, as it would be taken without a trace
    """
    items = document.get(ITEMS) if isinstance(document, dict) else None
    if not isinstance(items, list) or not at_least <= len(items) <= ITEMS_MAX:
        raise Unparseable(f"{ITEMS!r} isn't an array of {at_least} to {ITEMS_MAX} events")
    return items


def _read_links(event: Mapping[str, Any]) -> dict[str, Any]:
    return an_object(event.get("links") or {}, "'links'")


def _find_resource(document: Mapping[str, Any]) -> dict[str, Any] | None:
    fetched = find_fetched(document)
    if fetched is None:
        return None
    told = object_at(fetched, RESOURCE.decode()) or fetched
    return an_object(told.get(text(find_event(document), "resource_type")), "the resource")


def _was_confirmed(document: Mapping[str, Any]) -> bool:
    confirmed = _read_items(object_at(find_fetched(document) or {}, CONFIRMED.decode()), at_least=0)
    times = [time_of(an_object(listed, "an event").get("created_at")) for listed in confirmed]
    failed_at = time_of(find_event(document).get("created_at"))
    if failed_at is None or None in times:
        raise MovementUnknown("created_at", None)
    return any(confirmed_at <= failed_at for confirmed_at in times if confirmed_at is not None)


def _find_account(event: Mapping[str, Any]) -> str:
    """Finds the merchant; a creditor only where the event is about none of what moves money."""
    links = _read_links(event)
    moves = any(optional_text(links, name) for name in LINKS.values())
    return optional_text(links, "organisation") or (None if moves else optional_text(links, "creditor")) or ""


def _find_entity(document: Mapping[str, Any]) -> str | None:
    """Finds the payment that an event is about, whatever it happened to; else the refund, else the resource itself.

    A refund's payment may be told by the API alone.
    """
    event = find_event(document)
    links, resource_links = _read_links(event), _read_links(_find_resource(document) or {})
    for holder, name in (
        (links, "payment"),
        (resource_links, "payment"),
        (links, "refund"),
        (links, text(event, "resource_type").removesuffix("s")),
    ):
        named = optional_text(holder, name)
        if named is not None:
            return named
    return None


def _check_mode(request: Request, endpoint: Mode) -> None:
    reported = {_MODES[value] for value in request.values(ORIGIN) if value in _MODES}
    for mode in reported:
        if mode != endpoint:
            raise ModeMismatch(endpoint, mode)
