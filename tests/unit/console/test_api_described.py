"""Whatever is sent to the API, its answer is one that the description names, and never a 5xx."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from typing import Any

import pytest
import schemathesis
from hypothesis import HealthCheck, given, settings
from schemathesis import GenerationMode

from tests.examples import examples
from tests.unit.console.api_bench import ApiBench
from tests.unit.console.listening import ADA, ORIGIN


@pytest.fixture(scope="module")
def bench(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ApiBench]:
    yield ApiBench(tmp_path_factory.mktemp("engine"))


@pytest.fixture(scope="module")
def document(bench: ApiBench) -> dict[str, Any]:
    found: dict[str, Any] = bench.request("GET", "/openapi.json").json()
    return found


def operations(document: dict[str, Any]) -> list[dict[str, Any]]:
    return [one for methods in document["paths"].values() for one in methods.values()]


def test_every_operation_has_a_summary_of_its_own_and_says_what_it_does(document: dict[str, Any]) -> None:
    summaries = [one["summary"] for one in operations(document)]
    assert len(summaries) == len(set(summaries)) >= 30
    assert all(one["description"] for one in operations(document))
    assert len({one["operationId"] for one in operations(document)}) == len(summaries)


def test_the_description_says_how_to_sign_in_and_which_role_each_operation_asks_for(
    document: dict[str, Any], bench: ApiBench
) -> None:
    assert {one["scheme"] for one in document["components"]["securitySchemes"].values() if "scheme" in one} == {
        "bearer"
    }
    assert document["security"] == [{"token": []}, {"session": []}]
    assert document["paths"]["/ledger/balances"]["get"]["x-payhook-roles"] == ["finance"]
    assert document["paths"]["/ledger/events/{key}"]["get"]["x-payhook-roles"] == ["finance", "replayer"]


@pytest.mark.more(reason="a search by schemathesis; test_api has what each request is answered")
@pytest.mark.hypothesis
@pytest.mark.parametrize(
    ("path", "method", "mode", "reached"),
    [
        ("/dlq/replay", "POST", GenerationMode.POSITIVE, 409),
        ("/dlq/replay", "POST", GenerationMode.NEGATIVE, 422),
        ("/dlq/commands/{command_id}", "GET", GenerationMode.POSITIVE, 404),
        ("/dlq/commands/{command_id}", "GET", GenerationMode.NEGATIVE, 422),
        ("/dlq/items", "GET", GenerationMode.NEGATIVE, 422),
        ("/dlq/selections", "POST", GenerationMode.POSITIVE, 404),
        ("/dlq/selections", "POST", GenerationMode.NEGATIVE, 422),
        ("/dlq/selections/{number}/replay", "POST", GenerationMode.POSITIVE, 404),
        ("/dlq/selections/{number}/replay", "POST", GenerationMode.NEGATIVE, 422),
        ("/dlq/selections/{number}/dry-run", "GET", GenerationMode.NEGATIVE, 422),
        *(
            (f"/ledger/{path}", "GET", mode, status)
            for path, status in (
                ("balances", 200),
                ("postings", 200),
                ("search", 200),
                ("events/{key}", 404),
                ("entities/{key}", 404),
                ("unknown", 200),
                ("verification", 200),
                ("reconciliations", 200),
                ("reconciliations/{run_id}", 404),
            )
            for mode, status in ((GenerationMode.POSITIVE, status), (GenerationMode.NEGATIVE, 422))
        ),
        ("/ledger/entries", "POST", GenerationMode.POSITIVE, 422),
        ("/ledger/entries", "POST", GenerationMode.NEGATIVE, 422),
    ],
)
def test_generated_requests_get_described_answers(
    bench: ApiBench, path: str, method: str, mode: GenerationMode, reached: int
) -> None:
    schema = schemathesis.openapi.from_dict(bench.request("GET", "/openapi.json").json())
    operation = schema[path][method]

    @given(case=operation.as_strategy(generation_mode=mode))
    @settings(max_examples=examples(60), deadline=None, suppress_health_check=list(HealthCheck))
    def holds(case: schemathesis.Case[Any]) -> None:
        sent = case.as_transport_kwargs(base_url=f"{ORIGIN}/api")
        headers = {name: str(value).encode("latin-1", "replace") for name, value in dict(sent["headers"] or {}).items()}
        # Generated keys repeat themselves on purpose; here each request is one of its own.
        headers["Idempotency-Key"] = hashlib.sha256(repr((sent, case.id)).encode()).hexdigest().encode()
        names = {"json": "json", "data": "content", "params": "params"}
        more = {name: sent[theirs] for theirs, name in names.items() if sent.get(theirs) is not None}
        answer = bench.request(sent["method"], sent["url"], ADA, headers=headers, **more)
        statuses.add(answer.status_code)
        assert answer.status_code < 500, answer.text
        assert str(answer.status_code) in operation.definition.raw["responses"]

    statuses: set[int] = set()
    holds()
    assert reached in statuses, statuses
