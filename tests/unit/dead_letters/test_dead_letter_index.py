"""Lists, counts, groups and figures of dead items."""

from __future__ import annotations

from dataclasses import astuple
from datetime import UTC, datetime, timedelta

import pytest

from core.decision import Decision, ErrorKind
from core.money import Money
from core.work import Posting, postings_to_json
from dead_letters.item import ItemState, Mark
from dead_letters.listing import Filter, FilterInvalid, Sort
from dead_letters.rates import WINDOWS, Rate
from journal.target import ItemTarget
from tests.dead_items import DeadItems, seqs
from tests.small_ledger import START

ALL = Filter(states=())


def test_an_index_without_a_journal_is_empty(items: DeadItems) -> None:
    index = items.index()
    assert (index.follow().seq, index.page(ALL).items, index.stats().open, index.groups()) == (0, (), 0, [])


def test_an_item_is_open_waits_and_closes(items: DeadItems) -> None:
    row = items.dead()
    items.commit()
    index = items.followed()
    states = []
    for decision in (Decision.REPLAYED, Decision.DEAD, Decision.REPLAYED, Decision.APPLIED):
        states.append(index.page(ALL).items[0].state)
        row = items.then(row, decision)
        items.commit()
        index.follow()
    [item] = index.page(ALL).items
    assert [*states, item.state] == ["open", "waiting", "open", "waiting", "replayed"]
    assert (item.times_died, item.replays, item.decision) == (2, 2, Decision.APPLIED)
    assert item.target == ItemTarget.of_row(items.row_at(5))
    assert index.page(Filter()).items == ()


@pytest.mark.parametrize("decision", [Decision.PURGED, Decision.RESOLVED, Decision.RELEASED])
def test_a_person_closes_an_item(items: DeadItems, decision: Decision) -> None:
    items.then(items.dead(), decision, actor="anna", reason="booked by hand")
    items.commit()
    [item] = items.followed().page(ALL).items
    assert (item.state, item.actor, item.reason) == (decision.value, "anna", "booked by hand")
    assert item.closed_at == item.last_decided_at


def test_what_never_died_leaves_when_it_is_settled(items: DeadItems) -> None:
    row = items.dead(decision=Decision.RETRY)
    items.commit()
    index = items.followed()
    assert index.page(Filter(states=(ItemState.WAITING,))).total == 1
    items.then(row, Decision.APPLIED)
    items.commit()
    index.follow()
    assert index.page(ALL).items == ()


@pytest.mark.parametrize("decision", [Decision.REPLAYED, Decision.PURGED, Decision.RESOLVED])
def test_a_command_s_own_row_is_no_item(items: DeadItems, decision: Decision) -> None:
    items.dead(decision=decision)
    items.commit()
    assert items.followed().page(ALL).items == ()


def test_conflicts_and_poison_are_marked(items: DeadItems) -> None:
    items.dead(error_class="EventConflict", handler_version=None)
    items.dead(error_class="EventConflict", handler_version="ledger-1")
    items.dead(error_class="Poison", event_type="poison", handler_version=None)
    items.dead(error_class="Unparseable", event_key=None, handler_version=None)
    items.commit()
    index = items.followed()
    assert [item.mark for item in index.page(ALL).items] == [Mark.CONFLICT, None, Mark.POISON, Mark.POISON]
    assert seqs(index.page(Filter(marks=(Mark.POISON,))).items) == [3, 4]


def test_poison_that_a_mended_adapter_reads_gets_its_real_name(items: DeadItems) -> None:
    row = items.dead(error_class="Poison", event_type="poison", event_key="stripe:x:poison", handler_version=None)
    named = {"event_type": "capture", "event_key": "stripe:evt_9:capture", "entity_key": "stripe:acct:pi_9"}
    items.then(row, Decision.REPLAYED)
    items.then(row, Decision.DEAD, error_class="Late", **named)
    items.ledger.add(None, payment="pi_9")
    items.commit()
    index = items.followed()
    [item] = index.page(Filter(entity="stripe:acct:pi_9")).items
    assert (item.mark, item.event_key, item.event_type, item.error_class) == (
        None,
        *list(named.values())[1::-1],
        "Late",
    )
    assert [one.item_seq for one in index.item(1).after] == [4]


def test_an_amount_is_that_of_the_booking(items: DeadItems) -> None:
    row = items.dead()
    money = Money(1_250, "JPY")
    booking = postings_to_json((Posting("a", "debit", money), Posting("b", "credit", money)))
    items.then(row, Decision.REPLAYED)
    items.then(row, Decision.APPLIED, postings=booking)
    items.dead()
    items.commit()
    index = items.followed()
    amounts = [(item.amount_minor, item.currency) for item in index.page(ALL, sort=Sort.LARGEST).items]
    assert amounts == [(money.amount_minor, money.currency), (None, None)]


