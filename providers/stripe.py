"""Stripe: signature (https://docs.stripe.com/webhooks#verify-manually), identities and money facts.

What books, and why:

- A capture is reported around the charge (``charge.succeeded``, ``charge.captured``) and around its payment
  intent (``payment_intent.succeeded``). The charge books, under its own id: it alone says ``captured`` and
  ``amount_captured``, and payments without an intent have one too. The intent's report moves nothing.
- A charge may be captured several times (https://docs.stripe.com/payments/multicapture). Each capture is an update of
  the charge: it books what ``amount_captured`` grew by, also while ``captured`` is false, which it is until the last
  one. ``charge.captured`` reports the last one once more.
- A refund books under its ``re_`` id as soon as Stripe takes the money (it has a balance transaction, or has
  succeeded), whichever event says so first. ``charge.refunded`` counts where it carries its refunds (API versions
  before 2022-11-15). Later ones don't, and ``refund.created`` reports: the setting ``stripe.refund_events`` says that
  the endpoint takes it. Else the event is left to a person. Failed or canceled, the money comes back.
- Until API version 2025-03-31 an authorisation that is released, or the part of one that wasn't captured, is reported
  as a refund too (https://docs.stripe.com/changelog/basil/2025-03-31/remove-refund-from-partial-capture-and-payment-cancellation-flow).
  None of it was ever booked, so it moves nothing.
- A dispute's money is what its ``balance_transactions`` say (https://docs.stripe.com/api/disputes/object): each one
  below zero was withdrawn, each one above zero given back, which may be less
  (https://docs.stripe.com/disputes#disputes-on-partially-refunded-payments), and ``closed`` as ``lost`` makes the
  loss of what is still withheld final. A movement is named by its transaction; the dispute's first withdrawal and
  first return by the dispute, because ``charge.dispute.created`` may not list them yet; one that shares its second with
  another by its event. A return gives back the withdrawal of its round. Where a dispute has no such list its own amount
  counts. An inquiry (``warning_…``) takes nothing, nor does a dispute that was prevented
  (https://docs.stripe.com/changelog/basil/2025-08-27/add-preventions-to-dispute), unless money was withdrawn to
  prevent it: then it is lost as soon as it is closed.
- What a dispute costs (the ``fee`` of its balance transactions) is a movement of its own, named by the transaction.
- What a platform takes of a charge (``application_fee``) is a movement of its own: the balance of the connected account
  pays it, and the platform's grows by it (https://docs.stripe.com/connect/direct-charges). The charge tells the one,
  once the fee's id is there, and ``application_fee.created`` the other, below zero. A charge on the platform itself
  (``transfer_data``, ``destination``) pays no fee: it is taken off what is transferred
  (https://docs.stripe.com/connect/destination-charges). Of a charge of which a part was captured it is unknown how much
  was taken. A fee that is refunded moves two accounts at once, and is left to a person.
- A payout books when paid, under its ``po_`` id, and back when it fails. Stripe also reports as failed what it never
  reported as paid (https://docs.stripe.com/payouts#payout-failures): that gives nothing back.

Stripe lists the events of the last 30 days, each as it was when it came to be
(https://docs.stripe.com/api/events/list). Those of connected accounts are in the lists of their accounts.

`providers.stripe_types` lists the types. A thin event (https://docs.stripe.com/event-destinations#thin-events) names
its object and doesn't hold it. With a key of Stripe's API (``secrets/stripe-api``) the object is fetched, and the event
is read as the one that holds it; without one what it moved is unknown. What is fetched is the object as it is now. So
``changes``, where the event has them, count before what is fetched; a dispute's transactions count up to the event's
time; and where only the changes would tell which of several movements it was, it is unknown.

One event may arrive in two API versions: during an upgrade Stripe sends it to an endpoint of each
(https://docs.stripe.com/webhooks/versioning). Which fields the object has differs between them. So what decides a
conflict is what every version says: the event's own names, its object's id, and the money. A thin event is the same in
every version, and all of it counts.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any, ClassVar, NamedTuple

from core.errors import Unparseable
from core.event import Event, Mode
from core.money import MoneyFact, MoneyInvalid, Movement, MovementUnknown, Outside
from providers.base import Delivered, JsonAdapter, JsonObject, Named, Signed, as_kept
from providers.fields import an_object, content_hash, names, object_at, optional_text, path_segment, text, time_of
from providers.listed import page_address, read_items
from providers.money import certain, money_of, moved
from providers.pointed import NOT_FETCHED, check_reference, event_in, fetched_in, joined, read_answer
from providers.port import ListedPage, Request, Span, Wanted
from providers.settings import ProvidersSettings
from providers.signature import secret_error, sent, text_key, timed_signatures, timestamp
from providers.stripe_types import EVENT_TYPES, THIN, THIN_BOOKS

NAME = "stripe"
PAYPAL = "paypal"
LEFT_OUT = frozenset({"pending_webhooks"})
"""Counts the endpoints that haven't acknowledged it yet. Content version 1 is all but this."""
NAMED = ("id", "type", "account", "livemode", "created")
"""What content version 2 has of the event itself."""
MORE_DECIMALS: Mapping[str, int] = {"ISK": 2, "UGX": 2, "MGA": -2}
"""Where Stripe's minor unit isn't ISO 4217's (https://docs.stripe.com/currencies#special-cases)."""
APPLICATION_FEE = "application_fee.created"
_TELL_APPLICATION_FEES = frozenset({"charge.succeeded", "charge.captured", "charge.updated", APPLICATION_FEE})
API_URL = "https://api.stripe.com"
API_VERSION = "2025-08-27.basil"
"""Of what is fetched (https://docs.stripe.com/api/versioning): released authorisations are no refunds in it."""
PAGE_MAX = 100
"""Events on a page (https://docs.stripe.com/api/events/list#list_events-limit)."""
RESOURCES: Mapping[str, str] = {
    "application_fee": "application_fees/{}",
    "charge": "charges/{}?expand[]=refunds",
    "dispute": "disputes/{}",
    "payout": "payouts/{}",
    "refund": "refunds/{}",
}
"""Below ``/v1``, by ``related_object.type``. A charge lists its refunds where it is asked to
(https://docs.stripe.com/api/charges/object#charge_object-refunds)."""
_CREDENTIAL = re.compile(r"(?:sk|rk)(?:_org)?_(live|test)_[A-Za-z0-9_]{8,250}")
_CONTEXT = re.compile(r"[A-Za-z0-9_/]{1,255}")
"""Accounts with slashes between them (https://docs.stripe.com/context)."""
_UNTOLD = "changes", "not told"
"""Which of several movements of one object a thin event is about."""
_ONE_SECOND = "balance_transactions", "of one second"
"""Which of several rounds of a dispute an event is about."""
_ROUNDS: Mapping[Movement, int] = {Movement.DISPUTE_OPENED: -1, Movement.DISPUTE_WON: 1}
"""What a dispute moves several times, by the sign of its balance transactions."""
_BY_EVENT: Mapping[str, Any] = {}
"""In place of a round's transaction: the event's own id names the round, as its time is another round's too."""


