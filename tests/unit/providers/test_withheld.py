"""A lost dispute books the debit before it too, whether or not that was reported: nothing stays withheld below zero."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import pytest

from core.money import UNDOS, MoneyFact, Movement
from load.samples import braintree, razorpay, square
from load.samples.sender import NOW
from providers import Adapter, Request
from tests.contract.adapter_cases import CASES

Dispute = Callable[[str], bytes]
"""A body of the dispute: ``opened``, ``lost``, ``won``, or ``asked`` for an inquiry that ends as lost."""


def of_square(end: str) -> bytes:
    state = {"opened": "EVIDENCE_REQUIRED", "lost": "LOST", "accepted": "ACCEPTED", "won": "WON"}
    about: dict[str, Any] = {
        "dispute": "d1",
        "payment": "p1",
        "account": "m1",
        "amount_minor": 1_250,
    }
    named: dict[str, Any] = {
        "event_id": f"e-{end}",
        "created": NOW,
        "currency": "EUR",
        "state": state.get(end, "INQUIRY_CLOSED"),
    }
    return square.dispute_event("dispute.state.updated", **about, **named)


def of_razorpay(end: str) -> bytes:
    about: dict[str, Any] = {
        "dispute": "d1",
        "payment": "p1",
        "account": "m1",
        "amount_minor": 1_250,
    }
    kind = {"opened": "created", "asked": "lost"}.get(end, end)
    phase = "fraud" if end == "asked" else "arbitration"
    return razorpay.dispute_event(f"payment.dispute.{kind}", **about, currency="INR", created=NOW, phase=phase)


def of_braintree(end: str) -> bytes:
    about: dict[str, Any] = {"dispute": "d1", "transaction": "p1", "merchant_account": "m1", "currency": "EUR"}
    named: dict[str, Any] = {"triggered": NOW, "amount": "12.50", "amount_won": "12.50" if end == "won" else "0.00"}
    kind = "lost" if end == "asked" else end
    return braintree.dispute_event(
        f"dispute_{kind}", **about, **named, about="retrieval" if end == "asked" else "chargeback"
    )


DISPUTES: dict[str, tuple[Dispute, tuple[str, ...]]] = {
    "square": (of_square, ("lost", "accepted")),
    "razorpay": (of_razorpay, ("lost",)),
    "braintree": (of_braintree, ("lost", "accepted", "auto_accepted", "expired")),
}
LOSSES = [(name, loss) for name, (_, losses) in DISPUTES.items() for loss in losses]


def events_of(name: str, end: str) -> list[Any]:
    case = CASES[name]
    return case.adapter().events(case.request(DISPUTES[name][0](end), case.secrets[0]), "live")


def facts(name: str, *ends: str) -> list[MoneyFact]:
    adapter: Adapter = CASES[name].adapter()
    read = [adapter.money(event.body, event.event_type) for end in ends for event in events_of(name, end)]
    return [fact for fact in read if fact is not None]


def sums(name: str, *ends: str) -> dict[Movement, int]:
    """By movement: each fact once, an undo only after what it undoes, and that not after its undo."""
    taken: dict[str, MoneyFact] = {}
    found: dict[Movement, int] = dict.fromkeys(Movement, 0)
    for fact in facts(name, *ends):
        counts = fact.pair is None or (fact.pair in taken) == (fact.movement in UNDOS)
        if fact.fact_key not in taken and counts:
            found[fact.movement] += fact.money.amount_minor
        taken.setdefault(fact.fact_key, fact)
    return found


@pytest.mark.parametrize(("name", "loss"), LOSSES)
def test_a_loss_makes_an_event_for_the_debit_before_it(name: str, loss: str) -> None:
    withheld, lost = events_of(name, loss)
    assert (withheld.event_key, withheld.event_type) == (f"{lost.event_key}.withheld", f"{lost.event_type}.withheld")
    for same in ("body", "content_sha256", "entity_key", "account", "event_id", "occurred_at"):
        assert getattr(withheld, same) == getattr(lost, same)
    [opened] = facts(name, "opened")
    assert (withheld.fact_key, withheld.fact_sha256) == (opened.fact_key, opened.sha256)
    assert facts(name, loss)[0].pair == opened.pair
    assert lost.fact_key == opened.fact_key.replace("opened", "lost")


@pytest.mark.parametrize(("name", "loss"), LOSSES)
@pytest.mark.parametrize("reported", [True, False])
def test_a_lost_dispute_ends_at_its_loss_in_any_order(name: str, loss: str, reported: bool) -> None:
    ends = [loss, loss, *(["opened"] if reported else [])]
    for order in itertools.permutations(ends):
        found = sums(name, *order)
        assert (found[Movement.DISPUTE_OPENED], found[Movement.DISPUTE_LOST]) == (1_250, 1_250)


@pytest.mark.parametrize("name", DISPUTES)
def test_a_dispute_that_is_won_or_only_asked_about_makes_one_event(name: str) -> None:
    assert len(events_of(name, "won")) == len(events_of(name, "asked")) == 1
    assert facts(name, "asked") == []


@pytest.mark.parametrize("name", DISPUTES)
def test_an_end_that_is_no_loss_has_no_debit_before_it(name: str) -> None:
    case = CASES[name]
    [won] = events_of(name, "won")
    assert case.adapter().money(won.body, f"{won.event_type}.withheld") is None


def test_a_loss_whose_amount_cannot_be_trusted_still_makes_both_events() -> None:
    """Both wait for a person, and a corrected adapter books both."""
    body = of_square("lost").replace(b"1250", b'"x"')
    events = CASES["square"].adapter().events(Request(body, ()), "live")
    assert [event.fact_key for event in events] == [None, None]
