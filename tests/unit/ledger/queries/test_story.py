"""An event's story, found by any of its names and whole; and an entity's, in Kafka's order."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from deltalake import DeltaTable

from core.decision import Decision, ErrorKind
from core.money import Movement
from journal.errors import JournalBroken
from journal.schema import JournalRow
from ledger.queries import story as story_module
from ledger.queries.balances import sum_balances
from ledger.queries.lake import LedgerUnreadable
from ledger.queries.story import EventStory, read_entity_story, read_event_story
from tests.answers import answered, receipt
from tests.small_ledger import SmallLedger


def reported(ledger: SmallLedger, key: str) -> EventStory:
    return read_event_story(ledger.journal, ledger.postings, key, ledger.bodies)


def seqs(story: EventStory) -> list[int]:
    return [row.seq for row in story.rows]


@pytest.fixture
def refund(ledger: SmallLedger) -> JournalRow:
    """Its item's life: a retry, dead, a command replays it, applied; among others, in two commits."""
    ledger.add(Movement.CAPTURE, 5_000, payment="pi_1")
    row = ledger.add(
        Movement.REFUND,
        700,
        payment="pi_1",
        decision=Decision.RETRY,
        postings=None,
        error_class="MerchantUnknown",
        error_kind=ErrorKind.SNBE,
    )
    ledger.commit()
    ledger.later(row, Decision.DEAD)
    command = ledger.add(None, decision=Decision.REPLAYED, event_key=None, actor="ada", reason="mended")
    ledger.later(row, Decision.REPLAYED, cause_seq=command.seq, actor="ada")
    booked = ledger.add(Movement.REFUND, 700, payment="pi_1")
    ledger.rows.pop()
    ledger._fresh.pop()
    ledger.later(row, Decision.APPLIED, postings=booked.postings)
    ledger.commit()
    return row


def test_it_is_found_by_the_event_by_the_fact_and_by_each_of_its_rows(refund: JournalRow, ledger: SmallLedger) -> None:
    for key in (refund.event_key, refund.fact_key, "seq:2", "seq:3", "seq:6"):
        assert seqs(reported(ledger, key or "")) == [2, 3, 5, 6], key


def test_a_row_without_an_event_is_found_by_its_seq(refund: JournalRow, ledger: SmallLedger) -> None:
    assert seqs(reported(ledger, "seq:4")) == [4]


@pytest.mark.parametrize("key", ["stripe:evt_9:refund", "seq:99", "seq:", "seq:-1", "", "' OR 1=1 --", "%", "seq:1 "])
def test_what_nothing_is_known_of_has_no_rows(key: str, refund: JournalRow, ledger: SmallLedger) -> None:
    story = reported(ledger, key)
    assert (story.rows, story.postings, story.deliveries, story.commits) == ([], [], [], {})


def test_a_journal_that_is_not_there_yet_knows_nothing(tmp_path: Path) -> None:
    assert (
        read_event_story(str(tmp_path / "j"), str(tmp_path / "p"), "stripe:evt_1:refund", str(tmp_path / "b")).rows
        == []
    )


def test_a_key_with_a_quote_in_it_is_found(ledger: SmallLedger) -> None:
    row = ledger.add(Movement.CAPTURE, event_key='stripe:it\'s \\ 100% "so":capture')
    ledger.commit()
    assert seqs(reported(ledger, row.event_key or "")) == [1]


def test_each_delivery_says_where_it_came_from_and_what_was_decided_of_it(ledger: SmallLedger) -> None:
    first = ledger.add(Movement.CAPTURE, 1_000)
    ledger.add(None)
    copy = ledger.again(first, dedupe="deferred", headers=None)
    ledger.commit()
    one, two = reported(ledger, first.event_key or "").deliveries
    assert (one.source, one.first.dedupe, one.first.offset, [row.seq for row in one.rows]) == (
        "/webhooks/stripe",
        "claimed",
        0,
        [1],
    )
    assert (two.source, two.first.dedupe, two.first.offset, [row.seq for row in two.rows]) == (
        None,
        "deferred",
        2,
        [copy.seq],
    )
    assert (one.replay_count, one.body_kept) == (0, True)


