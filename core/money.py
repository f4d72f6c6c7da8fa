"""Money: integer minor units plus currency, as people write it, and the movements that providers report."""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass
from decimal import Decimal
from enum import StrEnum
from functools import cached_property

from core.card_numbers import quote_masked
from core.errors import PayhookError

AMOUNT_MINOR_MAX = 10**15
"""Ten trillion of a two-decimal currency: above it a body is wrong, not rich."""

TEXT_CHARS_MAX = 20
"""Of a wrong amount or currency in an error text."""

VALUE_CHARS_MAX = 80
"""An error text has at most this much of a value that no table knows."""

_BY_DECIMALS = {
    0: "BIF CLP DJF GNF ISK JPY KMF KRW PYG RWF UGX UYI VND VUV XAF XOF XPF",
    3: "BHD IQD JOD KWD LYD OMR TND",
    4: "CLF UYW",
}
CURRENCIES_BY_DECIMALS = {decimals: tuple(codes.split()) for decimals, codes in _BY_DECIMALS.items()}
"""ISO 4217, where it isn't 2."""
_DECIMALS = {code: decimals for decimals, codes in CURRENCIES_BY_DECIMALS.items() for code in codes}

_CURRENCY = re.compile(r"[A-Z]{3}")
_METHOD = re.compile(r"[a-z0-9_]{1,40}")


class MoneyInvalid(PayhookError):
    def __init__(self, problem: str) -> None:
        self.problem = problem
        super().__init__(f"not a booking amount: {problem}")


class MovementUnknown(PayhookError):
    """No table says what an event means for money: not its type, or not a value that decides it.

    ``what``: ``type``, or the name of the field, such as ``status``. ``value`` is cut and masked.
    """

    def __init__(self, what: str, value: object) -> None:
        self.what = what
        self.value = quote_masked(value, VALUE_CHARS_MAX)
        super().__init__(
            f"no table says what the {what} {self.value} means for money: look the event up at the provider. If it "
            "moved money, book that by a manual entry; once payhook knows it, replay it as a selection of unknown "
            "events"
        )

    @property
    def code(self) -> str:
        return self.what if self.what == "type" else f"{self.what}={self.value}"


@dataclass(frozen=True, slots=True)
class Money:
    """``amount_minor`` in the currency's minor unit; ``currency`` is ISO 4217 alphabetic, upper case."""

    amount_minor: int
    currency: str

    def __post_init__(self) -> None:
        if type(self.amount_minor) is not int:
            raise MoneyInvalid(f"the amount is a {type(self.amount_minor).__name__}, expected an integer")
        if abs(self.amount_minor) > AMOUNT_MINOR_MAX:
            raise MoneyInvalid(f"the amount is beyond {AMOUNT_MINOR_MAX} minor units")
        if not isinstance(self.currency, str) or not _CURRENCY.fullmatch(self.currency):
            raise MoneyInvalid(
                f"the currency {quote_masked(self.currency, TEXT_CHARS_MAX)} isn't three capital letters"
            )


def decimals_of(currency: str) -> int:
    """Returns the decimals of a currency's minor unit by ISO 4217; ``currency`` in capitals."""
    return _DECIMALS.get(currency, 2)


class Movement(StrEnum):
    """Names what moved. Only a payout and a fee may be below zero. Transfers between balances and payments to other
    people are none of these.
    """

    CAPTURE = "capture"
    """A payer's money came to the provider's balance; an authorisation isn't one."""
    CAPTURE_FAILED = "capture_failed"
    """The bank or the scheme took a capture back, without a dispute."""
    REFUND = "refund"
    """Money left the balance for the payer, on the merchant's word: when it is taken, not when it is asked for."""
    REFUND_FAILED = "refund_failed"
    """The payer's bank didn't accept a refund."""
    DISPUTE_OPENED = "dispute_opened"
    """The provider withheld the disputed amount; an inquiry isn't one."""
    DISPUTE_WON = "dispute_won"
    """The provider gives back what it withheld, also if a dispute is withdrawn."""
    DISPUTE_LOST = "dispute_lost"
    """The provider keeps what it withheld; no balance there moves again."""
    PAYOUT_PAID = "payout_paid"
    """The provider paid the merchant's bank account from the balance; below zero, it took money from there."""
    PAYOUT_FAILED = "payout_failed"
    """A payout came back from the bank."""
    FEE = "fee"
    """What the provider, or a platform, keeps of what is the merchant's; below zero: it is given back."""


UNDOS = frozenset({Movement.CAPTURE_FAILED, Movement.REFUND_FAILED, Movement.DISPUTE_WON, Movement.PAYOUT_FAILED})


