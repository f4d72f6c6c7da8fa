"""Razorpay: signature (https://razorpay.com/docs/webhooks/validate-test/), identities and money facts.

The event's id. Razorpay names an event in the header ``x-razorpay-event-id``, which isn't signed and can be missing.
It is taken as the event's id, for people to quote, and decides nothing: who has once seen a signed body could
otherwise make any number of events of it, and one that a proxy robbed of its header would be a second event. The key
is made of signed content alone: the account, the time, the ids of all that the event is about, and the type. So a
body replayed under another id is the same event, of whatever type, and the same event with another content is a
conflict. An event without a time or without any id is named by the hash of its content instead. Two events of one
type about the same things in the same second are one, and a conflict if they say other money or another status.

**What books, and why** (https://razorpay.com/docs/webhooks/all/):

- ``payment.captured`` books under the payment's id. Orders, invoices, payment links, subscriptions and virtual
  accounts report the same payment again and don't; ``payment.authorized`` may say captured already and doesn't.
- A payment by the wallet PayPal is received by the PayPal account, one on delivery (``cod``) by whoever delivers: it is
  outside of Razorpay, and so are its refunds.
- The fee of a captured payment is a movement of its own: ``fee``, which is "including GST", the ``tax`` beside it
  (https://razorpay.com/docs/api/payments/entity). So is that of a RazorpayX payout, whose amount "does not include fees
  and tax. Fees and tax, if any, are deducted from your account balance"
  (https://razorpay.com/docs/api/x/payouts/entity); ``fees`` includes the ``tax`` beside it, as the debit in the sample
  of https://razorpay.com/docs/webhooks/transactions shows. A payout that comes back brings "the original payout amount
  including fees and tax" (https://razorpay.com/docs/x/payouts/states-life-cycle): what was booked of its fee is given
  back.
- The validation of a fund account takes its amount and a charge from the RazorpayX balance
  (https://razorpay.com/docs/x/fund-accounts/faqs, https://razorpay.com/docs/api/x/account-validation/bank-account). The
  charge isn't told, nor what an address of UPI costs: unknown.
- A refund books under its ``rfnd_`` id when it is created, because it is paid from the balance then;
  ``refund.processed`` reports the same fact, ``refund.failed`` gives it back. Refunds of payments that were never
  captured (auto-refunds) move nothing (https://razorpay.com/docs/webhooks/refunds/).
- A dispute's amount is deducted at the outset, or when it is lost: ``payment.dispute.created`` books unless its
  ``amount_deducted`` is 0. That is "the amount … deducted from your Razorpay current balance"
  (https://razorpay.com/docs/api/disputes/entity), so it books where it is said, though less than the disputed amount.
  It is given back when it is won, and is lost for good with ``payment.dispute.lost``
  (https://razorpay.com/docs/payments/disputes/chargeback-fees-and-penalties/). Phases ``fraud`` and ``retrieval`` are
  inquiries: one of which something is deducted is unknown, and so is a dispute that is lost and of which nothing is.
  A later phase is of "a chargeback that you have won" (https://razorpay.com/docs/payments/disputes) and takes the money
  again: a fact of its own. Within a phase a loss after a win is unknown, as no deduction in between is documented. A
  loss makes two events of the same bytes, one of them for that deduction (`providers.money.types_of`).
- A settlement books under its ``setl_`` id; its event names no currency, the settings do.
- A RazorpayX payout books under its ``pout_`` id when it is initiated or, at the latest, processed, and back when it
  is reversed or failed (https://razorpay.com/docs/webhooks/payouts,
  https://razorpay.com/docs/x/payouts/states-life-cycle/). ``payout.failed`` doesn't say whether the money was taken
  before; whichever way, none of it is gone, and ``payout.reversed`` of the same payout is the same fact.

What gives back gives back only what was booked (`MoneyFact.pair`), so each of these may come alone or first.

**Left to a person**: a Route transfer moves money from one account at Razorpay to another, which
no movement here is; neither is the settlement of a linked account to a VPA
(https://razorpay.com/docs/webhooks/route), nor money that is added to a RazorpayX account, which
``transaction.created`` reports beside payouts (https://razorpay.com/docs/webhooks/transactions). A dispute that is
closed without being won or lost is left, too.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from typing import Any

from core.keys import key_part
from core.money import MoneyFact, MoneyInvalid, Movement, MovementUnknown, Outside
from providers.base import Delivered, JsonAdapter, JsonObject, Named
from providers.content import fields_of
from providers.fields import an_object, content_hash, names, object_at, optional_text, text, text_at, time_of
from providers.money import Methods, money_of, moved
from providers.port import Request
from providers.razorpay_types import EVENT_TYPES
from providers.signature import text_key

NAME = "razorpay"
ID_HEADER = b"x-razorpay-event-id"
_METHODS = Methods(
    here={
        "https://razorpay.com/docs/payments/payment-methods/": names(
            "aeps app bank_transfer card cardless_emi emandate emi fpx intl_bank_transfer nach netbanking paylater "
            "paynow upi wallet"
        )
    },
    outside={
        # "your PayPal account is configured to receive … payments"
        "paypal": "https://razorpay.com/docs/payments/payment-methods/wallets/paypal",
        # "the amount is collected by you (or your logistics partner) in cash at delivery … no settlement is generated"
        "cod": "https://razorpay.com/docs/payments/payment-gateway/web-integration/standard/cod",
    },
)
"""Of a payment; of one by wallet the wallet, if it is one that settles by itself. Where none is said, Razorpay does."""
_ID = re.compile(rb"[\x21-\x7e]{1,128}")
_INQUIRIES = ("fraud", "retrieval")
_PHASES = ("chargeback", "pre_arbitration", "arbitration")
_LOST = "payment.dispute.lost"
_CAME_BACK = names("payout.failed payout.reversed")
_FEES: Mapping[str, tuple[str, str]] = {
    "payment.captured": ("payment", "fee"),
    **dict.fromkeys(names("payout.initiated payout.processed") | _CAME_BACK, ("payout", "fees")),
}
"""By type: what a fee is of, and which of its fields has it."""
_Payload = Mapping[str, Mapping[str, Any]]

COUNTS = fields_of(
    """
    : event account_id created_at
    payload.*.entity: id amount currency base_currency status phase amount_deducted captured payment_id order_id method
      wallet fee fees tax credit debit
    payload.*.entity.source: id entity
    """
)
"""Its names and money. Razorpay replays an event as it was first made
(https://razorpay.com/docs/webhooks/replay-events)."""


class RazorpayAdapter(JsonAdapter):
    name = NAME
    identity_fields = names("id account_id payment_id order_id refund_id dispute_id invoice_id subscription_id")
    header = b"x-razorpay-signature"
    splits_losses = True
    event_types = EVENT_TYPES
    looked_up = "in Razorpay's Dashboard"
    content_version = 2
    counts = COUNTS

    def key(self, secret: str) -> bytes:
        return text_key(NAME, secret, "the one that was set with the webhook")

    def named(self, delivered: Delivered[JsonObject]) -> Iterator[Named]:
        document = delivered.document
        reported, account = text(document, "event"), optional_text(document, "account_id") or ""
        payload = _read_entities(document)
        identity, occurred_at = _build_identity(document, payload, account), time_of(document.get("created_at"))
        event_id = _read_header_id(delivered.request) or identity[-1]
        entity = _find_payment(payload, reported) or identity[-1]
        is_loss = reported == _LOST and not _is_inquiry(payload)
        yield Named(event_id, reported, account, entity, occurred_at, identity, is_loss=is_loss)

    def fees(self, document: JsonObject, event_type: str) -> list[MoneyFact]:
        """Reads a captured payment's ``fee`` and a payout's ``fees``; each includes its ``tax``.

        A payout that came back gives its fee back.
        """
        fee_field = _FEES.get(event_type)
        if fee_field is None:
            return []
        kind, name = fee_field
        source = _read_source(_read_entities(document), kind)
        fee = source.get(name)
        if fee is None or _is_zero(fee):
            return []
        reference, account = text(source, "id"), optional_text(document, "account_id") or ""
        based = source.get("base_currency")
        money = money_of(fee, source.get("currency") if based is None else based)
        payment = reference if kind == "payment" else None
        booked = moved(NAME, Movement.FEE, reference, money, account=account, payment=payment)
        if kind == "payment":
            return [booked]
        if event_type not in _CAME_BACK:
            return [replace(booked, pair=booked.fact_key)]
        back = replace(money, amount_minor=-money.amount_minor)
        returned = moved(NAME, Movement.FEE, reference, back, account=account, payment=payment, prefix="reversed_")
        return [replace(returned, pair=booked.fact_key)]

    def fact(self, document: JsonObject, event_type: str) -> MoneyFact | None:
        payload = _read_entities(document)
        moved_now = _READERS[event_type](payload)
        if moved_now is None:
            return None
        movement, source, prefix = moved_now
        currency = source.get("currency")
        if currency is None and source is payload.get("settlement"):
            currency = self._settings.razorpay.settlement_currency
        money = money_of(source.get("amount"), currency)
        method = _find_outside_method(payload) if money.amount_minor > 0 else None
        return moved(
            NAME,
            movement,
            text(source, "id"),
            money,
            account=optional_text(document, "account_id") or "",
            payment=optional_text(source, "payment_id") or text(source, "id"),
            paired=movement is not Movement.CAPTURE and "settlement" not in payload,
            prefix=prefix,
            outside=None if method is None else Outside(method, money.amount_minor),
        )


def _find_outside_method(payload: _Payload) -> str | None:
    payment = payload.get("payment", {})
    method = optional_text(payment, "method")
    wallet = optional_text(payment, "wallet") if method in (None, "wallet") else None
    by = wallet if wallet in _METHODS.outside else method
    return by if by is not None and _METHODS.is_outside(by) else None


def _read_header_id(request: Request) -> str | None:
    """Returns the id in the unsigned header, if it has just one that can be an id."""
    ids = request.values(ID_HEADER)
    return ids[0].decode("ascii") if len(ids) == 1 and _ID.fullmatch(ids[0]) else None


def _read_entities(document: Mapping[str, Any]) -> dict[str, Mapping[str, Any]]:
    payload = object_at(document, "payload")
    entities = {kind: holder.get("entity") for kind, holder in payload.items() if isinstance(holder, dict)}
    return {kind: entity for kind, entity in entities.items() if isinstance(entity, dict)}


def _build_identity(document: Mapping[str, Any], payload: _Payload, account: str) -> tuple[str, ...]:
    """Names an event by signed content, short of its type; the last part is never empty.

    The hash in it is of the whole content, whatever `COUNTS` comes to say: a key is never made again.
    """
    ids = [object_id for kind in sorted(payload) if (object_id := text_at(payload[kind], "id"))]
    created_at = document.get("created_at")
    if not ids or type(created_at) is not int:
        return account, content_hash(document, ())
    return account, str(created_at), ",".join(key_part(object_id).replace(",", "%2C") for object_id in ids)


def _find_payment(payload: _Payload, event_type: str) -> str | None:
    """Finds the entity: a payment's order, which all tries at it share; else the payment, or what there is.

    A token outlives the payment that made it: its events are its own.
    """
    if event_type.startswith("token.") and (token := text_at(payload.get("token", {}), "id")):
        return token
    for kind, name in (
        ("payment", "order_id"),
        ("payment", "id"),
        ("refund", "payment_id"),
        ("dispute", "payment_id"),
        ("order", "id"),
    ):
        if reference := text_at(payload.get(kind, {}), name):
            return reference
    return next((object_id for kind in sorted(payload) if (object_id := text_at(payload[kind], "id"))), None)


def _is_zero(value: object) -> bool:
    return type(value) is int and value == 0


def _is_inquiry(payload: _Payload) -> bool:
    return optional_text(payload.get("dispute", {}), "phase") in _INQUIRIES


_Moved = tuple[Movement, Mapping[str, Any], str]
"""How money moved, what moved (its id names the fact), and what the fact's name begins with."""


def _read_source(payload: _Payload, kind: str) -> Mapping[str, Any]:
    return an_object(payload.get(kind), f"'payload.{kind}.entity'")


def _make_reader(movement: Movement, kind: str) -> Callable[[_Payload], _Moved]:
    return lambda payload: (movement, _read_source(payload, kind), "")


def _read_captured(payload: _Payload) -> _Moved:
    payment = _read_source(payload, "payment")
    if payment.get("captured") is False:
        raise MovementUnknown("captured", payment["captured"])
    return Movement.CAPTURE, payment, ""


def _make_refund_reader(movement: Movement) -> Callable[[_Payload], _Moved | None]:
    def read(payload: _Payload) -> _Moved | None:
        captured = payload.get("payment", {}).get("captured")
        if type(captured) is not bool:
            raise MoneyInvalid("whether the refunded payment was ever captured isn't said")
        return (movement, _read_source(payload, "refund"), "") if captured else None

    return read


def _make_dispute_reader(movement: Movement) -> Callable[[_Payload], _Moved | None]:
    def read(payload: _Payload) -> _Moved | None:
        dispute = _read_source(payload, "dispute")
        phase = dispute.get("phase")
        if phase in _INQUIRIES:
            _check_inquiry(dispute)
            return None
        if phase not in _PHASES:
            raise MovementUnknown("phase", phase)
        deducted, disputed = dispute.get("amount_deducted"), dispute.get("amount")
        if movement is Movement.DISPUTE_OPENED:
            if deducted is None:
                raise MovementUnknown("amount_deducted", None)
            if _is_zero(deducted):
                return None
        if movement is Movement.DISPUTE_LOST and _is_zero(deducted):
            raise MovementUnknown("amount_deducted", deducted)
        if deducted is not None and not _is_zero(deducted):
            if type(deducted) is not int or type(disputed) is not int or not 0 < deducted <= disputed:
                raise MoneyInvalid("what was deducted is more than the disputed amount, or isn't an amount")
            dispute = {**dispute, "amount": deducted}
        return movement, dispute, "" if phase == "chargeback" else f"{phase}_"

    return read


def _check_inquiry(dispute: Mapping[str, Any]) -> None:
    """
    :raises MovementUnknown: something was deducted, though it is only an inquiry
    """
    deducted = dispute.get("amount_deducted")
    if deducted is not None and not _is_zero(deducted):
        raise MovementUnknown("amount_deducted", deducted)


def _check_closed_dispute(payload: _Payload) -> None:
    dispute = _read_source(payload, "dispute")
    phase = dispute.get("phase")
    if phase not in _INQUIRIES and phase not in _PHASES:
        raise MovementUnknown("phase", phase)
    if phase not in _INQUIRIES:
        raise MoneyInvalid("a dispute was closed, neither won nor lost: book by hand what became of its amount")
    _check_inquiry(dispute)


def _check_validation(payload: _Payload) -> None:
    _read_source(payload, "fund_account.validation")
    raise MovementUnknown("fund_account.validation", "with a verification charge")


def _check_transaction(payload: _Payload) -> None:
    source = object_at(_read_source(payload, "transaction"), "source").get("entity")
    if source == "bank_transfer":
        raise MoneyInvalid("money was added to the RazorpayX account: book it by a manual entry (docs/finance.md)")
    if source not in ("payout", "reversal"):
        raise MovementUnknown("transaction.source", source)


_READERS: Mapping[str, Callable[[_Payload], _Moved | None]] = {
    "fund_account.validation.completed": _check_validation,
    "payment.captured": _read_captured,
    "refund.created": _make_refund_reader(Movement.REFUND),
    "refund.processed": _make_refund_reader(Movement.REFUND),
    "refund.failed": _make_refund_reader(Movement.REFUND_FAILED),
    "payment.dispute.created": _make_dispute_reader(Movement.DISPUTE_OPENED),
    "payment.dispute.won": _make_dispute_reader(Movement.DISPUTE_WON),
    _LOST: _make_dispute_reader(Movement.DISPUTE_LOST),
    "payment.dispute.closed": _check_closed_dispute,
    "settlement.processed": _make_reader(Movement.PAYOUT_PAID, "settlement"),
    "payout.initiated": _make_reader(Movement.PAYOUT_PAID, "payout"),
    "payout.processed": _make_reader(Movement.PAYOUT_PAID, "payout"),
    "payout.reversed": _make_reader(Movement.PAYOUT_FAILED, "payout"),
    "payout.failed": _make_reader(Movement.PAYOUT_FAILED, "payout"),
    "transaction.created": _check_transaction,
}
