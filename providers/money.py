"""Providers' amounts as `Money`, movements under the names that they are stored by, and payment methods.

A payment is settled by the provider, or by whoever runs the method.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from decimal import Decimal
from typing import TypeVar

from core.card_numbers import quote_masked
from core.errors import Unparseable
from core.keys import join_key
from core.money import TEXT_CHARS_MAX, Money, MoneyFact, MoneyInvalid, Movement, MovementUnknown, Outside, decimals_of


@dataclass(frozen=True)
class Methods:
    """The payment methods of one provider, each in one table. What is in neither is unknown.

    :ivar here: the provider settles them, by the page that lists them
    :ivar outside: the method's owner settles them, and the provider only tells of them; by method, the page with that
    :ivar field: what the provider calls the method, for the text of an unknown one
    """

    here: Mapping[str, frozenset[str]]
    outside: Mapping[str, str]
    field: str = "method"

    def __post_init__(self) -> None:
        for page, methods in self.here.items():
            assert not methods & self.outside.keys(), f"settled here by {page}, and outside"

    def is_outside(self, method: str) -> bool:
        """
        :raises MovementUnknown: the method is in no table
        """
        if method in self.outside:
            return True
        if not any(method in methods for methods in self.here.values()):
            raise MovementUnknown(self.field, method)
        return False


PAYOUTS = frozenset({Movement.PAYOUT_PAID, Movement.PAYOUT_FAILED})
"""Movements that belong to no payment."""
FEE = ".fee"
"""After a type, and before a number above one: the same notification once more, for a fee that it tells of."""
WITHHELD = ".withheld"
"""After the type of a lost dispute: the same notification once more, for the debit that came before the loss."""

_FEE_TYPE = re.compile(r"(.+)\.fee([1-9][0-9]?)?", re.ASCII | re.DOTALL)
_LETTERS = re.compile(r"[A-Za-z]{3}")
_DECIMAL = re.compile(r"-?[0-9]{1,16}(\.[0-9]{1,6})?", re.ASCII)
_UNDOES = {
    Movement.CAPTURE_FAILED: Movement.CAPTURE,
    Movement.REFUND_FAILED: Movement.REFUND,
    Movement.DISPUTE_WON: Movement.DISPUTE_OPENED,
    Movement.PAYOUT_FAILED: Movement.PAYOUT_PAID,
}


def explain_nothing_moved(adapter: object, event_type: str) -> str:
    """Explains why an event has no movement; an adapter's ``moves_nothing`` says more of types that often have one."""
    reasons: Mapping[str, str] = getattr(adapter, "moves_nothing", {})
    return f"{event_type}: {reasons[event_type]}" if event_type in reasons else f"{event_type} moves no money"


def money_of(amount: object, currency: object, more_decimals: Mapping[str, int] | None = None) -> Money:
    """Reads an amount in ISO 4217 minor units.

    :param more_decimals: how many decimals the provider has more than ISO 4217 (fewer: negative), by currency
    :raises MoneyInvalid: not an integer, not a currency, or not a whole number of ISO's minor units
    """
    if type(amount) is not int:
        raise MoneyInvalid(f"the amount is a {type(amount).__name__}, expected an integer")
    code = _check_currency(currency)
    decimals = (more_decimals or {}).get(code, 0)
    if decimals <= 0:
        return Money(amount * 10**-decimals, code)
    amount_minor, rest = divmod(amount, 10**decimals)
    if rest:
        raise MoneyInvalid(f"{quote_masked(amount, TEXT_CHARS_MAX)} isn't a whole number of {code}'s minor units")
    return Money(amount_minor, code)


def decimal_money_of(amount: object, currency: object) -> Money:
    """Reads an amount such as ``"10.00"`` in ISO 4217 minor units, without a float on the way.

    :raises MoneyInvalid: not a text of plain decimal digits, not a currency, or more decimals than it has
    """
    if not isinstance(amount, str) or not _DECIMAL.fullmatch(amount):
        raise MoneyInvalid(f"the amount {quote_masked(amount, TEXT_CHARS_MAX)} isn't a text of decimal digits")
    code = _check_currency(currency)
    units, _, fraction = amount.partition(".")
    decimals = decimals_of(code)
    if fraction[decimals:].strip("0"):
        raise MoneyInvalid(f"{quote_masked(amount, TEXT_CHARS_MAX)} has more decimals than {code}")
    return Money(int(units + fraction[:decimals].ljust(decimals, "0")), code)


