"""Paddle Billing: signature (https://developer.paddle.com/webhooks/signature-verification), identities, money facts.

Paddle's SDK takes a signature for 5 s, which is too tight behind proxies and retries of the network: here it is 60 s.
Sandbox and live are separate accounts, so the endpoint fixes the mode.
Amounts are texts of digits in the currency's minor unit; the account isn't named in events.

**What books, and why** (https://developer.paddle.com/webhooks/overview). Paddle is the merchant of record: the tax and
its fee are never ours. What it owes is the ``earnings`` of a transaction, total less tax less fee; of an adjustment,
what it takes from them or gives back (https://developer.paddle.com/api-reference/transactions,
https://developer.paddle.com/api-reference/adjustments). So ``earnings`` books, from ``payout_totals`` where they are,
because payouts are in that currency; else from ``totals``.

- A transaction books when it is ``completed``. ``transaction.paid`` comes before it, about the same money while Paddle
  still processes it, and doesn't.
- An adjustment books under its own ``adj_`` id once it is approved: a refund, a chargeback (the money is taken), and
  the reverse of a chargeback (an adjustment of its own, so the ``reversed`` original moves nothing more). Paddle
  reports no lost chargeback: one that isn't reversed is lost. A credit takes its earnings as a refund does, and its
  reverse gives them back, because a transaction's totals aren't impacted by adjustments
  (https://developer.paddle.com/changelog/2023/transaction-totals-adjusted-totals). Paddle's fee for a chargeback
  (``chargeback_fee``) isn't in the earnings: it is a movement of its own. So is what Paddle keeps of its fee for a
  sale that is given back (``retained_fee``, https://developer.paddle.com/changelog/2025/retained-fees-payout-totals),
  where the earnings are less all of that fee. Whether a reverse gives it back isn't documented: unknown.
- A reverse names the transaction and not the adjustment that it reverses
  (https://developer.paddle.com/webhooks/adjustments/adjustment-created). So it is paired with a chargeback, or a
  credit, of the same transaction and the same earnings. One whose earnings differ, because it reverses a part or was
  converted at another rate, is unknown: which adjustment it undoes isn't said.
- Earnings below zero, as a prorated downgrade or a tax adjustment may have, book as the opposite movement.
- A chargeback's warning needs a person where it has an effect on the payout balance: how, Paddle doesn't say.
- A payout books under its ``pay_`` id when it is paid; there is no event for one that fails.

Identities. ``data`` is what an event is about, and order is kept for it; an adjustment's is kept for its transaction. A
``subscription.created`` names the transaction that it came from, and is the subscription's all the same.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import timedelta
from typing import Any

from core.card_numbers import quote_masked
from core.event import Mode
from core.keys import join_key
from core.money import TEXT_CHARS_MAX, Money, MoneyFact, MoneyInvalid, Movement, MovementUnknown
from providers.base import Delivered, JsonAdapter, JsonObject, Named, Signed
from providers.content import fields_of
from providers.event_types import EventTypes, types_of_objects
from providers.fields import an_object, names, object_at, text, text_at, time_of
from providers.listed import build_page_address, read_documents, read_items
from providers.money import money_of, moved
from providers.port import ListedPage, ProviderEndpoint, Request, Span, Wanted
from providers.signature import parse_timed_signatures, secret_error, sent, text_key, timestamp

NAME = "paddle"
ACCOUNT = ""
API_URLS: Mapping[Mode, str] = {"live": "https://api.paddle.com", "test": "https://sandbox-api.paddle.com"}
"""https://developer.paddle.com/api-reference/about/environments"""
PAGE_MAX = 200
"""Events on a page, the newest first (https://developer.paddle.com/api-reference/events/list-events)."""
_CREDENTIAL = re.compile(r"[A-Za-z0-9_]{20,250}")

_MINOR = re.compile(r"-?[0-9]{1,16}", re.ASCII)
_ADJUSTED: Mapping[str, Movement] = {
    "refund": Movement.REFUND,
    "chargeback": Movement.DISPUTE_OPENED,
    "chargeback_reverse": Movement.DISPUTE_WON,
    "credit": Movement.REFUND,
    "credit_reverse": Movement.REFUND_FAILED,
}
_PAIRS: Mapping[str, str] = {
    "chargeback": "chargeback",
    "chargeback_reverse": "chargeback",
    "credit": "credit",
    "credit_reverse": "credit",
}
"""By action: what the pairs of its transaction are called. A refund isn't reversed."""
_OPPOSITE: Mapping[Movement, Movement] = {
    Movement.CAPTURE: Movement.CAPTURE_FAILED,
    Movement.REFUND: Movement.REFUND_FAILED,
    Movement.REFUND_FAILED: Movement.REFUND,
    Movement.DISPUTE_OPENED: Movement.DISPUTE_WON,
    Movement.DISPUTE_WON: Movement.DISPUTE_OPENED,
}
"""What earnings below zero book (https://developer.paddle.com/changelog/2024/proration-improvements)."""
_GIVEN_BACK = frozenset({"refund", "credit", "chargeback"})
"""Actions that take back what was earned."""
_WARNINGS = frozenset({"chargeback_warning", "chargeback_warning_reverse"})
_NOT_YET = frozenset({"pending_approval", "rejected"})

