"""A ledger whose journal is divided among shards: what is asked of it is answered as if it were one."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable

from core.layout import Layout
from core.money import Movement
from journal.journals import StreamUnknown
from journal.reader import JournalReader
from ledger.postings import PostingsWriter, mark_of
from ledger.queries.balances import AsOf, Balance, read_balances_over_time, sum_balances
from ledger.queries.export import Source, export_table
from ledger.queries.journals import LedgerJournals, RowAmbiguous, RowNameInvalid
from ledger.queries.search import DecisionFilter, search_decisions
from tests.answers import answered, receipt
from tests.divided_ledger import MOVES, STAYS, DividedLedger, ShardLedger
from tests.small_ledger import START


@pytest.fixture
def divided(tmp_path: Path) -> DividedLedger:
    return DividedLedger.under(tmp_path)


def booked(path: str) -> list[tuple[int, str]]:
    table = DeltaTable(path).to_pyarrow_dataset().to_table().sort_by([("seq", "ascending"), ("line", "ascending")])
    return [(one["seq"], one["account"]) for one in table.to_pylist() if one["side"] == "debit"]


def test_postings_of_a_copy_begin_after_it(divided: DividedLedger) -> None:
    first, other = (shard.postings for shard in divided.shards)
    assert [seq for seq, _ in booked(first)] == [1, 2, 3, 4]
    assert [seq for seq, _ in booked(other)] == [3, 4]
    assert mark_of(DeltaTable(other)) == 4


def test_postings_of_a_copy_that_are_made_again_begin_after_it(
    divided: DividedLedger, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = divided.shards[1]
    before = booked(other.postings)
    monkeypatch.setattr(JournalReader, "row_hash_at", lambda _reader, seq: f"other {seq}")
    monkeypatch.setattr(JournalReader, "lineage", "renewed")
    PostingsWriter.open(other.postings).catch_up(JournalReader(other.journal))
    assert booked(other.postings) == before
    assert mark_of(DeltaTable(other.postings)) == 4


def test_a_shard_without_rows_of_its_own_reflects_what_it_was_copied_from(tmp_path: Path) -> None:
    before = ShardLedger(tmp_path / "data")
    before.add(Movement.CAPTURE, payment=MOVES[0])
    before.commit()
    _, other = before.split()
    PostingsWriter.open(other.postings).catch_up(JournalReader(other.journal))
    table = DeltaTable(other.postings)
    assert (booked(other.postings), mark_of(table)) == ([], 1)


def seen(found: Sequence[Balance]) -> dict[tuple[str, str], tuple[int, int]]:
    return {(one.account, one.currency): (one.debit_minor, one.credit_minor) for one in found}


def test_balances_add_up_to_what_one_shard_gives(divided: DividedLedger) -> None:
    of_shards = seen(sum_balances(divided.ledger.list_postings()))
    assert of_shards == seen(sum_balances(divided.whole.postings))
    assert of_shards["provider:stripe:clearing", "EUR"] == (3_100, 600)
    assert of_shards["merchant:m-2:payable", "EUR"] == (0, 100)


def test_balances_of_a_merchant_and_of_a_moment_count_all_shards(divided: DividedLedger) -> None:
    postings, whole = divided.ledger.list_postings(), divided.whole.postings
    assert seen(sum_balances(postings, merchant="m-2")) == seen(sum_balances(whole, merchant="m-2"))
    early = AsOf(before=START + timedelta(minutes=2))
    assert seen(sum_balances(postings, as_of=early)) == seen(sum_balances(whole, as_of=early))
    assert seen(sum_balances(postings, as_of=early))["provider:stripe:clearing", "EUR"] == (1_000, 0)


def test_balances_after_a_row_of_one_shard_count_what_the_others_had_decided_by_then(divided: DividedLedger) -> None:
    """Rows 3 and 4 of either shard are decided at the same moments, and the charges of before came earlier."""
    ledger = divided.ledger
    clearing = ("provider:stripe:clearing", "EUR")
    for named, expected in (("1", (1_000, 0)), ("3", (3_000, 600)), ("ledger.1:3", (3_000, 600))):
        assert seen(sum_balances(ledger.list_postings(), as_of=ledger.find_as_of(named)))[clearing] == expected


def test_balances_after_a_row_that_a_shard_has_as_a_copy_are_those_after_that_row(divided: DividedLedger) -> None:
    ledger = divided.ledger
    for seq in ("1", "2"):
        copied = sum_balances(ledger.list_postings(), as_of=ledger.find_as_of(f"ledger.1:{seq}"))
        assert copied == sum_balances(ledger.list_postings(), as_of=ledger.find_as_of(seq)) != []


def test_balances_after_a_row_that_books_nothing_count_what_the_others_had_decided_by_then(
    divided: DividedLedger,
) -> None:
    first, other = divided.shards
    ignored = other.add(None, payment=MOVES[2], at=START + timedelta(hours=9))
    other.commit()
    for hours in (8, 10):
        first.add(Movement.CAPTURE, 7, payment=STAYS[2], merchant="m-7", at=START + timedelta(hours=hours))
        first.commit()
    ledger = divided.ledger
    after = seen(sum_balances(ledger.list_postings(), as_of=ledger.find_as_of(f"ledger.1:{ignored.seq}")))
    assert after["merchant:m-7:payable", "EUR"] == (0, 7)


def test_balances_after_a_row_that_isnt_there_yet_are_those_after_the_last_one(divided: DividedLedger) -> None:
    ledger = divided.ledger
    beyond = sum_balances(ledger.list_postings(), as_of=ledger.find_as_of("ledger.1:99"))
    assert beyond == sum_balances(ledger.list_postings(), as_of=ledger.find_as_of("ledger.1:4")) != []
    assert sum_balances(ledger.list_postings(), as_of=ledger.find_as_of("ledger.1:0")) == []


def test_balances_over_time_are_those_of_one_ledger(divided: DividedLedger) -> None:
    over_time = read_balances_over_time(divided.ledger.list_postings(), "EUR")
    ends = {one.account: one.points[-1][1] for one in over_time.accounts}
    assert ends == {one.account: one.balance_minor for one in sum_balances(divided.whole.postings)}


def test_a_search_finds_each_decision_once_and_says_whose_it_is(divided: DividedLedger) -> None:
    ledger = divided.ledger
    hits = search_decisions(ledger.list_journals(), ledger.list_postings(), DecisionFilter(provider="stripe"))
    assert sorted(hit.name for hit in hits) == ["1", "2", "3", "4", "ledger.1:3", "ledger.1:4"]
    assert [hit.row.decided_at for hit in hits] == sorted((hit.row.decided_at for hit in hits), reverse=True)
    of_m2 = search_decisions(
        ledger.list_journals(), ledger.list_postings(), DecisionFilter(merchant="m-2", amount_minor=50)
    )
    assert {hit.name for hit in of_m2} == {"4", "ledger.1:4"}
    assert len(search_decisions(ledger.list_journals(), ledger.list_postings(), DecisionFilter(), limit=1)) == 1


def test_a_booking_of_before_the_division_is_found_by_its_amount(divided: DividedLedger) -> None:
    """Its lines are in the first shard's postings, whichever shard goes on with it."""
    ledger = divided.ledger
    [hit] = search_decisions(
        ledger.list_journals(), ledger.list_postings(), DecisionFilter(amount_minor=2_000, currency="EUR")
    )
    assert (hit.name, hit.row.entity_key) == ("2", f"stripe:acct:{MOVES[0]}")