@pytest.mark.parametrize(
    ("wanted", "found"),
    [
        (Filter(kinds=(ErrorKind.SNBE,)), [3]),
        (Filter(classes=("Late", "Other")), [3, 4]),
        (Filter(providers=("adyen",)), [2]),
        (Filter(types=("capture",), providers=("stripe",)), [1, 3, 4]),
        (Filter(accounts=("acct",)), [1, 2, 3]),
        (Filter(accounts=("other",)), [4]),
        (Filter(tenants=("shop-a",)), [4]),
        (Filter(receiver="evt_3"), [3]),
        (Filter(receiver="evt"), []),
        (Filter(entity="stripe:acct:pi_3"), [3]),
        (Filter(entity="stripe:acct:pi_"), []),
        (Filter(since=START + timedelta(minutes=3)), [3, 4]),
        (Filter(until=START + timedelta(minutes=3)), [1, 2]),
        (Filter(text="EVT_3"), [3]),
        (Filter(text="acct_1' isn't"), [1, 2, 3, 4]),
        (Filter(text="%"), []),
        (Filter(text="evt_"), [1, 2, 3, 4]),
        (Filter(text="evt-"), []),
        (Filter(items=(4, 2, 99)), [2, 4]),
        (Filter(text="'; DROP TABLE items; --"), []),
    ],
)
def test_a_filter_wants_what_it_says(items: DeadItems, wanted: Filter, found: list[int]) -> None:
    items.dead()
    items.dead(provider="adyen")
    items.dead(error_class="Late", error_kind=ErrorKind.SNBE)
    items.dead(error_class="Other", account="other", tenant="shop-a")
    items.commit()
    index = items.followed()
    assert seqs(index.page(wanted).items) == found
    assert index.page(wanted).total == index.page(wanted).total == len(found)
    assert [one.item_seq for one in index.read_frozen_items(wanted)] == found
    assert sum(group.count for group in index.groups(wanted)) == index.stats(wanted).open == len(found)


def test_pages_stay_as_they_are_while_items_arrive_and_leave(items: DeadItems) -> None:
    rows = items.deaths(6)
    items.commit()
    index = items.followed()
    first = index.page(Filter(), limit=2)
    items.then(rows[0], Decision.PURGED)
    items.then(rows[3], Decision.PURGED)
    items.dead()
    items.commit()
    index.follow()
    second = index.page(Filter(), first.next, 2)
    third = index.page(Filter(), second.next, 2)
    assert [seqs(page.items) for page in (first, second, third)] == [[1, 2], [3, 5], [6, 9]]
    assert third.next is None


@pytest.mark.parametrize(
    "cursor", ["", "x", "newest.0.1.1", "oldest.0.1", "oldest.7.1.1", "oldest.0.x.1", f"oldest.0.{2**70}.1"]
)
def test_a_cursor_of_another_list_is_refused(items: DeadItems, cursor: str) -> None:
    items.dead()
    items.commit()
    with pytest.raises(FilterInvalid, match="start at its first page"):
        items.followed().page(Filter(), cursor)


@pytest.mark.parametrize("limit", [0, -1, 1_001])
def test_a_page_is_bounded(items: DeadItems, limit: int) -> None:
    with pytest.raises(FilterInvalid, match="limit"):
        items.index().page(Filter(), limit=limit)


def test_a_filter_that_cannot_be_one_is_refused() -> None:
    with pytest.raises(FilterInvalid, match="time zone"):
        Filter(since=START.replace(tzinfo=None))
    with pytest.raises(FilterInvalid, match="above the limit of 5000"):
        Filter(items=tuple(range(1, 5_002)))
    with pytest.raises(FilterInvalid, match="above the limit of 200"):
        Filter(text="x" * 201)


@pytest.mark.parametrize("name", ["fingerprint", "entity", "classes", "providers", "types", "accounts", "tenants"])
def test_an_empty_text_is_no_value_of_a_filter(name: str) -> None:
    """The table of counts has an empty text where an item has nothing, so that the two would answer otherwise."""
    with pytest.raises(FilterInvalid, match=f"^{name}: a value is empty"):
        Filter(**{name: "" if name in ("fingerprint", "entity") else ("x", "")})  # type: ignore[arg-type]


@pytest.mark.row("E11")
def test_three_thousand_of_one_cause_are_one_line(items: DeadItems) -> None:
    rows = items.deaths(300)
    items.dead(error_class="Late")
    items.dead(provider="adyen")
    items.commit()
    first, second = items.followed().groups()
    assert (first.count, first.providers, first.place) == (301, ("adyen", "stripe"), "ledger/handler.py:lookup")
    assert first.shape == "merchant 'acct_1' isn't in the directory"
    assert (first.oldest, first.sample, second.count) == (rows[0].decided_at, 302, 1)


def test_the_clock_of_the_sla_runs_from_the_first_death(items: DeadItems) -> None:
    row = items.dead()
    items.then(row, Decision.REPLAYED, Decision.DEAD)
    items.commit()
    index = items.followed()
    items.clock.advance((START + timedelta(minutes=1, hours=24) - items.now).total_seconds())
    assert (index.stats().over_24h, index.stats().next_over_24h) == (0, items.now)
    items.clock.advance(1)
    assert (index.stats().over_24h, index.stats().over_48h, index.stats().next_over_24h) == (1, 0, None)
    items.clock.advance(24 * 3_600)
    assert index.stats().over_48h == 1