@dataclass(frozen=True, slots=True)
class Outside:
    """The part of a movement that the provider only reports: another company settles it.

    ``method`` names the payment method, such as ``paypal``; ``amount_minor`` is in the movement's currency, above zero.
    """

    method: str
    amount_minor: int

    def __post_init__(self) -> None:
        if not _METHOD.fullmatch(self.method):
            raise MoneyInvalid(f"the payment method {quote_masked(self.method, TEXT_CHARS_MAX)} isn't a plain name")
        if type(self.amount_minor) is not int or self.amount_minor <= 0:
            raise MoneyInvalid("what a payment method settles is above zero")


@dataclass(frozen=True)
class MoneyFact:
    """Records one movement of money as its provider reports it.

    ``fact_key`` is the movement's own id with its booking type, ``account`` the provider's name of the merchant
    account. ``payment`` is the payment that it belongs to (None for a payout).

    ``holder``: provider and account whose balance moved, where they aren't the event's own.
    ``outside``: how much of ``money`` the provider doesn't hold, and who does.
    ``pair``: the fact key that a movement and its undos share: the movement's own, in a dispute the first round's.
    It is set where the provider reports undos, which have the movement's amount. A loss sets it where its notification
    also reports the debit: a dispute is won or lost, not both. A fee sets it where it may be given back; the fee below
    zero is its undo.
    """

    fact_key: str
    movement: Movement
    account: str
    payment: str | None
    money: Money
    pair: str | None = None
    holder: tuple[str, str] | None = None
    outside: Outside | None = None

    def __post_init__(self) -> None:
        if self.outside is not None and self.outside.amount_minor > self.money.amount_minor:
            raise MoneyInvalid("more is settled outside of the provider than moved")

    @property
    def pair_key(self) -> str | None:
        amount_minor = abs(self.money.amount_minor) if self.movement is Movement.FEE else self.money.amount_minor
        return None if self.pair is None else f"{self.pair}:{amount_minor}:{self.money.currency}"

    @property
    def is_pair_end(self) -> bool:
        """Returns whether it ends what is booked of its pair: an undo, or a fee below zero, gives it back; a loss makes
        it final.
        """
        if self.pair is None:
            return False
        if self.movement is Movement.FEE:
            return self.money.amount_minor < 0
        return self.movement in UNDOS or self.movement is Movement.DISPUTE_LOST

    @property
    def cleared_outside(self) -> Outside | None:
        """Returns `outside`, unless nobody's balance moves: when a dispute is lost, its money went before."""
        return None if self.movement is Movement.DISPUTE_LOST else self.outside

    @cached_property
    def sha256(self) -> str:
        """Returns the hex digest of what two reports of one fact must agree on.

        What clears outside is in it only where there is any, so that older facts keep their hash.
        """
        cleared = self.cleared_outside
        outside = () if cleared is None else ("outside", cleared.method, str(cleared.amount_minor))
        parts = (
            self.fact_key,
            self.movement.value,
            self.account,
            str(self.money.amount_minor),
            self.money.currency,
            *outside,
        )
        return hashlib.sha256("\x1f".join(parts).encode("utf-8")).hexdigest()


_NUMBER = re.compile(r"-?\d{1,19}(\.\d{1,8})?", re.ASCII)


class AmountInvalid(PayhookError):
    def __init__(self, text: str, currency: str, problem: str) -> None:
        self.text = text
        self.currency = currency
        self.problem = problem
        super().__init__(f"{text!r} isn't an amount in {currency}: {problem}")


def format_decimal(amount_minor: int, currency: str) -> str:
    """Formats an amount: ``1,234.50`` of 123450 EUR, ``1,234`` of 1234 JPY."""
    decimals = decimals_of(currency)
    units, rest = divmod(abs(amount_minor), 10**decimals)
    sign = "-" if amount_minor < 0 else ""
    fraction = f".{rest:0{decimals}}" if decimals else ""
    return f"{sign}{units:,}{fraction}"


def parse_minor_units(text: str, currency: str) -> int:
    """Parses an amount: 1250 of ``12.50`` EUR.

    :raises AmountInvalid: no number, or finer or greater than what is booked
    """
    if not _NUMBER.fullmatch(text):
        raise AmountInvalid(text, currency, "write a number such as 1234.50, with a point and nothing else in it")
    decimals = decimals_of(currency)
    amount = Decimal(text).scaleb(decimals)
    if abs(amount) > AMOUNT_MINOR_MAX:
        raise AmountInvalid(text, currency, f"it is beyond {AMOUNT_MINOR_MAX} minor units")
    if amount != amount.to_integral_value():
        has = f"{decimals} decimals" if decimals else "no decimals"
        raise AmountInvalid(text, currency, f"{currency} has {has}")
    return int(amount)
