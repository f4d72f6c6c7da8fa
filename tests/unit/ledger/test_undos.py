"""Every undo that an adapter tells of names what it takes back, and is booked where that is, at every provider.

The sample files say what providers send; the ledger's handler, the engine's batches and the promise are the real ones.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest

from core.decision import Decision
from core.event import Dedupe, Event, to_headers
from core.money import UNDOS, MoneyFact
from journal.schema import JournalRow
from ledger.verify.duckdb_engine import DuckDb
from processor.decide.handlers import EARLY_UNDO
from providers import build_adapters
from providers.settings import ProvidersSettings
from tests.unit.ledger.delivered import Ledger
from tests.unit.ledger.verify.ledgers import name_rows, offenders
from tests.unit.processor.harness import EVENTS
from tests.unit.providers.samples.table import request_of
from tests.unit.providers.test_sample_tables import PROVIDERS, samples_of

PROMISE = "undos_follow_movements"
UNPAIRED: Mapping[str, str] = {
    r"paddle: .* earnings .*below zero|paddle: .* (gives earnings back|a transaction of its own)": (
        "it takes back nothing else: it is the opposite of the movement that its adjustment or transaction would be"
    ),
    r"(paypal|braintree): .* gives back a part": "a part of what a dispute took, and a pair is of one amount",
    r"stripe: .*(a part|300 were refunded).*": "a part of what was withdrawn, and a pair is of one amount",
}
"""By provider and sample: why an undo has no pair."""


@dataclass(frozen=True)
class ReportedFact:
    """A fact, the event that told it, and the settings that it was read with."""

    provider: str
    fact: MoneyFact
    event: Event
    settings: Mapping[str, Any]
    case: str


def reported_by(provider: str) -> Iterator[ReportedFact]:
    """All that the provider's sample webhooks moved."""
    samples = samples_of(provider)
    rows = [(row.case, row.body, row.settings, row.endpoint) for row in samples.WEBHOOKS if row.refused is None]
    rows += [
        (f"{sequence.case}, {number}", body, sequence.settings, "live")
        for sequence in getattr(samples, "SEQUENCES", ())
        for number, body in enumerate(sequence.webhooks)
    ]
    for case, body, more, endpoint in rows:
        settings = {**getattr(samples, "SETTINGS", {}), **more}
        adapter, request = build_adapters(ProvidersSettings.model_validate(settings))[provider], request_of(body)
        for event in adapter.events(request, endpoint):
            fact = adapter.money(event.body, event.event_type) if event.fact_key is not None else None
            if fact is not None and fact.money.amount_minor > 0:
                yield ReportedFact(provider, fact, event, settings, case)


EVERY = {provider: list(reported_by(provider)) for provider in PROVIDERS}


def may_lack_a_pair(undo: ReportedFact) -> bool:
    return any(re.match(pattern, f"{undo.provider}: {undo.case}") for pattern in UNPAIRED)


@pytest.mark.parametrize("provider", PROVIDERS)
def test_an_undo_names_what_it_takes_back(provider: str) -> None:
    undos = [one for one in EVERY[provider] if one.fact.movement in UNDOS]
    assert undos
    assert [(one.case, one.fact.fact_key) for one in undos if one.fact.pair is None and not may_lack_a_pair(one)] == []


def pairs() -> Iterator[Any]:
    """Of each provider and each of its undos one sample, with that of what it takes back."""
    for provider, reported in EVERY.items():
        paired = [one for one in reported if one.fact.pair and one.event.mode == "live"]
        done = {(one.fact.pair_key, str(one.settings)): one for one in paired if not one.fact.is_pair_end}
        for movement in sorted({one.fact.movement for one in paired if one.fact.is_pair_end}):
            undos = [(done.get((one.fact.pair_key, str(one.settings))), one) for one in paired]
            found = next((pair for pair in undos if pair[0] and pair[1].fact.movement is movement), None)
            assert found, f"{provider}: no sample of what a {movement} takes back"
            yield pytest.param(*found, id=f"{provider}: {movement}")


def decided(folder: Path, *told: ReportedFact) -> list[JournalRow]:
    """The rows of these facts, each told by an event of its own: samples share their ids."""
    ledger = Ledger(folder, told[-1].settings)
    for number, one in enumerate(told):
        event = replace(one.event, event_key=f"{one.event.event_key}-{number}")
        ledger.send(EVENTS, event.body, to_headers(event, ledger.clock.now(), Dedupe.CLAIMED))
        ledger.batch()
    ledger.index.close()
    return ledger.journal.rows


@pytest.mark.parametrize(("done", "undo"), list(pairs()))
def test_an_undo_is_booked_where_what_it_takes_back_is_and_verify_finds_one_that_stands_alone(
    tmp_path: Path, duckdb: DuckDb, done: ReportedFact, undo: ReportedFact
) -> None:
    [alone] = decided(tmp_path / "alone", undo)
    assert (alone.decision, alone.error_code, alone.postings) == (Decision.UNKNOWN, EARLY_UNDO, None)
    first, second = decided(tmp_path / "both", done, undo)
    assert first.decision is second.decision is Decision.APPLIED
    assert first.postings is not None
    assert second.postings is not None
    name_rows(duckdb, [first, second])
    assert offenders(duckdb, PROMISE) == []
    name_rows(duckdb, [second])
    assert [row["problem"] for row in offenders(duckdb, PROMISE)] == ["an undo is booked of what isn't"]
    name_rows(duckdb, [first, replace(second, postings=None)])
    assert [row["problem"] for row in offenders(duckdb, PROMISE)] == ["what it undoes is booked, and the undo isn't"]