class StripeAdapter(JsonAdapter):
    """One request is one event; its body is the event's body, of a thin one with the object that was fetched."""

    name = NAME
    identity_fields = names("id object_id payment_intent charge account")
    header = b"stripe-signature"
    content_version = 2
    key_prefix = "whsec_"
    event_types = EVENT_TYPES
    looked_up = "in Stripe's Dashboard"
    moves_nothing: ClassVar[Mapping[str, str]] = {
        "charge.succeeded": "the charge is not captured: its capture is reported by itself, and books",
        APPLICATION_FEE: "what came to the platform is an event of its own, and books",
    }
    listed_for = timedelta(days=30)
    newest_first = True

    def __init__(self, settings: ProvidersSettings, api_url: str = API_URL) -> None:
        super().__init__(settings)
        self._api_url = api_url

    def points_to(self, request: Request, credentials: Sequence[str]) -> Sequence[Wanted]:
        for credential in credentials:
            self.check_credential(credential)
        try:
            event = event_in(an_object(request.document, "the body"))
            related, mode = object_at(event, "related_object"), _mode(event, request.mode)
            resource = RESOURCES.get(optional_text(related, "type") or "")
            if text(event, "type") not in THIN_BOOKS or resource is None:
                return ()
            path = resource.format(path_segment(text(related, "id")))
            context = optional_text(event, "context") or ""
        except Unparseable:
            return ()
        keys = self._keys(credentials, mode)
        if not keys or not _CONTEXT.fullmatch(context or "_"):
            return ()
        headers = [("stripe-version", API_VERSION), *([("stripe-context", context)] if context else [])]
        since = time_of(event.get("created"))
        url = f"{self._api_url}/v1/{path}"
        return [Wanted(url, bearers=keys, headers=tuple(headers), verified=True, may_appear=True, since=since)]

    def check_answer(self, wanted: Wanted, answer: bytes) -> None:
        check_reference(wanted, read_answer(answer))

    def page_wanted(self, span: Span, page: str | None, mode: Mode, credentials: Sequence[str]) -> Wanted | None:
        if not (keys := self._keys(credentials, mode)):
            return None
        created = {"created__gte": int(span.since.timestamp()), "created__lt": math.ceil(span.until.timestamp())}
        url = page_address(f"{self._api_url}/v1/events", limit=PAGE_MAX, starting_after=page, **created)
        return Wanted(url, bearers=keys, headers=(("stripe-version", API_VERSION),), verified=True)

    def read_page(self, answer: bytes, span: Span) -> ListedPage:  # noqa: ARG002 - Stripe was asked for the span
        document, items = read_items(answer, "data")
        if not isinstance(more := document.get("has_more"), bool):
            raise Unparseable("'has_more' is neither true nor false")
        return ListedPage(items, text(document["data"][-1], "id") if more and items else None)

    def _keys(self, credentials: Sequence[str], mode: Mode) -> tuple[str, ...]:
        for credential in credentials:
            self.check_credential(credential)
        return tuple(key for key in credentials if (found := _CREDENTIAL.fullmatch(key)) and found[1] == mode)

    def check_credential(self, credential: str) -> None:
        if not _CREDENTIAL.fullmatch(credential):
            raise secret_error(
                f"{NAME}-api", "a line is a key of Stripe's API: sk_live_…, rk_live_…, sk_test_…, rk_test_…"
            )

    def events(self, request: Request, mode: Mode) -> list[Event]:
        document, body = an_object(request.document, "the body"), request.body
        for view in request.views.values():
            document, body = {"event": document, "fetched": read_answer(view)}, joined(body, view)
        return self.read(Delivered(document, request, mode), body)

    def signed(self, request: Request) -> Signed:
        sent_at, signatures = timed_signatures(sent(request, self.header)[0], b",", b"t", b"v1")
        return Signed(signatures, b"%b.%b" % (sent_at, request.body), timestamp(sent_at))

    def key(self, secret: str) -> bytes:
        return text_key(NAME, secret, "the endpoint's signing secret (whsec_…)")

    def named(self, delivered: Delivered[JsonObject]) -> Iterator[Named]:
        document = delivered.document
        event = event_in(document)
        event_id, event_type, occurred_at = text(event, "id"), text(event, "type"), time_of(event.get("created"))
        entity = _entity(document, event_id)
        yield Named(event_id, event_type, account_of(event), entity, occurred_at, mode=_mode(event, delivered.mode))

    def fact(self, document: JsonObject, event_type: str) -> MoneyFact | None:
        if event_type == THIN + "charge.refunded" and self._settings.stripe.refund_events:
            return None
        try:
            return self._held(fact_of(document, event_type), document)
        except RefundUnlisted:
            if self._settings.stripe.refund_events:
                return None
            raise

    def _held(self, fact: MoneyFact | None, document: JsonObject) -> MoneyFact | None:
        """The fact with who holds its money: an event doesn't say where PayPal's settles, the account's settings do
        (https://docs.stripe.com/payments/paypal/choose-settlement-preference).
        """
        is_outside = self._settings.stripe.paypal_settles_outside and _is_paypal(object_of(document))
        if fact is None or not is_outside or fact.money.amount_minor <= 0:
            return fact
        return replace(fact, outside=Outside(PAYPAL, fact.money.amount_minor))

    def fees(self, document: JsonObject, event_type: str) -> list[MoneyFact]:
        return fees_of(document, event_type.removeprefix(THIN))

    def content(self, document: Mapping[str, Any], version: int) -> str:
        if version == 1:
            return content_hash(event_in(document), LEFT_OUT)
        return self.content_now(document, certain(lambda: as_kept(fact_of(document, text(document, "type")))))

    def content_now(self, document: Mapping[str, Any], fact: MoneyFact | None) -> str:
        """Version 2: what every API version says. Of a thin event all that was sent, as what is fetched changes."""
        reported = object_at(document, "data", "object")
        if not reported:
            return content_hash(event_in(document), LEFT_OUT)
        own = {name: document[name] for name in NAMED if document.get(name) is not None}
        amounts = {"amount": reported.get("amount"), "currency": reported.get("currency")}
        what_moved = what_moved_of(document, reported, fact)
        return content_hash({**own, "object": id_of(reported), **amounts, "moved": what_moved})


