"""The description of the public listener is what the code does."""

from __future__ import annotations

import ast
import inspect
import json
from types import ModuleType

import jsonschema
import pytest

from ingest import app, body, event_reader, generations, http, http_messages, limits, receiver
from ingest.errors import REFUSALS, RequestRefused
from providers.registry import build_adapters
from providers.settings import ProvidersSettings
from tests.receiver_openapi import describe


@pytest.fixture(scope="module")
def described() -> dict[str, object]:
    return describe(build_adapters(ProvidersSettings()))


def codes(module: ModuleType) -> set[str]:
    """The code of every ``Refused("code", …)`` in a module."""
    found = set()
    for node in ast.walk(ast.parse(inspect.getsource(module))):
        if isinstance(node, ast.Call) and getattr(node.func, "id", None) == "RequestRefused":
            found |= {str(leaf.value) for leaf in ast.walk(node.args[0]) if isinstance(leaf, ast.Constant)}
    return found - {"signature_", "CONNECT"}


def test_every_refusal_is_described_with_its_status(described: dict[str, object]) -> None:
    whole = json.loads(json.dumps(described))
    stripe, refusals_by_name = whole["paths"]["/webhooks/stripe"]["post"]["responses"], whole["components"]["responses"]
    for code, refusal in REFUSALS.items():
        assert stripe[str(refusal.status)] == {"$ref": f"#/components/responses/Refused{refusal.status}"}
        assert code in refusals_by_name[f"Refused{refusal.status}"]["description"]


def test_the_receiver_refuses_with_every_code_and_no_other() -> None:
    said = set().union(*map(codes, (app, body, event_reader, generations, http, http_messages, limits, receiver)))
    assert {code for code in REFUSALS if not code.startswith("signature_")} == said


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
    for refused in (RequestRefused("not_found"), RequestRefused("in_flight"), RequestRefused("too_large", bytes_max=1)):
        jsonschema.validate(json.loads(refused.json()), schema)
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate({"error": {"code": "nobody_says_this", "message": ""}}, schema)
