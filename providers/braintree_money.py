"""The object of a Braintree notification and the money that moved. `providers.braintree` says what books, and why."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping
from typing import NamedTuple
from xml.etree.ElementTree import Element

from core import strict_json
from core.clock import from_rfc3339
from core.money import Money, MoneyFact, MoneyInvalid, Movement, MovementUnknown, Outside
from providers.braintree_xml import find_child, find_children, list_elements, name_of, text_of
from providers.event_types import EventTypes
from providers.fields import names
from providers.money import Methods, decimal_money_of, moved

NAME = "braintree"

# The statuses are those of https://developer.paypal.com/braintree/docs/reference/general/statuses
_TAKEN = frozenset({"submitted_for_settlement", "settlement_pending", "settlement_confirmed", "settling", "settled"})
"""States of a transaction that was submitted to move money."""
_NOT_TAKEN = names(
    "authorization_expired authorized authorizing failed gateway_rejected processor_declined settlement_declined voided"
)


_TAKEN_BACK = frozenset({"voided", "settlement_declined"})
"""States of a transaction that may have been submitted before."""
_CHARGED = "subscription_charged_"
LISTED = ".listed-"
"""After the type of such a notification, with a place: an earlier charge of the subscription that it lists too."""
_INSTRUMENTS = Methods(
    here={
        "https://developer.paypal.com/braintree/docs/reference/response/transaction": names(
            "amex_express_checkout_card android_pay_card apple_pay_card coinbase_account credit_card google_pay_card "
            "masterpass_card meta_checkout_card meta_checkout_token network_token samsung_pay_card us_bank_account "
            "venmo_account visa_checkout_card"
        )
    },
    outside={
        # "Braintree sends funds from those transactions to the PayPal account linked in your Control Panel."
        "paypal_account": "https://developer.paypal.com/braintree/docs/reference/general/paypal-advanced-options/payee",
        "paypal_here": "https://developer.paypal.com/braintree/docs/reference/general/paypal-advanced-options/payee",
        # Of both: "settled into your PayPal account once your customer confirms a payment".
        "local_payment": "https://developer.paypal.com/braintree/articles/guides/payment-methods/local-payment-methods",
        "sepa_debit_account": "https://developer.paypal.com/braintree/articles/guides/payment-methods/sepa-direct-debit",
    },
    field="payment-instrument-type",
)
"""By what a transaction was paid. Where it isn't said, nor by its details, Braintree settles it."""
_INSTRUMENT_OF: Mapping[str, str] = dict.fromkeys(("local_payment_completed", "local_payment_funded"), "local_payment")
"""By kind whose transaction may not say by what it was paid: by what it was."""
_PAYPAL = "paypal"
_BY_PAYPAL = "paypal_"
_FEE_GIVEN_BACK = "refund-from-transaction-fee-amount"
"""No page says which transaction has it, or whether the refund's amount is less by it."""
_FEES_OF_PAYPAL = ("transaction-fee-amount", _FEE_GIVEN_BACK)
_DETAILS_OF_PAYPAL = ("paypal", "local-payment", "sepa-debit-account-detail")
"""Where a transaction that PayPal settles says what PayPal took (the SDKs' ``Transaction``). Without an instrument they
tell that PayPal does (https://developer.paypal.com/braintree/docs/reference/response/transaction)."""


class _TransactionMovement(NamedTuple):
    movement: Movement
    source: Element
    """What moved: its ``id`` names the fact."""
    amount: str | None
    currency: str | None
    payment: str | None
    is_part: bool = False
    """Whether it may be a part of what it undoes: a pair is of one amount."""


class _Fee(NamedTuple):
    field: str
    prefix: str
    money: Money


COUNTS = names(
    "kind timestamp source-merchant-id id transaction-id payment-id token type status amount currency-iso-code "
    "amount-disputed amount-won refunded-transaction-id merchant-account-id success disbursement-type "
    "payment-instrument-type payment-instrument-subtype created-at service-fee-amount"
)
"""Fields that decide a conflict, since content version 2."""