def _mode(document: Mapping[str, Any], endpoint: Mode) -> Mode:
    """The signed flag routes: Stripe sends both modes to one endpoint."""
    livemode = document.get("livemode")
    if livemode is None:
        return endpoint
    if not isinstance(livemode, bool):
        raise Unparseable("'livemode' is neither true nor false")
    return "live" if livemode else "test"


def _entity(document: Mapping[str, Any], event_id: str) -> str:
    """The payment; of a thin event that wasn't fetched what it is related to, which may be nothing."""
    related = event_in(document).get("related_object")
    return payment_of(object_of(document)) or id_of(related) or event_id


def account_of(event: Mapping[str, Any]) -> str:
    """The connected account. A thin event names it last in what its object is to be asked with."""
    return optional_text(event, "account") or (optional_text(event, "context") or "").rpartition("/")[2]


def object_of(document: Mapping[str, Any]) -> dict[str, Any]:
    return fetched_in(document) or object_at(document, "data", "object")


def payment_of(reported: Mapping[str, Any]) -> str | None:
    return id_of(reported.get("payment_intent")) or id_of(reported.get("charge")) or id_of(reported)


def id_of(value: object) -> str | None:
    """An id, or that of the object which stands in its place when it was asked to be expanded."""
    found = value.get("id") if isinstance(value, Mapping) else value
    return found if isinstance(found, str) and found else None


