"""Braintree's notifications of our own making: the XML, which the adapter's ``sign`` puts into the form."""

from __future__ import annotations

import base64
from collections.abc import Mapping
from datetime import datetime
from typing import TypeAlias
from urllib.parse import urlencode
from xml.sax.saxutils import escape

from load.samples.sender import Sample, Samples, Sending, SignedRequest
from providers.braintree import build_signed_pair, parse_api_key

Fields: TypeAlias = Mapping[str, object]
"""An element's children: texts, None (``nil="true"``), booleans, elements, or arrays as pairs of name and content."""


def transaction_event(
    kind: str,
    *,
    transaction: str,
    merchant_account: str,
    amount: str,
    currency: str,
    triggered: datetime,
    refund_of: str | None = None,
) -> bytes:
    """``transaction_settled``, ``transaction_disbursed`` and their like: about 1.5 KB.

    ``amount`` such as ``"12.50"``. ``refund_of``: the sale that a credit gives back.
    """
    fields = _transaction(transaction, merchant_account, amount, currency, triggered, "settled", refund_of)
    return _notification(kind, triggered, {"transaction": fields})


def subscription_charged(
    *,
    subscription: str,
    transaction: str,
    merchant_account: str,
    amount: str,
    currency: str,
    triggered: datetime,
) -> bytes:
    """``subscription_charged_successfully``: about 2.2 KB, with the transaction that the charge is."""
    charge = _transaction(transaction, merchant_account, amount, currency, triggered, "submitted_for_settlement", None)
    fields: Fields = {
        "id": subscription,
        "balance": "0.00",
        "merchant-account-id": merchant_account,
        "next-bill-amount": amount,
        "payment-method-token": "tok7sample",
        "plan-id": "monthly",
        "price": amount,
        "status": "Active",
        "trial-period": False,
        "add-ons": [],
        "discounts": [],
        "description": None,
        "transactions": [("transaction", charge)],
    }
    return _notification("subscription_charged_successfully", triggered, {"subscription": fields})


def dispute_event(
    kind: str,
    *,
    dispute: str,
    transaction: str,
    merchant_account: str,
    amount: str,
    currency: str,
    triggered: datetime,
    amount_won: str = "0.00",
    about: str = "chargeback",
) -> bytes:
    """``dispute_opened``, ``dispute_won``, ...: about 0.9 KB. ``about``: chargeback, pre_arbitration, retrieval."""
    fields: Fields = {
        "id": dispute,
        "amount": amount,
        "amount-disputed": amount,
        "amount-won": amount_won,
        "case-number": f"CASE-{dispute}",
        "currency-iso-code": currency,
        "kind": about,
        "merchant-account-id": merchant_account,
        "reason": "fraud",
        "reason-code": None,
        "status": kind.partition("_")[2],
        "evidence": [],
        "transaction": {"id": transaction, "amount": amount, "order-id": None, "payment-instrument-subtype": "Visa"},
    }
    return _notification(kind, triggered, {"dispute": fields})


def disbursement_event(
    kind: str,
    *,
    disbursement: str,
    merchant_account: str,
    amount: str,
    currency: str,
    triggered: datetime,
    success: bool = True,
    disbursement_type: str = "credit",
) -> bytes:
    """``disbursement`` or ``disbursement_exception``: about 0.8 KB."""
    fields: Fields = {
        "id": disbursement,
        "transaction-ids": [("item", f"{disbursement}a"), ("item", f"{disbursement}b")],
        "success": success,
        "retry": False,
        "merchant-account": {"id": merchant_account, "currency-iso-code": currency, "status": "active"},
        "amount": amount,
        "disbursement-type": disbursement_type,
        "exception-message": None if success else "bank_rejected",
        "follow-up-action": None if success else "contact_us",
    }
    return _notification(kind, triggered, {"disbursement": fields})


def check_event(*, triggered: datetime) -> bytes:
    """``check``: what the control panel sends to try a destination."""
    return _notification("check", triggered, {"check": True})


def _transaction(
    transaction: str,
    merchant_account: str,
    amount: str,
    currency: str,
    triggered: datetime,
    status: str,
    refund_of: str | None,
) -> Fields:
    return {
        "id": transaction,
        "status": status,
        "type": "credit" if refund_of else "sale",
        "currency-iso-code": currency,
        "amount": amount,
        "merchant-account-id": merchant_account,
        "order-id": f"order-{transaction}",
        "created-at": _time(triggered),
        "refunded-transaction-id": refund_of,
        "customer": {"id": "71350000", "first-name": "Robin", "last-name": "Sample", "email": "robin@example.com"},
        "billing": {"street-address": "Voorbeeldstraat 1", "locality": "Utrecht", "country-code-alpha2": "NL"},
        "custom-fields": {},
        "cvv-response-code": "M",
        "processor-response-code": "1000",
        "processor-response-text": "Approved",
        "credit-card": {"token": "tok7sample", "last-4": "0009", "card-type": "Visa", "expiration-year": "2031"},
        "payment-instrument-type": "credit_card",
        "disputes": [],
        "refund-ids": [],
        "tax-amount": None,
    }


def _notification(kind: str, triggered: datetime, subject: Fields) -> bytes:
    timestamp = f'<timestamp type="datetime">{_time(triggered)}</timestamp>'
    inner = "\n".join(_element(name, value, 2) for name, value in subject.items())
    return (
        '<?xml version="1.0" encoding="UTF-8"?>\n<notification>\n'
        f"  <kind>{escape(kind)}</kind>\n  {timestamp}\n  <subject>\n{inner}\n  </subject>\n</notification>\n"
    ).encode()


def _element(name: str, value: object, depth: int) -> str:
    blanks = "  " * depth
    if value is None:
        return f'{blanks}<{name} nil="true"/>'
    if isinstance(value, bool):
        return f'{blanks}<{name} type="boolean">{"true" if value else "false"}</{name}>'
    if isinstance(value, str):
        return f"{blanks}<{name}>{escape(value)}</{name}>"
    array = ' type="array"' if isinstance(value, list) else ""
    pairs = value if isinstance(value, list) else list(value.items()) if isinstance(value, Mapping) else []
    if not pairs:
        return f"{blanks}<{name}{array}/>"
    inner = "\n".join(_element(key, each, depth + 1) for key, each in pairs)
    return f"{blanks}<{name}{array}>\n{inner}\n{blanks}</{name}>"


def _time(moment: datetime) -> str:
    return moment.strftime("%Y-%m-%dT%H:%M:%SZ")


def _sample(sample: Sample) -> bytes:
    return transaction_event(
        "transaction_settled",
        transaction=sample.movement,
        merchant_account=sample.account,
        amount=sample.amount,
        currency=sample.currency,
        triggered=sample.at,
        refund_of=sample.payment,
    )


def _others() -> list[bytes]:
    settled = _sample(Sample())
    return [settled.replace(b"transaction_settled", kind) for kind in (b"transaction_settlement_declined", b"check")]


def _sign(sending: Sending) -> SignedRequest:
    """The XML of a notification, in the form that Braintree posts."""
    payload = base64.encodebytes(sending.body)
    form = {"bt_signature": build_signed_pair(parse_api_key(sending.secret), payload), "bt_payload": payload}
    return sending.posted({}, body=urlencode(form).encode("ascii"))


SAMPLES = Samples(_sample, _sign, _others)