def find_subject(root: Element) -> Element | None:
    """Finds what the notification is about: the only element in ``subject``, or in the ``api-error-response`` there."""
    subject = find_child(root, "subject")
    within = find_child(subject, "api-error-response")
    elements = list_elements(subject if within is None else within)
    return elements[0] if len(elements) == 1 and len(elements[0]) else None


def read_reference(subject: Element | None) -> str | None:
    return text_of(subject, "id") or text_of(subject, "transaction-id") or text_of(subject, "payment-id")


def find_payment(root: Element) -> str | None:
    subject = find_subject(root)
    if subject is None:
        return None
    transaction = _find_transaction(subject, text_of(root, "kind") or "")
    if transaction is not None:
        return text_of(transaction, "refunded-transaction-id") or text_of(transaction, "id") or read_reference(subject)
    return read_reference(subject) or text_of(subject, "token")


def find_account(root: Element, kind: str) -> str:
    """Finds the merchant account, else the merchant that a platform got the notification for.

    :param kind: the notification's, or that of an earlier charge which it lists
    """
    subject = find_subject(root)
    if subject is None:
        return text_of(root, "source-merchant-id") or ""
    return (
        text_of(_find_transaction(subject, kind), "merchant-account-id")
        or text_of(subject, "merchant-account-id")
        or text_of(find_child(subject, "merchant-account"), "id")
        or text_of(root, "source-merchant-id")
        or ""
    )


def hash_content(root: Element) -> str:
    """Hashes a notification's names and money: `COUNTS` of it, of what it is about, and of the transactions and the
    merchant account there. Customers, cards, add-ons and histories may differ.
    """
    subject = find_subject(root)
    transactions = [
        *find_children(subject, "transaction"),
        *find_children(find_child(subject, "transactions"), "transaction"),
    ]
    parts = {
        "notification": [root],
        "subject": [] if subject is None else [subject],
        "transaction": transactions,
        "merchant-account": list(find_children(subject, "merchant-account")),
    }
    counted = {part: [_read_counted(element) for element in elements] for part, elements in parts.items()}
    about = "" if subject is None else name_of(subject)
    return hashlib.sha256(strict_json.dump_canonical_json({"about": about, **counted})).hexdigest()


def _read_counted(element: Element) -> dict[str, list[str]]:
    """Reads every text of `COUNTS`: a field that comes several times is refused elsewhere."""
    texts = {name: [(field.text or "").strip() for field in find_children(element, name)] for name in sorted(COUNTS)}
    return {name: values for name, values in texts.items() if any(values)}


def is_loss(root: Element, kind: str) -> bool:
    return _DISPUTES.get(kind) is Movement.DISPUTE_LOST and text_of(find_subject(root), "kind") not in _INQUIRIES


def read_fact(root: Element, kind: str) -> MoneyFact | None:
    """
    :raises MoneyInvalid: it moved money, and how much can't be known for sure
    :raises Unparseable: a field comes several times
    """
    read = _read_listed if LISTED in kind else _READERS.get(kind)
    if read is None:
        return None
    subject = find_subject(root)
    if subject is None:
        raise MoneyInvalid("there is nothing in <subject>")
    moved_now = read(subject, kind)
    if moved_now is None:
        return None
    reference = text_of(moved_now.source, "id")
    if reference is None:
        raise MoneyInvalid("what moved has no id")
    money = decimal_money_of(moved_now.amount, moved_now.currency)
    is_outside = money.amount_minor > 0 and _is_outside(moved_now.source, kind)
    return moved(
        NAME,
        moved_now.movement,
        reference,
        money,
        account=find_account(root, kind),
        payment=moved_now.payment,
        paired=moved_now.payment is not None and not moved_now.is_part,
        outside=Outside(_PAYPAL, money.amount_minor) if is_outside else None,
    )


