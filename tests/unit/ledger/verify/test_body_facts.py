"""A booking is held against what its adapter reads in the body again."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pyarrow as pa
import pytest

from core.event import Event
from core.routing import scope_event
from core.work import Applied, WorkItem, postings_to_json
from journal.schema import pair_of
from ledger.handler import LedgerHandler
from ledger.verify.body_checks import COLUMNS, FACTS, UNREADABLE, read_bodies, read_body_fact
from providers import Adapter, ProvidersSettings
from tests.contract.adapter_cases import CASES
from tests.contract.adapter_cases.case import Case
from tests.contract.adapter_cases.promises import events_of
from tests.one_merchant import OneMerchant

Row = dict[str, Any]
BOOKS = [label for label, case in CASES.items() if case.books]


def adapters_of(case: Case) -> Mapping[str, Adapter]:
    return {case.name: case.adapter()}


def row(event: Event, adapters: Mapping[str, Adapter]) -> Row:
    """As the journal has it once the handler booked it."""
    work = WorkItem(
        *(1, event.event_key, event.entity_key, event.provider, event.account, event.event_type, event.body),
        *(event.fact_key, 0),
        fact_sha256=event.fact_sha256,
        tenant=event.tenant,
    )
    # The merchant's name is spelled with an escape.
    outcome = LedgerHandler(adapters, OneMerchant("m:1"))(work)
    assert isinstance(outcome, Applied)
    about = {name: getattr(event, name) for name in COLUMNS if hasattr(event, name)}
    postings = postings_to_json(outcome.postings)
    pair = None if outcome.pair is None else pair_of(outcome.pair, undoes=outcome.undoes)
    decided = {"handler_version": "ledger-2.0123abcd", "postings": postings, "pair": pair}
    return {**about, "seq": 1, **decided, "body": event.body}


def rows(case: Case, tenant: str | None = None) -> list[Row]:
    """Every event of the case's samples that books."""
    adapters = adapters_of(case)
    requests = [case.valid(), *(case.request(body, case.secrets[0]) for body in case.others())]
    events = [scope_event(event, tenant, None) for request in requests for event in events_of(case.adapter(), request)]
    return [row(event, adapters) for event in events if event.fact_key is not None]


@pytest.mark.parametrize("tenant", [None, "shop-a"])
@pytest.mark.parametrize("label", BOOKS)
def test_what_every_adapters_events_booked_is_what_their_bodies_say(label: str, tenant: str | None) -> None:
    case = CASES[label]
    found = rows(case, tenant)
    assert found
    assert [read_body_fact(one, adapters_of(case)).problem for one in found] == [None] * len(found)


STRIPE = CASES["stripe"]
REFUND = rows(STRIPE)[0]
"""Of 12.50 EUR, of the payment ``pi_p1``."""


def booked_with(instead_of: str, text: str) -> Row:
    """The refund, with something else in its booking."""
    postings = REFUND["postings"].replace(instead_of, text)
    assert postings != REFUND["postings"]
    return {**REFUND, "postings": postings}


NOT_BOOKED_SO = "the booking isn't what the body reports"
OTHER_FACT = "its adapter reads another fact in the body than was reported"
WRONG: dict[str, tuple[Row, str]] = {
    "another amount": (booked_with(":1250", ":1251"), NOT_BOOKED_SO),
    "another currency": (booked_with("EUR", "USD"), NOT_BOOKED_SO),
    "another holder": (booked_with("provider:stripe", "provider:square"), NOT_BOOKED_SO),
    "another kind": (booked_with(":refunds", ":disputes"), NOT_BOOKED_SO),
    "one line": ({**REFUND, "postings": REFUND["postings"].split("},")[0] + "}]"}, NOT_BOOKED_SO),
    "nothing": ({**REFUND, "postings": None, "pair": None}, "what the body reports was applied and isn't booked"),
    "another pair": (
        {**REFUND, "pair": f"-{REFUND['pair'][1:]}"},
        "its adapter reads another pair in the body than was reported",
    ),
    "another fact": ({**REFUND, "fact_key": "stripe:re_9:refund"}, OTHER_FACT),
    "another fact's hash": ({**REFUND, "fact_sha256": "0" * 64}, OTHER_FACT),
    "another tenant": ({**REFUND, "tenant": "shop-b"}, OTHER_FACT),
    "another body": ({**REFUND, "body": REFUND["body"].replace(b"1250", b"1251")}, OTHER_FACT),
    "a body that is none": ({**REFUND, "body": b"<"}, "its adapter can't read the body that was booked"),
    "a type that is unknown today": (
        {**REFUND, "event_type": "refund.seen"},
        "its adapter can't read the body that was booked",
    ),
    "a type that moves nothing today": (
        {**REFUND, "event_type": "payout.created"},
        "its adapter reads no money in the body that was booked",
    ),
    "a type that a person books today": (
        {**REFUND, "event_type": "transfer.created"},
        "its adapter can't read the body that was booked",
    ),
    "a provider that is unknown today": ({**REFUND, "provider": "stripes"}, "there is no adapter for stripes any more"),
}


@pytest.mark.parametrize(("changed", "problem"), WRONG.values(), ids=WRONG)
def test_what_was_not_booked_as_the_body_says_is_named(changed: Row, problem: str) -> None:
    assert read_body_fact(changed, adapters_of(STRIPE)).problem == problem


def test_what_is_read_is_said_beside_the_problem() -> None:
    found = read_body_fact(WRONG["another amount"][0], adapters_of(STRIPE))
    assert found.reads is not None and "refund of 1250 EUR" in found.reads


def test_of_an_adapter_that_fails_on_a_body_its_error_is_named_and_no_more() -> None:
    class Failing:
        def money(self, body: bytes, event_type: str) -> None:
            raise KeyError(body.decode())

    found = read_body_fact(REFUND, {"stripe": Failing()})  # type: ignore[dict-item]
    assert (found.problem, found.reads) == (UNREADABLE, "KeyError")


def test_rows_are_read_in_batches_and_one_without_a_body_is_not_read() -> None:
    some = [REFUND, {**REFUND, "seq": 2, "body": None}]
    given = pa.RecordBatch.from_pylist([{name: one[name] for name in COLUMNS} for one in some])
    [found] = read_bodies(iter([given]), ProvidersSettings())
    assert found.schema.names == [field.split()[0] for field in FACTS.split(", ")]
    assert found.select(["seq", "is_read", "payment", "problem"]).to_pylist() == [
        {"seq": 1, "is_read": True, "payment": "pi_p1", "problem": None},
        {"seq": 2, "is_read": False, "payment": None, "problem": None},
    ]
