"""The fast path clears a ledger that is in order, and no change of one row, line or key passes it."""

from __future__ import annotations

import copy
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import fields, replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from core.decision import Decision
from journal.schema import HASHED_COLUMNS, LATER_COLUMNS, JournalRow, commit_digest, to_arrow
from ledger.verify.fast_path import Doubt
from ledger.verify.fast_path.files import TableFiles
from ledger.verify.fast_path.hashes import wrong_hashes
from tests.examples import examples
from tests.unit.journal.rows import row_hash
from tests.unit.ledger.verify.ledgers import AT, Ledger, applied, booking, sha

ROWS = 12


@pytest.fixture
def ledger(tmp_path: Path) -> Ledger:
    return Ledger(tmp_path, [applied(seq) for seq in range(1, ROWS + 1)])


def test_a_ledger_in_order_is_cleared_of_everything(ledger: Ledger) -> None:
    found = ledger.fast_path()
    assert found.doubts == frozenset()
    assert found.rows == ROWS
    assert found.runs == {("payments.events", 0): [(1, 7)], ("payments.events", 1): [(0, 6)]}
    assert (found.events.count, found.facts.count, len(found.open)) == (ROWS, ROWS, 0)


def test_portions_of_a_run_neither_open_its_command_nor_end_it(tmp_path: Path) -> None:
    unbooked: dict[str, Any] = {"postings": None, "fact_key": None}
    order = {"topic": "payments.control", "partition": 0, "offset": 0, "event_key": "payhook:d:run_selection"}
    run = {**order, **unbooked, "item_seq": 2, "event_type": "run_selection"}
    item = {"item_seq": 1, "partition": 1, "offset": 0, "event_key": "stripe:evt_1:charge", "fact_key": "stripe:ch_1"}
    rows = [
        applied(1, **item, decision=Decision.DEAD, postings=None),
        applied(2, **run, decision=Decision.REPLAYED),
        applied(3, **run, decision=Decision.PORTION, first=False),
        applied(4, **item, decision=Decision.REPLAYED, first=False, cause_seq=3, postings=None),
        applied(5, **item, first=False),
        applied(6, **run, decision=Decision.PORTION, first=False),
    ]
    found = Ledger(tmp_path, rows).fast_path()
    assert found.doubts == frozenset()
    assert (len(found.open), found.events.count, found.facts.count) == (0, 2, 1)


def test_commits_are_digested_as_the_writer_does(ledger: Ledger) -> None:
    commits = ledger.fast_path().commits
    assert [(one.batch_seq, one.first_seq, one.last_seq, one.rows) for one in commits] == [
        (at, at, at + 2, 3) for at in (1, 4, 7, 10)
    ]
    assert [one.digest for one in commits] == [
        commit_digest(row.row_hash for row in ledger.rows[at : at + 3]) for at in (0, 3, 6, 9)
    ]
    assert not any(one.wrong_hashes for one in commits)
    assert commits[-1].decided_at == AT + timedelta(seconds=ROWS)


OTHER: dict[str, Any] = {
    "decision": Decision.IGNORED,
    "first": False,
    "blocking": True,
    "out_of_order": True,
    "error_kind": None,
}


def _changed(row: JournalRow, name: str) -> JournalRow:
    changed: dict[str, Any] = {name: _other_than(getattr(row, name), name)}
    return replace(row, **changed)


def _other_than(value: Any, name: str) -> Any:
    if name in OTHER:
        return OTHER[name]
    if isinstance(value, int):
        return value + 1
    if name.endswith("_at"):
        return (value or AT) + timedelta(microseconds=1)
    if name in {"content_version", "cause_seq", "history", "offset_until"}:
        return 7
    return f"{value or ''}x"


@pytest.mark.parametrize("name", [name for name in (*HASHED_COLUMNS, *LATER_COLUMNS) if name != "error_kind"])
def test_a_row_with_any_column_changed_is_not_what_its_hash_says(name: str) -> None:
    rows = [applied(seq) for seq in range(1, 4)]
    for row in rows:
        row.row_hash = row_hash(row)
    rows[1] = _changed(rows[1], name)
    assert wrong_hashes(to_arrow(rows).combine_chunks().to_batches()[0]).tolist() == [False, True, False]


