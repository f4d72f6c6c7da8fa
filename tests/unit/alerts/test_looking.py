"""How many events are dead and for how long, in a real journal; Kafka's replicas where brokers tell only a part."""

from __future__ import annotations

import shutil
from concurrent.futures import Future
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
from confluent_kafka.admin import AdminClient

from alerts import looking
from alerts.looking import DeadItems, ReplicaWatch
from alerts.observation import Replicas
from core.clock import ManualClock
from core.decision import Decision
from core.routing import Shard
from core.settings import IN_SYNC
from journal.writer import JournalWriter, Tenure
from tests.unit.journal.rows import TOPIC, bare_row

AT = datetime(2026, 1, 31, 12, tzinfo=UTC)


class HourlyJournal:
    """A journal on disk; each row is an hour after the one before it."""

    def __init__(self, path: Path) -> None:
        self.path = path
        tenure = Tenure("t")
        self._writer = JournalWriter.create_or_open(str(path), "ledger", tenure)
        self._seq = self._writer.begin_epoch({TOPIC: {0: 0}}, tenure).next_seq
        self._offset = 0

    def at(self, seq: int) -> datetime:
        return AT + timedelta(hours=seq)

    def new(self, decision: Decision, **more: Any) -> int:
        self._offset += 1
        return self._commit(self._seq, decision, first=True, **more)

    def divide(self, shard: Shard) -> None:
        JournalWriter.create_or_open(str(self.path), "ledger").divide_journal(TOPIC, shard, AT)

    def then(self, item: int, decision: Decision, **more: Any) -> int:
        return self._commit(item, decision, first=False, **more)

    def _commit(self, item: int, decision: Decision, *, first: bool, **more: Any) -> int:
        seq, offset = self._seq, (self._offset if first else item) - 1
        row = bare_row(seq, decision, item_seq=item, first=first, offset=offset, decided_at=self.at(seq), **more)
        self._writer.commit([row], {TOPIC: {0: self._offset}}, 0, {})
        self._seq += 1
        return seq


@pytest.fixture
def journal(tmp_path: Path) -> HourlyJournal:
    return HourlyJournal(tmp_path / "journal")


def items(journal: HourlyJournal) -> DeadItems:
    return DeadItems(journal.path, ManualClock(AT))


def now(following: DeadItems) -> tuple[int, datetime | None] | None:
    dead = following.read()
    return None if dead is None else (dead.depth, dead.oldest_at)


def test_there_are_none_before_there_is_a_journal(tmp_path: Path) -> None:
    assert now(DeadItems(tmp_path / "none", ManualClock(AT))) == (0, None)


def test_it_follows_what_dies_is_replayed_and_is_closed(journal: HourlyJournal) -> None:
    following = items(journal)
    journal.new(Decision.APPLIED)
    assert now(following) == (0, None)
    first, second = journal.new(Decision.DEAD), journal.new(Decision.DEAD)
    assert now(following) == now(items(journal)) == (2, journal.at(first))
    journal.then(first, Decision.REPLAYED)
    assert now(following) == now(items(journal)) == (1, journal.at(second))
    journal.then(first, Decision.DEAD)
    assert now(following) == (2, journal.at(first)), "a replay that fails doesn't make it younger"
    journal.then(first, Decision.REPLAYED)
    journal.then(first, Decision.APPLIED)
    journal.then(second, Decision.PURGED)
    assert now(following) == now(items(journal)) == (0, None)


def test_of_a_journal_that_was_divided_only_what_its_shard_goes_on_with_is_counted(journal: HourlyJournal) -> None:
    """Events without an entity are of the shard that reads their partition, here the first."""
    following = items(journal)
    own, other = journal.new(Decision.DEAD), journal.new(Decision.DEAD, entity_key="stripe:acct_1:evt_1")
    assert now(following) == (2, journal.at(own))
    journal.divide(Shard(0, 2))
    assert now(following) == now(items(journal)) == (1, journal.at(own))
    journal.divide(Shard(1, 2))
    assert now(following) == now(items(journal)) == (1, journal.at(other))


