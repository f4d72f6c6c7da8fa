"""Orders over HTTP: one effect for each key, true answers, nothing for web pages of others."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from tests.unit.console.api_bench import ApiBench, EngineView, problem
from tests.unit.console.listening import BOB, EVE, ORIGIN
from tests.unit.ingest.idempotency.guarded_app import KEPT_S, LEASE_S

ITEM = {"item_seq": 1, "seen_seq": 1, "seen_hash": "0" * 16}


@pytest.fixture
def api(tmp_path: Path) -> ApiBench:
    return ApiBench(tmp_path)


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> ApiBench:
    """One API for the orders that are refused: they change nothing."""
    return ApiBench(tmp_path_factory.mktemp("shared"))


def test_a_replay_is_ordered_and_what_became_of_it_can_be_asked(api: ApiBench) -> None:
    answer = api.replay()
    reported = answer.json()
    assert answer.status_code == 202
    assert reported["control"] == {"topic": "payments.control", "partition": 0, "offset": 0}
    assert (reported["action"], reported["mode"], reported["items"], reported["decided"]) == (
        "replay",
        "live",
        [1],
        None,
    )
    assert re.fullmatch("[0-9a-f]{32}", reported["command_id"])
    [command] = api.kafka.sent
    assert (command.command_id, command.targets) == (reported["command_id"], (api.engine.target(1, 1),))
    assert (command.stream, command.actor, command.reason) == ("ledger", BOB, "mended")
    assert problem(api.request("GET", answer.headers["location"])) == "command-unknown"
    assert api.decided() == ["dead", "replayed", "applied"]
    row = api.request("GET", answer.headers["location"]).json()
    assert (row["decision"], row["reason"], row["actor"]) == ("replayed", "1 of 1 accepted", BOB)
    assert row["control"] == reported["control"]


def test_a_repeated_order_is_answered_from_memory_and_sends_nothing(api: ApiBench) -> None:
    first, copy = api.replay("k"), api.replay("k")
    assert (copy.status_code, copy.content, copy.headers["location"]) == (202, first.content, first.headers["location"])
    assert copy.headers["idempotent-replayed"] == "true"
    assert len(api.kafka.sent) == 1


def test_an_order_needs_a_key_and_the_refusal_says_where_that_is_explained(shared: ApiBench) -> None:
    answer = shared.request("POST", "/api/dlq/replay", json={})
    assert (answer.status_code, problem(answer)) == (400, "key-missing")
    assert answer.headers["link"] == '</openapi.json>; rel="describedby"'


def test_the_same_key_for_another_order_is_refused(api: ApiBench) -> None:
    api.replay("k")
    answer = api.replay("k", reason="another")
    assert (answer.status_code, problem(answer)) == (422, "key-reused")


def test_an_order_whose_runner_died_after_sending_has_one_effect(api: ApiBench) -> None:
    """The rerun sends the command again, with the same id and the same seen row; the processor refuses the copy."""
    api.answers.down = frozenset({"confirm"})
    first = api.replay("k")
    api.answers.down = frozenset()
    api.engine.clock.advance(LEASE_S + 1)
    again = api.replay("k")
    assert (again.status_code, "idempotent-replayed" in again.headers) == (202, False)
    assert again.json()["command_id"] == first.json()["command_id"]
    assert len(api.kafka.sent) == 2
    assert api.decided() == ["dead", "replayed", "applied"]
    control = [row.decision.value for row in api.engine.journal.rows if row.topic == "payments.control"]
    assert control == ["replayed", "duplicate"]


def test_a_rerun_after_the_processor_decided_tells_what_it_decided_and_sends_nothing(api: ApiBench) -> None:
    api.answers.down = frozenset({"confirm"})
    first = api.replay("k")
    api.answers.down = frozenset()
    api.decided()
    api.engine.clock.advance(LEASE_S + 1)
    again = api.replay("k").json()
    assert (again["command_id"], again["control"]) == (first.json()["command_id"], first.json()["control"])
    assert again["decided"]["decision"] == "replayed"
    assert len(api.kafka.sent) == 1


def test_a_key_that_comes_back_after_its_time_is_still_the_same_order(api: ApiBench) -> None:
    api.replay("k")
    api.decided()
    api.engine.clock.advance(KEPT_S + 1)
    assert api.replay("k").json()["decided"]["decision"] == "replayed"
    assert len(api.kafka.sent) == 1


def test_a_copy_with_another_key_is_refused_by_the_processor_as_out_of_date(api: ApiBench) -> None:
    api.replay("k1")
    api.replay("k2")
    assert api.decided() == ["dead", "replayed", "applied"]
    control = [row.reason for row in api.engine.journal.rows if row.topic == "payments.control"]
    assert control == ["1 of 1 accepted", "0 of 1 accepted; refused: item 1 has moved on since row 1; look again"]


def test_kafka_that_does_not_answer_is_a_503_and_the_same_key_tries_again_with_one_effect(api: ApiBench) -> None:
    api.kafka.loses = True
    answer = api.replay("k")
    assert (answer.status_code, problem(answer), answer.headers["retry-after"]) == (503, "kafka-unavailable", "5")
    api.kafka.loses = False
    assert api.replay("k").status_code == 202
    assert len({command.command_id for command in api.kafka.sent}) == 1
    assert api.decided() == ["dead", "replayed", "applied"]


def test_kafka_down_leaves_the_order_to_be_given_again(api: ApiBench) -> None:
    api.kafka.down = True
    assert api.replay("k").status_code == 503
    api.kafka.down = False
    assert api.replay("k").status_code == 202


def test_while_keys_cannot_be_looked_up_no_order_is_given(api: ApiBench) -> None:
    api.answers.down = frozenset({"claim"})
    answer = api.replay()
    assert (answer.status_code, problem(answer)) == (503, "keys-unavailable")
    assert api.kafka.sent == []


def test_an_item_that_is_not_there_is_a_404_and_nothing_is_sent_of_the_others(shared: ApiBench) -> None:
    answer = shared.replay(items=[shared.item(1), shared.item(99)])
    assert (answer.status_code, problem(answer)) == (404, "item-unknown")
    assert answer.json()["items"] == {"99": "there is no item 99"}
    assert shared.kafka.sent == []


def test_an_item_that_is_not_as_it_was_seen_is_a_409(shared: ApiBench) -> None:
    answer = shared.replay(items=[{**shared.item(1), "seen_seq": 3}, shared.item(2)])
    assert (answer.status_code, problem(answer)) == (409, "item-moved")
    assert answer.json()["items"] == {
        "1": "item 1 has moved on since row 3 to row 1; look again",
        "2": "item 2 isn't dead: its last decision is parked",
    }
    assert shared.kafka.sent == []


def test_a_refused_order_leaves_its_key_to_the_corrected_one(api: ApiBench) -> None:
    assert api.replay("k", item_seq=99).status_code == 404
    assert api.replay("k", item_seq=2).status_code == 409
    assert api.replay("k", mode="test").status_code == 404
    assert api.replay("k", reason="").status_code == 422
    assert api.replay("k").status_code == 202


@pytest.mark.parametrize(
    ("wrong", "at"),
    [
        ({"items": []}, "/body/items"),
        ({"items": [ITEM | {"item_seq": 0}]}, "/body/items/0/item_seq"),
        ({"items": [ITEM | {"item_seq": 2**63}]}, "/body/items/0/item_seq"),
        ({"items": [ITEM | {"item_seq": "1"}]}, "/body/items/0/item_seq"),
        ({"items": [ITEM | {"item_seq": True}]}, "/body/items/0/item_seq"),
        ({"items": [ITEM | {"item_seq": 1.0}]}, "/body/items/0/item_seq"),
        ({"items": [ITEM | {"force": True}]}, "/body/items/0/force"),
        ({"items": [ITEM, ITEM]}, "/body"),
        ({"items": [ITEM] * 5_001}, "/body/items"),
        ({"items": [{"item_seq": 1}]}, "/body/items/0/seen_seq"),
        ({"items": [{"item_seq": 1, "seen_seq": 1}]}, "/body/items/0/seen_hash"),
        ({"items": [ITEM | {"seen_hash": "0123"}]}, "/body/items/0/seen_hash"),
        ({"reason": ""}, "/body/reason"),
        ({"reason": "x" * 501}, "/body/reason"),
        ({"reason": "a\nb"}, "/body/reason"),
        ({"reason": None}, "/body/reason"),
        ({"actor": "ada"}, "/body/actor"),
        ({"mode": "both"}, "/body/mode"),
        ({"extra": 1}, "/body/extra"),
    ],
)
def test_an_order_that_is_not_valid_says_where(shared: ApiBench, wrong: dict[str, Any], at: str) -> None:
    answer = shared.replay(**wrong)
    assert (answer.status_code, problem(answer)) == (422, "invalid")
    assert answer.json()["errors"][0]["at"] == at
    assert shared.kafka.sent == []


@pytest.mark.parametrize("body", [b"", b"{", b"\xff", b'{"reason": "a", "reason": "b"}', b"[" * 10_000, b"NaN", b"7"])
def test_a_body_that_two_readers_could_read_differently_is_refused(shared: ApiBench, body: bytes) -> None:
    headers = {"idempotency-key": "k", "content-type": "application/json"}
    answer = shared.request("POST", "/api/dlq/replay", content=body, headers=headers)
    assert answer.status_code == (400 if body else 422)
    problem(answer)


def test_a_refusal_repeats_nothing_of_what_was_sent(shared: ApiBench) -> None:
    assert "4242" not in shared.replay(reason=["4242"]).text


def test_a_body_that_is_too_large_is_refused(shared: ApiBench) -> None:
    answer = shared.replay(reason="x" * (1 << 20))
    assert (answer.status_code, problem(answer)) == (413, "body-too-large")


@pytest.mark.parametrize(
    "headers",
    [
        {"sec-fetch-site": "cross-site"},
        {"sec-fetch-site": "same-site"},
        {"origin": "http://evil.example"},
        {"origin": "http://evil.example:8081", "host": "evil.example:8081", "sec-fetch-site": "same-origin"},
        {"origin": "http://127.0.0.1:9000"},
        {"origin": "null"},
    ],
)
def test_a_page_from_elsewhere_is_refused_before_its_key_is_looked_at(api: ApiBench, headers: dict[str, str]) -> None:
    more = {"content-type": "application/json", "idempotency-key": "k", **headers}
    answer = api.request("POST", "/api/dlq/replay", content=b"{}", headers=more)
    assert (answer.status_code, problem(answer)) == (403, "foreign-page")
    assert api.replay("k").status_code == 202


@pytest.mark.parametrize("origin", [ORIGIN, "http://localhost:8081", "http://[::1]:8081"])
def test_the_listeners_own_pages_may_order(api: ApiBench, origin: str) -> None:
    headers = {"origin": origin, "sec-fetch-site": "same-origin", "idempotency-key": "k"}
    body = {"items": [api.item(1)], "reason": "mended"}
    assert api.request("POST", "/api/dlq/replay", json=body, headers=headers).status_code == 202


@pytest.mark.parametrize("content_type", ["text/plain", "application/x-www-form-urlencoded", "", "application/jsonp"])
def test_what_a_form_could_send_is_refused(shared: ApiBench, content_type: str) -> None:
    headers = {"idempotency-key": "k", **({"content-type": content_type} if content_type else {})}
    answer = shared.request("POST", "/api/dlq/replay", content=b"{}", headers=headers)
    assert (answer.status_code, problem(answer)) == (415, "not-json")


@pytest.mark.parametrize(
    ("method", "path", "status"),
    [
        ("GET", "/api/dlq/replay", 405),
        ("OPTIONS", "/api/dlq/replay", 405),
        ("GET", "/api/nothing", 404),
        ("POST", "/api/dlq/drop-everything", 404),
        ("GET", "/api/dlq/commands/..", 404),
        ("GET", "/api/dlq/commands/x", 422),
        ("GET", f"/api/dlq/commands/{'0' * 32}", 404),
        ("GET", f"/api/dlq/commands/{'0' * 32}?mode=test", 404),
    ],
)
def test_every_refusal_is_a_problem(shared: ApiBench, method: str, path: str, status: int) -> None:
    answer = shared.request(method, path, headers={"idempotency-key": "k", "content-type": "application/json"})
    assert answer.status_code == status
    problem(answer)


def test_a_bug_is_a_problem_too_and_the_order_can_be_given_again(
    api: ApiBench, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(EngineView, "last_rows", lambda *_: 1 / 0)
    answer = api.replay("k")
    assert (answer.status_code, problem(answer)) == (500, "bug")
    monkeypatch.undo()
    assert api.replay("k").status_code == 202


def test_the_description_names_each_order_its_key_and_its_refusals(shared: ApiBench) -> None:
    reported = shared.request("GET", "/openapi.json").json()
    assert reported["servers"] == [{"url": "/api"}]
    order = reported["paths"]["/dlq/replay"]["post"]
    [key] = [one for one in order["parameters"] if one["name"] == "Idempotency-Key"]
    assert (key["in"], key["required"]) == ("header", True)
    assert {"202", "400", "401", "403", "404", "409", "413", "415", "422", "503"} == set(order["responses"])
    posts = [path for path, methods in reported["paths"].items() if "post" in methods]
    assert {"/dlq/replay", "/dlq/selections", "/dlq/selections/{number}/replay"} <= set(posts)
    for path in posts:
        assert "Idempotency-Key" in {one["name"] for one in reported["paths"][path]["post"]["parameters"]}, path
    refs = set(re.findall(r'"\$ref": ?"#/components/schemas/(\w+)"', shared.request("GET", "/openapi.json").text))
    assert refs <= reported["components"]["schemas"].keys() and "ProblemView" in refs and "OrderAsked" in refs


def test_every_order_given_refused_or_lost_is_on_record(api: ApiBench) -> None:
    api.replay("k1")
    api.replay("k2", item_seq=99)
    api.kafka.down = True
    api.replay("k3")
    api.request("POST", "/api/dlq/replay", EVE, headers={"content-type": "application/json"})
    acts = api.listener.audit_log.read(10)
    reported = [(one.actor, one.action, one.outcome, one.what) for one in reversed(acts)]
    assert reported == [
        (BOB, "replay", "done", "ledger items 1"),
        (BOB, "replay", "refused", "ledger items 99"),
        (BOB, "replay", "failed", "ledger items 1"),
        (EVE, "order", "refused", "POST /api/dlq/replay"),
    ]
    assert acts[3].after == f"command {api.kafka.sent[0].command_id}"
    assert acts[2].reason == "mended; nothing was sent: there is no item 99"
    assert {one.channel for one in acts} == {"api"}


def test_a_repeated_order_is_one_act(api: ApiBench) -> None:
    api.replay("k")
    api.replay("k")
    assert len(api.listener.audit_log.read(10)) == 1