def test_causes_are_reported_wherever_they_stand(refund: JournalRow, ledger: SmallLedger) -> None:
    story = reported(ledger, "seq:2")
    assert story.causes[4].actor == "ada"
    assert story.deliveries[0].replay_count == 1
    copy = ledger.again(ledger.rows[0])
    ledger.commit()
    causes = reported(ledger, f"seq:{copy.seq}").causes
    assert (causes[1].decision, causes[1].event_key) == ("applied", ledger.rows[0].event_key)


def test_what_is_booked_is_reported_as_the_postings_table_has_it(refund: JournalRow, ledger: SmallLedger) -> None:
    story = reported(ledger, refund.event_key or "")
    assert [(line["seq"], line["account"], line["side"], line["amount_minor"]) for line in story.postings] == [
        (6, "merchant:m-1:refunds", "debit", 700),
        (6, "provider:stripe:clearing", "credit", 700),
    ]
    assert story.reflected == 6


def test_it_says_how_far_the_postings_table_follows(ledger: SmallLedger) -> None:
    row = ledger.add(Movement.CAPTURE)
    ledger.commit(with_postings=False)
    story = reported(ledger, row.event_key or "")
    assert (len(story.postings), story.reflected) == (2, 0)


def test_each_row_has_its_commit(refund: JournalRow, ledger: SmallLedger) -> None:
    story = reported(ledger, "seq:2")
    versions = [story.commits[row.batch_seq].version for row in story.rows]
    last = DeltaTable(ledger.journal).version()
    assert versions == [last - 1, last, last, last]


def test_a_body_that_was_deleted_is_not_kept_and_one_without_a_table_is_not_known(ledger: SmallLedger) -> None:
    row = ledger.add(Movement.CAPTURE)
    ledger.commit(with_bodies=False)
    kept = ledger.add(Movement.CAPTURE)
    ledger.commit()
    assert [reported(ledger, one.event_key or "").deliveries[0].body_kept for one in (row, kept)] == [False, True]
    shutil.rmtree(ledger.bodies)
    assert reported(ledger, kept.event_key or "").deliveries[0].body_kept is None