def test_what_died_after_tries_counts_from_its_death(journal: HourlyJournal) -> None:
    item = journal.new(Decision.RETRY)
    died = journal.then(item, Decision.DEAD)
    assert now(items(journal)) == (1, journal.at(died))


def test_a_journal_that_was_restored_or_made_anew_is_read_anew(journal: HourlyJournal, tmp_path: Path) -> None:
    following = items(journal)
    journal.new(Decision.DEAD)
    copy = tmp_path / "copy"
    shutil.copytree(journal.path, copy)
    journal.new(Decision.DEAD)
    assert now(following) == (2, journal.at(1))
    shutil.rmtree(journal.path)
    shutil.copytree(copy, journal.path)
    assert now(following) == (1, journal.at(1))


def test_a_long_journal_is_read_over_several_looks(journal: HourlyJournal, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(looking, "READ_S_MAX", -1.0)
    monkeypatch.setattr("journal.reader.ROWS_PER_TABLE", 2)
    for _ in range(5):
        journal.new(Decision.DEAD)
    following = items(journal)
    assert [now(following) for _ in range(3)] == [None, None, (5, journal.at(1))]


def test_what_comes_and_goes_is_counted_by_window(journal: HourlyJournal) -> None:
    """Each row is an hour after the one before it: two died in the first hours, and one was closed in the third."""
    clock = ManualClock(AT)
    following = DeadItems(journal.path, clock)
    first, second = journal.new(Decision.DEAD), journal.new(Decision.DEAD)
    clock.advance((journal.at(second) - AT).total_seconds() + 600)
    assert rates(following) == [(1, 0, None), (1, 0, None), (2, 0, None)]
    journal.then(first, Decision.REPLAYED)
    journal.then(first, Decision.APPLIED)
    clock.advance(2 * 3_600)
    assert rates(following) == rates(DeadItems(journal.path, clock)) == [(0, 1, 900), (0, 1, 3_600), (2, 1, None)]
    clock.advance(24 * 3_600)
    assert rates(following) == [(0, 0, None)] * 3


def rates(following: DeadItems) -> list[tuple[int, int, float | None]]:
    dead = following.read()
    assert dead is not None
    return [(rate.inflow, rate.outflow, rate.time_to_clear_s) for rate in dead.rates]


class ReplicatedTopicAdmin:
    """One topic with two replicas, of which one is in sync."""

    def __init__(self) -> None:
        self.is_silent = True
        """Of the topic's configuration."""

    def list_topics(self, timeout: float) -> Any:
        partition = SimpleNamespace(replicas=[1, 2], isrs=[1])
        return SimpleNamespace(topics={"payments.events": SimpleNamespace(partitions={0: partition})})

    def describe_configs(self, resources: list[Any]) -> dict[Any, Future[Any]]:
        answer: Future[Any] = Future()
        if self.is_silent:
            answer.set_exception(TimeoutError())
        else:
            answer.set_result({IN_SYNC: SimpleNamespace(value="2")})
        return dict.fromkeys(resources, answer)


OF_TYPE = {"provider": "stripe", "event_type": "made_up.funds_moved", "error_code": "type"}
OF_VALUE = {"provider": "adyen", "event_type": "CHARGEBACK", "error_code": "disputeStatus=Frozen"}
UNDO = {
    "provider": "mollie",
    "event_type": "payout.failed",
    "error_code": "undo",
    "pair": "-mollie:po_1:payout_paid:5:EUR",
}
MOVED = {"pair": "+mollie:po_1:payout_paid:5:EUR"}


def test_unknown_events_of_a_day_are_counted_by_what_is_not_known(journal: HourlyJournal) -> None:
    following = DeadItems(journal.path, clock := ManualClock(AT))
    for _ in range(2):
        journal.new(Decision.UNKNOWN, **OF_TYPE)
    journal.new(Decision.UNKNOWN, **OF_VALUE)
    journal.new(Decision.APPLIED)
    dead = following.read()
    assert dead is not None and dead.unknown == {
        "stripe: made_up.funds_moved": 2,
        "adyen: CHARGEBACK, disputeStatus=Frozen": 1,
    }
    clock.advance(26 * 3_600)
    dead = following.read()
    assert dead is not None and dead.unknown == {"adyen: CHARGEBACK, disputeStatus=Frozen": 1}


def test_what_was_taken_up_again_or_has_its_movement_by_now_is_not_unknown_any_more(journal: HourlyJournal) -> None:
    following = items(journal)
    taken_up = journal.new(Decision.UNKNOWN, **OF_TYPE)
    journal.new(Decision.UNKNOWN, **UNDO)
    dead = following.read()
    assert dead is not None and dead.unknown == {"stripe: made_up.funds_moved": 1, "mollie: payout.failed, undo": 1}
    journal.then(taken_up, Decision.REPLAYED)
    journal.new(Decision.APPLIED, **MOVED, reason="books nothing: the undo of it came first")
    dead = following.read()
    assert dead is not None and dead.unknown == {}
    journal.then(taken_up, Decision.UNKNOWN)
    assert (again := following.read()) is not None and sum(again.unknown.values()) == 1
    journal.then(taken_up, Decision.PURGED)
    assert (closed := following.read()) is not None and closed.unknown == {}


def test_an_undo_is_not_forgotten_after_a_day_but_once_a_person_booked_for_its_payment(journal: HourlyJournal) -> None:
    following = DeadItems(journal.path, clock := ManualClock(AT))
    journal.new(Decision.UNKNOWN, entity_key="mollie:org:po_1", **UNDO)
    journal.new(Decision.UNKNOWN, **OF_TYPE)
    clock.advance(60 * 3_600)
    dead = following.read()
    assert dead is not None and dead.unknown == {"mollie: payout.failed, undo": 1}
    journal.new(Decision.APPLIED, entity_key="mollie:org:po_2", event_type="book_entry")
    assert (other := following.read()) is not None and other.unknown == dead.unknown
    journal.new(Decision.APPLIED, entity_key="mollie:org:po_1", event_type="book_entry")
    assert (booked := following.read()) is not None and booked.unknown == {}
    assert unknown_now(journal).get("mollie: payout.failed, undo") is None


def unknown_now(journal: HourlyJournal) -> dict[str, int]:
    """As a watch sees it that begins now, and reads all rows in one table."""
    dead = items(journal).read()
    assert dead is not None
    return dict(dead.unknown)


def test_a_watch_that_begins_does_not_count_what_was_taken_up_before(journal: HourlyJournal) -> None:
    taken_up = journal.new(Decision.UNKNOWN, **OF_TYPE)
    journal.then(taken_up, Decision.REPLAYED)
    journal.then(taken_up, Decision.APPLIED)
    assert unknown_now(journal) == {}
    again = journal.new(Decision.UNKNOWN, **OF_VALUE)
    journal.then(again, Decision.REPLAYED)
    journal.then(again, Decision.UNKNOWN, **OF_VALUE)
    assert unknown_now(journal) == {"adyen: CHARGEBACK, disputeStatus=Frozen": 1}


def test_an_undo_that_was_taken_up_settles_no_other_one(journal: HourlyJournal) -> None:
    """Only a movement settles an undo; here another undo of the same movement is applied."""
    taken_up = journal.new(Decision.UNKNOWN, **UNDO)
    journal.new(Decision.UNKNOWN, **UNDO)
    journal.then(taken_up, Decision.REPLAYED)
    journal.then(taken_up, Decision.APPLIED, pair=UNDO["pair"])
    assert unknown_now(journal) == {"mollie: payout.failed, undo": 1}


def test_a_configuration_that_is_not_told_in_time_is_asked_for_with_the_next_look() -> None:
    kafka = ReplicatedTopicAdmin()
    watch = ReplicaWatch(cast(AdminClient, kafka), ["payments.events"])
    assert watch.check_replicas() is None
    kafka.is_silent = False
    assert watch.check_replicas() == Replicas(out_of_sync=1, under_min=1)