def read_fees(root: Element, kind: str) -> list[MoneyFact]:
    """Reads what the marketplace takes of a sale by a sub-merchant, and PayPal of one that it settles itself.

    :raises MoneyInvalid, MovementUnknown: as `read_fact`
    """
    subject = find_subject(root)
    tells_fees = LISTED in kind or _READERS.get(kind) in (_read_captured, _read_declined)
    transaction = None if subject is None or not tells_fees else _find_transaction(subject, kind)
    fees = [] if transaction is None else _list_fees(transaction)
    fact = read_fact(root, kind) if fees else None
    if fact is None:
        return []
    unsure = fees if fact.movement is not Movement.CAPTURE else [fee for fee in fees if fee.field == _FEE_GIVEN_BACK]
    if unsure:
        raise MovementUnknown(unsure[0].field, f"of a {fact.movement}")
    reference = text_of(transaction, "id") or ""
    return [
        moved(
            NAME,
            Movement.FEE,
            reference,
            fee.money,
            account=fact.account,
            payment=fact.payment,
            prefix=fee.prefix,
            outside=Outside(_PAYPAL, fee.money.amount_minor) if fee.prefix == _BY_PAYPAL else None,
        )
        for fee in fees
        if fee.prefix != _BY_PAYPAL or fact.outside is not None
    ]


def _list_fees(transaction: Element) -> list[_Fee]:
    details = (find_child(transaction, name) for name in _DETAILS_OF_PAYPAL)
    of_paypal = next((found for found in details if found is not None), None)
    currency = text_of(transaction, "currency-iso-code")
    its_currency = text_of(of_paypal, "transaction-fee-currency-iso-code") or currency
    told = [
        ("service-fee-amount", "service_", text_of(transaction, "service-fee-amount"), currency),
        *((field, _BY_PAYPAL, text_of(of_paypal, field), its_currency) for field in _FEES_OF_PAYPAL),
    ]
    fees = [
        _Fee(field, prefix, decimal_money_of(amount, code))
        for field, prefix, amount, code in told
        if amount is not None
    ]
    return [fee for fee in fees if fee.money.amount_minor]


def _is_outside(source: Element, kind: str) -> bool:
    """Whether PayPal settles it, by the transaction that moved or that is disputed, or by the notification's kind."""
    if name_of(source) == "dispute":
        return (
            (text_of(find_child(source, "transaction"), "payment-instrument-subtype") or "").lower().startswith(_PAYPAL)
        )
    instrument = text_of(source, "payment-instrument-type") or _INSTRUMENT_OF.get(kind)
    if instrument is None:
        return any(_says_something(find_child(source, name)) for name in _DETAILS_OF_PAYPAL)
    return _INSTRUMENTS.is_outside(instrument)


def _says_something(details: Element | None) -> bool:
    return any((detail.text or "").strip() or len(detail) for detail in list_elements(details))


def _find_transaction(subject: Element, kind: str) -> Element | None:
    if name_of(subject) == "transaction":
        return subject
    if name_of(subject) == "subscription":
        return _find_charge(subject, kind) if kind.startswith(_CHARGED) else None
    return find_child(subject, "transaction")


def _find_charge(subscription: Element, kind: str) -> Element | None:
    """Finds the newest of a subscription's transactions, the charge that the notification reports, or an earlier one
    that it lists.
    """
    place = kind.rpartition(LISTED)[2]
    return next(iter(_list_charges(subscription)[int(place) if is_place(place) else 0 :]), None)


def _list_charges(subscription: Element) -> list[Element]:
    """Lists a subscription's transactions, the newest first; none where their order isn't known."""
    charges = list(find_children(find_child(subscription, "transactions"), "transaction"))
    if len(charges) <= 1:
        return charges
    try:
        return sorted(charges, key=lambda charge: from_rfc3339(text_of(charge, "created-at") or ""), reverse=True)
    except ValueError:
        return []