@pytest.mark.parametrize("source", ["postings", "journal"])
def test_an_export_has_each_row_once_with_its_stream(divided: DividedLedger, source: Source, tmp_path: Path) -> None:
    out = tmp_path / "out.parquet"
    done = export_table(divided.ledger.list_tables(source), source, out, "parquet")
    rows = pq.read_table(out)
    assert rows.column_names[:2] == ["stream", "seq"]
    named = list(dict.fromkeys(zip(rows["stream"].to_pylist(), rows["seq"].to_pylist(), strict=True)))
    assert named == [*(("ledger", seq) for seq in (1, 2, 3, 4)), *(("ledger.1", seq) for seq in (3, 4))]
    whole = export_table(
        LedgerJournals([Layout(divided.whole.data).ledger()]).list_tables(source),
        source,
        tmp_path / "whole.parquet",
        "parquet",
    )
    assert done.rows == whole.rows and len(done.versions) == 2
    assert "stream" not in pq.read_schema(tmp_path / "whole.parquet").names


def test_an_export_of_a_time_with_rows_in_one_shard_only(divided: DividedLedger, tmp_path: Path) -> None:
    early = START + timedelta(minutes=2, seconds=1)
    done = export_table(divided.ledger.list_tables("journal"), "journal", tmp_path / "out.csv", "csv", until=early)
    assert done.rows == 2


