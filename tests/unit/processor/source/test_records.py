"""Kafka's records as items: those of the stream's own mode."""

from __future__ import annotations

import json
import pickle
from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from core.decision import Decision
from core.event import Mode
from core.work import Outcome, WorkItem
from journal.schema import JournalRow
from processor.errors.classify import MESSAGE_CHARS_MAX, clean_text
from processor.rules import StreamRules
from processor.source.records import HEADER_TEXT_MAX, WrongMode, format_headers, make_work_item
from tests.unit.processor.fakes import booked
from tests.unit.processor.harness import CONTROL, EVENTS, NOW, Engine

TEXTS = st.one_of(st.text(max_size=40), st.text(alphabet='ab"\\/~\x7f\x00\n', max_size=40), st.just("x" * 3_000))


def canonical(headers: dict[str, str]) -> str:
    """What is wanted, said in the plainest way."""
    kept: dict[str, str] = {}
    size = 0
    for name in sorted(headers):
        size += len(name) + len(headers[name]) + 6
        if size > HEADER_TEXT_MAX:
            break
        kept[name] = clean_text(headers[name], MESSAGE_CHARS_MAX)
    return json.dumps(kept, separators=(",", ":"), ensure_ascii=True)


@given(headers=st.dictionaries(st.one_of(st.text(max_size=20), st.sampled_from(("ce_id", "mode", "zone"))), TEXTS))
@example({"ce_id": "evt_1", "mode": "live", "account": 'a"b\\c'})
@example({})
def test_headers_are_kept_as_canonical_json_whatever_is_in_them(headers: dict[str, str]):
    assert format_headers(headers) == canonical(headers)


OTHER: dict[Mode, Mode] = {"live": "test", "test": "live"}


@pytest.fixture(params=["live", "test"])
def mode(request: pytest.FixtureRequest) -> Mode:
    chosen: Mode = request.param
    return chosen


class OnLiveTopics(StreamRules):
    """A stream of either mode that has the name and the topics of the live one, as the engine's tests write to them."""

    @property
    def name(self) -> str:
        return self.config.name

    @property
    def events_topic(self) -> str:
        return EVENTS

    @property
    def control_topic(self) -> str:
        return CONTROL


@pytest.fixture
def engine(tmp_path: Path, mode: Mode) -> Engine:
    made = Engine(tmp_path)
    made.rules = OnLiveTopics(config=made.rules.config, mode=mode)
    made.start()
    return made


def test_a_record_of_the_other_mode_dies_with_a_class_of_its_own_and_is_never_handled(engine: Engine, mode: Mode):
    engine.post("evt_1", mode=OTHER[mode])
    [row] = engine.batch()
    assert (row.decision, row.error_class) == ("dead", "WrongMode")
    assert f"its mode is '{OTHER[mode]}', this stream decides {mode} events" in (row.error_message or "")
    assert engine.handler.calls == []


def test_it_takes_neither_key_nor_fact_nor_entity_from_the_event_that_it_looks_like(engine: Engine, mode: Mode):
    engine.post("evt_1", fact="stripe:ch_1:capture", mode=OTHER[mode])
    key = engine.post("evt_1", fact="stripe:ch_1:capture", mode=mode)
    engine.batch()
    assert engine.decisions(key) == ["applied"]


def test_no_row_of_it_has_its_mode_and_its_bytes_and_headers_stay_for_the_person_who_asks(engine: Engine, mode: Mode):
    key = engine.post("evt_1", mode=OTHER[mode])
    [row] = engine.batch()
    assert (row.mode, row.event_key, row.fact_key, row.provider) == (None, None, None, "stripe")
    assert json.loads(row.headers or "")["event_key"] == key
    assert engine.bodies.by_hash[row.body_sha256 or ""] == b"evt_1"


def test_a_replay_changes_nothing_about_it(engine: Engine, mode: Mode):
    engine.post("evt_1", mode=OTHER[mode])
    engine.batch()
    engine.command(item_seq=1, seen_seq=1)
    engine.batch()
    engine.advance(1)
    assert engine.journal.rows[-1].decision == "dead"
    assert engine.handler.calls == []


def test_every_other_row_of_a_stream_has_its_mode_commands_too(engine: Engine, mode: Mode):
    engine.post("evt_1", mode=mode)
    engine.command(item_seq=1, seen_seq=1)
    engine.batch()
    assert {(row.topic == CONTROL, row.mode) for row in engine.journal.rows} == {(False, mode), (True, mode)}


def test_the_error_travels_from_process_to_process():
    error = WrongMode("stripe:evt_1:t", "x" * 99, "live")
    back = pickle.loads(pickle.dumps(error))
    assert (type(back), str(back)) == (WrongMode, str(error))
    assert len(str(back)) < 250


def test_a_handler_is_reported_whose_event_it_is(engine: Engine, mode: Mode):
    seen: list[str | None] = []

    def note(item: WorkItem) -> Outcome:
        seen.append(item.tenant)
        return booked()

    for event_id, tenant in (("evt_1", None), ("evt_2", "shop-a")):
        engine.handler.script[engine.post(event_id, mode=mode, tenant=tenant)] = note
    engine.batch()
    assert seen == [None, "shop-a"]


def test_a_handler_sees_names_as_rows_hold_them():
    assert make_work_item(parked_row(account="a%25b", event_type="t%3A1"), b"").account == "a%25b"


def parked_row(account: str, event_type: str, headers: str | None = None) -> JournalRow:
    return JournalRow(
        seq=2,
        item_seq=1,
        first=False,
        topic=CONTROL,
        partition=0,
        offset=0,
        account=account,
        event_type=event_type,
        decision=Decision.PARKED,
        decided_at=NOW,
        headers=headers,
    )