EVENT_TYPES = EventTypes(
    books=names("transaction.completed adjustment.created adjustment.updated payout.paid"),
    nothing={
        "https://developer.paddle.com/webhooks/overview": types_of_objects(
            """
            address: created imported updated
            api_key: created expired expiring revoked updated
            api_key_exposure: created
            business: created imported updated
            client_token: created revoked updated
            customer: created imported updated
            discount: created imported updated
            discount_group: created updated
            invoice: canceled created issued overdue paid scheduled
            payment_method: deleted saved
            payout: created
            price: created imported updated
            product: created imported updated
            report: created updated
            subscription: activated canceled created imported past_due paused resumed trialing updated
            transaction: billed canceled created paid past_due payment_failed ready revised updated
            """
        )
    },
)
"""Invoices are paid by transactions. A transaction that is ``paid`` is yet to be ``completed``."""

ADDED = {
    3: fields_of(
        """
        data.totals: retained_fee
        data.payout_totals: retained_fee
        """
    )
}
COUNTS = (
    fields_of(
        """
        : event_id event_type
        data: id transaction_id action status type amount currency_code
        data.totals: total tax fee earnings currency_code
        data.payout_totals: total tax fee earnings currency_code
        data.payout_totals.chargeback_fee: amount currency_code
        data.details.totals: total tax fee earnings currency_code
        data.details.payout_totals: total tax fee earnings currency_code
        """
    )
    + ADDED[3]
)
"""Its names and money. A replay has a ``notification_id`` of its own
(https://developer.paddle.com/api-reference/notifications/replay-notification)."""


class PaddleAdapter(JsonAdapter):
    name = NAME
    identity_fields = names(
        "id event_id notification_id transaction_id subscription_id customer_id invoice_id item_id payment_method_id "
        "payment_attempt_id stored_payment_method_id remittance_reference"
    )
    header = b"paddle-signature"
    key_prefix = "pdl_ntfset_"
    tolerance_s = 60
    event_types = EVENT_TYPES
    listed_for = timedelta(days=30)
    newest_first = True
    left_out = names("notification_id")
    """The id of a delivery to one destination."""
    content_version = 3
    counts = COUNTS
    added = ADDED

    def signed(self, request: Request) -> Signed:
        sent_at, signatures = parse_timed_signatures(sent(request, self.header)[0], b";", b"ts", b"h1")
        return Signed(signatures, b"%b:%b" % (sent_at, request.body), timestamp(sent_at))

    def page_wanted(self, span: Span, page: str | None, mode: Mode, credentials: Sequence[str]) -> Wanted | None:  # noqa: ARG002 - the list can't be asked for a span
        for credential in credentials:
            self.check_credential(credential)
        url = build_page_address(f"{API_URLS[mode]}/events", per_page=PAGE_MAX, order_by="id[DESC]", after=page)
        return Wanted(url, bearers=tuple(credentials), headers=(("paddle-version", "1"),), verified=True)

    def read_page(self, answer: bytes, span: Span) -> ListedPage:
        document, items = read_items(answer, "data")
        if not items:
            return ListedPage(())
        last = document["data"][-1]
        occurred_at = time_of(last.get("occurred_at"))
        more = object_at(document, "meta", "pagination").get("has_more") is True
        is_older = occurred_at is not None and occurred_at < span.since
        return ListedPage(items, text(last, "event_id") if more and not is_older else None)

    def endpoints_wanted(self, mode: Mode, credentials: Sequence[str]) -> Wanted:
        for credential in credentials:
            self.check_credential(credential)
        url = build_page_address(f"{API_URLS[mode]}/notification-settings", per_page=PAGE_MAX)
        return Wanted(url, bearers=tuple(credentials), headers=(("paddle-version", "1"),), verified=True)

    def read_endpoints(self, answer: bytes) -> list[ProviderEndpoint]:
        """Source: https://developer.paddle.com/api-reference/notification-settings/list-notification-settings."""
        endpoints = read_documents(answer, "data")
        return [
            ProviderEndpoint(text(endpoint, "destination"), endpoint.get("active") is not False)
            for endpoint in endpoints
        ]

    def check_credential(self, credential: str) -> None:
        if not _CREDENTIAL.fullmatch(credential):
            raise secret_error(f"{NAME}-api", "a line is an API key of Paddle's")

    def key(self, secret: str) -> bytes:
        return text_key(NAME, secret, "the destination's secret key (pdl_ntfset_…)")

    def named(self, delivered: Delivered[JsonObject]) -> Iterator[Named]:
        document = delivered.document
        event_id, event_type = text(document, "event_id"), text(document, "event_type")
        entity = _find_entity(document.get("data"), event_type) or event_id
        yield Named(event_id, event_type, ACCOUNT, entity, time_of(document.get("occurred_at")))

    def fees(self, document: JsonObject, event_type: str) -> list[MoneyFact]:
        """Reads the cost of a chargeback, and what Paddle keeps of its fee, in the payout's currency."""
        data = an_object(document.get("data"), "'data'")
        if not event_type.startswith("adjustment.") or _read_adjustment(data) is None:
            return []
        payment, reference = _find_entity(data, event_type), text(data, "id")
        return [
            moved(NAME, Movement.FEE, reference, money, account=ACCOUNT, payment=payment, prefix=prefix)
            for prefix, money in (("chargeback_", _read_chargeback_fee(data)), ("retained_", _read_retained_fee(data)))
            if money is not None and money.amount_minor
        ]

    def fact(self, document: JsonObject, event_type: str) -> MoneyFact | None:
        read = _READERS.get(event_type)
        if read is None:
            return None
        data = an_object(document.get("data"), "'data'")
        movement_and_money = read(data)
        if movement_and_money is None:
            return None
        movement, money = movement_and_money
        payment, pairs = _find_entity(data, event_type), _PAIRS.get(str(data.get("action")))
        if movement in _OPPOSITE and money.amount_minor < 0:
            movement, money, pairs = _OPPOSITE[movement], replace(money, amount_minor=-money.amount_minor), None
        fact = moved(NAME, movement, text(data, "id"), money, account=ACCOUNT, payment=payment)
        return fact if pairs is None else replace(fact, pair=join_key(NAME, payment or "", pairs))


