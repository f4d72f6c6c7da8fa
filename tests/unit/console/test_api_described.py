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
from tests.unit.console.listening import ORIGIN


@pytest.fixture(scope="module")
def bench(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ApiBench]:
    yield ApiBench(tmp_path_factory.mktemp("engine"))


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
        headers = {name: str(value) for name, value in dict(sent["headers"] or {}).items()}
        # Generated keys repeat themselves on purpose; here each request is one of its own.
        headers["Idempotency-Key"] = hashlib.sha256(repr((sent, case.id)).encode()).hexdigest()
        names = {"json": "json", "data": "content", "params": "params"}
        more = {name: sent[theirs] for theirs, name in names.items() if sent.get(theirs) is not None}
        answer = bench.request(sent["method"], sent["url"], headers=headers, **more)
        statuses.add(answer.status_code)
        assert answer.status_code < 500, answer.text
        assert str(answer.status_code) in operation.definition.raw["responses"]

    statuses: set[int] = set()
    holds()
    assert reached in statuses, statuses
