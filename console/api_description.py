"""The API's OpenAPI description, and the same as what a page shows: no script of another host is needed to read it."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from fastapi import FastAPI
from fastapi.openapi.utils import get_openapi
from fastapi.routing import APIRoute

from console.access.routes import RequiredRole, demand_of
from console.api_routes import ProblemView
from console.forms import SESSION
from console.refusals import API

SECURITY_SCHEMES = {
    "token": {
        "type": "http",
        "scheme": "bearer",
        "description": "A user's token: `payhook users token NAME --days N` shows it once.",
    },
    "session": {
        "type": "apiKey",
        "in": "cookie",
        "name": SESSION,
        "description": "Of who signed in at /login. Behind https its name begins with __Host-.",
    },
}
METHODS = ("get", "post")
_SECTIONS = {"/dlq/": "Dead letters and selections", "/ledger/": "Ledger"}


def describe(api: FastAPI) -> dict[str, Any]:
    described = get_openapi(
        title="payhook management API",
        version="1",
        summary="What the ledger holds, what is dead, orders on both, and what became of them.",
        description="Every request needs a user. A POST needs an Idempotency-Key.",
        routes=api.routes,
        servers=[{"url": API}],
    )
    described["components"]["schemas"]["ProblemView"] = ProblemView.model_json_schema()
    described["components"]["securitySchemes"] = SECURITY_SCHEMES
    described["security"] = [{name: []} for name in SECURITY_SCHEMES]
    for route in api.routes:
        if isinstance(route, APIRoute):
            for method in route.methods or ():
                operation = described["paths"][route.path_format][method.lower()]
                operation["x-payhook-roles"] = _list_roles(route)
    return described


def _list_roles(route: APIRoute) -> list[str]:
    demand = demand_of(route)
    if not isinstance(demand, RequiredRole) or demand.role is None:
        return []
    return [role.value for role in (demand.role, *demand.others)]


@dataclass(frozen=True, slots=True)
class DescribedField:
    name: str
    kind: str
    is_required: bool
    text: str


@dataclass(frozen=True, slots=True)
class Operation:
    method: str
    path: str
    summary: str
    text: str
    roles: Sequence[str]
    parameters: Sequence[DescribedField]
    body: Sequence[DescribedField]
    answer: Sequence[DescribedField]
    answers: Sequence[tuple[str, str]]

    @property
    def anchor(self) -> str:
        return f"{self.method} {self.path}".lower().replace(" ", "-").replace("/", "-").translate(_NO_BRACES)


_NO_BRACES = str.maketrans("", "", "{}")


def sections_of(document: Mapping[str, Any]) -> list[tuple[str, list[Operation]]]:
    operations = list(_list_operations(document))
    names = [*dict.fromkeys(_section_of(operation.path) for operation in operations)]
    return [(name, [operation for operation in operations if _section_of(operation.path) == name]) for name in names]


def _section_of(path: str) -> str:
    return next((name for begin, name in _SECTIONS.items() if path.startswith(begin)), "Other")


def _list_operations(document: Mapping[str, Any]) -> Iterator[Operation]:
    for path, method in itertools.product(document["paths"], METHODS):
        operation = document["paths"][path].get(method)
        if operation is None:
            continue
        parameters = [
            DescribedField(
                parameter["name"],
                _describe_type(document, parameter["schema"]),
                parameter.get("required", False),
                _description_of(parameter),
            )
            for parameter in operation.get("parameters", ())
        ]
        body = operation.get("requestBody", {}).get("content", {}).get("application/json", {}).get("schema", {})
        good: Mapping[str, Any] = next(
            (response for status, response in operation["responses"].items() if status.startswith("2")), {}
        )
        answer = good.get("content", {}).get("application/json", {}).get("schema", {})
        yield Operation(
            method=method.upper(),
            path=path,
            summary=operation["summary"],
            text=operation.get("description", ""),
            roles=operation["x-payhook-roles"],
            parameters=parameters,
            body=_list_fields(document, body),
            answer=_list_fields(document, answer),
            answers=[(status, response["description"]) for status, response in sorted(operation["responses"].items())],
        )


def _list_fields(document: Mapping[str, Any], schema: Mapping[str, Any]) -> list[DescribedField]:
    resolved = _resolve_schema(document, schema)
    required = resolved.get("required", ())
    return [
        DescribedField(name, _describe_type(document, field), name in required, _description_of(field))
        for name, field in resolved.get("properties", {}).items()
    ]


def _resolve_schema(document: Mapping[str, Any], schema: Mapping[str, Any]) -> Mapping[str, Any]:
    if "$ref" in schema:
        component: Mapping[str, Any] = document["components"]["schemas"][schema["$ref"].rpartition("/")[2]]
        return component
    return _resolve_schema(document, schema["anyOf"][0]) if "anyOf" in schema else schema


def _describe_type(document: Mapping[str, Any], schema: Mapping[str, Any]) -> str:
    """Names the type: ``string``, ``list of integer``, ``one of live, test``; of a schema with a name that name."""
    if "$ref" in schema:
        resolved = _resolve_schema(document, schema)
        return _one_of(resolved["enum"]) if "enum" in resolved else schema["$ref"].rpartition("/")[2]
    if "anyOf" in schema:
        return " or ".join(dict.fromkeys(_describe_type(document, part) for part in schema["anyOf"]))
    if "enum" in schema:
        return _one_of(schema["enum"])
    if schema.get("type") == "array":
        return f"list of {_describe_type(document, schema.get('items', {}))}"
    bounds = [f"{word} {schema[name]}" for name, word in (("minimum", "from"), ("maximum", "to")) if name in schema]
    return " ".join([str(schema.get("type", "any")), *bounds])


def _one_of(values: Sequence[object]) -> str:
    return f"one of {', '.join(map(str, values))}"


def _description_of(described: Mapping[str, Any]) -> str:
    return str(described.get("description", ""))
