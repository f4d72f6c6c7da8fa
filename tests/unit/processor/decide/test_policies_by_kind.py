"""A retry policy for each kind of error, as a stream's settings write it."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path

import pytest

from core.decision import ErrorKind
from core.work import Outcome, WorkItem
from processor.errors.retry import parse_policy
from processor.settings import RetrySettings
from processor.streams import StreamInvalid, load_streams
from processor.wiring import wire_stream
from stack.settings import Settings
from tests.unit.processor.fakes import Down, Stuck
from tests.unit.processor.harness import POLICY, Engine

TRANSIENT, DATA = "fixed(1s x2)", "FixedDelayRetryPolicy(5000x3, 15000x5)"
OUTAGE = "LimitedExponentialRetryPolicy(1,60,2,120)"
KINDS = RetrySettings(default=POLICY, transient=TRANSIENT, waits_for_data=DATA, outage=OUTAGE)


class Brief(Exception):
    kind = ErrorKind.SLE


@pytest.fixture
def engine(tmp_path: Path) -> Engine:
    engine = Engine(tmp_path)
    engine.configure(retry=KINDS)
    engine.start()
    return engine


def delays(engine: Engine, key: str) -> list[float]:
    """Seconds that each try waited until the event was dead or applied."""
    found, [row] = list[float](), engine.batch()
    while row.decision.value == "retry":
        assert row.due_at is not None
        found.append((row.due_at - row.decided_at).total_seconds())
        [row] = engine.advance(found[-1])
    assert row.decision.value == "dead" and row.event_key == key
    return found


def test_each_kind_is_tried_again_as_its_own_policy_says_and_the_row_says_by_which(engine: Engine) -> None:
    brief = engine.post("evt_1", "e1")
    engine.handler.fails(brief, Brief())
    assert delays(engine, brief) == [1.0] * 2
    data = engine.post("evt_2", "e2")
    engine.handler.fails(data, Stuck())
    assert delays(engine, data) == [5.0] * 3 + [15.0] * 5
    by_event = {row.event_key: row.retry_policy for row in engine.journal.rows}
    assert by_event == {brief: TRANSIENT, data: DATA}


def test_an_event_that_fails_otherwise_goes_on_by_the_other_policy_and_its_tries_count_on(engine: Engine) -> None:
    errors = [Brief(), Stuck(), Stuck(), Brief()]

    def act(item: WorkItem) -> Outcome:
        raise errors[item.attempt]

    key = engine.post("evt_1")
    engine.handler.script[key] = act
    assert delays(engine, key) == [1.0, 5.0, 5.0]
    assert [row.retry_policy for row in engine.journal.rows] == [TRANSIENT, DATA, DATA, TRANSIENT]


def test_a_handler_s_followers_wait_or_go_on_as_the_failing_ones_kind_decides(engine: Engine) -> None:
    """After two tries a brief error is death, one that waits for data isn't: the follower in the same batch waits."""
    first = engine.post("evt_1")
    engine.handler.fails(first, Brief())
    engine.batch()
    engine.advance(1)
    engine.handler.fails(first, Stuck())
    second = engine.post("evt_2")
    rows = engine.advance(1)
    assert [(row.event_key, row.decision.value) for row in rows] == [(first, "retry"), (second, "parked")]
    assert second not in engine.handler.calls


def test_a_blocked_stream_probes_as_the_policy_of_outages_says_and_no_event_dies_of_it(engine: Engine) -> None:
    engine.configure(retry=RetrySettings(default=POLICY, outage="fixed(3s x2, 7s)"))
    engine.start()
    engine.handler.down_for = lambda _: True
    key = engine.post("evt_1")
    engine.batch()
    waits = []
    for _ in range(5):
        waits.append(engine.batches.probe_s)
        engine.clock.advance(engine.batches.probe_s)
        engine.probe()
    assert waits == [0.0, 3.0, 3.0, 7.0, 7.0]
    engine.start()
    assert (engine.batches.is_blocked, engine.batches.probe_s) == (True, 1.0)
    assert "dead" not in engine.decisions(key)
    engine.handler.down_for = lambda _: False
    engine.clock.advance(1)
    engine.probe()
    assert engine.decisions(key)[-1] == "applied"


