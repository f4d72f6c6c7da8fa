"""The money that Adyen's standard notifications moved. `providers.adyen` names them and splits their requests.

**What books, and why.** A modification (CAPTURE, REFUND, a payout) books under its own pspReference once it succeeded.
CAPTURE_FAILED (the scheme refused a capture that had been reported) and SETTLED_REVERSED (its money never came, so
Adyen takes it back) undo the capture; REFUND_FAILED and REFUNDED_REVERSED undo the refund. They have the pspReference
of what they undo (the examples of https://github.com/Adyen/adyen-openapi, Webhooks-v1), and give back what was booked.
Where an account captures at once, what they undo is booked under the payment's own reference, and so are they.

**Captures.** Whether an AUTHORISATION is captured is a setting of the merchant account at Adyen and isn't in the
notification (https://docs.adyen.com/online-payments/capture). An account that captures immediately sends no CAPTURE:
its AUTHORISATION books. With a delay or by hand the CAPTURE books and nothing else does. For a delayed capture Adyen
sends it only where "Delayed Capture" is turned on among its webhook settings
(https://docs.adyen.com/development-resources/webhooks/webhook-types), and it has to be: the notification of a
smaller capture, or of a cancellation, doesn't say what of the authorisation is left. So CANCELLATION,
TECHNICAL_CANCEL, CANCEL_OR_REFUND that cancelled, and EXPIRE book nothing, in whatever order they come
(https://docs.adyen.com/online-payments/cancel). From an account that captures immediately they, and a CAPTURE,
contradict what its AUTHORISATION booked: a captured payment can't be cancelled. A person has to look.

**Disputes** (https://docs.adyen.com/risk-management/understanding-disputes/dispute-process-and-flow and
https://docs.adyen.com/risk-management/disputes-api/dispute-notifications). Adyen takes the money with CHARGEBACK, gives
it back with CHARGEBACK_REVERSED, and takes it again with SECOND_CHARGEBACK; where the scheme's arbitration is won, a
second CHARGEBACK_REVERSED gives it back once more. All of them have one pspReference, so reversals are told apart by
``eventDate``. Each gives back one chargeback, whichever of the two came. The loss books

- with DISPUTE_DEFENSE_PERIOD_ENDED: not defended in time, or accepted; the chargeback is the final stage;
- with PREARBITRATION_LOST: where it is sent, the first chargeback wasn't reversed before, and the payer keeps the money
  (https://docs.adyen.com/risk-management/chargeback-guidelines/visa-chargebacks, .../unionpay-chargebacks);
- with a CHARGEBACK whose ``disputeStatus`` is Lost or Accepted, as for direct debits that can't be defended
  (https://docs.adyen.com/risk-management/chargeback-guidelines/sepa-chargebacks): no later notification is documented;
- with each SECOND_CHARGEBACK.

The last two move money twice at once: it is withheld, and it is lost. A notification has one fact, so they are two
events of the same bytes, the second of which has `LOST` after its code. The losses of a first chargeback share one
fact, so that several notifications of one loss book it once. PREARBITRATION_ACCEPTED and SCHEME_ARBITRATION_LOST book
nothing, because a second chargeback follows, with the scheme's fees in it. PREARBITRATION_WON,
ISSUER_RESPONSE_TIMEFRAME_EXPIRED, SCHEME_ARBITRATION_WON and PREARBITRATION_ISSUER_WITHDRAWN book nothing, because the
money comes (or came) back with CHARGEBACK_REVERSED. Where a status isn't one that Adyen documents for the end of a
dispute, it isn't known who has the money: a person has to look.

``disputeStatus`` isn't signed, and no signed field tells of a loss at once. What a changed copy of a notification can
book, and how it is found, is in docs/security.md (tests/security/test_adyen.py tries all of them).

**Who holds the money.** A payment by PayPal is credited to the merchant's own PayPal account, to which Adyen is given
rights (https://docs.adyen.com/paypal-hpp/paypal-account-setup). So it is outside of Adyen, with its refunds and
disputes, by ``paymentMethod``, which every notification of them has. So is a payment by gift card: of one that is the
merchant's own "no funds are exchanged", for another the card's provider pays
(https://docs.adyen.com/payment-methods/gift-cards). Whether Adyen or its owner settles another method is in the
contract: the notifications don't say.

**Left to a person**: Adyen's documents don't say whether the refund that VOID_PENDING_REFUND
cancels was reported before, nor who has the money of a refund that isn't cleared (REFUND_NOT_CLEARED,
https://docs.adyen.com/account/payments-lifecycle).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from core.card_numbers import quote_masked
from core.keys import join_key
from core.money import MoneyFact, MoneyInvalid, Movement, MovementUnknown, Outside
from providers.event_types import EventTypes
from providers.fields import an_object, names, object_at, optional_text, text
from providers.money import PAYOUTS, money_of
from providers.port import Answer
from providers.settings import AdyenSettings

NAME = "adyen"
ACCEPTED = Answer(200, b"[accepted]", "text/plain")
"""The answer to every webhook of Adyen's."""
MORE_DECIMALS: Mapping[str, int] = {"CLP": 2, "ISK": 2, "CVE": -2, "IDR": -2}
"""Where Adyen's minor unit isn't ISO 4217's (https://docs.adyen.com/development-resources/currency-codes)."""
MOVEMENTS: Mapping[str, tuple[Movement, str]] = {
    "CAPTURE": (Movement.CAPTURE, "capture"),
    "CAPTURE_FAILED": (Movement.CAPTURE_FAILED, "capture_failed"),
    "SETTLED_REVERSED": (Movement.CAPTURE_FAILED, "capture_failed"),
    "REFUND": (Movement.REFUND, "refund"),
    "REFUND_WITH_DATA": (Movement.REFUND, "refund"),
    "REFUND_FAILED": (Movement.REFUND_FAILED, "refund_failed"),
    "REFUNDED_REVERSED": (Movement.REFUND_FAILED, "refund_failed"),
    "CHARGEBACK": (Movement.DISPUTE_OPENED, "dispute_opened"),
    "CHARGEBACK_REVERSED": (Movement.DISPUTE_WON, "dispute_won"),
    "SECOND_CHARGEBACK": (Movement.DISPUTE_OPENED, "second_dispute_opened"),
    "DISPUTE_DEFENSE_PERIOD_ENDED": (Movement.DISPUTE_LOST, "dispute_lost"),
    "PREARBITRATION_LOST": (Movement.DISPUTE_LOST, "dispute_lost"),
    "PAYOUT_THIRDPARTY": (Movement.PAYOUT_PAID, "payout_paid"),
    "PAIDOUT_REVERSED": (Movement.PAYOUT_FAILED, "payout_failed"),
}
"""By event code: how money moved, and what the fact is called after its pspReference."""
PAIRS: Mapping[Movement, str] = {
    Movement.CAPTURE: "capture",
    Movement.CAPTURE_FAILED: "capture",
    Movement.REFUND: "refund",
    Movement.REFUND_FAILED: "refund",
    Movement.DISPUTE_OPENED: "dispute_opened",
    Movement.DISPUTE_WON: "dispute_opened",
    Movement.PAYOUT_PAID: "payout_paid",
    Movement.PAYOUT_FAILED: "payout_paid",
}
"""What pairs are called after their pspReference. Both chargebacks of a dispute are of one pair, for a reversal doesn't
say which of them it undoes."""
DATED = frozenset({"CHARGEBACK_REVERSED"})
"""Event codes of which one pspReference may have several, each of its own ``eventDate``.

Its text is whole seconds and a zone (``yyyy-MM-DDThh:mm:ssTZD``, https://docs.adyen.com/api-explorer/Webhooks/1), and
nothing else tells two of one second apart. So they are one notification, sent again
(https://docs.adyen.com/development-resources/webhooks/handle-webhook-events), and with another amount a conflict.
"""
LOST = ".lost"
"""After an event code: the same notification once more, for the loss of what it withheld."""
EVENT_TYPES = EventTypes(
    books=frozenset(MOVEMENTS) | names("AUTHORISATION CANCELLATION TECHNICAL_CANCEL EXPIRE CANCEL_OR_REFUND"),
    person=names("VOID_PENDING_REFUND REFUND_NOT_CLEARED"),
    nothing={
        "https://docs.adyen.com/development-resources/webhooks/webhook-types": names(
            "AUTHENTICATION AUTHORISATION_ADJUSTMENT AUTORESCUE CANCEL_AUTORESCUE HANDLED_EXTERNALLY "
            "INFORMATION_SUPPLIED ISSUER_COMMENTS ISSUER_RESPONSE_TIMEFRAME_EXPIRED MANUAL_REVIEW_ACCEPT "
            "MANUAL_REVIEW_REJECT NOTIFICATION_OF_CHARGEBACK NOTIFICATION_OF_FRAUD OFFER_CLOSED ORDER_CLOSED "
            "ORDER_OPENED PAYOUT_DECLINE PAYOUT_EXPIRE PENDING POSTPONED_REFUND PREARBITRATION_ACCEPTED "
            "PREARBITRATION_DECLINED PREARBITRATION_ISSUER_WITHDRAWN PREARBITRATION_OPEN PREARBITRATION_WON "
            "PROCESS_RETRY RECURRING_CONTRACT REPORT_AVAILABLE REQUEST_FOR_INFORMATION SCHEME_ARBITRATION_LOST "
            "SCHEME_ARBITRATION_WON"
        ),
        # Of the bank account behind a direct debit, and of a case whose ruling is told by itself.
        "https://github.com/Adyen/adyen-openapi": names(
            "ACH_NOTIFICATION_OF_CHANGE DIRECT_DEBIT_NOTICE_OF_CHANGE_NOTIFICATION SCHEME_ARBITRATION"
        ),
    },
)
"""Event codes. The cancellations are read because an account's capture mode decides what they mean."""