def is_place(text: str) -> bool:
    """Whether it is what follows `LISTED`, and no part of a kind."""
    return text.isascii() and text.isdecimal()


def list_earlier_charges(root: Element, kind: str) -> dict[str, str]:
    """Lists the earlier transactions in the notification of a charge: by the type of each one's event the transaction's
    id, "" where it has none.
    """
    subject = find_subject(root)
    if subject is None or not kind.startswith(_CHARGED) or name_of(subject) != "subscription":
        return {}
    earlier = [text_of(charge, "id") or "" for charge in _list_charges(subject)[1:]]
    return {f"{kind}{LISTED}{place}": name for place, name in enumerate(earlier, 1)}


def _read_listed(subject: Element, event_type: str) -> _TransactionMovement | None:
    charge = _require_transaction(subject, event_type)
    status, credit = text_of(charge, "status"), _is_credit(charge, False)
    if status in _TAKEN_BACK:
        return _build_movement(Movement.REFUND_FAILED if credit else Movement.CAPTURE_FAILED, charge)
    if status in _NOT_TAKEN:
        return None
    if status not in _TAKEN:
        raise MovementUnknown("status", status)
    return _build_movement(Movement.REFUND if credit else Movement.CAPTURE, charge)


def _read_captured(subject: Element, kind: str) -> _TransactionMovement | None:
    transaction = _require_transaction(subject, kind)
    status = text_of(transaction, "status")
    if status in _NOT_TAKEN:
        return None
    if status is not None and status not in _TAKEN:
        raise MovementUnknown("status", status)
    credit = _is_credit(transaction, kind in _EITHER_WAY)
    return _build_movement(Movement.REFUND if credit else Movement.CAPTURE, transaction)


def _read_uncharged(subject: Element, _: str) -> None:
    """The newest charge came to nothing; what became of the earlier ones is told by events of their own.

    :raises MoneyInvalid: which of them is the newest isn't known
    """
    listed = find_children(find_child(subject, "transactions"), "transaction")
    if not _list_charges(subject) and next(listed, None) is not None:
        raise MoneyInvalid("the subscription's transactions don't say when they were: book what they came to by hand")


def _read_declined(subject: Element, kind: str) -> _TransactionMovement | None:
    """Reads a sale or a refund that was declined or failed. Its status doesn't tell whether it was booked before."""
    transaction = _require_transaction(subject, kind)
    credit = kind == "refund_failed" or _is_credit(transaction, True)
    return _build_movement(Movement.REFUND_FAILED if credit else Movement.CAPTURE_FAILED, transaction)


def _require_transaction(subject: Element, kind: str) -> Element:
    transaction = _find_transaction(subject, kind)
    if transaction is None:
        raise MoneyInvalid("it doesn't say which transaction it is about")
    return transaction


def _is_credit(transaction: Element, either_way: bool) -> bool:
    """Whether it is a refund. ``either_way``: its kind may be a sale or a refund, so the transaction has to say."""
    way = text_of(transaction, "type")
    if way not in (None, "sale", "credit"):
        raise MovementUnknown("transaction.type", way)
    if way is None and either_way:
        raise MoneyInvalid("the transaction doesn't say whether it is a sale or a credit")
    return way == "credit"


def _build_movement(movement: Movement, transaction: Element) -> _TransactionMovement:
    return _TransactionMovement(
        movement,
        transaction,
        text_of(transaction, "amount"),
        text_of(transaction, "currency-iso-code"),
        text_of(transaction, "refunded-transaction-id") or text_of(transaction, "id"),
    )


