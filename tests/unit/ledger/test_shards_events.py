"""What providers repeated, what was ignored and what was never decided, over two shards."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest
from fastapi import APIRouter, FastAPI, Request, Response
from fastapi.testclient import TestClient

from console.access.roles import Role, User
from console.pages.ledger import add_balances, add_search, add_stories
from console.pages.place import PagePlace, QuestionRunner
from core.clock import ManualClock
from core.decision import Decision
from core.money import Movement
from dead_letters.item import ItemState
from dead_letters.listing import Filter
from journal.schema import JournalRow
from ledger.provider_bugs import find_all_provider_bugs
from ledger.queries.journals import LedgerJournals
from ledger.receipts import find_undecided, read_answered_since
from operations.selection.selections import IgnoredEventFinder
from tests.answers import answered, receipt
from tests.divided_ledger import MOVES, STAYS, DividedLedger, ShardLedger
from tests.small_ledger import START


@pytest.fixture
def before(tmp_path: Path) -> ShardLedger:
    return ShardLedger(tmp_path / "data")


def ledger_of(shards: list[ShardLedger]) -> LedgerJournals:
    return LedgerJournals([one.places for one in shards])


def repeated(ledger: ShardLedger, of: JournalRow) -> JournalRow:
    """The fact of a row, under another event id."""
    payment = (of.entity_key or "").rpartition(":")[2]
    fact: dict[str, Any] = {"fact_key": of.fact_key, "fact_sha256": of.fact_sha256, "postings": None}
    return ledger.add(Movement.CAPTURE, payment=payment, decision=Decision.DUPLICATE_FACT, **fact)


def test_what_a_provider_repeated_is_one_case_whichever_shard_has_it(before: ShardLedger) -> None:
    charges = [before.add(Movement.CAPTURE, payment=payment) for payment in (STAYS[0], MOVES[0])]
    early = repeated(before, charges[1])
    before.commit()
    shards = before.split()
    shards[1].later(early, Decision.DUPLICATE_FACT)
    late = [repeated(shard, charge) for shard, charge in zip(shards, charges, strict=True)]
    for shard in shards:
        shard.commit()
    found = find_all_provider_bugs(ledger_of(shards), {})
    assert [(bug.stream, bug.again.seq, bug.first and bug.first.seq) for bug in found] == [
        ("ledger", early.seq, charges[1].seq),
        ("ledger", late[0].seq, charges[0].seq),
        ("ledger.1", late[1].seq, charges[1].seq),
    ]


def test_an_ignored_event_is_its_entitys_shards(before: ShardLedger) -> None:
    stays, moves = (before.add(None, payment=payment) for payment in (STAYS[0], MOVES[0]))
    taken_up = before.add(None, payment=MOVES[1])
    before.commit()
    shards = before.split()
    shards[1].later(taken_up, Decision.REPLAYED)
    shards[1].later(taken_up, Decision.APPLIED)
    new = shards[1].add(None, payment=MOVES[2])
    shards[1].commit()
    ledger = ledger_of(shards)
    ignored = Filter(states=(ItemState.IGNORED,))
    found = [IgnoredEventFinder(at.journal, lambda _: {}, None).find(ignored) for at in ledger.places]
    assert [[one.seen_seq for one in some] for some in found] == [[stays.seq], [moves.seq, new.seq]]


def test_an_event_that_any_shard_decided_is_not_undecided(before: ShardLedger) -> None:
    charge = before.add(Movement.CAPTURE, payment=MOVES[0])
    before.commit()
    shards = before.split()
    later = [shard.add(Movement.CAPTURE, payment=own[1]) for shard, own in zip(shards, (STAYS, MOVES), strict=True)]
    for shard in shards:
        shard.commit()
    decided = [row.event_key or "" for row in (charge, *later)]
    answered(before.data, *(receipt(key, second) for second, key in enumerate((*decided, "stripe:lost:x"))))
    ledger = ledger_of(shards)
    receipts = read_answered_since(ledger.locate_shared("receipts"), START)
    found = find_undecided(receipts, [at.journal for at in ledger.places], ())
    assert [one.event_key for one in found] == ["stripe:lost:x"]


def test_the_pages_name_rows_with_their_shards(tmp_path: Path) -> None:
    divided = DividedLedger.under(tmp_path)
    place = PagePlace(divided.layout, ("live",), QuestionRunner(), ManualClock(START))
    router, app = APIRouter(), FastAPI()
    for add in (add_balances, add_search, add_stories):
        add(router, place)
    app.include_router(router)

    @app.middleware("http")
    async def as_finance(request: Request, answer: Callable[[Request], Awaitable[Response]]) -> Response:
        request.state.user = fay = User("fay", frozenset({Role.FINANCE}))
        request.state.allow = lambda _: fay
        return await answer(request)

    pages = TestClient(app)
    assert "24.00" in pages.get("/ledger", params={"seq": "ledger.1:3"}).text
    wrong = pages.get("/ledger", params={"seq": "ledger.9:3"})
    assert (wrong.status_code, "it has ledger, ledger.1" in wrong.text) == (422, True)
    assert pages.get("/ledger/search", params={"provider": "stripe"}).text.count("stripe:evt_3_1:refund") == 2
    charge = pages.get(f"/ledger/events/{divided.charged[MOVES[0]].event_key}")
    assert (charge.status_code, "row ledger.1:2" in charge.text) == (200, True)
    entity = pages.get(f"/ledger/entities/stripe:acct:{MOVES[0]}")
    assert (entity.status_code, "row ledger.1:3" in entity.text) == (200, True)
    divided.shards[1].add(Movement.CAPTURE, payment=MOVES[2])
    divided.shards[1].commit()
    ambiguous = pages.get("/ledger/events/seq:5")
    assert (ambiguous.status_code, "ledger.1:5" in ambiguous.text) == (404, True)