_PAYPAL = "paypal"
_GIFT_CARD = "giftcard"
"""The method by which gift cards clear outside; the names of most of them end so."""
_GIFT_CARDS = names(
    "bijcadeaucard fijncadeau givex nationaleverwencadeaubon primeracadeaucard svs valuelink vdcadeaucard vvvcadeaubon"
)
"""The other ones (https://docs.adyen.com/payment-methods/gift-cards, and the examples of
https://github.com/Adyen/adyen-openapi, CheckoutService)."""
_OF_PAYMENTS = PAIRS.keys() - PAYOUTS
"""Movements that a payment method settles; when a dispute is lost, its money went before."""
_LOST_AT_ONCE: Mapping[str, tuple[frozenset[str] | None, str]] = {
    "CHARGEBACK": (frozenset({"Lost", "Accepted"}), "dispute_lost"),
    "SECOND_CHARGEBACK": (None, "second_dispute_lost"),
}
"""By event code: the statuses with which what it withholds is lost as well (None: always), and the loss's name."""
_END_OF_A_DISPUTE: Mapping[str, frozenset[str | None]] = {
    "DISPUTE_DEFENSE_PERIOD_ENDED": frozenset({"Undefended", "Lost", "Accepted", None}),
    "PREARBITRATION_LOST": frozenset({"Lost", None}),
}
"""By event code: the documented statuses. None: Adyen sends none for payments processed in Brazil."""
_NOT_CAPTURED = frozenset({"CANCELLATION", "TECHNICAL_CANCEL", "EXPIRE"})
_LOOK = "look at the payment in Adyen's Customer Area, and book what moved by a manual entry"


