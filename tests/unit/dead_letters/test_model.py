"""Whatever happens to items, and whenever the index stops, is deleted or starts again: it says what the rows say."""

from __future__ import annotations

import shutil
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from deltalake import DeltaTable
from hypothesis import given, settings
from hypothesis import strategies as st

import dead_letters.follow
from core.clock import ManualClock
from core.decision import OPEN_DECISIONS, Decision, ErrorKind
from core.layout import Layout
from core.money import Movement
from dead_letters.dead_letter_index import DeadLetterIndex
from dead_letters.item import ItemState
from dead_letters.listing import Filter, Sort
from dead_letters.payload import Payloads
from journal.schema import JournalRow
from tests.examples import examples
from tests.processes import Killed
from tests.small_ledger import START, SmallLedger

A_ROW = timedelta(minutes=41)
CLOSED_DAYS = 0.4
ALL = Filter(states=())
NEXT = {
    Decision.DEAD: [Decision.REPLAYED, Decision.REPLAYED, Decision.PURGED, Decision.RESOLVED],
    Decision.RETRY: [Decision.RETRY, Decision.DEAD, Decision.APPLIED, Decision.PARKED],
    Decision.PARKED: [Decision.PARKED, Decision.DEAD, Decision.APPLIED, Decision.IGNORED, Decision.RETRY],
    Decision.REPLAYED: [Decision.APPLIED, Decision.DEAD, Decision.RETRY, Decision.DUPLICATE, Decision.PARKED],
}
FIRST = [Decision.DEAD, Decision.DEAD, Decision.RETRY, Decision.PARKED, Decision.APPLIED, Decision.DUPLICATE]
FAILED = (Decision.DEAD, Decision.RETRY)
STATE_AFTER = {
    Decision.DEAD: "open",
    Decision.PURGED: "purged",
    Decision.RESOLVED: "resolved",
    **dict.fromkeys((Decision.RETRY, Decision.PARKED, Decision.REPLAYED), "waiting"),
}


@dataclass
class DeadLetterHistory:
    """A journal that grows by what hypothesis chooses."""

    ledger: SmallLedger
    last: dict[int, JournalRow] = field(default_factory=dict)

    def step(self, choice: int) -> None:
        """A new event, a command, or a further row of an open item or of one that was applied."""
        open_items = [row for row in self.last.values() if row.decision in OPEN_DECISIONS]
        applied = [row for row in self.last.values() if row.decision is Decision.APPLIED]
        kind, rest = choice % 8, choice // 8
        if kind < 4 and open_items:
            row = open_items[rest % len(open_items)]
            options = NEXT[row.decision]
            self._later(row, options[rest % len(options)], rest)
        elif kind == 4 and applied:
            self._later(applied[rest % len(applied)], Decision.REVERSED, rest)
        elif kind == 5:
            decision = (Decision.REPLAYED, Decision.PURGED, Decision.RESOLVED)[rest % 3]
            self._tell(decision, rest, provider="payhook")
            self.last.popitem()
        else:
            self._tell(FIRST[rest % len(FIRST)], rest)

    def _tell(self, decision: Decision, rest: int, provider: str | None = None) -> None:
        row = self.ledger.add(
            Movement.CAPTURE,
            provider=provider or ("stripe", "adyen")[rest % 2],
            payment=f"pi_{rest % 3}",
            decision=decision,
            **self._said(decision, rest),
        )
        if decision is not Decision.APPLIED:
            row.postings = None
        self.last[row.item_seq] = row

    def _later(self, of: JournalRow, decision: Decision, rest: int) -> None:
        self.last[of.item_seq] = self.ledger.later(of, decision, **self._said(decision, rest))

    def _said(self, decision: Decision, rest: int) -> dict[str, Any]:
        failed = decision in FAILED
        return {
            "decided_at": START + A_ROW * (len(self.ledger.rows) + 1),
            "attempt": rest % 4,
            "error_class": ("KeyError", "EventConflict", "Late")[rest % 3] if failed else None,
            "error_message": f"pi_{rest} is wrong" if failed else None,
            "error_kind": list(ErrorKind)[rest % 4] if failed else None,
            "handler_version": "ledger-1" if rest % 2 else None,
        }


