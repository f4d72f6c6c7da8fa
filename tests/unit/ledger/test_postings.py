"""The postings table: each booking once, whoever writes and however often rows come."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from deltalake import DeltaTable

from core.clock import from_rfc3339
from core.decision import Decision
from core.money import Money
from core.work import Posting, postings_to_json
from journal.schema import JournalRow
from ledger import postings as postings_module
from ledger.postings import PostingsRefused, PostingsWriter, flatten_postings, mark_of
from tests.unit.journal.rows import bare_row

AT = datetime(2026, 1, 31, 12, tzinfo=UTC)
SIDES: Final = ("debit", "credit")
BOOKING = (
    Posting("provider:stripe:clearing", "debit", Money(1_000, "EUR")),
    Posting("merchant:m-1:payable", "credit", Money(1_000, "EUR")),
)


def row(seq: int, decision: Decision = Decision.APPLIED, booking: tuple[Posting, ...] = BOOKING) -> JournalRow:
    return bare_row(
        seq,
        decision,
        decided_at=AT,
        event_key=f"stripe:evt_{seq}:charge.captured",
        provider="stripe",
        postings=postings_to_json(booking) if decision is Decision.APPLIED else None,
    )


def lines(path: Path) -> list[dict[str, Any]]:
    table = DeltaTable(str(path)).to_pyarrow_dataset().to_table()
    found: list[dict[str, Any]] = table.sort_by([("seq", "ascending"), ("line", "ascending")]).to_pylist()
    return found


def test_a_booking_becomes_flat_lines_with_its_merchant(tmp_path: Path) -> None:
    writer = PostingsWriter.open(str(tmp_path / "p"))
    writer.follow([row(1), row(2, Decision.IGNORED)])
    found = lines(tmp_path / "p")
    assert [(one["seq"], one["line"], one["account"], one["side"]) for one in found] == [
        (1, 0, "provider:stripe:clearing", "debit"),
        (1, 1, "merchant:m-1:payable", "credit"),
    ]
    assert {one["merchant"] for one in found} == {"m-1"}
    assert writer.mark_seq == mark_of(DeltaTable(str(tmp_path / "p"))) == 2


def test_accounts_of_any_name_are_booked(tmp_path: Path) -> None:
    """A handler names accounts as it likes, and people do by hand: what is decided must be derived, at any start."""
    money = Money(700, "EUR")
    names = ("cash", "merchant", "merchant:m-1", "merchant:m-2:fees:eu", "merchant:", "a:b:c:d")
    booking = tuple(Posting(name, SIDES[at % 2], money) for at, name in enumerate(names))
    expected = ["m-1", "m-1", "m-1", "m-2", "", "m-1"]
    writer = PostingsWriter.open(str(tmp_path / "p"))
    writer.follow([row(1, booking=booking)])
    assert [one["merchant"] for one in lines(tmp_path / "p")] == expected


@pytest.mark.parametrize(
    "occurred_at",
    [
        "0001-01-01T00:00:00Z",
        "0999-12-31T23:59:59.9999999Z",
        "9999-12-31T23:59:59.9985Z",
        "9999-12-31T23:59:59.999999Z",
    ],
)
def test_an_event_of_any_time_is_booked_and_hides_no_other_one(tmp_path: Path, occurred_at: str) -> None:
    """Readers skip a file by the times that the log says of it: of a file with such an event they must be right too."""
    at = from_rfc3339(occurred_at)
    times = (at, AT)
    writer = PostingsWriter.open(str(tmp_path / "p"))
    writer.follow([replace(row(seq), occurred_at=one) for seq, one in enumerate(times, 1)])
    dataset = DeltaTable(str(tmp_path / "p")).to_pyarrow_dataset()
    for seq, one in enumerate(times, 1):
        found = dataset.to_table(filter=pc.field("occurred_at") == pa.scalar(one, pa.timestamp("us", tz="UTC")))
        assert found["seq"].to_pylist() == [seq, seq]


def test_rows_that_come_again_are_skipped_by_the_mark(tmp_path: Path) -> None:
    """A crash after the commit replays the same rows through a writer that was opened again."""
    PostingsWriter.open(str(tmp_path / "p")).follow([row(1), row(2)])
    again = PostingsWriter.open(str(tmp_path / "p"))
    again.follow([row(1), row(2), row(3)])
    again.follow([row(3)])
    assert [one["seq"] for one in lines(tmp_path / "p")] == [1, 1, 2, 2, 3, 3]


def test_a_writer_that_was_overtaken_is_refused(tmp_path: Path) -> None:
    """It wakes after its successor appended the same rows; Delta must not take them twice."""
    stale = PostingsWriter.open(str(tmp_path / "p"))
    stale.follow([row(1)])
    successor = PostingsWriter.open(str(tmp_path / "p"))
    successor.follow([row(2)])
    for _ in range(2):
        with pytest.raises(PostingsRefused, match="taken over"):
            stale.follow([row(2)])
    assert [one["seq"] for one in lines(tmp_path / "p")] == [1, 1, 2, 2]


def test_rows_without_a_booking_cost_no_commit_until_the_mark_lags_far(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(postings_module, "MARK_LAG_ROWS_MAX", 5)
    writer = PostingsWriter.open(str(tmp_path / "p"))
    for seq in range(1, 6):
        writer.follow([row(seq, Decision.IGNORED)])
    assert DeltaTable(str(tmp_path / "p")).version() == 0
    writer.follow([row(6, Decision.IGNORED)])
    assert DeltaTable(str(tmp_path / "p")).version() == 1
    assert PostingsWriter.open(str(tmp_path / "p")).mark_seq == 6


def test_a_line_of_a_merchants_account_is_that_merchants() -> None:
    """An entry by hand may move money from one merchant to another: each owes, or is owed, its own line."""
    money = Money(700, "EUR")
    between = (
        Posting("merchant:m-1:payable", "debit", money),
        Posting("merchant:m-2:payable", "credit", money),
        Posting("provider:stripe:clearing", "debit", money),
        Posting("provider:adyen:clearing", "credit", money),
    )
    rows = [row(1), row(2, booking=between)]
    expected = ["m-1", "m-1", "m-1", "m-2", "m-1", "m-1"]
    assert flatten_postings(rows)["merchant"].to_pylist() == expected