def test_a_key_with_very_many_rows_is_reported_of_by_its_first(
    ledger: SmallLedger, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(story_module, "ROWS_MAX", 3)
    first = ledger.add(Movement.CAPTURE)
    for _ in range(3):
        ledger.again(first)
    ledger.commit()
    story = reported(ledger, first.event_key or "")
    assert (seqs(story), story.cut) == ([1, 2, 3], True)


def test_a_damaged_journal_is_an_error(refund: JournalRow, ledger: SmallLedger) -> None:
    for file in Path(ledger.journal).glob("*.parquet"):
        file.write_bytes(b"no Parquet")
    with pytest.raises(LedgerUnreadable):
        reported(ledger, "seq:2")


def test_a_torn_entry_of_the_log_is_an_error(refund: JournalRow, ledger: SmallLedger) -> None:
    entry = max((Path(ledger.journal) / "_delta_log").glob("*.json"))
    entry.write_bytes(entry.read_bytes()[:-40])
    with pytest.raises((LedgerUnreadable, JournalBroken)):
        reported(ledger, "seq:2")


def test_its_answers_are_reported_oldest_first_and_no_others(ledger: SmallLedger) -> None:
    key = ledger.add(Movement.CAPTURE).event_key or ""
    ledger.commit()
    others = receipt("stripe:other:x", 1)
    receipts = answered(ledger.data, receipt(key, 9, "duplicate"), others, receipt(key, 2))
    story = read_event_story(ledger.journal, ledger.postings, key, ledger.bodies, receipts)
    assert [(one.outcome, one.status, one.line) for one in story.receipts or []] == [
        ("claimed", 200, 2),
        ("duplicate", 200, 0),
    ]
    assert (
        read_event_story(ledger.journal, ledger.postings, "seq:1", ledger.bodies, receipts).receipts == story.receipts
    )


def test_what_was_answered_and_is_not_decided_yet_has_answers_and_no_rows(ledger: SmallLedger) -> None:
    ledger.add(Movement.CAPTURE)
    ledger.commit()
    receipts = answered(ledger.data, receipt("stripe:new:x", 2))
    story = read_event_story(ledger.journal, ledger.postings, "stripe:new:x", ledger.bodies, receipts)
    assert (story.rows, len(story.receipts or [])) == ([], 1)


def test_where_nothing_was_collected_yet_that_is_reported(ledger: SmallLedger) -> None:
    key = ledger.add(Movement.CAPTURE).event_key or ""
    ledger.commit()
    assert (
        read_event_story(ledger.journal, ledger.postings, key, ledger.bodies, str(ledger.data / "none")).receipts
        is None
    )


ENTITY = "stripe:acct:pi_1"


@pytest.fixture
def of_payment(ledger: SmallLedger) -> SmallLedger:
    """A payment: captured, refunded (which waits for long), disputed; another payment in between."""
    ledger.add(Movement.CAPTURE, 5_000, payment="pi_1")
    ledger.add(Movement.CAPTURE, 9_999, payment="pi_2")
    refund = ledger.add(Movement.REFUND, 700, payment="pi_1")
    booked, refund.postings, refund.decision = refund.postings, None, Decision.RETRY
    ledger.commit()
    ledger.add(Movement.DISPUTE_OPENED, 4_300, payment="pi_1")
    ledger.later(refund, Decision.APPLIED, postings=booked, out_of_order=True)
    ledger.commit()
    return ledger


def test_events_stand_in_kafkas_order_with_all_their_decisions(of_payment: SmallLedger) -> None:
    story = read_entity_story(of_payment.journal, ENTITY)
    assert (story.entity_key, story.total) == (ENTITY, 3)
    assert [[(row.seq, row.decision.value) for row in event.rows] for event in story.events] == [
        [(1, "applied")],
        [(3, "retry"), (5, "applied")],
        [(4, "applied")],
    ]
    assert [event.first.offset for event in story.events] == [0, 2, 3]


def test_each_line_carries_the_balance_that_it_leaves_on_its_account(of_payment: SmallLedger) -> None:
    clearing = [
        (line.seq, line.side, line.amount_minor, line.balance_minor)
        for event in read_entity_story(of_payment.journal, ENTITY).events
        for line in event.lines
        if line.account == "provider:stripe:clearing"
    ]
    assert clearing == [(1, "debit", 5_000, 5_000), (5, "credit", 700, 4_300), (4, "credit", 4_300, 0)]


def test_the_last_balances_are_those_of_the_ledger(of_payment: SmallLedger) -> None:
    story = read_entity_story(of_payment.journal, ENTITY)
    other = read_entity_story(of_payment.journal, "stripe:acct:pi_2")
    whole = {(one.account, one.currency): one.balance_minor for one in sum_balances(of_payment.postings)}
    keys = {*story.last_balances(), *other.last_balances()}
    assert whole == {key: story.last_balances().get(key, 0) + other.last_balances().get(key, 0) for key in keys}


def test_no_more_events_than_the_limit_and_the_number_of_all(of_payment: SmallLedger) -> None:
    story = read_entity_story(of_payment.journal, ENTITY, limit=2)
    assert (story.total, [event.first.seq for event in story.events]) == (3, [1, 3])


@pytest.mark.parametrize("key", ["stripe:acct:pi_9", "", "x' OR '1'='1"])
def test_an_entity_that_nothing_is_known_of_has_no_events(key: str, of_payment: SmallLedger) -> None:
    assert (read_entity_story(of_payment.journal, key).total, read_entity_story(of_payment.journal, key).events) == (
        0,
        (),
    )


def test_before_the_first_start_nothing_is_known(tmp_path: Path) -> None:
    assert read_entity_story(str(tmp_path / "journal"), ENTITY).total == 0
