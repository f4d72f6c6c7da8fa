"""``payhook status --entity``: what waits of one entity, as a table and as JSON."""

from __future__ import annotations

import json
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from cli.main import main
from core.clock import SystemClock
from core.decision import Decision
from core.routing import Shard
from journal.index import Index
from tests.unit.journal.rows import row

ENTITY = "stripe:acct_1:pi_1"


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """A data folder whose ledger stream has a retry with a follower of one payment, and a dead event of another."""
    due = SystemClock().now() + timedelta(hours=1)
    index = Index.open(tmp_path / "data" / "index" / "ledger", 1)
    retry: dict[str, Any] = {
        "decision": Decision.RETRY,
        "attempt": 3,
        "due_at": due,
        "reason": "Stuck: no answer",
        "blocking": True,
    }
    dead: dict[str, Any] = {"decision": Decision.DEAD, "error_class": "Bug", "handler_version": "1", "blocking": True}
    rows = [
        row(1, entity_key=ENTITY, event_type="charge.captured", **retry),
        row(2, entity_key=ENTITY, decision=Decision.PARKED, reason="behind [1]", blocking=True),
        row(3, entity_key="stripe:acct_1:pi_2", **dead),
    ]
    index.apply_rows(rows, {})
    index.close()
    return tmp_path / "data"


def status(data: Path, *words: str) -> Result:
    return CliRunner(env={"COLUMNS": "160"}).invoke(main, ["status", "--data", str(data), *words])


def test_the_queue_is_shown_with_attempt_due_time_and_reason(data: Path) -> None:
    said = status(data, "--entity", ENTITY)
    assert said.exit_code == 0
    head, follower = [line for line in said.output.splitlines() if "stripe:evt_" in line]
    assert head.split()[:6] == ["1", "stripe:evt_0:charge.succeeded", "retry", "head", "3", "in"]
    assert "Stuck: no answer" in head
    assert follower.split()[:5] == ["2", "stripe:evt_1:charge.succeeded", "parked", "waits", "0"]
    assert "behind [1]" in follower
    assert "2 open as of row 3" in said.output


def test_a_dead_head_is_named_with_what_to_do(data: Path) -> None:
    said = status(data, "--entity", "stripe:acct_1:pi_2")
    assert "item 3 is dead and holds the entity: see `payhook dlq show 3`" in said.output
    assert "no open events of stripe:acct_1:pi_9" in status(data, "--entity", "stripe:acct_1:pi_9").output


def test_json_has_every_field(data: Path) -> None:
    reported = json.loads(status(data, "--entity", ENTITY, "--json").output)
    assert {name: reported[name] for name in ("stream", "entity_key", "seq", "total", "head", "previous_dead")} == {
        "stream": "ledger",
        "entity_key": ENTITY,
        "seq": 3,
        "total": 2,
        "head": 1,
        "previous_dead": False,
    }
    head, follower = reported["items"]
    assert (head["state"], head["place"], head["attempt"], head["event_type"]) == (
        "retry",
        "head",
        3,
        "charge.captured",
    )
    assert head["due_at"].endswith("Z") and follower["due_at"] is None


def test_a_stream_without_an_index_is_said_in_one_sentence(data: Path) -> None:
    said = status(data, "--entity", ENTITY, "--stream", "notify")
    assert said.exit_code == 1
    # The processor may run on another machine, which has the index.
    assert "there is none: ask where the stream's processor runs, whose first start makes one" in said.output


def test_an_entity_is_looked_up_in_its_shard(data: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PAYHOOK_PROCESSOR__SHARDS", "2")
    monkeypatch.setenv("PAYHOOK_KAFKA__EVENTS_PARTITIONS", "4")
    keys = [f"stripe:acct_1:shared_{number}" for number in range(10)]
    of_second, held = [key for key in keys if Shard(1, 2).has_entity(key)][:2]
    of_first = next(key for key in keys if Shard(0, 2).has_entity(key))
    index = Index.open(data / "index" / "ledger.1", 1)
    index.apply_rows([row(1, entity_key=of_second, decision=Decision.PARKED, reason="behind", blocking=True)], {})
    index.close()
    for key, stream, total in ((of_second, "ledger.1", 1), (of_first, "ledger", 0)):
        found = json.loads(status(data, "--entity", key, "--json").output)
        assert (found["stream"], found["total"]) == (stream, total)
    dead = row(2, entity_key=held, decision=Decision.DEAD, error_class="Bug", handler_version="1", blocking=True)
    index = Index.open(data / "index" / "ledger.1", 1)
    index.apply_rows([dead], {})
    index.close()
    assert "see `payhook dlq show 2 --stream ledger.1`" in status(data, "--entity", held).output
    named = json.loads(status(data, "--entity", of_first, "--stream", "ledger.1", "--json").output)
    assert (named["stream"], named["total"]) == ("ledger.1", 0)
    assert "there is no stream ledger.2" in status(data, "--entity", of_first, "--stream", "ledger.2").output