def _is_paypal(reported: Mapping[str, Any]) -> bool:
    """Whether a charge, a refund or a dispute is of a payment by PayPal."""
    ways = (object_at(reported, name).get("type") for name in ("payment_method_details", "destination_details"))
    return PAYPAL in ways


def what_moved_of(document: Mapping[str, Any], reported: Mapping[str, Any], fact: MoneyFact | None) -> object:
    """What moved, as every version says it: how much of a charge was refunded, though only some list the refunds."""
    if document.get("type") == "charge.refunded":
        return [
            _before(document["data"].get("previous_attributes"), "amount_refunded"),
            reported.get("amount_refunded"),
        ]
    return replace(fact, outside=None).sha256 if fact else None


class RefundUnlisted(MoneyInvalid):
    """Money went back, and the event doesn't say by which refund."""


class _Moved(NamedTuple):
    movement: Movement
    source: Mapping[str, Any]
    """What moved (charge, refund, dispute, balance transaction, payout): its id names the fact; or `_BY_EVENT`."""
    amount: object


def fact_of(document: Mapping[str, Any], event_type: str) -> MoneyFact | None:
    read = _READERS.get(event_type.removeprefix(THIN))
    if read is None:
        return None
    reported, previous = _as_it_was(document) if event_type.startswith(THIN) else _told(document)
    if event_type.startswith(THIN):
        read = _UNCERTAIN.get(event_type.removeprefix(THIN), read) if previous is None else read
    found = read(reported, previous)
    if found is None:
        return None
    event = event_in(document)
    if event_type.startswith(THIN) and found.movement in _ROUNDS:
        _check_round(reported, found.movement, time_of(event.get("created")))
    dispute_round = None if found.source is not _BY_EVENT else f"{text(reported, 'id')}.{text(event, 'id')}"
    return moved(
        NAME,
        found.movement,
        dispute_round or text(found.source, "id"),
        money_of(found.amount, reported.get("currency", found.source.get("currency")), MORE_DECIMALS),
        account=account_of(event),
        payment=payment_of(reported),
        pair=_pair(found, reported),
    )


