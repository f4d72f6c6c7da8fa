"""Reading providers' fields: strict where something rests on it."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Collection, Mapping
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

from core import strict_json
from core.card_numbers import shown
from core.clock import from_rfc3339
from core.errors import PayhookError, Unparseable
from core.keys import join_key
from core.money import TEXT_CHARS_MAX, Money, MoneyFact, MoneyInvalid, Movement, decimals_of

_LETTERS = re.compile(r"[A-Za-z]{3}")
_DECIMAL = re.compile(r"-?[0-9]{1,16}(\.[0-9]{1,6})?", re.ASCII)
_UNIX_S_MAX = 253_402_300_799
"""The last second of the year 9999, datetime's end."""
_UNDONE_BY = {
    Movement.CAPTURE: Movement.CAPTURE_FAILED,
    Movement.REFUND: Movement.REFUND_FAILED,
    Movement.DISPUTE_OPENED: Movement.DISPUTE_WON,
    Movement.PAYOUT_PAID: Movement.PAYOUT_FAILED,
}
WITHHELD = ".withheld"
"""After the type of a lost dispute: the same notification once more, for the debit that came before the loss."""
_PAIRS = _UNDONE_BY | {undo: done for done, undo in _UNDONE_BY.items()}


class ContentVersionUnknown(PayhookError):
    """A content hash was made by code that is newer than this."""

    def __init__(self, provider: str, version: int) -> None:
        self.provider = provider
        self.version = version
        super().__init__(f"content version {version} of {provider} isn't known here: upgrade the processor first")

    def __reduce__(self) -> tuple[type[ContentVersionUnknown], tuple[str, int]]:
        return ContentVersionUnknown, (self.provider, self.version)


def an_object(value: object, name: str) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise Unparseable(f"{name} isn't an object")
    return value


def text(document: Mapping[str, Any], name: str) -> str:
    """
    :raises Unparseable: not there, not a text, or empty
    """
    value = document.get(name)
    if not isinstance(value, str) or not value:
        raise Unparseable(f"{name!r} isn't a text with something in it")
    return value


def optional_text(document: Mapping[str, Any], name: str) -> str | None:
    """None where it is absent, null or empty.

    :raises Unparseable: there, and not a text
    """
    value = document.get(name)
    if value is not None and not isinstance(value, str):
        raise Unparseable(f"{name!r} isn't a text")
    return value or None


def time_of(value: object) -> datetime | None:
    """Unix seconds or RFC 3339. A time that can't be read is none: it decides nothing."""
    if type(value) is int and 0 <= value <= _UNIX_S_MAX:
        return datetime.fromtimestamp(value, UTC)
    if isinstance(value, str):
        try:
            return from_rfc3339(value)
        except (ValueError, OverflowError):
            return None
    return None


def money_of(amount: object, currency: object, more_decimals: Mapping[str, int] | None = None) -> Money:
    """An amount in ISO 4217 minor units.

    :param more_decimals: how many decimals the provider has more than ISO 4217 (fewer: negative), by currency
    :raises MoneyInvalid: not an integer, not a currency, or not a whole number of ISO's minor units
    """
    if type(amount) is not int:
        raise MoneyInvalid(f"the amount is a {type(amount).__name__}, an integer is wanted")
    if not isinstance(currency, str) or not _LETTERS.fullmatch(currency):
        raise MoneyInvalid(f"the currency {shown(currency, TEXT_CHARS_MAX)} isn't three letters")
    currency = currency.upper()
    decimals = (more_decimals or {}).get(currency, 0)
    if decimals <= 0:
        return Money(amount * 10**-decimals, currency)
    amount_minor, rest = divmod(amount, 10**decimals)
    if rest:
        raise MoneyInvalid(f"{shown(amount, TEXT_CHARS_MAX)} isn't a whole number of {currency}'s minor units")
    return Money(amount_minor, currency)


