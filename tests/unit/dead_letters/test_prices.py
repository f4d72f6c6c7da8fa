"""What dead items are about in money is read from their bodies, each once."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from core.decision import Decision
from core.money import Money
from dead_letters.listing import Filter, Sort
from journal.bodies import BodyStore
from load.samples.stripe import stripe_event
from providers.settings import ProvidersSettings
from stack.services.dead_letters import BodyAmounts
from tests.dead_items import DeadItems, seqs
from tests.small_ledger import body_of


class Asked:
    """Says 100 EUR times the number in a body's event, and remembers which it was asked for."""

    def __init__(self) -> None:
        self.bodies: list[bytes] = []

    def __call__(self, provider: str, event_type: str, body: bytes) -> Money | None:
        assert (provider, event_type) == ("stripe", "capture")
        self.bodies.append(body)
        number = int(body.split(b"_")[1].split(b":")[0])
        return Money(100 * number, "EUR") if number != 2 else None


def test_items_get_the_amounts_of_their_bodies_each_once(items: DeadItems) -> None:
    rows = items.deaths(4)
    items.commit(with_bodies=True)
    asked = Asked()
    index = items.followed(amounts=asked)
    index.follow()
    assert asked.bodies == [body_of(row) for row in rows]
    listed = index.page(Filter(), sort=Sort.LARGEST).items
    assert seqs(listed) == [4, 3, 1, 2]
    amounts = [(400, "EUR"), (300, "EUR"), (100, "EUR"), (None, None)]
    assert [(item.amount_minor, item.currency) for item in [*listed, index.item(4).item]] == [*amounts, (400, "EUR")]


def test_pages_by_amount_go_on_into_those_without_one(items: DeadItems) -> None:
    items.deaths(5)
    items.commit(with_bodies=True)
    index = items.followed(amounts=Asked())
    first = index.page(Filter(), limit=3, sort=Sort.LARGEST)
    second = index.page(Filter(), first.next, 2, Sort.LARGEST)
    assert [seqs(page.items) for page in (first, second)] == [[5, 4, 3], [1, 2]]
    assert second.next is None


def test_an_amount_stays_while_the_item_moves(items: DeadItems) -> None:
    row = items.dead()
    items.commit(with_bodies=True)
    index = items.followed(amounts=Asked())
    items.then(row, Decision.REPLAYED, Decision.DEAD)
    items.commit()
    index.follow()
    [item] = index.page(Filter()).items
    assert (item.amount_minor, item.currency) == (100, "EUR")


def test_a_body_that_is_gone_is_asked_for_once(items: DeadItems) -> None:
    items.dead()
    items.commit()
    asked = Asked()
    index = items.followed(amounts=asked)
    BodyStore(str(items.layout.bodies_table)).append([("0" * 64, b"another")])
    index.follow()
    assert (asked.bodies, index.page(Filter()).items[0].amount_minor) == ([], None)


def test_an_index_that_began_again_gets_its_amounts_call_by_call(
    items: DeadItems, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("dead_letters.dead_letter_index.ITEMS_PER_READ", 1)
    monkeypatch.setattr("dead_letters.dead_letter_index.READS_MAX", 2)
    items.deaths(3)
    items.commit(with_bodies=True)
    asked = Asked()
    index = items.followed(amounts=asked)
    assert len(asked.bodies) == 2
    index.follow()
    assert len(asked.bodies) == 3


def test_what_waits_is_not_priced(items: DeadItems) -> None:
    """While a stream is blocked its whole backlog waits, and none of it is anybody's work."""
    items.dead(decision=Decision.RETRY)
    items.commit(with_bodies=True)
    asked = Asked()
    items.followed(amounts=asked)
    assert asked.bodies == []


def test_adapters_say_amounts_and_fail_at_none() -> None:
    amounts = BodyAmounts(ProvidersSettings())
    body = stripe_event(
        "evt_1",
        "charge.succeeded",
        payment="pi_1",
        account="",
        amount_minor=1_250,
        currency="EUR",
        created=datetime(2026, 1, 1, tzinfo=UTC),
    )
    assert amounts("stripe", "charge.succeeded", body) == Money(1_250, "EUR")
    assert amounts("nobody", "charge.succeeded", body) is None
    for broken in (b"", b"{}", b"[]", b'{"data": 7}', b"\xff", body.replace(b"1250", b'"x"')):
        assert amounts("stripe", "charge.succeeded", broken) is None