def _pair(found: _Moved, reported: Mapping[str, Any]) -> str | None:
    """The id of what is undone, or may be: None for captures, which nothing undoes, for what gives back a part of a
    withdrawal, and for rounds of a dispute that can't be told apart by their times.
    """
    if found.source is _BY_EVENT or found.movement in (Movement.CAPTURE, Movement.DISPUTE_LOST):
        return None
    if found.movement is not Movement.DISPUTE_WON:
        return text(found.source, "id")
    taken, number = _of_sign(reported, -1), len(_of_sign(reported, 1)) or 1
    if not taken:
        return text(reported, "id")
    if number > len(taken) or taken[number - 1][0] != found.amount:
        return None
    return text(reported if number == 1 else taken[number - 1][1], "id")


def _as_it_was(document: Mapping[str, Any]) -> tuple[Mapping[str, Any], object]:
    """A thin event's object as the event found it, as far as that can be known, and what its attributes were before.

    :raises MovementUnknown: it wasn't fetched, or the event doesn't say to what an attribute changed
    """
    event, fetched = event_in(document), fetched_in(document)
    if fetched is None:
        raise MovementUnknown("related_object", NOT_FETCHED)
    before, after = object_at(event, "changes", "before"), object_at(event, "changes", "after")
    if before.keys() - after.keys():
        raise MovementUnknown(*_UNTOLD)
    return _until(time_of(event.get("created")), {**fetched, **after}), before or None


def _until(moment: datetime | None, reported: Mapping[str, Any]) -> Mapping[str, Any]:
    """Without a dispute's balance transactions that came later, but for the rest of the event's second."""
    listed = reported.get("balance_transactions")
    if moment is None or not isinstance(listed, list):
        return reported
    end_s = int((moment + timedelta(seconds=1)).timestamp())
    return {**reported, "balance_transactions": [one for one in listed if _created(one) <= end_s]}


def _charge_now(charge: Mapping[str, Any], _: object) -> _Moved | None:
    """A charge without what changed: certain where it was captured at once, or not at all.

    :raises MovementUnknown: it may have been captured in parts (https://docs.stripe.com/payments/multicapture)
    """
    multicapture = object_at(charge, "payment_method_details", "card", "multicapture")
    is_captured, amount = charge.get("captured") is True, charge.get("amount_captured")
    if multicapture.get("status") == "available" or (amount and not is_captured):
        if not amount:
            return None
        raise MovementUnknown(*_UNTOLD)
    return _Moved(Movement.CAPTURE, charge, amount) if is_captured else None


def _charge_refunded_now(charge: Mapping[str, Any], _: object) -> _Moved | None:
    """A charge without what changed: certain where it has one refund.

    :raises MovementUnknown: it has several
    """
    if charge.get("captured") is False:
        return None
    listed = object_at(charge, "refunds")
    refunds = listed.get("data")
    if not isinstance(refunds, list) or len(refunds) != 1 or listed.get("has_more"):
        raise MovementUnknown(*_UNTOLD)
    return _refund_made(an_object(refunds[0], "a refund"), None)


