"""Reads what Stripe's events and their objects have in common: ids, account, payment, and what moved."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Any, NamedTuple

from core.money import Movement, MovementUnknown
from providers.fields import an_object, object_at, optional_text, time_of
from providers.pointed import NOT_FETCHED, find_event, find_fetched

NAME = "stripe"
MORE_DECIMALS: Mapping[str, int] = {"ISK": 2, "UGX": 2, "MGA": -2}
"""Where Stripe's minor unit isn't ISO 4217's (https://docs.stripe.com/currencies#special-cases)."""
UNTOLD = "changes", "not told"
"""Which of several movements of one object a thin event is about."""
BY_EVENT: Mapping[str, Any] = {}
"""In place of a round's transaction: the event's own id names the round, as its time is another round's too."""


def find_account(event: Mapping[str, Any]) -> str:
    """Finds the connected account. A thin event names it last in what its object is to be asked with."""
    return optional_text(event, "account") or (optional_text(event, "context") or "").rpartition("/")[2]


def find_object(document: Mapping[str, Any]) -> dict[str, Any]:
    return find_fetched(document) or object_at(document, "data", "object")


def find_payment(reported: Mapping[str, Any]) -> str | None:
    return read_id(reported.get("payment_intent")) or read_id(reported.get("charge")) or read_id(reported)


def read_id(value: object) -> str | None:
    """Reads an id, or that of the object which stands in its place when it was asked to be expanded."""
    value_id = value.get("id") if isinstance(value, dict) else value
    return value_id if isinstance(value_id, str) and value_id else None


class ObjectMovement(NamedTuple):
    movement: Movement
    source: Mapping[str, Any]
    """What moved (charge, refund, dispute, balance transaction, payout): its id names the fact; or `BY_EVENT`."""
    amount: object


def read_thin_object(document: Mapping[str, Any]) -> tuple[Mapping[str, Any], object]:
    """Returns a thin event's object as the event found it, as far as that can be known, and what its attributes were
    before.

    :raises MovementUnknown: it wasn't fetched, or the event doesn't say to what an attribute changed
    """
    event, fetched = find_event(document), find_fetched(document)
    if fetched is None:
        raise MovementUnknown("related_object", NOT_FETCHED)
    before, after = object_at(event, "changes", "before"), object_at(event, "changes", "after")
    if before.keys() - after.keys():
        raise MovementUnknown(*UNTOLD)
    return _drop_later(time_of(event.get("created")), {**fetched, **after}), before or None


def _drop_later(moment: datetime | None, reported: Mapping[str, Any]) -> Mapping[str, Any]:
    """Leaves out a dispute's balance transactions that came later than the event's second."""
    listed = reported.get("balance_transactions")
    if moment is None or not isinstance(listed, list):
        return reported
    end_s = int((moment + timedelta(seconds=1)).timestamp())
    return {
        **reported,
        "balance_transactions": [transaction for transaction in listed if read_created(transaction) <= end_s],
    }


def read_object(document: Mapping[str, Any]) -> tuple[Mapping[str, Any], object]:
    """Returns an event's object as it holds it, and what its attributes were before."""
    data = an_object(document.get("data"), "'data'")
    reported, previous = an_object(data.get("object"), "'data.object'"), data.get("previous_attributes")
    return reported, None if previous is None else an_object(previous, "'previous_attributes'")


def read_previous(previous: object, name: str) -> object:
    """Returns what an attribute was before the event; None where it didn't change."""
    return previous.get(name) if isinstance(previous, dict) else None


def read_created(value: object) -> int:
    created = value.get("created") if isinstance(value, dict) else None
    return created if type(created) is int else 0