def has_succeeded(item: Mapping[str, Any]) -> bool:
    return item.get("success") == "true"


def is_lost_at_once(item: Mapping[str, Any]) -> bool:
    """Whether the item makes a second event, of its code and `LOST`."""
    rule = _LOST_AT_ONCE.get(str(item.get("eventCode"))) if has_succeeded(item) else None
    return rule is not None and (rule[0] is None or _read_status(item) in rule[0])


def fact_of(item: Mapping[str, Any], event_type: str, settings: AdyenSettings) -> MoneyFact | None:
    """Reads the fact of one item; of its loss, where ``event_type`` ends with `LOST`.

    :raises MoneyInvalid: it moved money, and how much or which way can't be known
    :raises MovementUnknown: a value that decides it is in no table
    :raises Unparseable: the item can't be read
    """
    if not has_succeeded(item):
        return None
    booking = (
        (Movement.DISPUTE_LOST, _LOST_AT_ONCE[event_type.removesuffix(LOST)][1])
        if event_type.endswith(LOST)
        else _find_booking(item, settings)
    )
    if booking is None:
        return None
    movement, fact_name = booking
    reference, account = text(item, "pspReference"), text(item, "merchantAccountCode")
    payment = optional_text(item, "originalReference") or reference
    if movement is Movement.CAPTURE_FAILED and is_captured_at_once(settings, account, _read_method(item)):
        reference = payment
    if text(item, "eventCode") in DATED:
        fact_name = f"{optional_text(item, 'eventDate') or ''}.{fact_name}".removeprefix(".")
    amount = an_object(item.get("amount"), "'amount'")
    pair, money = PAIRS.get(movement), money_of(amount.get("value"), amount.get("currency"), MORE_DECIMALS)
    outside = _find_outside_method(item) if movement in _OF_PAYMENTS and money.amount_minor > 0 else None
    return MoneyFact(
        fact_key=join_key(NAME, reference, fact_name),
        movement=movement,
        account=account,
        payment=None if movement in PAYOUTS else payment,
        money=money,
        pair=None if pair is None else join_key(NAME, reference, pair),
        outside=None if outside is None else Outside(outside, money.amount_minor),
    )