def _refund_made(refund: Mapping[str, Any], _: object) -> _Moved | None:
    """A refund as it began: what took the money is told by this event, whatever became of it since."""
    taken = refund.get("balance_transaction") is not None
    return _refunded({**refund, "status": "succeeded"} if taken else refund)


def fees_of(document: Mapping[str, Any], event_type: str) -> list[MoneyFact]:
    """
    :param event_type: without `THIN`
    :raises MoneyInvalid, MovementUnknown: as `fact_of`
    """
    if event_type.startswith("charge.dispute."):
        return _dispute_fees(document)
    return _application_fees(document, event_type) if event_type in _TELL_APPLICATION_FEES else []


def _dispute_fees(document: Mapping[str, Any]) -> list[MoneyFact]:
    """What each of a dispute's balance transactions cost, in the currency that it is settled in; below zero: given back
    (https://docs.stripe.com/api/balance_transactions/object#balance_transaction_object-fee).
    """
    dispute = object_of(document)
    listed = dispute.get("balance_transactions")
    found = [an_object(one, "a balance transaction") for one in listed] if isinstance(listed, list) else []
    account, payment = account_of(event_in(document)), payment_of(dispute)
    return [
        moved(
            NAME,
            Movement.FEE,
            text(one, "id"),
            money_of(one["fee"], one.get("currency", dispute.get("currency")), MORE_DECIMALS),
            account=account,
            payment=payment,
        )
        for one in found
        if one.get("fee") not in (None, 0)
    ]


def _application_fees(document: Mapping[str, Any], event_type: str) -> list[MoneyFact]:
    """What a platform took of a charge on a connected account, or what came to the platform.

    :raises MovementUnknown: a part of the charge was captured, and how much of the fee was taken isn't said
    """
    event = event_in(document)
    reported, previous = _as_it_was(document) if text(event, "type").startswith(THIN) else _told(document)
    if event_type == APPLICATION_FEE:
        fee_id, amount, sign, prefix = text(reported, "id"), reported.get("amount"), -1, "platform_"
    elif _pays_a_platform(reported, previous, event_type):
        fee_id = id_of(reported.get("application_fee")) or ""
        amount, sign, prefix = reported.get("application_fee_amount"), 1, "application_"
    else:
        return []
    money = money_of(amount, reported.get("currency"), MORE_DECIMALS)
    money = replace(money, amount_minor=sign * money.amount_minor)
    fee = moved(
        NAME, Movement.FEE, fee_id, money, account=account_of(event), payment=payment_of(reported), prefix=prefix
    )
    return [fee] if money.amount_minor else []


def _pays_a_platform(charge: Mapping[str, Any], previous: object, event_type: str) -> bool:
    """Whether the event tells of a fee that was taken of the charge's own balance."""
    is_told = event_type != "charge.updated" or (isinstance(previous, dict) and "application_fee" in previous)
    is_of_platform = bool(object_at(charge, "transfer_data") or id_of(charge.get("destination")))
    if not is_told or is_of_platform or id_of(charge.get("application_fee")) is None:
        return False
    if charge.get("captured") is not True:
        return False
    if charge.get("amount_captured") != charge.get("amount"):
        raise MovementUnknown("application_fee_amount", "of a part")
    return True


def _told(document: Mapping[str, Any]) -> tuple[Mapping[str, Any], object]:
    """An event's object as it holds it, and what its attributes were before."""
    data = an_object(document.get("data"), "'data'")
    return an_object(data.get("object"), "'data.object'"), data.get("previous_attributes")