def decimal_money_of(amount: object, currency: object) -> Money:
    """An amount such as ``"10.00"`` in ISO 4217 minor units, without a float on the way.

    :raises MoneyInvalid: not a text of plain decimal digits, not a currency, or more decimals than it has
    """
    if not isinstance(amount, str) or not _DECIMAL.fullmatch(amount):
        raise MoneyInvalid(f"the amount {shown(amount, TEXT_CHARS_MAX)} isn't a text of decimal digits")
    if not isinstance(currency, str) or not _LETTERS.fullmatch(currency):
        raise MoneyInvalid(f"the currency {shown(currency, TEXT_CHARS_MAX)} isn't three letters")
    currency = currency.upper()
    whole, _, fraction = amount.partition(".")
    decimals = decimals_of(currency)
    if fraction[decimals:].strip("0"):
        raise MoneyInvalid(f"{shown(amount, TEXT_CHARS_MAX)} has more decimals than {currency}")
    return Money(int(whole + fraction[:decimals].ljust(decimals, "0")), currency)


def entity_key(kept_for: str, provider: str, account: str, payment: str) -> str:
    """``provider:account:payment``, or ``provider:account`` where order is kept for the merchant."""
    return join_key(provider, account) if kept_for == "merchant" else join_key(provider, account, payment)


def content_hash(document: Mapping[str, Any], left_out: Collection[str]) -> str:
    """Hex SHA-256 of the canonical JSON without the top-level fields that differ between deliveries."""
    kept = {name: value for name, value in document.items() if name not in left_out}
    return hashlib.sha256(strict_json.canonical(kept)).hexdigest()


def versioned_content(provider: str, body: bytes, version: int, left_out: Mapping[int, Collection[str]]) -> str:
    """The content hash of an event that is a JSON object, by the list of left-out fields of that version.

    :raises ContentVersionUnknown: made by code that is newer than this
    :raises Unparseable: the body can't be read
    """
    if version == 0:
        return hashlib.sha256(body).hexdigest()
    if version not in left_out:
        raise ContentVersionUnknown(provider, version)
    return content_hash(an_object(strict_json.loads(body), "the body"), left_out[version])


def certain(read: Callable[[], MoneyFact | None]) -> MoneyFact | None:
    """The fact, None too where it can't be told for sure: its event is named without it, and fails when handled."""
    try:
        return read()
    except (MoneyInvalid, Unparseable):
        return None


def paired(movement: Movement, key: Callable[[Movement], str]) -> str | None:
    """The key of the movement that undoes this one, or that this one undoes; None for a loss, which undoes nothing.

    For `MoneyFact.pair`, where a provider names both by one id. ``key`` gives a movement's fact key.
    """
    other = _PAIRS.get(movement)
    return None if other is None else key(other)


def types_of(event_type: str, *, is_loss: bool) -> tuple[str, ...]:
    """The types of the events that one notification makes: of a lost dispute also the debit that came before it.

    That the money was taken is certain then, whether or not the provider reported it. A notification has one fact, so
    the debit is an event of its own, of the same bytes, with `WITHHELD` after its type.
    """
    return (event_type + WITHHELD, event_type) if is_loss else (event_type,)


def withheld(event_type: str, read: Callable[[str], MoneyFact | None]) -> MoneyFact | None:
    """What ``read`` gives for a type; for one of `WITHHELD` the debit that came before the loss, under the fact key
    that the dispute's opening has: whichever of the two comes second books nothing.
    """
    fact = read(event_type.removesuffix(WITHHELD))
    if fact is None or not event_type.endswith(WITHHELD):
        return fact
    if fact.movement is not Movement.DISPUTE_LOST:
        return None
    name = fact.fact_key.removesuffix(Movement.DISPUTE_LOST)
    opened = replace(fact, fact_key=name + Movement.DISPUTE_OPENED, movement=Movement.DISPUTE_OPENED)
    return replace(opened, pair=name + Movement.DISPUTE_WON)


def for_a_person(event_type: str, where: str) -> MoneyInvalid:
    """The error for a type that moves money and isn't booked. ``where`` is the place to look the amount up."""
    return MoneyInvalid(f"{event_type} moves money and isn't booked: look it up {where}, and book it by a manual entry")
