"""Stripe: signature (https://docs.stripe.com/webhooks#verify-manually), identities and money facts.

What books, and why:

- A capture is reported around the charge (``charge.succeeded``, ``charge.captured``) and around its payment
  intent (``payment_intent.succeeded``). The charge books, under its own id: it alone says ``captured`` and
  ``amount_captured``, and payments without an intent have one too. The intent's report moves nothing.
- A refund books under its ``re_`` id as soon as Stripe takes the money (it has a balance transaction, or has
  succeeded), whichever event says so first. ``charge.refunded`` counts where it carries its refunds (API versions
  before 2022-11-15). Later ones don't, and ``refund.created`` reports: the setting ``stripe.refund_events`` says that
  the endpoint takes it. Else the event is left to a person. Failed or canceled, the money comes back.
- A dispute's money is what its ``balance_transactions`` say (https://docs.stripe.com/api/disputes/object): each one
  below zero was withdrawn, each one above zero given back, which may be less
  (https://docs.stripe.com/disputes#disputes-on-partially-refunded-payments), and ``closed`` as ``lost`` makes the
  loss of what is still withheld final. A movement is named by its transaction; the dispute's first withdrawal and
  first return by the dispute, because ``charge.dispute.created`` may not list them yet. Where a dispute has no such
  list its own amount counts. An inquiry (``warning_…``) takes nothing.
- A payout books when paid, under its ``po_`` id, and back when it fails. Stripe also reports as failed what it never
  reported as paid (https://docs.stripe.com/payouts#payout-failures): that gives nothing back.

Left to a person, because no movement here fits: transfers and application fees of Connect, and top-ups
(https://docs.stripe.com/api/events/types).

One event may arrive in two API versions: during an upgrade Stripe sends it to an endpoint of each
(https://docs.stripe.com/webhooks/versioning). Which fields the object has differs between them. So what decides a
conflict is what every version says: the event's own names, its object's id, and the money. A thin event is the same in
every version, and all of it counts.
"""

from __future__ import annotations

import secrets as random_secrets
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import datetime
from types import EllipsisType, MappingProxyType
from typing import Any, NamedTuple

from core.errors import Unparseable
from core.event import Mode
from core.keys import join_key
from core.money import MoneyFact, MoneyInvalid, Movement
from providers.fields import (
    an_object,
    certain,
    content_hash,
    for_a_person,
    money_of,
    optional_text,
    text,
    time_of,
)
from providers.json_adapter import Delivered, JsonAdapter, Named
from providers.port import DEFAULT_ENDPOINT, Request, SignatureInvalid, SignedRequest
from providers.signature import (
    check_age,
    hex_mac,
    matching,
    text_key,
    timed_signatures,
    timestamp,
)

NAME = "stripe"
HEADER = b"stripe-signature"
LEFT_OUT = frozenset({"pending_webhooks"})
"""Counts the endpoints that haven't acknowledged it yet. Content version 1 is all but this."""
NAMED = ("id", "type", "account", "livemode", "created")
"""What content version 2 has of the event itself."""
CONTENT_VERSION = 2
IDENTITY_FIELDS = frozenset({"id", "object_id", "payment_intent", "charge", "account"})
MORE_DECIMALS: Mapping[str, int] = MappingProxyType({"ISK": 2, "UGX": 2, "MGA": -2})
"""Where Stripe's minor unit isn't ISO 4217's (https://docs.stripe.com/currencies#special-cases)."""


