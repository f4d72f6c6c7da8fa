"""One item's whole story: its tries, its acts, its bytes, and what is around it."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest

from core.decision import Decision
from dead_letters.payload import PRETTY_BYTES_MAX, indent_json
from dead_letters.story import ItemUnknown
from journal.bodies import BodyStore
from journal.schema import JournalRow
from tests.dead_items import STACK, DeadItems, seqs
from tests.small_ledger import TOPIC, body_of


@pytest.mark.row("E9")
def test_a_story_has_each_try_with_its_error_and_log_lines(items: DeadItems) -> None:
    row = items.dead(decision=Decision.RETRY, error_class="Timeout", log_lines="INFO: first")
    row = items.then(row, Decision.DEAD, error_class="MerchantUnknown", log_lines="INFO: second", attempt=1)
    items.then(row, Decision.REPLAYED, actor="anna", reason="account opened", handler_version=None)
    items.commit()
    story = items.followed().item(1)
    assert [(one.number, one.seq, one.error_class, one.log_lines) for one in story.attempts] == [
        (1, 1, "Timeout", "INFO: first"),
        (2, 2, "MerchantUnknown", "INFO: second"),
    ]
    assert story.died_of is story.attempts[1]
    assert story.attempts[1].stack == STACK
    assert [(act.decision, act.actor, act.reason) for act in story.acts] == [("replayed", "anna", "account opened")]
    assert (story.stream, story.headers, len(story.rows)) == ("ledger", {"ce_source": "/webhooks/stripe"}, 3)
    assert (story.item.state, story.item.seen_seq) == ("waiting", 3)


def test_a_story_shows_the_entity_s_events_around_it(items: DeadItems) -> None:
    items.ledger.add(None, payment="pi_1")
    items.ledger.add(None, payment="pi_other")
    items.dead(payment="pi_1")
    parked = items.parked("pi_1")
    items.then(parked, Decision.APPLIED)
    items.commit()
    story = items.followed().item(3)
    assert [(one.item_seq, one.decision) for one in story.before] == [(1, Decision.IGNORED)]
    assert [(one.item_seq, one.seq, one.decision) for one in story.after] == [(4, 5, Decision.APPLIED)]


def test_events_around_it_are_bounded(items: DeadItems, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("dead_letters.story.NEIGHBOURS_MAX", 2)
    items.deaths(3, payment="pi_1")
    items.dead(payment="pi_1")
    items.deaths(3, payment="pi_1")
    items.commit()
    story = items.followed().item(4)
    assert [one.item_seq for one in (*story.before, *story.after)] == [2, 3, 5, 6]


def test_what_waits_or_died_because_of_it_is_reported(items: DeadItems) -> None:
    head = items.dead(payment="pi_1")
    items.parked("pi_1")
    items.dead(payment="pi_1", error_class="PreviousEventDead", cause_seq=head.seq)
    items.dead(payment="pi_1", error_class="EventConflict")
    items.parked("pi_2")
    items.commit()
    story = items.followed().item(1)
    assert (story.held_total, seqs(story.held)) == (2, [2, 3])


def test_earlier_ones_like_it_are_reported_latest_first(items: DeadItems, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("dead_letters.story.LISTED_MAX", 2)
    items.then(items.dead(), Decision.PURGED)
    items.deaths(3)
    items.dead(error_class="Late")
    items.dead()
    items.commit()
    story = items.followed().item(7)
    assert (story.alike_total, seqs(story.alike)) == (4, [5, 4])


def test_an_item_that_the_index_does_not_hold_has_a_story_too(items: DeadItems) -> None:
    items.ledger.add(None)
    items.commit()
    assert items.followed().item(1).item.state == "settled"


def test_an_item_that_was_tried_for_ever_is_cut(items: DeadItems, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("dead_letters.story.ROWS_MAX", 4)
    items.then(items.dead(decision=Decision.RETRY), *[Decision.RETRY] * 9)
    items.commit()
    story = items.followed().item(1)
    assert (story.rows_cut, [row.seq for row in story.rows]) == (True, [1, 2, 9, 10])


def test_an_unknown_item_is_said_plainly(items: DeadItems) -> None:
    with pytest.raises(ItemUnknown, match="dlq list"):
        items.index().item(99)
    items.dead()
    items.commit()
    with pytest.raises(ItemUnknown, match="item 99"):
        items.followed().item(99)


def test_a_story_is_as_fresh_as_the_journal(items: DeadItems) -> None:
    """The index may be behind; what an operator decides on is not."""
    row = items.dead()
    items.commit()
    index = items.followed()
    items.then(row, Decision.PURGED)
    items.commit()
    assert index.item(1).item.state == "purged"


# bytes


@dataclass(frozen=True)
class BodyOutcome:
    """What became of a body."""

    status: str
    text: str

    def __str__(self) -> str:
        return self.text


def reported(status: str, text: str) -> Sequence[BodyOutcome]:
    return [BodyOutcome(status, text)]


def test_the_bytes_are_those_that_are_kept(items: DeadItems) -> None:
    row = items.dead()
    items.commit(with_bodies=True)
    payload = items.followed().item(1).payload
    assert (payload.raw, payload.source, payload.pretty) == (body_of(row), "bodies", None)


def test_a_dropped_body_is_read_from_kafka_by_its_place(items: DeadItems) -> None:
    row = items.dead()
    items.commit()
    held = {(TOPIC, 0, row.offset): body_of(row)}
    index = items.followed(
        statuses=lambda rows: reported("dropped", "dropped by retention"), origin=lambda *place: held.get(place)
    )
    payload = index.item(1).payload
    assert (payload.raw, payload.source) == (body_of(row), "kafka")
    assert payload.note == f"{len(body_of(row))} bytes, from Kafka's {TOPIC}[0]@0; dropped by retention"


def test_a_redacted_body_is_never_read_from_kafka(items: DeadItems) -> None:
    """Somebody ordered it to go; that the topic still holds it for days changes nothing."""
    items.dead()
    items.commit()

    def asked(*place: object) -> bytes:
        raise AssertionError(f"Kafka was asked for {place}")

    index = items.followed(statuses=lambda rows: reported("redacted", "redacted by anna"), origin=asked)
    payload = index.item(1).payload
    assert (payload.raw, payload.note) == (None, "redacted by anna")


def test_another_record_in_its_place_is_not_taken_for_it(items: DeadItems) -> None:
    items.dead()
    items.commit()
    payload = items.followed(origin=lambda *place: b"of a topic that was made again").item(1).payload
    assert payload.raw is None
    assert f"what Kafka holds as {TOPIC}[0]@0 is another record" in payload.note


def test_what_nobody_has_any_more_is_said(items: DeadItems) -> None:
    items.dead()
    items.commit()
    gone = items.followed(origin=lambda *place: None).item(1).payload
    assert (gone.raw, gone.note.endswith(f"Kafka no longer holds {TOPIC}[0]@0")) == (None, True)
    unasked = items.followed().item(1).payload
    assert unasked.note.endswith(f"Kafka may still hold it as {TOPIC}[0]@0")


@pytest.mark.parametrize(("held", "shown"), [(b"\xff\x00", b"\xff\x00"), (b"another", None)])
def test_a_record_that_could_not_be_read_is_shown_from_kafka(
    items: DeadItems, held: bytes, shown: bytes | None
) -> None:
    """The receiver never wrote it: its row has a place and the hash of what was there."""
    items.dead(body_sha256=None, original_sha256=hashlib.sha256(b"\xff\x00").hexdigest())
    items.commit()
    assert items.followed(origin=lambda *place: held).item(1).payload.raw == shown


def test_a_place_without_a_hash_shows_no_record(items: DeadItems) -> None:
    """Nothing says that what Kafka holds there now is what died."""
    items.dead(body_sha256=None)
    items.commit()
    assert items.followed(origin=lambda *place: b"\xff\x00").item(1).payload.raw is None


def test_the_place_says_which_history_it_is_of(items: DeadItems) -> None:
    items.dead(history=2)
    items.commit()
    gone = items.followed(origin=lambda *place: None).item(1).payload
    assert gone.note.endswith(f"Kafka no longer holds {TOPIC}#2[0]@0")


def test_reading_a_story_makes_no_store_of_bodies(items: DeadItems) -> None:
    items.dead()
    items.commit()
    items.followed().item(1)
    assert not Path(items.layout.bodies_table).exists()


@pytest.mark.parametrize(
    ("raw", "shown"),
    [
        (
            b'{"a":1.10,"b":[1,2],"c":{},"d":[ ]}',
            '{\n  "a": 1.10,\n  "b": [\n    1,\n    2\n  ],\n  "c": {},\n  "d": []\n}',
        ),
        (
            b'{"a" : "x,{\\"y\\"}:[", "a": 100000000000000000001}',
            '{\n  "a": "x,{\\"y\\"}:[",\n  "a": 100000000000000000001\n}',
        ),
        (b" [ ] ", "[]"),
        (b'"\\\\"', '"\\\\"'),
        (b"12e400", "12e400"),
        (b"{", None),
        (b"\xff", None),
        (b"", None),
        (b"not json", None),
        (b"[" * 100_000, None),
        (b'"' + b"x" * PRETTY_BYTES_MAX + b'"', None),
        (b"[" * 900 + b"1" + b"]" * 900, "nested"),
    ],
)
def test_json_is_indented_and_nothing_of_it_changes(raw: bytes, shown: str | None) -> None:
    """Numbers aren't read and written again: an amount of 1.10 stays one, and a repeated name is seen."""
    found = indent_json(raw)
    if shown == "nested":
        assert found is not None and found.count("[") == 900
    else:
        assert found == shown


def test_a_body_in_the_store_is_found_by_its_hash(items: DeadItems) -> None:
    row: JournalRow = items.dead()
    items.commit()
    BodyStore(str(items.layout.bodies_table)).append([(hashlib.sha256(b"other").hexdigest(), b"other")])
    assert items.followed().item(row.item_seq).payload.raw is None
