"""Which ignored events there are, and what today's handler would make of each."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path

import pytest

from core.decision import Decision
from core.layout import Layout
from core.work import Outcome, WorkItem
from journal.bodies import BodyStore
from journal.schema import JournalRow
from ledger.directory import FileDirectory
from ledger.handler import LedgerHandler
from ledger.redactions import ORDERED, Redaction, Redactions
from ledger.reprocess import Forecast, Forecaster, Verdict, Wanted, ignored, what_else
from tests.small_ledger import START
from tests.unit.ledger.ignored_events import ADAPTERS, IgnoredEvents


@pytest.fixture
def ledger(tmp_path: Path) -> IgnoredEvents:
    return IgnoredEvents(tmp_path / "data")


def seqs(ledger: IgnoredEvents, **wanted: object) -> list[int]:
    return list(ignored(Path(ledger.journal), Wanted(**wanted)).seqs)  # type: ignore[arg-type]


def forecast(ledger: IgnoredEvents) -> list[Forecast]:
    found = ignored(Path(ledger.journal), Wanted())
    layout = Layout(ledger.data)
    own = layout.ledger()
    handler = LedgerHandler(ADAPTERS, FileDirectory(layout.merchants))
    forecaster = Forecaster(found.lake, own.bodies, own.shared("redactions"), ADAPTERS, handler)
    return [one for rows in found.rows() for one in forecaster.of(rows)]


def test_only_what_is_ignored_now_is_found(ledger: IgnoredEvents) -> None:
    left = ledger.ignored("evt_1")
    ledger.reopened(ledger.ignored("evt_2", payment="pi_2"), Decision.APPLIED)
    once_more = ledger.reopened(ledger.ignored("evt_3", payment="pi_3"), Decision.IGNORED)
    ledger.later(ledger.ignored("evt_4", payment="pi_4"), Decision.REPLAYED)
    ledger.add(None, provider="payhook", decision=Decision.IGNORED)
    ledger.applied(left)
    ledger.write()
    assert seqs(ledger) == [left.seq, once_more.seq]


def test_it_is_narrowed_by_provider_type_key_and_time(ledger: IgnoredEvents) -> None:
    refund = ledger.ignored("evt_1")
    customer = ledger.ignored("evt_2", "customer.updated")
    ledger.write()
    assert seqs(ledger, provider="adyen") == []
    assert seqs(ledger, provider="stripe") == [1, 2]
    assert seqs(ledger, event_types=("refund.created", "payout.paid")) == [refund.seq]
    assert seqs(ledger, event_keys=(customer.event_key,)) == [customer.seq]
    assert seqs(ledger, since=START + timedelta(minutes=2)) == [2]
    assert seqs(ledger, until=START + timedelta(minutes=2)) == [1]


def test_a_journal_that_is_not_there_yet_has_none(tmp_path: Path) -> None:
    assert ignored(tmp_path / "none", Wanted()).count == 0
    assert what_else(tmp_path / "none", ["stripe:evt_1:x"])["stripe:evt_1:x"].startswith("unknown here")


def test_what_would_be_booked_is_reported_with_its_lines(ledger: IgnoredEvents) -> None:
    row = ledger.ignored("evt_1")
    ledger.write()
    [reported] = forecast(ledger)
    assert (reported.verdict, reported.late, reported.row.seq) == (Verdict.BOOKS, False, row.seq)
    assert [(line.side, line.money.amount_minor) for line in reported.postings] == [("debit", 700), ("credit", 700)]
    assert reported.fact_key is not None and reported.entity_key == row.entity_key


def test_what_a_later_event_of_its_entity_was_applied_before_is_late(ledger: IgnoredEvents) -> None:
    first = ledger.ignored("evt_1")
    ledger.applied(first)
    ledger.ignored("evt_2", object_id="re_2")
    ledger.write()
    assert [one.late for one in forecast(ledger)] == [True, False]


def test_what_the_handler_still_ignores_is_reported_with_its_reason(ledger: IgnoredEvents) -> None:
    ledger.ignored("evt_1", "customer.updated")
    ledger.ignored("evt_2", amount_minor=0)
    ledger.ignored("evt_3", provider="unheard-of")
    ledger.write()
    reported = forecast(ledger)
    assert {one.verdict for one in reported} == {Verdict.IGNORED}
    assert [one.why for one in reported] == [
        "customer.updated moves no money",
        "an amount of zero moves no money",
        "no adapter for unheard-of",
    ]


def test_of_a_movement_that_is_booked_nothing_is_booked_again(ledger: IgnoredEvents) -> None:
    row = ledger.ignored("evt_1", object_id="re_1")
    ledger.ignored("evt_2", object_id="re_1")
    ledger.write()
    books, twice = forecast(ledger)
    assert (books.verdict, twice.verdict) == (Verdict.BOOKS, Verdict.BOOKED_BEFORE)
    assert twice.why == f"{books.fact_key} is booked by one before it"
    applied = ledger.applied(row, fact_key=books.fact_key)
    ledger.write()
    assert [one.why for one in forecast(ledger)] == [f"{books.fact_key} is booked in row {applied.seq}"] * 2


def test_without_its_body_it_says_who_removed_it(ledger: IgnoredEvents) -> None:
    redacted, dropped = ledger.ignored("evt_1"), ledger.ignored("evt_2", payment="pi_2")
    ledger.commit(with_bodies=False)
    BodyStore(ledger.bodies)
    act = (redacted.event_key or "", redacted.seq, redacted.body_sha256 or "", "ada", "erasure 17", START)
    Redactions(Layout(ledger.data).ledger().shared("redactions")).add([Redaction(0, ORDERED, "ledger", *act)])
    first, second = forecast(ledger)
    assert (first.verdict, second.verdict) == (Verdict.NO_BODY, Verdict.NO_BODY)
    assert "redacted by ada" in first.why and "erasure 17" in first.why
    assert "dropped by retention" in second.why and second.row.seq == dropped.seq


def test_what_the_handler_fails_on_is_reported_with_its_error(ledger: IgnoredEvents) -> None:
    ledger.ignored("evt_1", account="acct_unknown")
    ledger.write()
    [reported] = forecast(ledger)
    assert reported.verdict is Verdict.FAILS
    assert reported.why.startswith("MerchantUnknown: ")


def test_what_its_adapter_knows_under_another_name_is_unreadable(ledger: IgnoredEvents) -> None:
    ledger.ignored("evt_1", event_key="stripe:evt_other:refund.created")
    ledger.write()
    [reported] = forecast(ledger)
    assert reported.verdict is Verdict.UNREADABLE
    assert "reads it as stripe:evt_1:refund.created now" in reported.why


def _key(row: JournalRow) -> str:
    return row.event_key or ""


def test_named_events_that_are_not_ignored_are_reported_what_they_are(ledger: IgnoredEvents) -> None:
    left = ledger.ignored("evt_1")
    done = ledger.reopened(ledger.ignored("evt_2", payment="pi_2"), Decision.APPLIED)
    is_open = ledger.later(ledger.ignored("evt_3", payment="pi_3"), Decision.REPLAYED)
    plain = ledger.applied(left)
    ledger.again(plain)
    ledger.write()
    reported = what_else(Path(ledger.journal), [_key(one) for one in (left, done, is_open, plain)] + ["stripe:no:x"])
    assert reported == {
        _key(left): f"ignored in row {left.seq} by ledger-1, and the other options leave it out",
        _key(done): f"applied in row {done.seq} by ledger-2, after it had been ignored: it was reprocessed before, and "
        "that has no second effect",
        _key(is_open): f"open: row {is_open.seq} is replayed; see what comes of it first",
        _key(plain): f"applied in row {plain.seq} by ledger-1",
        "stripe:no:x": "unknown here; what isn't decided yet isn't in the journal",
    }


class Raises:
    version = "broken"

    def __call__(self, item: WorkItem) -> Outcome:
        raise RuntimeError(f"no way: {item.event_key}")


def test_a_broken_handler_fails_each_event_by_itself(ledger: IgnoredEvents) -> None:
    ledger.ignored("evt_1")
    ledger.ignored("evt_2", payment="pi_2")
    ledger.write()
    found, own = ignored(Path(ledger.journal), Wanted()), Layout(ledger.data).ledger()
    forecaster = Forecaster(found.lake, own.bodies, own.shared("redactions"), ADAPTERS, Raises())
    [rows] = found.rows()
    assert [one.why.partition(":")[0] for one in forecaster.of(rows)] == ["RuntimeError"] * 2
