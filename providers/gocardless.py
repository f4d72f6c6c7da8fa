"""GoCardless: signature, split and identities of its batches.

Sources: https://developer.gocardless.com/api-reference/#appendix-webhooks (signature, Origin, status 498) and
https://developer.gocardless.com/api-reference/#core-endpoints-events (what an event holds).

One request holds several events, which need not have anything in common; the whole body is signed.

**No event books**: GoCardless's events say which payment, refund or payout changed and how, and never how much. An
amount could only come from GoCardless's API, where it is what it is now, not what it was then. So every type that
moves money is left to a person, whose source are GoCardless's payout reports: a payment that is
confirmed, a late failure and a chargeback when they are settled, a chargeback that is cancelled, a refund that is
settled or comes back, a payout, one that bounces, a payment to somebody else, and what moves in a payment account. The
other types announce these or report them again, and move nothing; surcharges and other fees aren't booked.

An event's account is its organisation, which the events of a partner's merchants name
(https://developer.gocardless.com/partners/webhooks-for-partners); of an event that is about no payment, else its
creditor.

GoCardless says in ``Origin`` which of its environments sends. That isn't signed, so it must agree with the endpoint;
without the header, or with an address that is neither, the endpoint's mode stands.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from core.errors import Unparseable
from core.event import Event, Mode
from core.money import MoneyFact
from providers.base import Delivered, JsonAdapter, JsonObject, Named, Signed
from providers.event_types import EventTypes, types_of_objects
from providers.fields import an_object, array_items, names, optional_text, text, time_of
from providers.port import ModeMismatch, Request
from providers.signature import text_key

NAME = "gocardless"
ORIGIN = b"origin"
ITEMS = "events"
ITEMS_MAX = 1000
"""GoCardless sends up to 250 at once."""
EVENT_TYPES = EventTypes(
    books=frozenset(),
    person=names(
        "creditors.bounced_payout outbound_payments.executed payment_account_transaction.created "
        "payments.chargeback_cancelled payments.chargeback_settled payments.confirmed payments.late_failure_settled "
        "payouts.paid refunds.funds_returned refunds.refund_settled"
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
              failed paid_out resubmission_requested sds_settlement_delayed submitted surcharge_fee_debited
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


class GoCardlessAdapter(JsonAdapter):
    """One request is one or several events; an event's body is the exact bytes of its item."""

    name = NAME
    identity_fields = names("id payment refund mandate payout subscription billing_request organisation parent_event")
    header = b"webhook-signature"
    signature_status = 498
    event_types = EVENT_TYPES
    looked_up = "in GoCardless's payout reports, as its events name no amount"

    def signed(self, request: Request) -> Signed:
        request.one(ORIGIN)
        return super().signed(request)

    def key(self, secret: str) -> bytes:
        return text_key(NAME, secret, "the webhook endpoint's secret")

    def events(self, request: Request, mode: Mode) -> list[Event]:
        items = _items(request.document)
        _check_mode(request, mode)
        pairs = zip(items, array_items(request.body, ITEMS), strict=True)
        return [event for item, body in pairs for event in self.read_or_poison(item, body, request, mode)]

    def request_of(self, item: bytes, mode: Mode) -> bytes:  # noqa: ARG002 - only a header says it
        return b'{"%b":[%b]}' % (ITEMS.encode(), item)

    def named(self, delivered: Delivered[JsonObject]) -> Iterator[Named]:
        document = delivered.document
        event_id, resource_type = text(document, "id"), text(document, "resource_type")
        event_type = f"{resource_type}.{text(document, 'action')}"
        links = an_object(document.get("links") or {}, "'links'")
        entity = _entity(links, resource_type) or event_id
        yield Named(event_id, event_type, _account(links), entity, time_of(document.get("created_at")))

    def fact(self, document: JsonObject, event_type: str) -> MoneyFact | None:  # noqa: ARG002 - none books
        return None


def _items(document: object) -> list[Any]:
    """
    :raises Unparseable: not a batch; an empty one is none, as it would be taken without a trace
    """
    items = document.get(ITEMS) if isinstance(document, dict) else None
    if not isinstance(items, list) or not 1 <= len(items) <= ITEMS_MAX:
        raise Unparseable(f"{ITEMS!r} isn't an array of 1 to {ITEMS_MAX} events")
    return items


def _account(links: Mapping[str, Any]) -> str:
    """The merchant. Not every event about a payment names the creditor, so it distinguishes none."""
    of_payment = optional_text(links, "payment") or optional_text(links, "refund")
    return optional_text(links, "organisation") or (None if of_payment else optional_text(links, "creditor")) or ""


def _entity(links: Mapping[str, Any], resource_type: str) -> str | None:
    """The payment that an event is about, whatever it happened to; else the refund, else the resource itself."""
    for name in ("payment", "refund", resource_type.removesuffix("s")):
        named = optional_text(links, name)
        if named is not None:
            return named
    return None


def _check_mode(request: Request, endpoint: Mode) -> None:
    reported = {_MODES[value] for value in request.values(ORIGIN) if value in _MODES}
    for mode in reported:
        if mode != endpoint:
            raise ModeMismatch(endpoint, mode)