def _captured(charge: Mapping[str, Any], previous: object) -> _Moved | None:
    """What was captured with this event, whether or not more may be (``captured`` says that only of the last time).

    The first capture is named by the charge, each further one by its balance transaction, so that ``charge.updated``
    and ``charge.captured`` of one capture are one fact.
    """
    if "amount_captured" not in charge:
        raise MoneyInvalid("the charge has no 'amount_captured': set the endpoint's API version to 2020-08-27 or later")
    if isinstance(previous, dict) and not previous.keys() & {"amount_captured", "balance_transaction"}:
        return None
    before, after = _before(previous, "amount_captured"), charge["amount_captured"]
    transaction_before = _before(previous, "balance_transaction")
    if not before and transaction_before is None:
        return _Moved(Movement.CAPTURE, charge, after)
    transaction = id_of(charge.get("balance_transaction"))
    if type(before) is not int or type(after) is not int or transaction_before is None:
        raise MoneyInvalid("a further capture doesn't say its amount and balance transaction: book it by hand")
    return _Moved(Movement.CAPTURE, {"id": transaction}, after - before)


def _updated(charge: Mapping[str, Any], previous: object) -> _Moved | None:
    return None if _before(previous, "amount_captured") is None else _captured(charge, previous)


def _charged(charge: Mapping[str, Any], _: object) -> _Moved | None:
    """A charge that is captured as it succeeds is captured whole, so old API versions are clear too.

    :raises MovementUnknown: it doesn't say whether it is captured
    """
    captured = charge.get("captured")
    if type(captured) is not bool:
        raise MovementUnknown("captured", captured)
    return _Moved(Movement.CAPTURE, charge, charge.get("amount_captured", charge.get("amount"))) if captured else None


def _refunded(refund: Mapping[str, Any], _: object = None) -> _Moved | None:
    """A refund that has no effect on the balance has null for its transaction."""
    status = refund.get("status")
    taken = refund.get("balance_transaction", ...)
    if status in ("failed", "canceled"):
        given_back = refund.get("failure_balance_transaction")
        never_moved = taken is None and given_back is None
        return None if never_moved else _Moved(Movement.REFUND_FAILED, refund, refund.get("amount"))
    if taken is None or (taken is ... and status != "succeeded"):
        return None
    return _Moved(Movement.REFUND, refund, refund.get("amount"))


def _charge_refunded(charge: Mapping[str, Any], previous: object) -> _Moved | None:
    """The refund that this event is about: the newest whose amount is what the charge's total grew by."""
    if charge.get("captured") is False:
        return None
    listed = charge.get("refunds")
    refunds = listed.get("data") if isinstance(listed, dict) else None
    if not isinstance(refunds, list) or not refunds:
        _check_unlisted(charge, previous)
        return None
    before, after = _before(previous, "amount_refunded"), charge.get("amount_refunded")
    if not before and after == _not_captured(charge):
        return None
    if type(before) is int and type(after) is int:
        refunds = [refund for refund in refunds if isinstance(refund, dict) and refund.get("amount") == after - before]
        if not refunds:
            raise MoneyInvalid("none of the charge's refunds is the one that this event reports")
    return _refunded(an_object(max(refunds, key=_created), "a refund"))


def _check_unlisted(charge: Mapping[str, Any], previous: object) -> None:
    """
    :raises RefundUnlisted: money went back
    """
    before = _before(previous, "amount_refunded")
    if charge.get("amount_refunded") != (0 if before is None else before):
        raise RefundUnlisted(
            "the charge lists no refunds: subscribe to refund.created, refund.updated and refund.failed, and set "
            "providers.stripe.refund_events"
        )


def _before(previous: object, name: str) -> object:
    """What an attribute was before the event; None where it didn't change."""
    return previous.get(name) if isinstance(previous, dict) else None


def _not_captured(charge: Mapping[str, Any]) -> int | None:
    """What of the authorisation was released at its capture, which API versions that list refunds report as one."""
    amount, captured = charge.get("amount"), charge.get("amount_captured")
    return amount - captured if type(amount) is int and type(captured) is int else None


def _created(value: object) -> int:
    created = value.get("created") if isinstance(value, dict) else None
    return created if type(created) is int else 0