def is_captured_at_once(settings: AdyenSettings, account: str, method: str | None) -> bool | None:
    """Whether an account captures a payment method as soon as it is authorised.

    None: it captures some of its methods so and others not, and which one this is isn't known.
    """
    of_account = settings.capture.get(account, "manual")
    if method is not None:
        return settings.capture.get(f"{account}/{method}", of_account) == "immediate"
    modes = {mode for name, mode in settings.capture.items() if name.startswith(f"{account}/")} | {of_account}
    return None if "immediate" in modes and modes != {"immediate"} else of_account == "immediate"


def _find_booking(item: Mapping[str, Any], settings: AdyenSettings) -> tuple[Movement, str] | None:
    code = text(item, "eventCode")
    if code in _END_OF_A_DISPUTE and _read_status(item) not in _END_OF_A_DISPUTE[code]:
        raise MovementUnknown("disputeStatus", _read_status(item))
    cancelled = code in _NOT_CAPTURED
    if code == "CANCEL_OR_REFUND":
        if _read_action(item) == "refund":
            return MOVEMENTS["REFUND"]
        cancelled = True
    if code not in ("AUTHORISATION", "CAPTURE") and not cancelled:
        return MOVEMENTS[code]
    return _find_capture(item, code, cancelled, settings)


def _find_capture(
    item: Mapping[str, Any], code: str, cancelled: bool, settings: AdyenSettings
) -> tuple[Movement, str] | None:
    account = text(item, "merchantAccountCode")
    at_once = is_captured_at_once(settings, account, _read_method(item))
    if at_once is None and not cancelled:
        raise MoneyInvalid(
            f"providers.adyen.capture of {quote_masked(account, 80)} depends on paymentMethod, which isn't there"
        )
    if at_once and code != "AUTHORISATION":
        raise MoneyInvalid(
            f"{code} of {quote_masked(account, 80)}, which is 'immediate' in providers.adyen.capture: its "
            "AUTHORISATION was "
            f"booked, and this payment wasn't captured then. Correct the setting if it is wrong; {_LOOK}"
        )
    return MOVEMENTS["CAPTURE"] if not cancelled and (code == "CAPTURE" or at_once) else None


def _read_method(item: Mapping[str, Any]) -> str | None:
    return optional_text(item, "paymentMethod")


def _find_outside_method(item: Mapping[str, Any]) -> str | None:
    method = _read_method(item) or ""
    if method in _GIFT_CARDS or method.endswith(_GIFT_CARD):
        return _GIFT_CARD
    return _PAYPAL if method == _PAYPAL else None


def _read_status(item: Mapping[str, Any]) -> str | None:
    """Returns the dispute's status, None where there is none. It is unsigned, like the rest of ``additionalData``."""
    status = object_at(item, "additionalData").get("disputeStatus")
    return None if status is None else str(status)


def _read_action(item: Mapping[str, Any]) -> str:
    """Returns what a CANCEL_OR_REFUND did. It is unsigned, but without it nothing can be booked at all."""
    action = an_object(item.get("additionalData"), "'additionalData'").get("modification.action")
    if action is None:
        raise MoneyInvalid("there is no 'modification.action': whether it cancelled or refunded isn't said")
    if action not in ("cancel", "refund"):
        raise MovementUnknown("modification.action", action)
    return str(action)