class StripeAdapter(JsonAdapter):
    """One request is one event; its body is the event's body."""

    name = NAME
    identity_fields = IDENTITY_FIELDS
    content_version = CONTENT_VERSION

    def verify(self, request: Request, secrets: Sequence[str], now: datetime) -> int:
        header = request.one(HEADER)
        if header is None:
            raise SignatureInvalid("missing")
        sent_at, signatures = timed_signatures(header, b",", b"t", b"v1")
        signed_at = timestamp(sent_at)
        message = b"%b.%b" % (sent_at, request.body)
        index = matching(signatures, [hex_mac(self.key(secret), message) for secret in secrets])
        check_age(signed_at, now, self._settings.tolerance_s)
        return index

    def named(self, delivered: Delivered) -> Iterator[Named]:
        document = delivered.document
        event_id, event_type = text(document, "id"), text(document, "type")
        account, occurred_at = optional_text(document, "account") or "", time_of(document.get("created"))
        entity = _entity(document, event_id)
        yield Named(event_id, event_type, account, entity, occurred_at, mode=_mode(document, delivered.mode))

    def fact(self, document: dict[str, Any], event_type: str) -> MoneyFact | None:
        try:
            return _fact(document, event_type)
        except RefundUnlisted:
            if self._settings.stripe.refund_events:
                return None
            raise

    def content(self, document: Mapping[str, Any], version: int, fact: MoneyFact | EllipsisType | None = ...) -> str:
        return _content(document, version, fact)

    def sign(
        self,
        body: bytes,
        secret: str,
        now: datetime,
        event_id: str | None = None,  # noqa: ARG002 - it is in the body
        endpoint: str = DEFAULT_ENDPOINT,  # noqa: ARG002 - nor is the endpoint signed
    ) -> SignedRequest:
        signed_at = b"%d" % int(now.timestamp())
        signature = hex_mac(self.key(secret), b"%b.%b" % (signed_at, body))
        header = f"t={signed_at.decode()},v1={signature.decode()}"
        return SignedRequest(body, {"Content-Type": "application/json", "Stripe-Signature": header})

    def key(self, secret: str) -> bytes:
        return text_key(NAME, secret, "the endpoint's signing secret (whsec_…)")

    def new_secret(self) -> str:
        return "whsec_" + random_secrets.token_hex(16)


def _mode(document: Mapping[str, Any], endpoint: Mode) -> Mode:
    """The signed flag routes: Stripe sends both modes to one endpoint."""
    livemode = document.get("livemode")
    if livemode is None:
        return endpoint
    if not isinstance(livemode, bool):
        raise Unparseable("'livemode' is neither true nor false")
    return "live" if livemode else "test"


def _entity(document: Mapping[str, Any], event_id: str) -> str:
    """The payment; of a thin event what it is related to, which may be nothing."""
    related = document.get("related_object")
    return _payment(_object(document)) or _id_of(related) or event_id


def _object(document: Mapping[str, Any]) -> dict[str, Any]:
    within = document.get("data")
    found = within.get("object") if isinstance(within, dict) else None
    return found if isinstance(found, dict) else {}


def _payment(reported: Mapping[str, Any]) -> str | None:
    return _id_of(reported.get("payment_intent")) or _id_of(reported.get("charge")) or _id_of(reported)


def _id_of(value: object) -> str | None:
    """An id, or that of the object which stands in its place when it was asked to be expanded."""
    found = value.get("id") if isinstance(value, Mapping) else value
    return found if isinstance(found, str) and found else None


def _content(document: Mapping[str, Any], version: int, fact: MoneyFact | EllipsisType | None) -> str:
    reported = _object(document)
    if version == 1 or not reported:
        return content_hash(document, LEFT_OUT)
    named = {name: document[name] for name in NAMED if document.get(name) is not None}
    money = {"amount": reported.get("amount"), "currency": reported.get("currency")}
    moved = _moved(document, reported, fact)
    return content_hash({**named, "object": _id_of(reported), **money, "moved": moved}, ())


def _moved(document: Mapping[str, Any], reported: Mapping[str, Any], fact: MoneyFact | EllipsisType | None) -> object:
    """What moved, as every version says it: how much of a charge was refunded, though only some list the refunds."""
    if document.get("type") == "charge.refunded":
        return [_refunded_before(document["data"].get("previous_attributes")), reported.get("amount_refunded")]
    if fact is ...:
        fact = certain(lambda: _fact(document, text(document, "type")))
    return fact.sha256 if fact else None


class RefundUnlisted(MoneyInvalid):
    """Money went back, and the event doesn't say by which refund."""

    def __reduce__(self) -> tuple[type[RefundUnlisted], tuple[str]]:
        return RefundUnlisted, (self.problem,)