@dataclass
class ExpectedItem:
    """What plain Python makes of one item's rows."""

    seen_seq: int
    seen_hash: str
    state: str
    decision: Decision
    died: int
    error_class: str | None
    provider: str | None
    since: datetime
    closed_at: datetime | None


def expected(rows: Sequence[JournalRow], now: datetime) -> dict[int, ExpectedItem]:
    """By item: those that are open, and those that died and were closed lately."""
    by_item: dict[int, list[JournalRow]] = {}
    for row in rows:
        by_item.setdefault(row.item_seq, []).append(row)
    found = {seq: one for seq, own in by_item.items() if (one := _item(own)) is not None}
    limit = now - timedelta(days=CLOSED_DAYS)
    return {seq: one for seq, one in found.items() if one.closed_at is None or one.closed_at >= limit}


def _item(rows: list[JournalRow]) -> ExpectedItem | None:
    if rows[0].provider == "payhook" or rows[0].decision not in OPEN_DECISIONS:
        return None
    deaths = [row for row in rows if row.decision is Decision.DEAD]
    errors = [row.error_class for row in rows if row.error_class]
    ends = [row for row in rows if row.decision not in OPEN_DECISIONS]
    state = STATE_AFTER.get(ends[0].decision if ends else rows[-1].decision, "replayed")
    if ends and not deaths:
        return None
    return ExpectedItem(
        seen_seq=rows[-1].seq,
        seen_hash=rows[-1].row_hash[:16],
        state=state,
        decision=rows[-1].decision,
        died=len(deaths),
        error_class=errors[-1] if errors else None,
        provider=rows[0].provider,
        since=(deaths or rows)[0].decided_at,
        closed_at=ends[0].decided_at if ends else None,
    )


def listed(index: DeadLetterIndex, wanted: Filter, sort: Sort = Sort.OLDEST, limit: int = 3) -> list[Any]:
    """All pages one after the other."""
    found: list[Any] = []
    cursor = None
    while True:
        page = index.page(wanted, cursor, limit, sort)
        found += page.items
        cursor = page.next
        if cursor is None:
            assert page.total == len(found)
            return found


def agrees(index: DeadLetterIndex, rows: Sequence[JournalRow], now: datetime) -> None:
    """The index says what plain Python does."""
    wanted = expected(rows, now)
    items = {item.item_seq: item for item in listed(index, ALL)}
    assert items.keys() == wanted.keys()
    for seq, one in wanted.items():
        item = items[seq]
        reported = (
            item.seen_seq,
            item.seen_hash,
            item.state,
            item.decision,
            item.times_died,
            item.error_class,
            item.provider,
        )
        assert reported == (
            one.seen_seq,
            one.seen_hash,
            one.state,
            one.decision,
            one.died,
            one.error_class,
            one.provider,
        )
        assert (item.since, item.closed_at) == (one.since, one.closed_at)
    by_age = sorted(wanted, key=lambda seq: (wanted[seq].since, seq))
    assert [item.item_seq for item in listed(index, ALL)] == by_age
    assert [item.item_seq for item in listed(index, ALL, Sort.NEWEST)] == by_age[::-1]
    for state in ("open", "waiting", "replayed", "purged", "resolved"):
        assert index.page(Filter(states=(ItemState(state),))).total == sum(
            one.state == state for one in wanted.values()
        )
    _statistics_agree(index, wanted, now)