def _find_entity(data: object, event_type: str) -> str | None:
    of_adjustment = text_at(data, "transaction_id") if event_type.startswith("adjustment.") else None
    return of_adjustment or text_at(data, "id")


_Moved = tuple[Movement, Money]


def _read_money(amount: object, currency: object) -> Money:
    if not isinstance(amount, str) or not _MINOR.fullmatch(amount):
        raise MoneyInvalid(f"the amount {quote_masked(amount, TEXT_CHARS_MAX)} isn't a text of digits")
    return money_of(int(amount), currency)


def _find_totals(holder: Mapping[str, Any], name: str) -> dict[str, Any]:
    totals = holder.get("payout_totals")
    return an_object(holder.get("totals") if totals is None else totals, f"'{name}.totals'")


def _read_earnings(holder: Mapping[str, Any], name: str) -> Money:
    """Reads what was earned, in the payout's currency if that is there."""
    earned = _find_totals(holder, name)
    return _read_money(earned.get("earnings"), earned.get("currency_code"))


def _read_chargeback_fee(adjustment: Mapping[str, Any]) -> Money | None:
    fee = object_at(adjustment, "payout_totals").get("chargeback_fee")
    if fee is None or adjustment["action"] != "chargeback":
        return None
    written = an_object(fee, "'chargeback_fee'")
    return _read_money(written.get("amount"), written.get("currency_code"))


def _read_retained_fee(adjustment: Mapping[str, Any]) -> Money | None:
    """Reads what Paddle keeps of its fee, unless the earnings, which are the total less tax and fee, say so already."""
    totals = _find_totals(adjustment, "data")
    if totals.get("retained_fee") in (None, "0"):
        return None
    retained, total, tax, fee, earnings = (
        _read_money(totals.get(name), totals.get("currency_code"))
        for name in ("retained_fee", "total", "tax", "fee", "earnings")
    )
    untaxed_minor = total.amount_minor - tax.amount_minor
    if adjustment["action"] in _GIVEN_BACK and 0 < retained.amount_minor <= fee.amount_minor:
        if earnings.amount_minor == untaxed_minor - fee.amount_minor:
            return retained
        if earnings.amount_minor == untaxed_minor - fee.amount_minor + retained.amount_minor:
            return None
    raise MovementUnknown("retained_fee", totals["retained_fee"])


def _read_completed(transaction: Mapping[str, Any]) -> _Moved:
    return Movement.CAPTURE, _read_earnings(an_object(transaction.get("details"), "'data.details'"), "data.details")


def _read_adjustment(adjustment: Mapping[str, Any]) -> _Moved | None:
    action, status = text(adjustment, "action"), text(adjustment, "status")
    if action in _WARNINGS and adjustment.get("payout_totals") is None:
        return None
    if action not in _ADJUSTED:
        if action in _WARNINGS:
            raise MoneyInvalid(f"there is no booking for an adjustment by {action}: book it by hand")
        raise MovementUnknown("action", action)
    movement = _ADJUSTED[action]
    if status in _NOT_YET or (status == "reversed" and action != "refund"):
        return None
    if status != "approved":
        raise MovementUnknown("status", status)
    return movement, _read_earnings(adjustment, "data")


def _read_payout(payout: Mapping[str, Any]) -> _Moved:
    return Movement.PAYOUT_PAID, _read_money(payout.get("amount"), payout.get("currency_code"))


_READERS: Mapping[str, Callable[[Mapping[str, Any]], _Moved | None]] = {
    "transaction.completed": _read_completed,
    "adjustment.created": _read_adjustment,
    "adjustment.updated": _read_adjustment,
    "payout.paid": _read_payout,
}