class _Moved(NamedTuple):
    movement: Movement
    source: Mapping[str, Any]
    """What moved (charge, refund, dispute, balance transaction, payout): its id names the fact."""
    amount: object
    pair: Movement | None = None
    """What undoes it, or what it undoes, if Stripe may report only one of the two."""


def _fact(document: Mapping[str, Any], event_type: str) -> MoneyFact | None:
    if event_type in LEFT_TO_A_PERSON:
        raise for_a_person(event_type, "in Stripe's Dashboard")
    read = _READERS.get(event_type)
    if read is None:
        return None
    reported = an_object(an_object(document.get("data"), "'data'").get("object"), "'data.object'")
    moved = read(reported, document["data"].get("previous_attributes"))
    if moved is None:
        return None
    return MoneyFact(
        fact_key=join_key(NAME, text(moved.source, "id"), moved.movement.value),
        movement=moved.movement,
        account=optional_text(document, "account") or "",
        payment=None if moved.movement in _PAYOUTS else _payment(reported),
        money=money_of(moved.amount, reported.get("currency", moved.source.get("currency")), MORE_DECIMALS),
        pair=join_key(NAME, text(moved.source, "id"), moved.pair.value) if moved.pair is not None else None,
    )


def _captured(charge: Mapping[str, Any], _: object) -> _Moved | None:
    if charge.get("captured") is not True:
        return None
    if "amount_captured" not in charge:
        raise MoneyInvalid("the charge has no 'amount_captured': set the endpoint's API version to 2020-08-27 or later")
    return _Moved(Movement.CAPTURE, charge, charge["amount_captured"])


def _charged(charge: Mapping[str, Any], _: object) -> _Moved | None:
    """A charge that is captured as it succeeds is captured whole, so old API versions are clear too."""
    if charge.get("captured") is not True:
        return None
    return _Moved(Movement.CAPTURE, charge, charge.get("amount_captured", charge.get("amount")))


def _refunded(refund: Mapping[str, Any], _: object = None) -> _Moved | None:
    status = refund.get("status")
    taken = refund.get("balance_transaction", ...)
    if status in ("failed", "canceled"):
        given_back = refund.get("failure_balance_transaction")
        never_moved = taken is None and given_back is None
        return None if never_moved else _Moved(Movement.REFUND_FAILED, refund, refund.get("amount"))
    if status == "succeeded" or taken not in (None, ...):
        return _Moved(Movement.REFUND, refund, refund.get("amount"))
    return None


def _charge_refunded(charge: Mapping[str, Any], previous: object) -> _Moved | None:
    """The refund that this event is about: the newest whose amount is what the charge's total grew by."""
    listed = charge.get("refunds")
    refunds = listed.get("data") if isinstance(listed, dict) else None
    if not isinstance(refunds, list) or not refunds:
        _check_unlisted(charge, previous)
        return None
    before, after = _refunded_before(previous), charge.get("amount_refunded")
    if type(before) is int and type(after) is int:
        refunds = [refund for refund in refunds if isinstance(refund, dict) and refund.get("amount") == after - before]
        if not refunds:
            raise MoneyInvalid("none of the charge's refunds is the one that this event reports")
    return _refunded(an_object(max(refunds, key=_created), "a refund"))


def _check_unlisted(charge: Mapping[str, Any], previous: object) -> None:
    """
    :raises RefundUnlisted: money went back
    """
    before = _refunded_before(previous)
    if charge.get("amount_refunded") != (0 if before is None else before):
        raise RefundUnlisted(
            "the charge lists no refunds: subscribe to refund.created, refund.updated and refund.failed, and set "
            "providers.stripe.refund_events"
        )


def _refunded_before(previous: object) -> object:
    return previous.get("amount_refunded") if isinstance(previous, dict) else None


def _created(value: object) -> int:
    created = value.get("created") if isinstance(value, dict) else None
    return created if type(created) is int else 0


def _dispute_opened(dispute: Mapping[str, Any], previous: object) -> _Moved | None:
    inquiry = str(dispute.get("status")).startswith("warning_")
    if inquiry or dispute.get("balance_transactions") == []:
        return None
    return _dispute_withdrawn(dispute, previous)