@given(st.lists(st.tuples(*[st.none() | st.text(max_size=3)] * 4), min_size=1, max_size=6))
@settings(max_examples=examples(25), deadline=None)
def test_hashes_are_those_of_the_schema_whatever_the_texts(texts: list[tuple[str | None, ...]]) -> None:
    """Constant columns, NULLs and separators within texts come to the same text that is hashed one by one."""
    names = ("reason", "actor", "tenant", "original_sha256")
    rows = [applied(seq, **dict(zip(names, some, strict=True))) for seq, some in enumerate(texts, 1)]
    for row in rows:
        row.row_hash = row_hash(row)
    assert not wrong_hashes(to_arrow(rows).combine_chunks().to_batches()[0]).any()
    with tempfile.TemporaryDirectory() as folder:
        pq.write_table(to_arrow(rows), Path(folder) / "0.parquet")
        (read,) = TableFiles(folder).batches(["0.parquet"])
        assert not wrong_hashes(read).any()


def test_a_hash_of_another_length_is_wrong(ledger: Ledger) -> None:
    rows = ledger.rows[:3]
    rows[2].row_hash = rows[2].row_hash[:-1]
    assert wrong_hashes(to_arrow(rows).combine_chunks().to_batches()[0]).tolist() == [False, False, True]


def test_a_wrong_hash_is_reported_with_its_commit(ledger: Ledger) -> None:
    ledger.rows[4].reason = "edited"
    commits = ledger.fast_path().commits
    assert [(one.wrong_hashes, one.wrong_seq) for one in commits] == [(0, None), (1, 5), (0, None), (0, None)]


# lines of the postings


Change = Callable[[list[dict[str, Any]]], None]


@given(st.data())
@settings(max_examples=examples(50), deadline=None)
def test_any_change_of_one_line_is_found(data: st.DataObject) -> None:
    """A changed value, a line gone, there twice, in another's place, or made up."""
    rows = [applied(seq, postings=booking(seq) if seq % 3 else None) for seq in range(1, 10)]
    with tempfile.TemporaryDirectory() as folder:
        ledger = Ledger(Path(folder), rows, rows_per_file=data.draw(st.integers(1, 9)))
        before = copy.deepcopy(ledger.lines)
        _change(ledger.lines, data)
        if ledger.lines == before:
            return
        assert Doubt.POSTINGS in ledger.fast_path().doubts


def _change(lines: list[dict[str, Any]], data: st.DataObject) -> None:
    at = data.draw(st.integers(0, len(lines) - 1))
    how = data.draw(st.sampled_from(["value", "omit", "double", "swap", "make up"]))
    if how == "value":
        name = data.draw(st.sampled_from(sorted(lines[at])))
        value = lines[at][name]
        if isinstance(value, int):
            lines[at][name] = value + data.draw(st.integers(1, 3))
        elif isinstance(value, str):
            lines[at][name] = value + "x"
        else:
            lines[at][name] = AT - timedelta(days=1)
    elif how == "omit":
        del lines[at]
    elif how == "double":
        lines.append(dict(lines[at]))
    elif how == "swap":
        other = data.draw(st.integers(0, len(lines) - 1))
        for name in ("account", "side", "amount_minor"):
            lines[at][name], lines[other][name] = lines[other][name], lines[at][name]
    else:
        lines.insert(at, lines[at] | {"seq": data.draw(st.integers(0, 40)), "line": data.draw(st.integers(0, 3))})


@pytest.mark.parametrize("rows_per_file", [1, 4, 100])
def test_lines_are_compared_however_the_files_are_cut(tmp_path: Path, rows_per_file: int) -> None:
    rows = [applied(seq) for seq in range(1, 30)]
    assert Ledger(tmp_path, rows, rows_per_file=rows_per_file, lines_per_file=7).fast_path().doubts == frozenset()