@pytest.mark.row("A8")
def test_a_storm_is_in_the_rates_right_while_it_happens(items: DeadItems) -> None:
    """300 events die within one minute: 300 in and 0 out, and never cleared at this rate. Then people clear it."""
    began = datetime(2026, 2, 2, 12, 59, 30, tzinfo=UTC)
    storm = [items.dead(decided_at=began + timedelta(seconds=number / 5)) for number in range(300)]
    items.commit()
    index = items.followed()
    items.clock.advance((began + timedelta(minutes=1) - items.now).total_seconds())
    assert index.stats().rates == index.read_rates() == tuple(Rate(window_s, 300, 0, None) for window_s in WINDOWS)
    assert [rate.full_sentence for rate in index.read_rates()] == [
        f"300 in, 0 out in the last {window} (time to clear: never, at this rate)"
        for window in ("15 minutes", "hour", "24 hours")
    ]

    for row in storm[:200]:
        items.then(row, Decision.PURGED, decided_at=began + timedelta(minutes=20))
    items.commit()
    index.follow()
    items.clock.advance(timedelta(minutes=24).total_seconds())
    assert index.read_rates() == (
        Rate(900, 0, 200, timedelta(minutes=7.5).total_seconds()),
        Rate(3_600, 300, 200, None),
        Rate(86_400, 300, 200, None),
    )
    assert (
        index.read_rates()[0].full_sentence
        == "0 in, 200 out in the last 15 minutes (time to clear: 8 min, at this rate)"
    )


@pytest.mark.parametrize("wanted", [Filter(), Filter(text="merchant"), Filter(kinds=(ErrorKind.NRE,))])
@pytest.mark.parametrize("minute", [0, 1, 14, 15, 16, 59])
def test_the_rates_count_every_moment_of_their_windows_once(items: DeadItems, wanted: Filter, minute: int) -> None:
    """One died every eleven minutes of two days, and each was closed seven hours later; counted one by one."""
    now = datetime(2026, 2, 2, 12, minute, tzinfo=UTC)
    died = [now - timedelta(minutes=11 * number) for number in range(1, 2 * 24 * 60 // 11)]
    closed = [at + timedelta(hours=7) for at in died if at + timedelta(hours=7) < now]
    rows = [items.dead(decided_at=at) for at in died]
    for row, at in zip(rows, died, strict=True):
        if at + timedelta(hours=7) < now:
            items.then(row, Decision.RESOLVED, decided_at=at + timedelta(hours=7))
    items.commit()
    index = items.followed()
    items.clock.advance((now - items.now).total_seconds())
    for rate in index.read_rates(wanted):
        since = now - timedelta(seconds=rate.window_s)
        assert (rate.inflow, rate.outflow) == (sum(at >= since for at in died), sum(at >= since for at in closed))


def test_what_never_died_is_no_inflow_and_no_outflow(items: DeadItems) -> None:
    items.then(items.parked("p"), Decision.APPLIED)
    items.parked("q")
    items.commit()
    index = items.followed()
    assert {(rate.inflow, rate.outflow, rate.clearing) for rate in index.read_rates()} == {(0, 0, "no dead events")}


def test_the_statistics_count_by_hour(items: DeadItems) -> None:
    at = datetime(2026, 2, 2, 12, 30, tzinfo=UTC)
    items.deaths(24 + 24, decided_at=at - timedelta(days=2))
    for row in list(items.ledger.rows)[:36]:
        items.then(row, Decision.PURGED, decided_at=at - timedelta(hours=5))
    items.deaths(24, decided_at=at - timedelta(hours=9))
    items.commit()
    index = items.followed()
    items.clock.advance((at - items.now).total_seconds())
    stats = index.stats()
    assert stats.open == 36
    assert stats.hours[-1].at == datetime(2026, 2, 2, 12, tzinfo=UTC)
    assert [(hour.at.hour, hour.died, hour.closed) for hour in stats.hours[-11:] if hour.died or hour.closed] == [
        (3, 24, 0),
        (7, 0, 36),
    ]


def test_items_are_looked_up_by_number(items: DeadItems) -> None:
    items.deaths(3)
    items.commit()
    found = {item.item_seq: item for item in items.followed().page(Filter(items=(3, 1, 77))).items}
    assert sorted(found) == [1, 3]
    assert found[3].target == ItemTarget.of_row(items.row_at(3))


def test_what_is_seen_is_as_of_one_moment(items: DeadItems, monkeypatch: pytest.MonkeyPatch) -> None:
    """A selection that is being frozen takes no item twice, and none in two states."""
    monkeypatch.setattr("dead_letters.listing.SEEN_PER_READ", 1)
    rows = items.deaths(4)
    items.commit()
    index = items.followed()
    seen = index.read_frozen_items(Filter())
    found = [next(seen)]
    for row in rows:
        items.then(row, Decision.PURGED)
    items.commit()
    index.follow()
    assert [tuple(one[:3]) for one in [*found, *seen]] == [
        astuple(ItemTarget.of_row(items.row_at(seq))) for seq in (1, 2, 3, 4)
    ]
    assert list(index.read_frozen_items(Filter())) == []
