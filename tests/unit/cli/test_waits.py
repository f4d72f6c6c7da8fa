"""``payhook status --entity`` says which wait holds an event, since when, and what to do."""

from __future__ import annotations

import json
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from cli.main import main
from console.waits import WaitKind
from core.clock import SystemClock, to_rfc3339
from core.decision import NO_RETRIES, Decision, ErrorKind
from journal.index import Index
from journal.open_item import DELAYED
from tests.unit.journal.rows import row

ENTITY = "stripe:acct_1:pi_1"
HOUR = timedelta(hours=1)


class Waits:
    """A stream with open events of one entity, and what its processor says."""

    def __init__(self, data: Path) -> None:
        self.data = data
        self.now = SystemClock().now()

    def has(self, *changes: dict[str, Any]) -> None:
        index = Index.open(self.data / "index" / "ledger", 1)
        common = {"entity_key": ENTITY, "decided_at": self.now - HOUR, "blocking": True}
        index.apply_rows([row(number, **{**common, **one}) for number, one in enumerate(changes, 1)], {})
        index.close()

    def says(self, **status: Any) -> None:
        file = self.data / "run" / "processor-ledger.json"
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(json.dumps({"at": to_rfc3339(self.now), "state": "running", "ready": True, **status}))

    def shown(self, *words: str) -> Result:
        runner = CliRunner(env={"COLUMNS": "200"})
        return runner.invoke(main, ["status", "--data", str(self.data), "--entity", ENTITY, *words])

    def waits(self) -> list[dict[str, Any]]:
        return [item["wait"] for item in json.loads(self.shown("--json").output)["items"]]


@pytest.fixture
def stream(tmp_path: Path) -> Waits:
    return Waits(tmp_path / "data")


def later(stream: Waits, **more: Any) -> dict[str, Any]:
    return {"decision": Decision.PARKED, "due_at": stream.now + HOUR, **more}


def test_a_backoff_and_what_waits_behind_it(stream: Waits) -> None:
    stream.says()
    retry = {"decision": Decision.RETRY, "attempt": 2, "due_at": stream.now + HOUR}
    retry |= {"error_class": "Stuck", "reason": "Stuck: no answer"}
    behind = [{"decision": Decision.PARKED, "reason": "behind"}] * 7
    stream.has(retry, *behind)
    first, *others = stream.waits()
    assert (first["for"], first["since"]) == (WaitKind.BACKOFF, to_rfc3339(stream.now - HOUR))
    assert first["until"] == to_rfc3339(stream.now + HOUR)
    assert {one["for"] for one in others} == {WaitKind.HEAD}
    said = stream.shown().output
    assert f"item 1 waits for: backoff, since {to_rfc3339(stream.now - HOUR)}. Nothing to do" in said
    assert "items 2, 3, 4, 5, 6 and 2 more wait for: head" in said
    assert "It runs after item 1: fix what holds that one." in said


@pytest.mark.row("G9")
def test_an_open_breaker_is_named_with_what_is_to_be_mended(stream: Waits) -> None:
    text = "isn't called until 12:00: its breaker is open (no answer)"
    stream.says(downstreams={"bank": {"state": "open", "text": text, "calls": 5, "failed": 5, "held": 1}})
    stream.has(later(stream, reason=f"bank {text}"))
    [one] = stream.waits()
    assert one["for"] == WaitKind.BREAKER
    assert one["text"].startswith(f"bank {text}. Fix bank; it is called again by itself")


@pytest.mark.parametrize(
    ("failed", "reason", "wait"), [(5, NO_RETRIES, WaitKind.BUDGET), (0, "isn't called now", WaitKind.DOWNSTREAM)]
)
def test_a_downstream_that_isnt_called_is_waited_out(stream: Waits, failed: int, reason: str, wait: WaitKind) -> None:
    stream.says(downstreams={"bank": {"state": "closed", "text": "", "calls": 5, "failed": failed, "held": 1}})
    stream.has(later(stream, reason=f"bank {reason}"))
    assert [one["for"] for one in stream.waits()] == [wait]


