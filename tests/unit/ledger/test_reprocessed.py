"""Whatever came while a type wasn't known, and whenever it is taken up again: each movement is booked once, in balance.

Real adapters, the ledger's real handler and the engine's real batches; Kafka, Delta and Spark stand in as lists.
"""

from __future__ import annotations

import tempfile
from collections import Counter
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from core.decision import Decision
from core.event import Dedupe, Event, Mode, to_headers
from core.money import MoneyFact
from journal.target import ItemTarget
from ledger.postings import flatten_postings
from ledger.verify.duckdb_engine import DuckDb
from providers.port import Request
from tests.examples import examples
from tests.unit.ledger.delivered import RealHandler
from tests.unit.ledger.test_any_order import ADAPTERS, ADYEN_CODES, STRIPE_TYPES, SentEvent, balance, sequences
from tests.unit.ledger.verify.ledgers import name_rows, offenders
from tests.unit.processor.harness import EVENTS, Engine
from tests.unit.processor.ordering import command

PAID = "charge.succeeded"
PROMISES = (
    "balanced",
    "one_effect_per_event_key",
    "one_effect_per_fact_key",
    "items_close_once",
    "reprocessed_were_ignored",
)


class OlderAdapter:
    """An adapter before it knew some types: it names no movement of money in them."""

    def __init__(self, adapter: Any, unknown: frozenset[str]) -> None:
        self._adapter, self._unknown = adapter, unknown

    def __getattr__(self, name: str) -> Any:
        return getattr(self._adapter, name)

    def events(self, request: Request, mode: Mode) -> list[Event]:
        return [self._named(event) for event in self._adapter.events(request, mode)]

    def money(self, body: bytes, event_type: str) -> MoneyFact | None:
        found: MoneyFact | None = self._adapter.money(body, event_type)
        return None if event_type.partition(":")[0] in self._unknown else found

    def _named(self, event: Event) -> Event:
        if event.event_type.partition(":")[0] in self._unknown:
            return replace(event, fact_key=None, fact_sha256=None)
        return event


class TwoVersions(Engine):
    """A stream whose code is brought up to date by a restart."""

    def __init__(self, folder: Path, unknown: frozenset[str]) -> None:
        self.versions: dict[str, Mapping[str, Any]] = {
            "older": {name: OlderAdapter(ADAPTERS[name], unknown) for name in ("stripe", "adyen")},
            "today": {name: ADAPTERS[name] for name in ("stripe", "adyen")},
        }
        self.version = "older"
        super().__init__(folder)

    def start(self, *, keeps_index: bool = False) -> None:
        self.handler = RealHandler(self.versions[self.version], self.version)
        self.adapters = dict(self.versions[self.version])
        super().start(keeps_index=keeps_index)

    def deliver(self, every: list[SentEvent]) -> None:
        for one in every:
            for event in self.versions[self.version][one.provider].events(Request(one.body(), ()), "live"):
                self.send(EVENTS, event.body, to_headers(event, self.clock.now(), Dedupe.CLAIMED))
        self.batch()

    def ignored(self) -> list[ItemTarget]:
        last = {row.item_seq: row for row in self.journal.rows if row.topic == EVENTS}
        return [ItemTarget.of_row(row) for row in last.values() if row.decision is Decision.IGNORED]

    def reprocess(self, actor: str, targets: list[ItemTarget]) -> None:
        if targets:
            command(self, "replay", *targets, actor=actor)
            self.batch()
        self.advance(0)

    def booked(self) -> list[dict[str, object]]:
        found: list[dict[str, object]] = flatten_postings(self.journal.rows).to_pylist()
        return found


@given(
    sequences(),
    st.sets(st.sampled_from([*STRIPE_TYPES, *ADYEN_CODES])),
    st.data(),
)
@settings(max_examples=examples(30), deadline=None)
def test_each_movement_is_booked_once_in_balance_and_a_second_time_changes_nothing(
    duckdb: DuckDb, every: list[SentEvent], unknown: set[str], data: st.DataObject
) -> None:
    upto = data.draw(st.integers(1, len(every)))
    with tempfile.TemporaryDirectory() as folder:
        engine = TwoVersions(Path(folder), frozenset(unknown))
        engine.deliver(every[:upto])
        before = engine.ignored()
        engine.version = "today"
        engine.start(keeps_index=data.draw(st.booleans()))
        if data.draw(st.booleans()):
            engine.deliver(every[upto:])
            engine.reprocess("ada", before)
        else:
            engine.reprocess("ada", before)
            engine.deliver(every[upto:])
        booked = engine.booked()
        _is_whole(engine, every, booked)
        engine.start(keeps_index=data.draw(st.booleans()))
        # The same as it was seen then, and all of it as it is now: what moves no money is ignored once more.
        engine.reprocess("bob", before)
        assert engine.booked() == booked
        engine.reprocess("bob", engine.ignored())
        engine.deliver(every)
        assert engine.booked() == booked
        name_rows(duckdb, [replace(row, batch_seq=row.seq, epoch=1, row_hash="") for row in engine.journal.rows])
        assert offenders(duckdb, *PROMISES) == []
        assert duckdb.ask("SELECT item_seq FROM open_items WHERE decision <> 'dead'") == []
        engine.index.close()


def _is_whole(engine: TwoVersions, every: list[SentEvent], booked: list[dict[str, object]]) -> None:
    """Every movement that today's adapters see is booked once; an undo alone, and what it undid, aren't."""
    assert not any(balance(booked).values())
    facts = Counter(line["fact_key"] for line in booked if line["line"] == 0)
    assert all(count == 1 for count in facts.values())
    moved = {event.fact_key for one in every for event in one.events() if event.fact_key and one.amount_minor}
    died = {row.fact_key for row in engine.journal.rows if row.decision is Decision.DEAD}
    zero = {event.fact_key for one in every for event in one.events() if not one.amount_minor}
    without = (Decision.APPLIED, Decision.UNKNOWN)
    alone = {row.fact_key for row in engine.journal.rows if row.decision in without and row.postings is None}
    assert moved - died - zero - alone <= facts.keys() <= moved


def test_each_row_says_which_version_decided_it(tmp_path: Path) -> None:
    engine = TwoVersions(tmp_path, frozenset({PAID}))
    engine.deliver([SentEvent("stripe", PAID, 1, 500, "EUR", 1)])
    assert engine.booked() == []
    engine.version = "today"
    engine.start()
    engine.reprocess("ada", engine.ignored())
    reported = [
        (row.decision.value, row.handler_version, row.fact_key) for row in engine.journal.rows if row.topic == EVENTS
    ]
    assert reported[0] == ("ignored", "older", None)
    assert [one[:2] for one in reported[1:]] == [("replayed", None), ("applied", "today")]
    assert reported[1][2] == reported[2][2] is not None
    assert len(engine.booked()) == 2
    engine.index.close()


def test_a_movement_that_another_type_reported_meanwhile_is_not_booked_again(tmp_path: Path) -> None:
    """Stripe tells a capture as charge.succeeded and as charge.captured: one of them was known all along."""
    engine = TwoVersions(tmp_path, frozenset({PAID}))
    engine.deliver(
        [SentEvent("stripe", PAID, 1, 500, "EUR", 1), SentEvent("stripe", "charge.captured", 1, 500, "EUR", 2)]
    )
    engine.version = "today"
    engine.start()
    engine.reprocess("ada", engine.ignored())
    assert [row.decision.value for row in engine.journal.rows if row.topic == EVENTS] == [
        "ignored",
        "applied",
        "replayed",
        "duplicate_fact",
    ]
    assert len(engine.booked()) == 2
    engine.index.close()
