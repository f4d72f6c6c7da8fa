"""What a repair sends, what it leaves alone, and that it waits for Kafka."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from core.money import Money
from ledger.reconcile.repair import (
    OUTSTANDING_MAX,
    AccountInDoubt,
    NotAcknowledged,
    Repair,
    RepairEvent,
    SkippedDifference,
    plan_repair,
    send_events,
)
from ledger.reconciliations import KINDS, Difference, Reconciliation
from providers.reconciled import ReconciledReader
from tests.settlement_reports import AT, make_run

RUN = make_run(AT, agreed=0)
MISSING = Difference(
    kind="missing_here",
    fact_key="stripe:re_1:refund",
    movement="refund",
    account="acct_1",
    payment="pi_1",
    entity_key="stripe:acct_1:pi_1",
    reported_minor=-500,
    reported_currency="EUR",
    absent=True,
    occurred_at=AT,
    line=17,
)


class RepairProducer:
    """Acknowledges when polled or flushed; ``refuses`` says which of the events it doesn't."""

    def __init__(self, refuses: int | None = None, deaf: bool = False) -> None:
        self.sent: list[tuple[str, bytes, dict[str, Any]]] = []
        self.outstanding_max = 0
        self.refuses = refuses
        self._deaf = deaf
        self._waiting: list[Any] = []

    def produce(self, topic: str, value: bytes, **more: Any) -> None:
        self.sent.append((topic, value, more))
        self._waiting.append((len(self.sent) - 1, more["on_delivery"]))
        self.outstanding_max = max(self.outstanding_max, len(self._waiting))

    def poll(self, timeout: float) -> int:
        return self.flush(timeout)

    def flush(self, timeout: float) -> int:
        if self._deaf:
            return len(self._waiting)
        waiting, self._waiting = self._waiting, []
        for number, delivered in waiting:
            delivered("timed out" if number == self.refuses else None, None)
        return 0


def repair(run: Reconciliation = RUN) -> Repair:
    return Repair(run, "live", "ada", "webhook lost")


def planned(*found: Difference, run: Reconciliation = RUN) -> list[RepairEvent | SkippedDifference]:
    return list(plan_repair(repair(run), found, "it needs a column"))


def made(*found: Difference, run: Reconciliation = RUN) -> list[RepairEvent]:
    return [one for one in planned(*found, run=run) if isinstance(one, RepairEvent)]


def test_what_is_missing_becomes_the_event_of_its_fact() -> None:
    [one] = made(MISSING)
    fact = ReconciledReader().money(one.event.body, one.event.event_type)
    assert fact is not None
    assert (fact.fact_key, fact.payment, fact.money) == ("stripe:re_1:refund", "pi_1", Money(500, "EUR"))
    assert one.event.entity_key == "stripe:acct_1:pi_1"
    assert (one.origin.line, one.origin.actor, one.origin.reason) == (17, "ada", "webhook lost")


def test_a_tenants_event_is_scoped_once() -> None:
    [one] = made(replace(MISSING, fact_key="shop-a~stripe:re_1:refund"), run=replace(RUN, tenant="shop-a"))
    assert (one.event.fact_key, one.event.tenant) == ("shop-a~stripe:re_1:refund", "shop-a")
    assert one.event.entity_key == "shop-a~stripe:acct_1:pi_1"


@pytest.mark.parametrize("tenant", [None, "shop-a"])
def test_a_movement_that_was_undone_before_is_made_with_what_undid_it(tenant: str | None) -> None:
    """So the payout of which only the failure was reported books nothing."""
    prefix = "" if tenant is None else f"{tenant}~"
    names = {"fact_key": f"{prefix}stripe:po_1:payout_paid", "pair": f"{prefix}stripe:po_1:payout_failed"}
    missing = replace(MISSING, movement="payout_paid", payment=None, **names)  # type: ignore[arg-type]
    [one] = made(missing, run=replace(RUN, tenant=tenant))
    fact = ReconciledReader().money(one.event.body, one.event.event_type)
    assert fact is not None and fact.pair == "stripe:po_1:payout_failed"


@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind != "missing_here"])
def test_other_differences_are_for_people(kind: Any) -> None:
    assert planned(replace(MISSING, kind=kind)) == []


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ({"absent": False, "decision": "dead", "seq": 8}, "the journal knows it: dead (row 8)"),
        ({"absent": False, "decision": "dead", "seq": 8, "event_key": "stripe:evt_8:x"}, "dead (stripe:evt_8:x)"),
        ({"entity_key": None}, "it needs a column"),
        ({"reported_minor": 500}, "the wrong sign for its movement"),
    ],
)
def test_what_isnt_sent_says_why(change: dict[str, Any], why: str) -> None:
    [one] = planned(replace(MISSING, **change))
    assert isinstance(one, SkippedDifference)
    assert why in one.why


def test_a_payout_may_go_either_way() -> None:
    payout = replace(
        MISSING, fact_key="stripe:po_1:payout_paid", movement="payout_paid", payment=None, reported_minor=7
    )
    [one] = made(payout)
    fact = ReconciledReader().money(one.event.body, one.event.event_type)
    assert fact is not None
    assert fact.money == Money(-7, "EUR")


def test_where_the_account_is_in_doubt_nothing_is_sent() -> None:
    doubtful = replace(RUN, counts={**RUN.counts, "account_differs": 3})
    with pytest.raises(AccountInDoubt, match="3 of the report's facts"):
        planned(MISSING, run=doubtful)


def test_events_go_where_the_receiver_sends_and_are_acknowledged() -> None:
    producer = RepairProducer()
    assert send_events(producer, made(MISSING), "test", AT) == 1
    [(topic, _, more)] = producer.sent
    assert (topic, more["key"]) == ("payments.events.test", b"stripe:acct_1:pi_1")
    assert dict(more["headers"])["actor"] == b"ada"


def test_only_so_many_are_under_way() -> None:
    producer = RepairProducer()
    several = [replace(MISSING, fact_key=f"stripe:re_{n}:refund", line=n) for n in range(OUTSTANDING_MAX + 10)]
    assert send_events(producer, made(*several), "live", AT) == OUTSTANDING_MAX + 10
    assert producer.outstanding_max == OUTSTANDING_MAX


def test_what_kafka_does_not_take_is_counted_and_reported() -> None:
    several = made(*(replace(MISSING, fact_key=f"stripe:re_{n}:refund") for n in range(3)))
    with pytest.raises(NotAcknowledged, match="acknowledged 2 events and not 1 \\(timed out\\)"):
        send_events(RepairProducer(refuses=1), several, "live", AT)
    with pytest.raises(NotAcknowledged, match="acknowledged 0 events and not 3 \\(no answer in time\\)"):
        send_events(RepairProducer(deaf=True), several, "live", AT)