def test_an_event_whose_delay_is_not_over_waits_for_no_downstream(stream: Waits) -> None:
    stream.has(later(stream, reason=DELAYED))
    stream.says(state="standby", why="waits for the lease of b")
    assert [one["for"] for one in stream.waits()] == [WaitKind.STANDBY]
    stream.says()
    [one] = stream.waits()
    assert one["for"] == WaitKind.DELAY
    assert one["text"].startswith("The stream's delay isn't over. Nothing to do: it is handled at ")


@pytest.mark.parametrize("kind", WaitKind)
def test_the_page_of_the_processor_explains_each_word_where_the_runbook_sends(kind: WaitKind) -> None:
    docs = Path(__file__).parents[3] / "docs"
    entry = (docs / "runbook.md").read_text("utf-8").split("## One payment doesn't move\n")[1].split("\n## ")[0]
    assert "(processor.md#a-retry-is-late)" in entry
    table = (docs / "processor.md").read_text("utf-8").split("### A retry is late\n")[1].split("\n### ")[0]
    words = [line.split("|")[1] for line in table.splitlines() if line.startswith("| `")]
    assert [f"`{kind.value}`" in word for word in words].count(True) == 1


def test_a_blocked_stream_holds_what_failed_and_what_is_due(stream: Waits) -> None:
    stream.says(blocked="Down: the directory is away")
    stream.has(later(stream, reason="the directory is away", error_kind=ErrorKind.SBE))
    assert [one["for"] for one in stream.waits()] == [WaitKind.BLOCKED]


def test_an_event_that_is_due_waits_for_the_blocked_stream(stream: Waits) -> None:
    stream.says(blocked="Down: the directory is away")
    stream.has({"decision": Decision.RETRY, "attempt": 1, "due_at": stream.now - HOUR})
    [one] = stream.waits()
    assert one["for"] == WaitKind.BLOCKED
    assert one["until"] is None
    assert "Down: the directory is away. Fix that" in one["text"]


@pytest.mark.parametrize(
    ("status", "wait", "text"),
    [
        ({"state": "standby", "why": "waits for the lease of b"}, WaitKind.STANDBY, "waits for the lease of b"),
        (
            {"state": "refused", "why": "another history"},
            WaitKind.PROCESSOR,
            "stopped and needs an operator: another history",
        ),
        ({"state": "failed", "last_failure": "disk full"}, WaitKind.PROCESSOR, "disk full"),
        ({"state": "off", "why": "notify.toml"}, WaitKind.PROCESSOR, "notify.toml"),
        ({"at": "2020-01-01T00:00:00.000000Z"}, WaitKind.PROCESSOR, "since 2020-01-01"),
    ],
)
def test_a_stream_that_decides_nothing_holds_what_is_due(
    stream: Waits, status: dict[str, Any], wait: WaitKind, text: str
) -> None:
    stream.says(**status)
    stream.has({"decision": Decision.RETRY, "attempt": 1, "due_at": stream.now - HOUR})
    [one] = stream.waits()
    assert one["for"] == wait
    assert text in one["text"]


def test_a_dead_event_waits_for_a_person_whatever_the_stream_does(stream: Waits) -> None:
    stream.has({"decision": Decision.DEAD, "error_class": "Bug", "handler_version": "1"})
    [one] = stream.waits()
    assert one["for"] == WaitKind.PERSON
    assert "payhook dlq show 1" in one["text"]


def test_an_event_that_is_due_in_a_running_stream_is_tried_next(stream: Waits) -> None:
    stream.says()
    stream.has({"decision": Decision.RETRY, "attempt": 1, "due_at": stream.now - HOUR})
    assert [one["for"] for one in stream.waits()] == [WaitKind.TURN]


def test_where_nothing_is_open_nothing_holds_back_what_arrives_but_a_stream_that_does_not_decide(stream: Waits) -> None:
    stream.has({"entity_key": "stripe:acct_1:pi_2", "decision": Decision.DEAD, "error_class": "Bug"})
    stream.says()
    assert "no earlier event holds back new ones" in stream.shown().output
    stream.says(state="standby", why="waits for the lease of b since today")
    said = stream.shown().output
    assert "no earlier event" not in said and "is on standby (waits for the lease of b since today)" in said
