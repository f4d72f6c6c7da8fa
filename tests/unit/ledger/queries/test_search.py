"""Search: every filter by itself and together, the newest first, never more than the limit."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from core.decision import Decision
from core.money import Movement
from ledger.queries.journals import CursorInvalid
from ledger.queries.lake import TableRows
from ledger.queries.search import DecisionFilter, search_decisions
from tests.small_ledger import START, SmallLedger


@pytest.fixture
def reported(ledger: SmallLedger) -> SmallLedger:
    """Rows 1 to 6, a minute apart."""
    first = ledger.add(Movement.CAPTURE, 1_000, payment="pi_1")
    ledger.add(Movement.CAPTURE, 1_000, "JPY", merchant="m-2")
    ledger.add(Movement.REFUND, 400, provider="adyen", merchant="a:b")
    ledger.again(first)
    ledger.add(None)
    ledger.add(Movement.CAPTURE, 7, decision=Decision.DEAD, postings=None)
    ledger.commit()
    return ledger


def found(ledger: SmallLedger, limit: int = 50, **wanted: Any) -> list[int]:
    return [hit.row.seq for hit in search_decisions(ledger.journal, ledger.postings, DecisionFilter(**wanted), limit)]


def test_without_a_wish_all_come_newest_first(reported: SmallLedger) -> None:
    assert found(reported) == [6, 5, 4, 3, 2, 1]
    assert found(reported, limit=2) == [6, 5]


@pytest.mark.parametrize(
    ("wanted", "seqs"),
    [
        ({"event_type": "capture"}, [6, 4, 2, 1]),
        ({"provider": "adyen"}, [3]),
        ({"merchant": "m-1"}, [1]),
        ({"merchant": "a:b"}, [3]),
        ({"merchant": "a%3Ab"}, [3]),
        ({"decision": Decision.DUPLICATE}, [4]),
        ({"since": START + timedelta(minutes=5)}, [6, 5]),
        ({"until": START + timedelta(minutes=2)}, [1]),
        ({"since": START + timedelta(minutes=2), "until": START + timedelta(minutes=4)}, [3, 2]),
        ({"amount_minor": 1_000, "currency": "JPY"}, [2]),
        ({"amount_minor": 1_000}, [2, 1]),
        ({"currency": "EUR"}, [3, 1]),
        ({"in_keys": "evt_1:"}, [4, 1]),
        ({"in_keys": "pi_1"}, [4, 1]),
        ({"in_keys": "f_3"}, [3]),
        ({"in_keys": "100%'s"}, []),
        ({"in_keys": "_"}, [6, 5, 4, 3, 2, 1]),
        ({"event_type": "capture", "currency": "EUR", "until": START + timedelta(hours=1)}, [1]),
        ({"provider": "stripe' OR '1'='1"}, []),
        ({"merchant": "m-1", "since": START + timedelta(minutes=2)}, []),
    ],
)
def test_a_wish_narrows(wanted: dict[str, Any], seqs: list[int], reported: SmallLedger) -> None:
    assert found(reported, **wanted) == seqs


def test_a_hit_says_what_was_booked(reported: SmallLedger) -> None:
    hits = search_decisions(reported.journal, reported.postings, DecisionFilter())
    assert [(hit.merchant, hit.amount_minor, hit.currency) for hit in hits] == [
        (None, None, None),
        (None, None, None),
        (None, None, None),
        ("a%3Ab", 400, "EUR"),
        ("m-2", 1_000, "JPY"),
        ("m-1", 1_000, "EUR"),
    ]


def test_before_the_first_start_nothing_is_found(tmp_path: Path) -> None:
    for wanted in (DecisionFilter(), DecisionFilter(currency="EUR")):
        assert search_decisions(str(tmp_path / "journal"), str(tmp_path / "postings"), wanted) == []


def test_what_is_booked_nowhere_is_not_found_by_its_amount(ledger: SmallLedger) -> None:
    ledger.add(None)
    ledger.commit(with_postings=False)
    assert found(ledger, currency="EUR") == []


def test_pages_of_hits_follow_each_other(reported: SmallLedger) -> None:
    pages, cursor = [], None
    while hits := search_decisions(reported.journal, reported.postings, DecisionFilter(), 4, cursor):
        pages.append([hit.row.seq for hit in hits])
        cursor = hits[-1].cursor
    assert pages == [[6, 5, 4, 3], [2, 1]]


def test_pages_of_several_journals_leave_nothing_out_and_repeat_nothing(tmp_path: Path) -> None:
    parts = [SmallLedger(tmp_path / "data", shard=number) for number in (0, 1)]
    for number in range(4):
        for part in parts:
            part.add(Movement.CAPTURE, at=START + timedelta(minutes=number // 2))
    for part in parts:
        part.commit()
    journal = [TableRows(part.journal, f"ledger.{part.shard}") for part in parts]
    lines = [TableRows(part.postings, f"ledger.{part.shard}") for part in parts]
    seen, cursor = [], None
    while hits := search_decisions(journal, lines, DecisionFilter(), 3, cursor):
        seen += [(hit.stream, hit.row.seq) for hit in hits]
        cursor = hits[-1].cursor
    assert len(seen) == len(set(seen)) == 8


@pytest.mark.parametrize("cursor", ["", "x", "1~1", "1~1~ledger'", "9" * 30 + "~1~ledger"])
def test_a_cursor_that_no_hit_gave_is_refused(reported: SmallLedger, cursor: str) -> None:
    with pytest.raises(CursorInvalid):
        search_decisions(reported.journal, reported.postings, DecisionFilter(), 4, cursor)
