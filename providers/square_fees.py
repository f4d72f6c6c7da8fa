"""The fees that Square tells of, by what their names begin with. `providers.square` books them.

- Positive values are assessed, negative ones returned
  (https://developer.squareup.com/reference/square/objects/ProcessingFee).
- The application's fee is taken from the seller (https://developer.squareup.com/reference/square/objects/Payment); of a
  refund it is what the application adds (https://developer.squareup.com/reference/square/objects/PaymentRefund).
- Who took an external payment keeps ``source_fee_money`` of it: "The amount_money minus this field is the net amount
  seller receives" (https://developer.squareup.com/reference/square/objects/ExternalPaymentDetails).
- A payout's amount "will equal the sum of the payout entries", one of which is its ``DEPOSIT_FEE``
  (https://developer.squareup.com/reference/square/objects/PayoutEntry,
  https://developer.squareup.com/reference/square/enums/ActivityType). So its ``payout_fee`` comes on top. Whether it
  comes back with a payout that failed isn't said: it is unknown.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from core.money import Money, MoneyInvalid, MovementUnknown
from providers.fields import an_object, optional_list, optional_object, text
from providers.money import money_of

SOURCE = "source_"
_PAYOUT_FEES: Mapping[object, str] = {"TRANSFER_FEE": "payout_", "TAX_ON_TRANSFER_FEE": "payout_tax_"}
"""By type (https://developer.squareup.com/reference/square/enums/PayoutFeeType)."""


def read_fees(source: Mapping[str, Any], kind: str) -> list[tuple[str, Money]]:
    """Reads the fees of a payment or a refund.

    :raises MoneyInvalid, MovementUnknown, Unparseable: they can't be read for sure
    """
    fees = [(_name_processing_fee(fee), fee.get("amount_money")) for fee in _list_fees(source, "processing_fee")]
    if (external := optional_object(source, "external_details").get("source_fee_money")) is not None:
        fees.append((SOURCE, external))
    read = _read_each(fees)
    if source.get("app_fee_money") is not None:
        money = read_money(source["app_fee_money"])
        read.append(("app_", replace(money, amount_minor=money.amount_minor * (1 if kind == "payment" else -1))))
    return [(prefix, money) for prefix, money in read if money.amount_minor]


def read_payout_fees(payout: Mapping[str, Any], *, is_failed: bool) -> list[tuple[str, Money]]:
    """Reads what it cost to send a payout at once.

    :raises MoneyInvalid, MovementUnknown, Unparseable: they can't be read for sure
    """
    fees = _list_fees(payout, "payout_fee")
    if fees and is_failed:
        raise MovementUnknown("payout_fee", "of a payout that failed")
    return [
        (prefix, money)
        for prefix, money in _read_each([(_name_payout_fee(fee), fee.get("amount_money")) for fee in fees])
        if money.amount_minor
    ]


def read_money(amount: object) -> Money:
    """Reads a `Money` of Square's; a payout's currency also comes as ``currency_code``."""
    if not isinstance(amount, dict):
        raise MoneyInvalid("there is no amount")
    named = {str(amount[name]) for name in ("currency", "currency_code") if amount.get(name) is not None}
    if len(named) > 1:
        raise MoneyInvalid("the amount names two currencies")
    return money_of(amount.get("amount"), next(iter(named), None))


def _list_fees(source: Mapping[str, Any], name: str) -> list[dict[str, Any]]:
    return [an_object(fee, "a fee") for fee in optional_list(source, name)]


def _read_each(fees: list[tuple[str, object]]) -> list[tuple[str, Money]]:
    if len({prefix for prefix, _ in fees}) < len(fees):
        raise MoneyInvalid("two fees can't be told apart")
    return [(prefix, read_money(amount)) for prefix, amount in fees]


def _name_processing_fee(fee: Mapping[str, Any]) -> str:
    kind = fee.get("type")
    if kind in (None, "INITIAL"):
        return ""
    if kind != "ADJUSTMENT":
        raise MovementUnknown("processing_fee.type", kind)
    return f"adjustment_{text(fee, 'effective_at')}_"


def _name_payout_fee(fee: Mapping[str, Any]) -> str:
    kind = fee.get("type")
    if not isinstance(kind, str) or kind not in _PAYOUT_FEES:
        raise MovementUnknown("payout_fee.type", kind)
    return _PAYOUT_FEES[kind]