def number_money_of(amount: object, currency: object) -> Money:
    """Reads an amount such as ``10.5``, a JSON number in the currency's main unit, in ISO 4217 minor units.

    `core.strict_json` reads what isn't whole as a `Decimal`, so no float comes between.

    :raises MoneyInvalid: not a number of plain decimal digits, not a currency, or more decimals than it has
    """
    if type(amount) is not int and not isinstance(amount, Decimal):
        raise MoneyInvalid(f"the amount is a {type(amount).__name__}, expected a number")
    return decimal_money_of(str(amount), currency)


def _check_currency(currency: object) -> str:
    if not isinstance(currency, str) or not _LETTERS.fullmatch(currency):
        raise MoneyInvalid(f"the currency {quote_masked(currency, TEXT_CHARS_MAX)} isn't three letters")
    return currency.upper()


def moved(
    provider: str,
    movement: Movement,
    reference: str,
    money: Money,
    *,
    account: str,
    payment: str | None,
    paired: bool = False,
    pair: str | None = None,
    prefix: str = "",
    within: str | None = None,
    outside: Outside | None = None,
) -> MoneyFact:
    """Builds the fact of a movement, named by the id of what moved and its own name. A payout belongs to no payment,
    whatever is given.

    :param reference: the id of what moved: of the refund, not of the payment
    :param paired: the provider tells by the same id what undoes the movement, or what it undoes. A loss undoes nothing,
        and nothing undoes it
    :param pair: the id of what it undoes, or under which it is undone, where that isn't its own
    :param prefix: before the movement's name, where one object moves money several times
    :param within: what the id is unique within, such as the account, where it isn't by itself
    :param outside: how much of it the provider doesn't hold
    """

    def key(of_movement: Movement, moved_id: str) -> str:
        return join_key(provider, *([] if within is None else [within]), moved_id, prefix + of_movement.value)

    done = _UNDOES.get(movement, movement if movement in _UNDOES.values() else None)
    done_id = pair or (reference if paired else None)
    fact_key = key(movement, reference)
    if done is None or done_id is None:
        pair_key = None
    elif (done, done_id) == (movement, reference):
        pair_key = fact_key
    else:
        pair_key = key(done, done_id)
    return MoneyFact(
        fact_key=fact_key,
        movement=movement,
        account=account,
        payment=None if movement in PAYOUTS else payment,
        money=money,
        pair=pair_key,
        outside=outside,
    )


T = TypeVar("T")


def read_if_certain(read: Callable[[], T | None]) -> T | None:
    """Returns what ``read`` returns; None, too, where it can't be known for sure.

    The event then has no fact, and fails when it is handled.
    """
    try:
        return read()
    except (MoneyInvalid, MovementUnknown, Unparseable):
        return None


def types_of(event_type: str) -> tuple[str, str]:
    """Returns the types of the two events of a lost dispute's notification: the earlier debit, and the loss.

    The debit is certain once the dispute is lost, whether or not the provider reported it. A notification has one fact,
    so the debit is an event of its own, of the same bytes, with `WITHHELD` after its type.
    """
    return event_type + WITHHELD, event_type


def read_withheld(event_type: str, read: Callable[[str], MoneyFact | None]) -> MoneyFact | None:
    """Returns what ``read`` gives for a type; for a type that ends with `WITHHELD`, the debit before the loss.

    That debit has the fact key of the dispute's opening: whichever of the two comes second books nothing. The loss is
    paired with the opening. Money that was given back can't be lost unless it was taken again, which nobody reported:
    such a loss is unknown, as a win after a loss is.
    """
    fact = read(event_type.removesuffix(WITHHELD))
    is_withheld = event_type.endswith(WITHHELD)
    if fact is None or fact.movement is not Movement.DISPUTE_LOST:
        return None if is_withheld else fact
    opened = fact.fact_key.removesuffix(Movement.DISPUTE_LOST) + Movement.DISPUTE_OPENED
    if not is_withheld:
        return replace(fact, pair=opened)
    return replace(fact, fact_key=opened, movement=Movement.DISPUTE_OPENED, pair=opened)


def list_fee_types(event_type: str, count: int) -> Iterator[str]:
    yield from (event_type + FEE + (str(number) if number > 1 else "") for number in range(1, count + 1))


def split_fee(event_type: str) -> tuple[str, int]:
    """Returns the notification's type, and which of its fees the event is about, from 1 on; 0: none."""
    match = _FEE_TYPE.fullmatch(event_type)
    return (event_type, 0) if match is None else (match[1], int(match[2] or 1))


def make_person_error(event_type: str, where: str) -> MoneyInvalid:
    return MoneyInvalid(f"{event_type} moves money and isn't booked: look it up {where}, and book it by a manual entry")
