"""Selections over HTTP: freeze, dry run, replay, what became of it; each act is on record."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx2
import pytest

from console.as_json import to_json_value
from console.dead_letters import StreamDeadLetters
from dead_letters.listing import Filter
from operations.recorder import Recorder
from tests.unit.console.api_bench import ApiBench, problem
from tests.unit.console.listening import ADA, BOB
from tests.unit.operations.selection.bench import SelectionBench


class SelectionsApi:
    """The listener over a stream of real dead events."""

    def __init__(self, folder: Path) -> None:
        self.bench = bench = SelectionBench(folder / "stream")
        self.streams: dict[str, StreamDeadLetters] = {}
        self.listener = ApiBench(folder / "listener", streams=self.streams).listener
        selections, runs = bench.another(self.listener.audit_log, "api")
        reading = Recorder(self.listener.audit_log, bench.engine.clock, "api")
        self.streams["ledger"] = StreamDeadLetters(
            "ledger", bench.index, selections, runs, bench.dry_runs, "wait", reading
        )

    def get(self, path: str, **more: Any) -> httpx2.Response:
        return self.listener.request("GET", f"/api/dlq{path}", BOB, params=more)

    def post(self, path: str, body: dict[str, Any], user: str = BOB, key: str | None = None) -> httpx2.Response:
        headers = {"idempotency-key": f'"{key or uuid.uuid4()}"'}
        return self.listener.request("POST", f"/api/dlq{path}", user, json=body, headers=headers)

    def acts(self) -> list[tuple[str, str, str, str]]:
        return [
            (one.actor, one.action, one.outcome.value, one.what) for one in reversed(self.listener.audit_log.read(100))
        ]


SEEN = ("item_seq", "seen_seq", "seen_hash")


@pytest.fixture
def api(tmp_path: Path) -> Iterator[SelectionsApi]:
    yield SelectionsApi(tmp_path)


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> SelectionsApi:
    """One dead event, for requests that are refused."""
    made = SelectionsApi(tmp_path_factory.mktemp("shared"))
    made.bench.dead(1)
    return made


def test_from_a_list_to_what_became_of_a_replay(api: SelectionsApi) -> None:
    api.bench.dead(5)
    answer = api.get("/items", limit=3)
    assert answer.status_code == 200, answer.text
    listed = answer.json()
    assert (listed["total"], len(listed["items"])) == (5, 3)
    rest = api.get("/items", limit=3, cursor=listed["next"]).json()
    assert [one["item_seq"] for one in listed["items"] + rest["items"]] == [1, 2, 3, 4, 5]
    item = listed["items"][0]
    story = api.get(f"/items/{item['item_seq']}").json()
    assert story["item"]["error_class"] == "ZeroDivisionError"
    assert api.get("/stats").json()["open"] == 5
    [group] = api.get("/groups").json()["groups"]
    assert group["count"] == 5
    frozen = api.post("/selections", {"filter": {"fingerprint": group["fingerprint"]}, "note": "mended"})
    assert (frozen.status_code, frozen.json()["number"], frozen.json()["count"]) == (201, 1, 5)
    dry = api.get("/selections/1/dry-run", limit=2).json()
    assert (dry["verdicts"], dry["runs"], len(dry["items"])) == ({"in_place": 5}, 5, 2)
    started = api.post("/selections/1/replay", {"reason": "mended", "per_s": 100})
    assert (started.status_code, started.json()["again"], started.json()["actor"]) == (202, False, BOB)
    api.bench.round(6)
    reported = api.get("/selections/1").json()
    assert (reported["states"], reported["finished"], reported["share"]) == ({"applied": 5}, True, 1.0)
    page = api.get("/selections/1/items", states="applied", after=2).json()
    assert [one["item_seq"] for one in page["items"]] == [4, 5]
    read = (BOB, "read_payload", "done", "ledger item 1")
    assert api.acts() == [read, (BOB, "select", "done", "ledger s1"), (BOB, "replay", "done", "ledger s1")]


def test_single_items_are_frozen_as_they_were_listed(api: SelectionsApi) -> None:
    api.bench.dead(3)
    listed = [{name: one[name] for name in SEEN} for one in api.get("/items").json()["items"]]
    of_before = listed[1] | {"seen_hash": "0" * 16}
    assert api.post("/selections", {"items": [listed[0], of_before]}).json()["count"] == 2
    assert [{name: one[name] for name in SEEN} for one in api.get("/selections/1/items").json()["items"]] == [
        listed[0],
        of_before,
    ]
    reported = api.get("/selections/1/dry-run").json()["items"]
    assert [one["verdict"] for one in reported] == ["in_place", "moved"]
    assert "the journal was restored since" in reported[1]["why"]
    for wrong in ({"filter": {"items": [1]}}, {"items": [{"item_seq": 1}]}, {"items": [listed[0], listed[0]]}):
        assert api.post("/selections", wrong).status_code == 422


def test_a_second_start_says_so_and_another_one_is_refused_and_on_record(api: SelectionsApi) -> None:
    api.bench.dead(1)
    api.post("/selections", {})
    assert api.post("/selections/1/replay", {"reason": "mended"}).json()["again"] is False
    assert api.post("/selections/1/replay", {"reason": "mended"}).json()["again"] is True
    other = api.post("/selections/1/resolve", {"reason": "booked by hand"})
    assert (other.status_code, problem(other)) == (409, "run-refused")
    assert api.acts()[-1] == (BOB, "resolve", "refused", "ledger s1")


def test_pause_resume_and_cancel(api: SelectionsApi) -> None:
    api.bench.dead(7)
    api.post("/selections", {})
    api.post("/selections/1/replay", {"reason": "mended"})
    assert api.post("/selections/1/pause", {}).json()["state"] == "paused"
    api.bench.round(3)
    assert api.get("/selections/1").json()["states"] == {"unsent": 7}
    assert api.post("/selections/1/resume", {}).json()["state"] == "running"
    assert api.post("/selections/1/cancel", {}).json()["state"] == "cancelled"
    assert problem(api.post("/selections/1/resume", {})) == "run-refused"


@pytest.mark.parametrize(("verb", "other"), [("pause", "resume"), ("resume", "pause")])
def test_a_change_whose_answer_was_lost_is_not_made_again_after_another_one(
    api: SelectionsApi, verb: str, other: str
) -> None:
    """Kafka has it and the client reads 503. Somebody changes the run; then the client repeats its request."""
    api.bench.dead(7)
    api.post("/selections", {})
    api.post("/selections/1/replay", {"reason": "mended"})
    if verb == "resume":
        api.post("/selections/1/pause", {})
    api.bench.kafka.late = True
    assert api.post(f"/selections/1/{verb}", {}, key="k").status_code == 503
    api.bench.decide()
    state = api.post(f"/selections/1/{other}", {}).json()["state"]
    again = api.post(f"/selections/1/{verb}", {}, key="k")
    assert (again.status_code, again.json()["state"]) == (200, state)
    api.bench.decide()
    assert api.get("/selections/1").json()["run"]["state"] == state
    assert len({one.command_id for one in api.bench.sent if one.action == f"{verb}_run"}) == 1


def test_an_approval_whose_answer_was_lost_is_told_again_that_it_was_given(api: SelectionsApi) -> None:
    api.bench.dead(5)
    api.post("/selections", {})
    api.post("/selections/1/resolve", {"reason": "booked by hand", "propose": True})
    api.bench.decide()
    api.bench.kafka.late = True
    approval = {"reason": "compared"}
    assert api.post("/selections/1/approve", approval, ADA, key="k").status_code == 503
    api.bench.decide()
    again = api.post("/selections/1/approve", approval, ADA, key="k")
    assert (again.status_code, again.json().get("approval", {}).get("actor")) == (200, ADA), again.text
    other = api.post("/selections/1/approve", {"reason": "another"}, ADA)
    assert (other.status_code, problem(other)) == (409, "run-refused")


def test_more_items_than_one_person_may_close_wait_for_another_one(api: SelectionsApi) -> None:
    api.bench.dead(5)
    api.post("/selections", {})
    purge = {"reason": "test payments"}
    assert api.post("/selections/1/purge", purge).status_code == 403
    assert api.post("/selections/1/purge", purge, ADA).json()["state"] == "proposed"
    [waiting] = api.get("/proposals").json()["selections"]
    assert waiting["run"]["actor"] == ADA
    own = api.post("/selections/1/approve", {"reason": "looked"}, ADA)
    assert (own.status_code, problem(own)) == (409, "second-person")


@pytest.mark.parametrize(
    ("path", "status", "name"),
    [
        ("/selections/9", 404, "selection-unknown"),
        ("/selections/9/dry-run", 404, "selection-unknown"),
        ("/items/9", 404, "item-unknown"),
        ("/items?stream=other", 404, "stream-unknown"),
        ("/items?cursor=x", 422, "invalid"),
        ("/items?limit=0", 422, "invalid"),
        ("/items?since=2026-01-01", 422, "invalid"),
        ("/selections/0", 422, "invalid"),
    ],
)
def test_what_is_not_there_or_not_valid_is_a_problem(shared: SelectionsApi, path: str, status: int, name: str) -> None:
    answer = shared.listener.request("GET", f"/api/dlq{path}", BOB)
    assert (answer.status_code, problem(answer)) == (status, name), answer.text


@pytest.mark.parametrize("name", ["fingerprint", "entity", "classes"])
def test_an_empty_value_of_a_filter_is_refused(shared: SelectionsApi, name: str) -> None:
    answers = [shared.get(path, states="waiting", **{name: ""}) for path in ("/items", "/groups", "/stats")]
    answers.append(shared.post("/selections", {"filter": {name: [""] if name == "classes" else ""}}))
    assert [(one.status_code, problem(one)) for one in answers] == [(422, "invalid")] * 4


def test_nothing_that_matches_is_reported_and_nothing_is_frozen(api: SelectionsApi) -> None:
    api.bench.dead(1)
    answer = api.post("/selections", {"filter": {"providers": ["nobody"]}})
    assert (answer.status_code, problem(answer)) == (409, "nothing-matches")
    assert api.get("/selections").json() == {"selections": [], "next": None}


def test_the_api_answers_with_what_commands_print(api: SelectionsApi) -> None:
    api.bench.dead(2)
    index = api.bench.index
    index.follow()
    assert api.get("/items").json() == to_json_value(index.page(Filter()))
    assert api.get("/items/1").json() == to_json_value(index.item(1))
    assert api.get("/stats").json() == to_json_value(index.stats())
    assert api.get("/groups").json() == {"groups": to_json_value(index.groups())}