def test_one_event_that_alone_says_the_stream_is_blocked_is_tried_as_one_that_waits_for_data(engine: Engine) -> None:
    bad, good = engine.post("evt_1", "e1"), engine.post("evt_2", "e2")
    engine.handler.fails(bad, Down("401"))
    engine.batch()
    engine.run(20)
    assert engine.decisions(good)[-1] == "applied"
    assert {row.retry_policy for row in engine.journal.rows if row.event_key == bad and row.attempt} == {DATA}


def config(tmp_path: Path, text: str, settings: dict[str, object] | None = None):
    file = tmp_path / "streams.toml"
    file.write_text(text)
    return load_streams(str(file), settings)


def test_a_table_says_a_policy_a_kind_and_what_isn_t_said_goes_by_the_default(tmp_path: Path) -> None:
    text = f"""
        [cases]
        handler = "cases:build"
        [cases.retry]
        transient = "{TRANSIENT}"
        waits_for_data = "{DATA}"
        outage = "{OUTAGE}"
    """
    retry = config(tmp_path, text)["cases"].retry
    assert retry.by_kind == {ErrorKind.SLE: TRANSIENT, ErrorKind.SNBE: DATA, ErrorKind.SBE: OUTAGE}
    assert retry.default == load_streams()["ledger"].retry.default


def test_a_policy_of_all_kinds_goes_on_under_one_of_a_kind_and_takes_the_place_of_those_below_it(
    tmp_path: Path,
) -> None:
    over = {"notify": {"retry": {"transient": TRANSIENT}}, "ledger": {"retry": "5000x3"}}
    streams = config(tmp_path, f'[ledger.retry]\noutage = "{OUTAGE}"\n', over)
    assert streams["notify"].retry.default == "exponential(5s, x3, max 6h, 12 tries, jitter 25%)"
    assert streams["notify"].retry.by_kind == {ErrorKind.SLE: TRANSIENT}
    assert (streams["ledger"].retry.default, streams["ledger"].retry.by_kind) == ("5000x3", {})


def test_what_holds_for_every_stream_is_said_once(tmp_path: Path) -> None:
    streams = config(tmp_path, f'[defaults.retry]\nwaits_for_data = "{DATA}"\n')
    assert {name: one.retry.by_kind for name, one in streams.items()} == {
        "ledger": {ErrorKind.SNBE: DATA},
        "notify": {},
    }


@pytest.mark.parametrize(
    ("line", "key", "said"),
    [('transiet = "1s"', "retry.transiet", "no such key"), ('transient = "soon(1s)"', "retry.transient", "'soon'")],
)
def test_a_wrong_policy_is_named_with_its_kind(tmp_path: Path, line: str, key: str, said: str) -> None:
    with pytest.raises(StreamInvalid) as refused:
        config(tmp_path, f"[ledger.retry]\n{line}\n")
    assert refused.value.key == key and said in refused.value.problem


def test_the_rules_of_a_stream_are_what_its_settings_say(tmp_path: Path) -> None:
    settings = Settings(data_dir=tmp_path)
    text = f'[ledger]\ndelay = "30s"\nwhere = {{ tenant = "eu-*" }}\n[ledger.retry]\ntransient = "{TRANSIENT}"\n'
    sections = {type(settings.ledger): settings.ledger, type(settings.providers): settings.providers}
    rules = wire_stream(config(tmp_path, text)["ledger"], "live", settings.layout.stream, sections)
    assert rules.config.retry.policies[ErrorKind.SLE] == parse_policy(TRANSIENT)
    assert (rules.delay, rules.where.text) == (timedelta(seconds=30), '{"tenant":["eu-*"]}')