def _read_disputed(subject: Element, kind: str) -> _TransactionMovement | None:
    about = text_of(subject, "kind")
    if about in _INQUIRIES:
        return None
    if about is not None and about not in _DISPUTE_KINDS:
        raise MovementUnknown("dispute.kind", about)
    movement = _DISPUTES[kind]
    disputed = text_of(subject, "amount-disputed") or text_of(subject, "amount")
    currency = text_of(subject, "currency-iso-code")
    won = text_of(subject, "amount-won") if movement is Movement.DISPUTE_WON else None
    is_part = won is not None and decimal_money_of(won, currency) != decimal_money_of(disputed, currency)
    if (
        is_part
        and not 0 < decimal_money_of(won, currency).amount_minor < decimal_money_of(disputed, currency).amount_minor
    ):
        raise MoneyInvalid("what is won is no part of what was disputed: book it by hand")
    return _TransactionMovement(
        movement,
        subject,
        won if is_part else disputed,
        currency,
        text_of(find_child(subject, "transaction"), "id"),
        is_part,
    )


def _read_disbursed(subject: Element, _: str) -> _TransactionMovement | None:
    success = text_of(subject, "success")
    if success == "false":
        return None
    if success != "true":
        raise MoneyInvalid("the disbursement doesn't say whether it was a success")
    way = text_of(subject, "disbursement-type")
    if way not in (None, "credit", "debit"):
        raise MovementUnknown("disbursement-type", way)
    amount = text_of(subject, "amount")
    if way == "debit" and amount is not None and not amount.startswith("-"):
        amount = f"-{amount}"
    merchant = find_child(subject, "merchant-account")
    return _TransactionMovement(Movement.PAYOUT_PAID, subject, amount, text_of(merchant, "currency-iso-code"), None)


_INQUIRIES = frozenset({"retrieval"})
_DISPUTE_KINDS = frozenset({"chargeback", "pre_arbitration"})
"""What a dispute is, where money is taken (https://developer.paypal.com/braintree/docs/reference/response/dispute)."""
_EITHER_WAY = frozenset({"transaction_settled", "transaction_disbursed"})
_DISPUTES: Mapping[str, Movement] = {
    "dispute_opened": Movement.DISPUTE_OPENED,
    "dispute_won": Movement.DISPUTE_WON,
    "dispute_lost": Movement.DISPUTE_LOST,
    "dispute_accepted": Movement.DISPUTE_LOST,
    "dispute_auto_accepted": Movement.DISPUTE_LOST,
    "dispute_expired": Movement.DISPUTE_LOST,
}
_READERS: Mapping[str, Callable[[Element, str], _TransactionMovement | None]] = {
    "transaction_settled": _read_captured,
    "transaction_disbursed": _read_captured,
    "transaction_retried": _read_captured,
    "transaction_settlement_declined": _read_declined,
    "refund_failed": _read_declined,
    "subscription_charged_successfully": _read_captured,
    "subscription_charged_unsuccessfully": _read_uncharged,
    "local_payment_completed": _read_captured,
    "local_payment_funded": _read_captured,
    "disbursement": _read_disbursed,
    **dict.fromkeys(_DISPUTES, _read_disputed),
}


EVENT_TYPES = EventTypes(
    books=frozenset(_READERS),
    person=names("disbursement_exception local_payment_reversed"),
    nothing={
        "https://developer.paypal.com/braintree/docs/guides/webhooks/parse": names(
            "account_updater_daily_report check connected_merchant_paypal_status_changed "
            "connected_merchant_status_transitioned dispute_disputed dispute_under_review "
            "granted_payment_method_revoked grantor_updated_granted_payment_method local_payment_expired "
            "oauth_access_revoked partner_merchant_connected partner_merchant_declined partner_merchant_disconnected "
            "payment_method_customer_data_updated payment_method_revoked_by_customer "
            "recipient_updated_granted_payment_method subscription_billing_skipped subscription_canceled "
            "subscription_expired subscription_trial_ended "
            "subscription_went_active subscription_went_past_due transaction_reviewed"
        )
    },
)