def test_a_line_between_two_portions_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of a row that isn't there: no portion's range reaches it."""
    monkeypatch.setattr("ledger.verify.fast_path.files.ROWS_PER_PORTION", 4)
    rows = [applied(seq) for seq in range(1, 13) if seq != 5]
    ledger = Ledger(tmp_path, rows, lines_per_file=1)
    assert Doubt.POSTINGS not in ledger.fast_path().doubts
    ledger.lines.append(ledger.lines[0] | {"seq": 5})
    assert Doubt.POSTINGS in ledger.fast_path().doubts


def test_a_line_whose_texts_only_look_like_another_booking_is_found(ledger: Ledger) -> None:
    """An account that holds a quote could be written as two fields."""
    line = ledger.lines[0]
    rest = f'{line["account"]}","side":"debit","amount_minor":{line["amount_minor"]},"currency":"EUR"}},'
    both = rest + f'{{"account":"{ledger.lines[1]["account"]}'
    ledger.lines[:2] = [ledger.lines[1] | {"account": both, "line": 0}]
    assert Doubt.POSTINGS in ledger.fast_path().doubts


def test_bookings_are_read_alike_with_and_without_their_lines(tmp_path: Path) -> None:
    rows = [applied(seq, postings=booking(seq, merchant="ä" if seq % 2 else "m-1")) for seq in range(1, 9)]
    whole = Ledger(tmp_path, rows)
    found = whole.fast_path()
    assert (found.doubts, found.taken_back) == (frozenset(), 0)
    whole.rows[3].postings = (whole.rows[3].postings or "").replace(":4,", ":5,")
    assert Doubt.BALANCE not in whole.fast_path().doubts
    assert Doubt.POSTINGS in whole.fast_path().doubts


def test_a_line_ahead_of_the_journal_is_found_among_the_newest_rows_too(tmp_path: Path) -> None:
    ledger = Ledger(tmp_path, [applied(seq) for seq in range(1, 13)], since=7)
    assert ledger.fast_path().doubts == frozenset()
    ledger.lines.append(ledger.lines[-1] | {"seq": 99})
    assert Doubt.POSTINGS in ledger.fast_path().doubts


def test_postings_that_cannot_be_read_say_nothing_against_the_journal(ledger: Ledger) -> None:
    ledger.fast_path()
    (ledger.folder / "postings" / "1.parquet").write_bytes(b"PAR1")
    ledger.keeps_files = True
    assert ledger.fast_path().doubts == {Doubt.POSTINGS}


# what else is doubted


@pytest.mark.parametrize(
    ("at", "change", "doubt"),
    [
        (4, {"event_key": "stripe:evt_1:charge"}, Doubt.EVENTS),
        (4, {"decision": Decision.DUPLICATE}, Doubt.EVENTS),
        (4, {"fact_key": "stripe:ch_1"}, Doubt.FACTS),
        (4, {"decision": Decision.DUPLICATE_FACT}, Doubt.FACTS),
        (4, {"mode": "test"}, Doubt.MODE),
        (4, {"mode": None}, Doubt.MODE),
        (4, {"postings": "[]"}, Doubt.BALANCE),
        (4, {"postings": "not json"}, Doubt.BALANCE),
        (4, {"decision": Decision.IGNORED}, Doubt.BALANCE),
        (4, {"first": False, "item_seq": 1}, Doubt.ITEMS),
        (4, {"seq": 4}, Doubt.ORDER),
        (4, {"seq": 40}, Doubt.ORDER),
        (4, {"batch_seq": 1}, Doubt.ORDER),
    ],
)
def test_what_is_not_in_order_is_doubted(ledger: Ledger, at: int, change: dict[str, Any], doubt: Doubt) -> None:
    ledger.rows[at] = replace(ledger.rows[at], **change)
    assert doubt in ledger.fast_path().doubts


def test_a_duplicate_after_its_copy_and_a_conflict_are_in_order(ledger: Ledger) -> None:
    copy_of: dict[str, Any] = {"event_key": "stripe:evt_1:charge", "postings": None, "fact_key": None}
    refused: dict[str, Any] = {"error_class": "EventConflict", "handler_version": None}
    ledger.rows[4] = replace(ledger.rows[4], decision=Decision.DUPLICATE, **copy_of)
    ledger.rows[5] = replace(ledger.rows[5], decision=Decision.DEAD, **copy_of, **refused)
    ledger.lines = [line for line in ledger.lines if line["seq"] not in (5, 6)]
    found = ledger.fast_path()
    assert found.doubts == frozenset()
    assert (found.events.count, found.dead_rows, found.open.dead()) == (ROWS - 2, 1, 1)


def test_a_duplicate_before_its_copy_is_doubted(ledger: Ledger) -> None:
    early: dict[str, Any] = {
        "decision": Decision.DUPLICATE,
        "event_key": "stripe:evt_9:charge",
        "postings": None,
        "fact_key": None,
    }
    ledger.rows[4] = replace(ledger.rows[4], **early)
    assert Doubt.EVENTS in ledger.fast_path().doubts


def test_items_that_wait_are_reported_as_of_the_index_too(tmp_path: Path) -> None:
    rows = [applied(seq) for seq in range(1, 6)]
    rows[1] = replace(rows[1], decision=Decision.RETRY, postings=None, received_at=AT - timedelta(hours=1))
    rows[2] = replace(rows[2], decision=Decision.PARKED, postings=None)
    later = replace(rows[1], seq=6, batch_seq=4, first=False, decision=Decision.DEAD)
    found = Ledger(tmp_path, [*rows, later], index_seq=5).fast_path()
    assert found.doubts == frozenset()
    assert list(found.open) == [(2, 6, True), (3, 3, False)]
    assert list(found.open_indexed) == [(2, 2, False), (3, 3, False)]
    assert found.open.oldest_waiting() == (3, AT)
    assert found.open_indexed.oldest_waiting() == (2, AT - timedelta(hours=1))


def test_bookings_in_several_currencies_balance_one_by_one(tmp_path: Path) -> None:
    both = (booking(5) or "")[:-1] + "," + (booking(7, "JPY") or "")[1:]
    mixed = both.replace('"amount_minor":7,"currency":"JPY"}]', '"amount_minor":5,"currency":"EUR"}]')
    rows = [applied(1, postings=both), applied(2, postings=booking(3, merchant="ä"))]
    assert Ledger(tmp_path / "whole", rows).fast_path().doubts == frozenset()
    assert Doubt.BALANCE in Ledger(tmp_path / "mixed", [applied(1, postings=mixed)]).fast_path().doubts


@given(st.integers(1, ROWS), st.sampled_from([field.name for field in fields(JournalRow)]))
@settings(max_examples=examples(25), deadline=None)
def test_a_row_that_was_changed_or_left_out_never_passes(at: int, name: str) -> None:
    """Whatever was done to one row, a doubt or a wrong hash tells; the hash itself breaks the chain."""
    rows: Sequence[JournalRow] = [applied(seq) for seq in range(1, ROWS + 1)]
    for row in rows:
        row.row_hash = row_hash(row)
    digests = [commit_digest(row.row_hash for row in rows[begin : begin + 3]) for begin in (0, 3, 6, 9)]
    with tempfile.TemporaryDirectory() as folder:
        ledger = Ledger(Path(folder), list(rows))
        if name == "row_hash":
            ledger.rows[at - 1] = replace(rows[at - 1], row_hash=sha("another"))
        elif name == "error_kind":
            del ledger.rows[at - 1]
        else:
            ledger.rows[at - 1] = _changed(rows[at - 1], name)
        found = ledger.fast_path()
        reported = [one.digest for one in found.commits]
        assert found.doubts or reported != digests or any(one.wrong_hashes for one in found.commits)


def _taken_up(ledger: Ledger, first: Decision, *later: Decision) -> Ledger:
    """The last event was decided so; then come further rows of it."""
    ledger.rows[-1] = last = replace(ledger.rows[-1], decision=first, postings=None, row_hash="")
    for seq, decision in enumerate(later, ROWS + 1):
        booked = booking() if decision is Decision.APPLIED else None
        at = (seq - 1) // 3 * 3 + 1
        row = replace(last, seq=seq, batch_seq=at, first=False, decision=decision, postings=booked, row_hash="")
        row.decided_at = AT + timedelta(seconds=seq)
        ledger.rows.append(row)
    return Ledger(ledger.folder, ledger.rows)


TAKEN_UP = (Decision.REPLAYED, Decision.RETRY, Decision.IGNORED, Decision.REPLAYED, Decision.APPLIED)


def test_what_was_ignored_and_taken_up_again_is_cleared_and_reported(ledger: Ledger) -> None:
    found = _taken_up(ledger, Decision.IGNORED, *TAKEN_UP).fast_path()
    assert found.doubts == frozenset()
    assert (found.reopened_items, len(found.open)) == ((ROWS,), 0)


def test_while_it_is_open_it_waits_since_it_was_taken_up(ledger: Ledger) -> None:
    found = _taken_up(ledger, Decision.IGNORED, Decision.REPLAYED, Decision.PARKED).fast_path()
    assert Doubt.ITEMS not in found.doubts
    assert list(found.open) == [(ROWS, ROWS + 2, False)]
    assert found.open.oldest_waiting() == (ROWS, AT + timedelta(seconds=ROWS + 1))


@pytest.mark.parametrize(
    "later",
    [
        (Decision.APPLIED,),
        (Decision.PARKED,),
        (Decision.REPLAYED, Decision.APPLIED, Decision.REPLAYED),
        (Decision.REPLAYED, Decision.IGNORED, Decision.APPLIED),
    ],
)
def test_what_follows_a_closing_row_otherwise_is_doubted(ledger: Ledger, later: tuple[Decision, ...]) -> None:
    assert Doubt.ITEMS in _taken_up(ledger, Decision.IGNORED, *later).fast_path().doubts


def test_what_was_taken_up_without_having_been_ignored_is_reported_too(ledger: Ledger) -> None:
    """Its first row isn't looked at here: whether it was ignored is asked by itself."""
    found = _taken_up(ledger, Decision.DUPLICATE_FACT, Decision.REPLAYED).fast_path()
    assert found.reopened_items == (ROWS,)
