"""The rows that a provider's sample file is made of. A text about an event leaves the provider's name out.

To add what a new event type means, add a `Webhook` to the provider's ``WEBHOOKS``; what several events come to is a
`MoneySequence` in its ``SEQUENCES``. Most rows need only a case, a body and a text: `books`, `moves_nothing`, `fails`
and `unreadable` make several at once. ``test_sample_tables`` walks all rows of all files, and says what else a file may
have.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, TypeAlias

from core.errors import Unparseable
from core.money import MoneyFact
from ledger.accounts import book_fact
from providers import Request

UNSAID: Final[Any] = type("Unsaid", (), {"__repr__": lambda _: "UNSAID"})()
"""The row doesn't say it."""

SHOWN_CHARS_MAX = 100
LEDGERS: Final[Mapping[str, str]] = {"mollieclassic": "mollie"}
"""By provider that has no ledger of its own: whose it shares."""
Body: TypeAlias = bytes | Request
Settings: TypeAlias = Mapping[str, Any]
Errors: TypeAlias = type[Exception] | tuple[type[Exception], ...]


@dataclass(frozen=True)
class Webhook:
    """What a webhook's event is called, and what money it moved.

    A list instead of a value has one for each event of a webhook that tells of several. Without one, the debit before
    a lost dispute is passed over.

    :ivar books: such as ``re_1:refund 400 EUR of pi_1``: fact key, amount in minor units, currency and payment; then
        such as ``, 300 outside:paypal`` where the provider doesn't hold all of it
    :ivar fees: such as ``pay_1:fee 59 INR of pay_1``, of each event that is of a fee; these are in no other column
    :ivar pair: the fact key of what undoes the movement, or of what it undoes
    :ivar holder: whose balance moved, such as ``adyen:Main``
    :ivar key: the event key
    :ivar at: when it happened, in ISO 8601 and UTC
    :ivar is_poison: it can't be read, and is kept for a person beside the others of its webhook
    :ivar fails: the error of its money. The event is named all the same
    :ivar refused: the error of the whole webhook
    :ivar says: a pattern that the error's text has
    :ivar endpoint: the mode of the endpoint that it is sent to
    """

    case: str
    body: Body
    books: Any = UNSAID
    fees: Any = UNSAID
    pair: Any = UNSAID
    holder: Any = UNSAID
    key: Any = UNSAID
    type: Any = UNSAID
    id: Any = UNSAID
    entity: Any = UNSAID
    account: Any = UNSAID
    at: Any = UNSAID
    mode: Any = UNSAID
    is_poison: Any = UNSAID
    fails: Errors | None = None
    refused: Errors | None = None
    says: str | None = None
    endpoint: Any = "live"
    settings: Settings = field(default_factory=dict)


@dataclass(frozen=True)
class Refusal:
    """A request that isn't proven to be the provider's, by the reason that its refusal has.

    :ivar reason: of `SignatureInvalid`; None where the request is proven
    :ivar age_s: how long ago it was signed
    """

    case: str
    request: Request
    reason: str | None
    secrets: Sequence[str] = ()
    age_s: float = 0
    settings: Settings = field(default_factory=dict)


@dataclass(frozen=True)
class Comparison:
    """Two webhooks, and which of their names are the same and which differ.

    ``key``, ``entity``, ``content``, ``fact``: True where both have the same one. Several events of a webhook are
    compared one by one, in their order.
    """

    case: str
    first: Body
    second: Body
    key: bool | None = None
    entity: bool | None = None
    content: bool | None = None
    fact: bool | None = None
    at: bool | None = None
    settings: Settings = field(default_factory=dict)


@dataclass(frozen=True)
class MoneySequence:
    """What the books hold after some webhooks, in whatever order they came, and however often each.

    :ivar holds: debits less credits by account, such as ``{"clearing": 600}``; an account that is left out holds
        nothing. What was captured for the merchant isn't listed: it follows from the others
    """

    case: str
    webhooks: Sequence[Body]
    holds: Mapping[str, int]
    settings: Settings = field(default_factory=dict)


def books(*rows: tuple[str, Body, str | None], **more: Any) -> list[Webhook]:
    """Rows of case, body and what it books; None where it moves nothing."""
    return [Webhook(case, body, books=booked, **more) for case, body, booked in rows]


def moves_nothing(*rows: tuple[str, Body], **more: Any) -> list[Webhook]:
    return [Webhook(case, body, books=None, **more) for case, body in rows]


def fails(error: Errors, *rows: tuple[str, Body] | tuple[str, Body, str], **more: Any) -> list[Webhook]:
    """Rows of case, body and a pattern of the text with which its money fails. The event is named all the same."""
    return [Webhook(row[0], row[1], fails=error, **{"says": row[2] if len(row) > 2 else None, **more}) for row in rows]


def unreadable(*bodies: Body, **more: Any) -> list[Webhook]:
    """Rows of bodies that are poison as a whole."""
    return [Webhook(f"poison: {shown(body)}", body, **{"refused": Unparseable, **more}) for body in bodies]


def each(*values: Any) -> Sequence[Any]:
    """Values of any kind, to make a row of each."""
    return values


def shown(value: object) -> str:
    """Some of a value, for a case's name."""
    text = repr(value)
    return text if len(text) <= SHOWN_CHARS_MAX else f"{text[:SHOWN_CHARS_MAX]}… ({len(text)} characters)"


def request_of(body: Body) -> Request:
    return body if isinstance(body, Request) else Request(body, [])


def without_provider(provider: str, key: str | None) -> str | None:
    """A key as rows spell it. One that doesn't begin with the provider's name, or with that of the provider whose
    ledger it shares, stays whole, so that it is seen.
    """
    return None if key is None else key.removeprefix(f"{provider}:").removeprefix(f"{LEDGERS.get(provider, provider)}:")


def told(provider: str, fact: MoneyFact | None) -> str | None:
    """A fact as ``books`` spells it."""
    if fact is None:
        return None
    of = f" of {fact.payment}" if fact.payment is not None else ""
    key = without_provider(provider, fact.fact_key)
    out = fact.outside
    outside = "" if out is None else f", {out.amount_minor} outside:{out.method}"
    return f"{key} {fact.money.amount_minor} {fact.money.currency}{of}{outside}"


def holdings(facts: Sequence[MoneyFact]) -> dict[str, int]:
    """Debits less credits by account. A fact books once, an undo only what was booked and not undone since; a movement
    that was undone before books nothing.
    """
    taken: dict[str, MoneyFact] = {}
    left: Counter[str] = Counter()
    balances: Counter[str] = Counter()
    for fact in facts:
        if fact.fact_key in taken:
            assert taken[fact.fact_key].sha256 == fact.sha256, f"{fact.fact_key} is told with two amounts"
            continue
        taken[fact.fact_key] = fact
        pair = fact.pair_key
        counts = pair is None or (left[pair] > 0 if fact.is_pair_end else left[pair] >= 0)
        if pair is not None:
            left[pair] += -1 if fact.is_pair_end else 1
        if counts:
            for posting in book_fact(fact, "holder", "merchant"):
                sign = 1 if posting.side == "debit" else -1
                is_outside = posting.account.startswith("outside:")
                name = posting.account if is_outside else posting.account.rpartition(":")[2]
                balances[name] += sign * posting.money.amount_minor
    del balances["payable"]
    return {account: amount for account, amount in balances.items() if amount}