def _dispute_opened(dispute: Mapping[str, Any], _: object) -> _Moved | None:
    status, listed = str(dispute.get("status")), dispute.get("balance_transactions")
    is_prevented = status == "prevented" and not listed
    if is_prevented or status.startswith("warning_") or listed == []:
        return None
    opened = _newest(dispute, Movement.DISPUTE_OPENED, -1)
    if opened.source is _BY_EVENT:
        # Another event tells of the same withdrawal.
        raise MovementUnknown(*_ONE_SECOND)
    return opened


def _dispute_closed(dispute: Mapping[str, Any], _: object) -> _Moved | None:
    status, listed = dispute.get("status"), _transactions(dispute)
    is_final = status == "lost" or (status == "prevented" and bool(listed))
    if not is_final or dispute.get("balance_transactions") == []:
        return None
    withheld = -sum(amount for amount, _ in listed) if listed else dispute.get("amount")
    return None if withheld == 0 else _Moved(Movement.DISPUTE_LOST, dispute, withheld)


def _newest(dispute: Mapping[str, Any], movement: Movement, sign: int) -> _Moved:
    """The newest of the dispute's transactions in that direction: the one that its event is about."""
    mine = _of_sign(dispute, sign)
    if not mine:
        return _Moved(movement, dispute, dispute.get("amount"))
    amount, transaction = mine[-1]
    if len(mine) == 1:
        return _Moved(movement, dispute, amount)
    amounts = {amount for amount, one in mine if _created(one) == _created(transaction)}
    if len(amounts) > 1:
        raise MovementUnknown(*_ONE_SECOND)
    is_tied = sum(_created(one) == _created(transaction) for _, one in mine) > 1
    return _Moved(movement, _BY_EVENT if is_tied else transaction, amount)


def _of_sign(dispute: Mapping[str, Any], sign: int) -> list[tuple[int, Mapping[str, Any]]]:
    """What was withdrawn (-1), or what was given back (1), above zero and the oldest first."""
    return [(amount * sign, one) for amount, one in _transactions(dispute) if amount * sign > 0]


def _check_round(dispute: Mapping[str, Any], movement: Movement, moment: datetime | None) -> None:
    """
    :raises MovementUnknown: the thin event may be about either of two rounds that followed at once
    """
    since = 0 if moment is None else int(moment.timestamp())
    if sum(_created(one) >= since for _, one in _of_sign(dispute, _ROUNDS[movement])) > 1:
        raise MovementUnknown(*_UNTOLD)


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


def _payout(movement: Movement) -> Callable[[Mapping[str, Any], object], _Moved]:
    return lambda payout, _: _Moved(movement, payout, payout.get("amount"))


_READERS: Mapping[str, Callable[[Mapping[str, Any], object], _Moved | None]] = {
    "charge.succeeded": _charged,
    "charge.captured": _captured,
    "charge.updated": _updated,
    "charge.refunded": _charge_refunded,
    "charge.refund.updated": _refunded,
    "refund.created": _refunded,
    "refund.updated": _refunded,
    "refund.failed": _refunded,
    "charge.dispute.created": _dispute_opened,
    "charge.dispute.funds_withdrawn": lambda dispute, _: _newest(dispute, Movement.DISPUTE_OPENED, -1),
    "charge.dispute.funds_reinstated": lambda dispute, _: _newest(dispute, Movement.DISPUTE_WON, 1),
    "charge.dispute.closed": _dispute_closed,
    "payout.paid": _payout(Movement.PAYOUT_PAID),
    "payout.failed": _payout(Movement.PAYOUT_FAILED),
}
"""Of a thin event ``data.object`` is what was fetched, and ``previous_attributes`` are its ``changes.before``."""
_UNCERTAIN: Mapping[str, Callable[[Mapping[str, Any], object], _Moved | None]] = {
    "charge.succeeded": _charge_now,
    "charge.captured": _charge_now,
    "charge.updated": _charge_now,
    "charge.refunded": _charge_refunded_now,
    "refund.created": _refund_made,
}
"""Of a thin event that doesn't say what changed."""