def test_the_story_of_an_event_is_told_by_the_shard_that_goes_on_with_its_entity(divided: DividedLedger) -> None:
    for payment, stream in ((STAYS[0], "ledger"), (MOVES[0], "ledger.1")):
        charge = divided.charged[payment]
        for key in (charge.event_key, charge.fact_key, f"seq:{charge.seq}"):
            story, _ = divided.ledger.read_story(key or "")
            assert (story.stream, [row.event_key for row in story.rows]) == (stream, [charge.event_key])
            assert {line["amount_minor"] for line in story.postings} == {1_000 * charge.seq}
            assert story.reflected == 4
            assert story.rows[0].batch_seq in story.commits


def test_the_story_of_an_event_of_after_the_division(divided: DividedLedger) -> None:
    for shard, payment in zip(divided.shards, (STAYS[0], MOVES[0]), strict=True):
        refund = next(row for row in shard.rows if row.event_type == "refund")
        story, [body] = divided.ledger.read_story(refund.event_key or "")
        assert (story.stream, story.rows[0].entity_key) == (shard.places.stream, f"stripe:acct:{payment}")
        assert body.status == "kept"


def test_a_row_is_named_with_its_shard(divided: DividedLedger) -> None:
    ledger, other = divided.ledger, divided.shards[1]
    story, _ = ledger.read_story("seq:ledger.1:4")
    assert (story.stream, story.rows[0].entity_key) == ("ledger.1", f"stripe:acct:{MOVES[1]}")
    story, _ = ledger.read_story("seq:4")
    assert (story.stream, story.rows[0].entity_key) == ("ledger", f"stripe:acct:{STAYS[1]}")
    other.add(Movement.CAPTURE, payment=MOVES[2])
    other.commit()
    with pytest.raises(RowAmbiguous, match=r"no row 5; say which shard's it is: ledger\.1:5$"):
        ledger.read_story("seq:5")
    with pytest.raises(StreamUnknown, match=r"ledger\.7 isn't a stream of this ledger: it has ledger, ledger\.1"):
        ledger.read_story("seq:ledger.7:5")
    with pytest.raises(RowNameInvalid, match="names no row"):
        ledger.find_as_of("ledger.1")
    story, _ = ledger.read_story("seq:99")
    assert story.rows == []


def test_an_entity_is_told_whole_by_its_shard(divided: DividedLedger) -> None:
    for payment, stream, amount in ((STAYS[0], "ledger", 1_000), (MOVES[0], "ledger.1", 2_000)):
        story = divided.ledger.read_entity(f"stripe:acct:{payment}")
        assert (story.stream, story.total) == (stream, 2)
        assert story.last_balances()["provider:stripe:clearing", "EUR"] == amount - 300


def test_an_event_that_is_answered_and_not_decided_has_its_receipts(divided: DividedLedger) -> None:
    answered(divided.layout.root, receipt("stripe:new:x", 1))
    story, bodies = divided.ledger.read_story("stripe:new:x")
    assert (story.rows, bodies, len(story.receipts or ())) == ([], [], 1)


def test_a_ledger_of_one_shard_looks_nothing_up(divided: DividedLedger, monkeypatch: pytest.MonkeyPatch) -> None:
    one = LedgerJournals([Layout(divided.whole.data).ledger()])
    monkeypatch.setattr(LedgerJournals, "_find_holding", None)
    monkeypatch.setattr("journal.journals.own_rows_after", None)
    story, _ = one.read_story("seq:1")
    assert story.rows and one.read_entity(f"stripe:acct:{MOVES[0]}").total == 2
    assert search_decisions(one.list_journals(), one.list_postings(), DecisionFilter(), 1)[0].name == "6"
    assert sum_balances(one.list_postings(), as_of=one.find_as_of("1"))[0].currency == "EUR"


def test_an_event_whose_copies_two_shards_decided_is_told_with_both(divided: DividedLedger) -> None:
    """Its copies named different entities: neither shard knows of the other."""
    key = divided.shards[0].rows[-1].event_key
    twice = divided.shards[1].add(Movement.CAPTURE, payment=MOVES[2], event_key=key)
    divided.shards[1].commit()
    story, _ = divided.ledger.read_story(key or "")
    assert (story.stream, story.rows[0].seq, story.others) == ("ledger", 4, (f"ledger.1:{twice.seq}",))
