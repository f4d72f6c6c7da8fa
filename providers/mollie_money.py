"""The money that Mollie's resources moved, for both of its APIs: `providers.mollie`, `providers.mollieclassic`.

One movement has one name, whichever API and whichever view of a payment told it: the payment's, the capture's, the
refund's, the chargeback's or the payout's id, as `LEDGER`'s. Both APIs tell of one balance, so they share its account.

**Captures.** Payments of some methods aren't settled themselves, their captures are
(https://docs.mollie.com/reference/list-settlement-payments: "For capture-based payment methods such as Klarna, the
payments are not listed here. Refer to the List captures endpoint"). Which of the two books follows from the payment's
own fields alone (`is_booked_by_captures`), never from captures that a view holds or doesn't: an order's payments come
without theirs.

**Splits.** A payment's ``routing`` sends portions of it to the balances of other organizations
(https://docs.mollie.com/reference/get-payment), and a refund's ``routingReversals`` take them back: only the rest is
deducted from ours (https://docs.mollie.com/docs/connect-refunds-and-chargebacks). When they move isn't told: such
money is unknown. Routes that are made once a payment is paid are in no webhook.

**Who holds the money.** What Mollie doesn't settle isn't in a payment's ``settlementAmount``
(https://docs.mollie.com/reference/get-payment). It is outside of Mollie, with the method's owner. A chargeback is
"deducted from your Mollie balance" (https://docs.mollie.com/reference/chargebacks-api); whose money one of a payment by
PayPal takes, or one of which nothing is deducted, no page says: unknown. So is a refund or a chargeback of which
Mollie deducts another amount than its own.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from core.money import Money, MoneyFact, MoneyInvalid, Movement, MovementUnknown, Outside
from providers.fields import an_object, names, optional_list, optional_object, optional_text, text
from providers.money import Methods, decimal_money_of, moved

LEDGER = "mollie"
ACCOUNT = ""
METHODS = Methods(
    here={
        "https://docs.mollie.com/docs/payment-methods": names(
            "alma applepay bacs bancomatpay bancontact banktransfer belfius billie billink bitcoin bizum blik "
            "creditcard directdebit eps giropay googlepay ideal in3 inghomepay kbc klarna klarnapaylater klarnapaynow "
            "klarnasliceit mbway mobilepay multibanco mybank paybybank paysafecard pointofsale przelewy24 riverty "
            "satispay sofort swish trustly twint vipps"
        ),
    },
    outside={
        # "We do not receive the PayPal payments; you receive the customer's payment directly into your PayPal account".
        "paypal": "https://help.mollie.com/hc/en-us/articles/213317049",
        # "In contrast to other payment methods such as iDEAL or credit card, Mollie does not handle contracting and
        # settlement on your behalf."
        "giftcard": "https://docs.mollie.com/payments/gift-cards",
        "podiumcadeaukaart": "https://docs.mollie.com/payments/gift-cards",
        # "Settlement is handled by the brand owner".
        "voucher": "https://docs.mollie.com/docs/integrating-vouchers",
    },
)
CAPTURED = names("billie billink klarna klarnapaylater klarnapaynow klarnasliceit riverty")
"""Methods whose captures are settled, in whatever mode they are captured ("Billink settles the captured amount to
Mollie", https://docs.mollie.com/docs/billink); cards, Vipps and MobilePay are authorized
first only where their payment says so (https://docs.mollie.com/docs/place-a-hold-for-a-payment)."""
PAYPAL = "paypal"
REFUNDED_OUTSIDE = PAYPAL
"""A refund of which nothing is settled by Mollie (its ``settlementAmount`` is zero) doesn't name its method: PayPal's
are the ones that Mollie passes on (https://docs.mollie.com/reference/get-refund); gift cards and vouchers can't be
refunded there (https://help.mollie.com/hc/en-us/articles/360015904939). One that doesn't say what is settled
(https://docs.mollie.com/reference/refunds-api-webhooks) is made where its payment is, if that is known."""
_STACKED = {"giftcards": "giftcard", "vouchers": "voucher"}
"""The details in which a payment lists the parts that were paid in another way. ``settlementAmount`` is to go by 2027
(https://docs.mollie.com/changelog/deprecate-settlementamount-on-payments-api-refunds-api-chargebacks-api-and-captu):
then ``remainderAmount``, "the amount that remained after all gift cards or vouchers were applied"
(https://github.com/mollie/openapi), says how much they were."""

_SPLITS = ("routing", "routingReversals", "reverseRouting")
"""What says that a payment, or a refund, moves the money of other organizations, too."""
_ALL_THERE_IS = names("payout capture")
"""Resources that may be asked for without an amount
(https://docs.mollie.com/reference/create-payout, https://docs.mollie.com/reference/create-capture)."""
"""Resources that name their payment, always (https://github.com/mollie/openapi)."""

_PAIRED = frozenset(Movement) - {Movement.CAPTURE}


def fact_of(resource: Mapping[str, Any], movement: Movement, its_payment: Mapping[str, Any] | None = None) -> MoneyFact:
    """Reads the movement of one of Mollie's resources, under the resource's own id.

    :param its_payment: the payment that a refund or a chargeback is of, where it is known
    :raises MoneyInvalid: the amount isn't ``{"value": "10.00", "currency": "EUR"}``
    :raises MovementUnknown: its method is in no table, it doesn't say how much of it Mollie settles or moved, or it is
        split
    :raises Unparseable: the resource has no id
    """
    reference = text(resource, "id")
    for name in _SPLITS:
        if resource.get(name):
            raise MovementUnknown(name, "of other organizations")
    if optional_text(resource, "resource") in _ALL_THERE_IS and resource.get("amount") is None:
        raise MovementUnknown("amount", None)
    money = money_at(amount_of(resource))
    payment = optional_text(resource, "paymentId") or reference
    return moved(
        LEDGER,
        movement,
        reference,
        money,
        account=ACCOUNT,
        payment=payment,
        paired=movement in _PAIRED,
        outside=_find_outside(resource, money, its_payment),
    )


def fees_of(payment: Mapping[str, Any]) -> list[MoneyFact]:
    """Reads the fees of a paid payment that it tells. Mollie's own are invoiced, or in its settlements.

    The application's: "If the payment succeeds, the fee will be deducted from the merchant's balance".
    PayPal's, where it settles the payment itself: ``paypalFee`` is "the fee PayPal will charge for this transaction"
    (https://docs.mollie.com/reference/get-payment), and is taken there.
    """
    fees = []
    if payment.get("applicationFee") is not None:
        amount = an_object(payment["applicationFee"], "'applicationFee'").get("amount")
        fees.append(_build_fee(payment, money_at(amount), "application_"))
    if (kept := optional_object(payment, "details").get("paypalFee")) is not None and _is_paypals(payment):
        fees.append(_build_fee(payment, money_at(kept), "paypal_", PAYPAL))
    return [fee for fee in fees if fee.money.amount_minor]


def _build_fee(payment: Mapping[str, Any], money: Money, prefix: str, method: str | None = None) -> MoneyFact:
    reference = text(payment, "id")
    outside = Outside(method, money.amount_minor) if method is not None and money.amount_minor > 0 else None
    return moved(
        LEDGER,
        Movement.FEE,
        reference,
        money,
        account=ACCOUNT,
        payment=reference,
        prefix=prefix,
        outside=outside,
    )


def _is_paypals(payment: Mapping[str, Any]) -> bool:
    if optional_text(payment, "method") != PAYPAL:
        return False
    outside = _find_payment_outside(payment, money_at(amount_of(payment)))
    return outside is not None and outside.method == PAYPAL


def amount_of(resource: Mapping[str, Any]) -> object:
    """Returns the resource's amount; of a paid payment what was captured of it, where that is said."""
    if resource.get("resource") != "payment" or resource.get("status") != "paid":
        return resource.get("amount")
    captured = resource.get("amountCaptured")
    return resource.get("amount") if captured is None else captured


def money_at(amount: object) -> Money:
    paid = an_object(amount, "the amount")
    return decimal_money_of(paid.get("value"), paid.get("currency"))


def is_booked_by_captures(payment: Mapping[str, Any]) -> bool:
    """Whether a payment's money moves with its captures, and not with the payment."""
    return (
        payment.get("captureMode") == "manual"
        or payment.get("captureDelay") is not None
        or optional_text(payment, "method") in CAPTURED
    )


def _find_outside(resource: Mapping[str, Any], money: Money, its_payment: Mapping[str, Any] | None) -> Outside | None:
    kind = resource.get("resource")
    if money.amount_minor <= 0:
        return None
    if kind not in ("refund", "chargeback"):
        return _find_payment_outside(resource, money) if kind == "payment" else None
    settled = _read_settled(resource)
    is_here = settled.amount_minor != 0 if settled else its_payment is None or not _is_paypals(its_payment)
    if settled and is_here and settled.currency == money.currency and abs(settled.amount_minor) != money.amount_minor:
        raise MovementUnknown("settlementAmount", f"of another amount than the {kind}'s")
    if is_here:
        return None
    if kind == "chargeback":
        raise MovementUnknown(*(("settlementAmount", "zero") if settled else ("method", PAYPAL)))
    return Outside(REFUNDED_OUTSIDE, money.amount_minor)


def _find_payment_outside(payment: Mapping[str, Any], money: Money) -> Outside | None:
    method, settled = optional_text(payment, "method"), _read_settled(payment)
    is_outside = method is not None and METHODS.is_outside(method)
    if settled is not None and settled.currency == money.currency:
        rest = money.amount_minor - settled.amount_minor
        if rest < 0:
            raise MovementUnknown("settlementAmount", f"above {money.amount_minor}")
        if rest == 0:
            return None
        return Outside(str(method) if is_outside else _find_stacked_method(payment), rest)
    stacked = _list_stacked(payment)
    if not is_outside and not stacked:
        return None
    rest = money.amount_minor - _read_remainder(payment, money)
    if rest == money.amount_minor and not is_outside:
        raise MovementUnknown(f"details.{stacked[0]}", "of an amount that isn't said")
    if settled is not None and rest == money.amount_minor:
        raise MovementUnknown("settlementAmount", settled.currency)
    if _sum_stacked(payment) not in (None, rest):
        raise MovementUnknown(f"details.{stacked[0]}", f"not {rest}")
    return Outside(str(method) if is_outside else _find_stacked_method(payment), rest)


def _read_settled(resource: Mapping[str, Any]) -> Money | None:
    settled = resource.get("settlementAmount")
    return None if settled is None else money_at(settled)


def _find_stacked_method(payment: Mapping[str, Any]) -> str:
    """Finds the method by which the other part was paid.

    :raises MovementUnknown: the details list none
    """
    stacked = _list_stacked(payment)
    if len(stacked) != 1:
        raise MovementUnknown("settlementAmount", "below the payment's amount")
    return _STACKED[stacked[0]]


def _find_method_here(payment: Mapping[str, Any]) -> str | None:
    method = optional_text(payment, "method")
    return None if method is None or METHODS.is_outside(method) else method


def _list_stacked(payment: Mapping[str, Any]) -> list[str]:
    details = optional_object(payment, "details")
    return [name for name in _STACKED if details.get(name)]


def _sum_stacked(payment: Mapping[str, Any]) -> int | None:
    """Sums the gift cards or vouchers that the details list; None if one doesn't say its amount."""
    details = optional_object(payment, "details")
    amounts = [part.get("amount") for name in _list_stacked(payment) for part in optional_list(details, name)]
    return sum(money_at(amount).amount_minor for amount in amounts) if amounts and all(amounts) else None


def _read_remainder(payment: Mapping[str, Any], money: Money) -> int:
    """Reads what another method paid, after a gift card or voucher; it is Mollie's, if Mollie settles that one. Where
    it isn't named, it is the payment's own method.
    """
    details = optional_object(payment, "details")
    if details.get("remainderAmount") is None:
        return 0
    remainder = money_at(details["remainderAmount"])
    if remainder.currency != money.currency or not 0 <= remainder.amount_minor < money.amount_minor:
        raise MoneyInvalid("the remainder of the payment isn't a part of it")
    method = optional_text(details, "remainderMethod") or _find_method_here(payment)
    if remainder.amount_minor and (method is None or METHODS.is_outside(method)):
        raise MovementUnknown("remainderMethod", method)
    return remainder.amount_minor