def _dispute_withdrawn(dispute: Mapping[str, Any], _: object) -> _Moved | None:
    return _newest(dispute, Movement.DISPUTE_OPENED, -1)


def _dispute_reinstated(dispute: Mapping[str, Any], _: object) -> _Moved | None:
    return _newest(dispute, Movement.DISPUTE_WON, 1)


def _dispute_closed(dispute: Mapping[str, Any], _: object) -> _Moved | None:
    if dispute.get("status") != "lost" or dispute.get("balance_transactions") == []:
        return None
    listed = _transactions(dispute)
    withheld = -sum(amount for amount, _ in listed) if listed else dispute.get("amount")
    return None if withheld == 0 else _Moved(Movement.DISPUTE_LOST, dispute, withheld)


def _newest(dispute: Mapping[str, Any], movement: Movement, sign: int) -> _Moved:
    """The newest of the dispute's transactions in that direction: the one that its event is about."""
    mine = [(amount, one) for amount, one in _transactions(dispute) if amount * sign > 0]
    if not mine:
        return _Moved(movement, dispute, dispute.get("amount"))
    amount, transaction = mine[-1]
    return _Moved(movement, dispute if len(mine) == 1 else transaction, abs(amount))


def _transactions(dispute: Mapping[str, Any]) -> list[tuple[int, Mapping[str, Any]]]:
    """What was withdrawn (below zero) and given back, in the dispute's currency, the oldest first.

    :raises MoneyInvalid: the account settles in another currency, and only a part of what was disputed moved
    """
    listed = dispute.get("balance_transactions")
    found = [an_object(one, "a balance transaction") for one in listed] if isinstance(listed, list) else []
    return [(_in_its_currency(one, dispute, found), one) for one in sorted(found, key=_created)]


def _in_its_currency(one: Mapping[str, Any], dispute: Mapping[str, Any], every: Sequence[Mapping[str, Any]]) -> int:
    amount = one.get("amount")
    if type(amount) is not int:
        raise MoneyInvalid("a dispute's balance transaction has no whole 'amount'")
    currency = dispute.get("currency")
    if one.get("currency", currency) == currency:
        return amount
    whole = max((abs(other["amount"]) for other in every if type(other.get("amount")) is int), default=0)
    disputed = dispute.get("amount")
    if abs(amount) != whole or type(disputed) is not int:
        raise MoneyInvalid(
            f"a part of the dispute moved in {one.get('currency')!s}, and the charge's currency is {currency!s}: "
            "book it by hand, by Stripe's balance report"
        )
    return disputed if amount > 0 else -disputed


def _paid_out(payout: Mapping[str, Any], _: object) -> _Moved | None:
    return _Moved(Movement.PAYOUT_PAID, payout, payout.get("amount"), Movement.PAYOUT_FAILED)


def _payout_failed(payout: Mapping[str, Any], _: object) -> _Moved | None:
    return _Moved(Movement.PAYOUT_FAILED, payout, payout.get("amount"), Movement.PAYOUT_PAID)


LEFT_TO_A_PERSON = frozenset(
    {
        "application_fee.created",
        "application_fee.refunded",
        "topup.reversed",
        "topup.succeeded",
        "transfer.created",
        "transfer.reversed",
    }
)
"""Types that move money and aren't booked."""

_PAYOUTS = frozenset({Movement.PAYOUT_PAID, Movement.PAYOUT_FAILED})
_READERS: Mapping[str, Callable[[Mapping[str, Any], object], _Moved | None]] = MappingProxyType(
    {
        "charge.succeeded": _charged,
        "charge.captured": _captured,
        "charge.refunded": _charge_refunded,
        "charge.refund.updated": _refunded,
        "refund.created": _refunded,
        "refund.updated": _refunded,
        "refund.failed": _refunded,
        "charge.dispute.created": _dispute_opened,
        "charge.dispute.funds_withdrawn": _dispute_withdrawn,
        "charge.dispute.funds_reinstated": _dispute_reinstated,
        "charge.dispute.closed": _dispute_closed,
        "payout.paid": _paid_out,
        "payout.failed": _payout_failed,
    }
)