def _statistics_agree(index: DeadLetterIndex, wanted: dict[int, ExpectedItem], now: datetime) -> None:
    stripe = Filter(providers=("stripe",))
    # The same question to the table of counts, and to the items: text that everything has takes the other way.
    for asked in (Filter(), stripe, Filter(text=":"), Filter(text=":", providers=("stripe",))):
        held = {seq: one for seq, one in wanted.items() if not asked.providers or one.provider == "stripe"}
        dead = {seq: one for seq, one in held.items() if one.state == "open"}
        stats = index.stats(asked)
        assert stats.open == len(dead)
        assert stats.waiting == sum(one.state == "waiting" for one in held.values())
        assert stats.oldest == min((one.since for one in dead.values()), default=None)
        assert stats.over_24h == sum(one.since < now - timedelta(hours=24) for one in dead.values())
        assert {one.value: one.items for one in stats.by_class} == Counter(one.error_class for one in dead.values())
        assert {one.value: one.items for one in stats.by_provider} == Counter(one.provider for one in dead.values())
        died = Counter(_hour(one.since) for one in held.values() if one.died)
        closed = Counter(_hour(one.closed_at) for one in held.values() if one.closed_at is not None)
        window = {hour.at for hour in stats.hours}
        assert {hour.at: hour.died for hour in stats.hours if hour.died} == {
            h: n for h, n in died.items() if h in window
        }
        assert {hour.at: hour.closed for hour in stats.hours if hour.closed} == closed
        groups = index.groups(asked)
        assert sum(group.count for group in groups) == len(dead)
        for group in groups:
            own = [seq for seq, one in dead.items() if one.error_class == group.error_class]
            assert (group.oldest, group.newest) == (min(dead[s].since for s in own), max(dead[s].since for s in own))
            assert dead[group.sample].since == group.newest


def _hour(at: datetime | None) -> datetime:
    assert at is not None
    return at.replace(minute=0, second=0, microsecond=0)


ACTIONS = ("follow", "follow", "follow", "restart", "delete", "compact", "crash", "nothing")


@settings(max_examples=examples(12), deadline=None)
@given(
    batches=st.lists(
        st.tuples(st.lists(st.integers(0, 10_000), min_size=1, max_size=8), st.sampled_from(ACTIONS)),
        min_size=1,
        max_size=7,
    )
)
def test_the_index_says_what_the_rows_say(
    batches: list[tuple[list[int], str]], tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path_factory.mktemp("index")
    monkeypatch.setattr(dead_letters.follow, "ROWS_PER_PICK", 2)
    history = DeadLetterHistory(SmallLedger(folder))
    clock = ManualClock(START)
    index = opened(folder, clock)
    for choices, action in batches:
        for choice in choices:
            history.step(choice)
        history.ledger.commit(with_bodies=False, with_postings=False)
        clock.advance((START + A_ROW * len(history.ledger.rows) - clock.now()).total_seconds())
        if action == "restart":
            index = opened(folder, clock)
        elif action == "delete":
            shutil.rmtree(Layout(folder).stream("ledger").dead_letter_index, ignore_errors=True)
        elif action == "compact":
            DeltaTable(history.ledger.journal).optimize.compact()
        elif action == "crash":
            _crash(index, monkeypatch, after=choices[0] % 3)
        if action != "nothing":
            followed = index.follow()
            assert followed.seq == len(history.ledger.rows)
            agrees(index, history.ledger.rows, clock.now())
    index.follow()
    agrees(index, history.ledger.rows, clock.now())
    shutil.rmtree(folder)


def opened(folder: Path, clock: ManualClock) -> DeadLetterIndex:
    layout = Layout(folder).ledger()
    payloads, closed = Payloads(layout.bodies_table), timedelta(days=CLOSED_DAYS)
    return DeadLetterIndex(layout.dead_letter_index, layout.journal, payloads, clock, closed)


def _crash(index: DeadLetterIndex, monkeypatch: pytest.MonkeyPatch, after: int) -> None:
    """Follows until some windows are written, and ends within the next one, after its rows and before its mark."""
    left = [after]
    set_mark = dead_letters.follow._set_mark

    def dying(*arguments: Any) -> None:
        if left[0] == 0:
            raise Killed
        left[0] -= 1
        set_mark(*arguments)

    with monkeypatch.context() as patched:
        patched.setattr(dead_letters.follow, "_set_mark", dying)
        try:
            index.follow()
        except Killed:
            return
