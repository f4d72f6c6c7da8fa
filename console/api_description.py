"""The API's OpenAPI description, with the roles that each operation asks for."""

from __future__ import annotations

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
