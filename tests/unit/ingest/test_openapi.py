"""The description of the public listener is what the code does."""

from __future__ import annotations

import ast
import inspect
import json
from pathlib import Path
from types import ModuleType

import jsonschema  # type: ignore[import-untyped]
import pytest

import ingest.errors
import ingest.receiver
from ingest.openapi import CODES, describe
from providers.registry import build_adapters
from providers.settings import ProvidersSettings

FILE = Path(__file__).parents[3] / "docs" / "openapi-receiver.json"


@pytest.fixture(scope="module")
def described() -> dict[str, object]:
    return describe(build_adapters(ProvidersSettings()))


def refusals(module: ModuleType) -> set[tuple[int, str]]:
    """Status and code of every ``Refused(400, "code", …)`` that stands in a module."""
    found = set()
    for node in ast.walk(ast.parse(inspect.getsource(module))):
        if isinstance(node, ast.Call) and getattr(node.func, "id", None) == "Refused":
            status, code = node.args[:2]
            if isinstance(status, ast.Constant) and isinstance(code, ast.Constant):
                found.add((int(str(status.value)), str(code.value)))
    return found


def test_the_file_in_docs_is_made_from_the_code_as_it_is(described: dict[str, object]) -> None:
    assert json.loads(FILE.read_text("utf-8")) == described, "run `make docs`"


def test_every_refusal_is_described_with_its_status(described: dict[str, object]) -> None:
    known = refusals(ingest.errors) | refusals(ingest.receiver)
    assert len(known) > 30
    assert {code for _, code in known} <= CODES
    whole = json.loads(json.dumps(described))
    stripe, refusals_by_name = whole["paths"]["/webhooks/stripe"]["post"]["responses"], whole["components"]["responses"]
    for status, code in known:
        assert stripe[str(status)] == {"$ref": f"#/components/responses/Refused{status}"}
        assert code in refusals_by_name[f"Refused{status}"]["description"]


def test_every_code_is_one_that_the_code_says() -> None:
    said = {code for _, code in refusals(ingest.errors) | refusals(ingest.receiver)}
    assert {code for code in CODES if not code.startswith("signature_")} == said


def test_every_provider_has_its_paths_its_type_and_its_statuses(described: dict[str, object]) -> None:
    paths = json.loads(json.dumps(described["paths"]))
    for name, adapter in build_adapters(ProvidersSettings()).items():
        for path in (f"/webhooks/{name}", f"/webhooks/{name}/{{endpoint}}"):
            assert str(adapter.signature_status) in paths[path]["post"]["responses"]
    assert list(paths["/webhooks/braintree"]["post"]["requestBody"]["content"]) == ["application/x-www-form-urlencoded"]
    assert "498" in paths["/webhooks/gocardless"]["post"]["responses"]
    assert "text/plain" in paths["/webhooks/adyen"]["post"]["responses"]["200"]["content"]


def test_an_error_as_it_is_sent_fits_its_schema(described: dict[str, object]) -> None:
    schema = json.loads(json.dumps(described["components"]))["schemas"]["Error"]
    for refused in (ingest.errors.not_found(), ingest.errors.in_flight(), ingest.errors.too_large(1)):
        jsonschema.validate(json.loads(ingest.errors.error_json(refused)), schema)
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate({"error": {"code": "nobody_says_this", "message": ""}}, schema)
