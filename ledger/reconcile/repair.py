"""Repair sends what only the report knows through the pipeline, once, as events that say who made them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Protocol

from core.errors import PayhookError, Unconfirmed
from core.event import Event, Mode
from core.money import Money, MoneyFact, Movement
from core.routing import TENANT_MARK, topics_of
from ledger.accounts import PAYOUTS
from ledger.reconcile.job import direction_of
from ledger.reconciliations import Difference, Reconciliation
from providers.reconciled import Origin, build_reconciled_event, build_reconciled_headers

OUTSTANDING_MAX = 1_000
"""Events on their way to Kafka at a time."""
ACKNOWLEDGED_S_MAX = 30.0
"""How long the last of them may take; librdkafka gives each one up before."""


class AccountInDoubt(PayhookError):
    """Raised when the report's facts are booked on other accounts than the report's, so that repaired ones would be,
    too.
    """

    def __init__(self, count: int) -> None:
        self.count = count
        super().__init__(
            f"nothing was sent: {count} of the report's facts are booked on another account than the report's. Say "
            "whose report it is with --account"
        )


class NotAcknowledged(Unconfirmed):
    """Raised when Kafka didn't take all of the events. Those that it took are booked."""

    def __init__(self, sent: int, failed: int, problem: str) -> None:
        self.sent = sent
        self.failed = failed
        self.problem = problem
        super().__init__(
            f"Kafka acknowledged {sent} events and not {failed} ({problem}). Run the repair again when it is up: what "
            "is there already takes effect once"
        )


class EventProducer(Protocol):
    def produce(self, topic: str, value: bytes, **more: Any) -> None: ...
    def poll(self, timeout: float) -> int: ...
    def flush(self, timeout: float) -> int: ...


@dataclass(frozen=True, slots=True)
class Repair:
    run: Reconciliation
    mode: Mode
    actor: str
    reason: str


@dataclass(frozen=True, slots=True)
class RepairEvent:
    event: Event
    origin: Origin


@dataclass(frozen=True, slots=True)
class SkippedDifference:
    difference: Difference
    why: str


def plan_repair(
    repair: Repair, differences: Iterable[Difference], wanted_of_report: str
) -> Iterator[RepairEvent | SkippedDifference]:
    """Plans what to send of a run's `missing_here`: only facts of which the journal holds nothing.

    :param wanted_of_report: what a report must hold for events to be made of it (`SettlementReport.wanted_to_repair`)
    :raises AccountInDoubt: before anything is planned
    """
    doubted = repair.run.counts["account_differs"]
    if doubted:
        raise AccountInDoubt(doubted)
    for difference in differences:
        if difference.kind == "missing_here":
            why = _explain_omission(difference, wanted_of_report)
            yield SkippedDifference(difference, why) if why else _build_event(repair, difference)


def send_events(producer: EventProducer, planned: Iterable[RepairEvent], mode: Mode, now: datetime) -> int:
    """Publishes as the receiver does and waits until Kafka has acknowledged each; returns how many it has.

    :raises NotAcknowledged: some it hasn't
    """
    produced = acknowledged = 0
    refused: list[str] = []

    def delivered(error: object, _message: object) -> None:
        nonlocal acknowledged
        if error is None:
            acknowledged += 1
        else:
            refused.append(str(error))

    topic = topics_of(mode).events
    for made in planned:
        headers = build_reconciled_headers(made.event, made.origin, now)
        key = made.event.entity_key.encode()
        producer.produce(topic, made.event.body, key=key, headers=headers, on_delivery=delivered)
        produced += 1
        while produced - acknowledged - len(refused) >= OUTSTANDING_MAX:
            producer.poll(0.1)
    producer.flush(ACKNOWLEDGED_S_MAX)
    if acknowledged < produced:
        problem = refused[-1] if refused else "no answer in time"
        raise NotAcknowledged(acknowledged, produced - acknowledged, problem)
    return acknowledged


def _explain_omission(difference: Difference, wanted_of_report: str) -> str:
    if not difference.absent:
        return f"the journal knows it: {difference.decision} ({difference.event_name})"
    if difference.entity_key is None:
        return f"the report doesn't hold enough: {wanted_of_report}"
    if _webhook_amount_minor(difference) < 0 and Movement(difference.movement or "") not in PAYOUTS:
        return "its amount has the wrong sign for its movement: ask the provider what was meant"
    return ""


def _build_event(repair: Repair, difference: Difference) -> RepairEvent:
    run = repair.run
    origin = Origin(run.run_id, run.report_name, run.report_sha256, difference.line or 0, repair.actor, repair.reason)
    fact = MoneyFact(
        fact_key=_remove_tenant(difference.fact_key, run.tenant),
        movement=Movement(difference.movement or ""),
        account=difference.account or "",
        payment=difference.payment,
        money=Money(_webhook_amount_minor(difference), difference.reported_currency or ""),
        pair=None if difference.pair is None else _remove_tenant(difference.pair, run.tenant),
    )
    assert difference.occurred_at is not None
    assert difference.entity_key is not None
    event = build_reconciled_event(
        run.provider, fact, difference.entity_key, difference.occurred_at, origin, repair.mode, run.tenant
    )
    return RepairEvent(event, origin)


def _webhook_amount_minor(difference: Difference) -> int:
    """Returns the amount as a webhook gives it: above zero when it goes the movement's own way."""
    return direction_of(Movement(difference.movement or "")) * (difference.reported_minor or 0)


def _remove_tenant(fact_key: str, tenant: str | None) -> str:
    return fact_key if tenant is None else fact_key.removeprefix(f"{tenant}{TENANT_MARK}")
