"""Describes the public listener in OpenAPI 3.1, so that schemathesis and the wire names can hold the receiver to it.

The listener itself serves no description: providers don't read one, and strangers need none.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Mapping
from types import MappingProxyType
from typing import Any, TypeAlias

from ingest.endpoints import ENDPOINT
from ingest.errors import HTTP, REFUSALS, SIGNATURE, WEBHOOKS
from providers.port import Adapter

Described: TypeAlias = dict[str, Any]

_MEANINGS: Mapping[int, str] = MappingProxyType(
    {
        400: "not HTTP/1.1 as everybody reads it, or one header too many of a kind that counts",
        401: "not proven to be the provider's; nothing of it is kept",
        404: "nothing at this path",
        405: "another method than POST",
        408: "head or body didn't arrive in time",
        409: "another delivery of this event is under way; send it again",
        413: "the body is too large; answered before all of it is read",
        414: "the target is too long",
        415: "the body is coded, or of another type than the provider's",
        417: "another expectation than 100-continue",
        422: "live traffic at a test endpoint, or the other way round",
        429: "too many requests; nothing was accepted, send it again",
        431: "too many or too large headers",
        498: "not proven to be the provider's; nothing of it is kept",
        501: "no such method or transfer coding here",
        503: "not accepted, and nothing is lost: send it again",
        505: "neither HTTP/1.1 nor HTTP/1.0",
    }
)


def describe(adapters: Mapping[str, Adapter]) -> Described:
    """The description of a listener that takes these providers' webhooks."""
    paths: Described = {}
    for name, adapter in sorted(adapters.items()):
        paths[f"/webhooks/{name}"] = {"post": _describe_webhook(adapter, None)}
        paths[f"/webhooks/{name}/{{endpoint}}"] = {"post": _describe_webhook(adapter, _ENDPOINT_PARAMETER)}
    paths["/healthz"] = {"get": _describe_probe("alive", "Whether the process answers.", {200: "it does"})}
    readiness = {200: "it is ready", 503: "Kafka doesn't answer"}
    paths["/readyz"] = {"get": _describe_probe("ready", "Whether webhooks can be taken.", readiness)}
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "payhook receiver",
            "version": "1",
            "description": "Takes payment providers' webhooks; a 2xx is given once Kafka has all of its events.",
        },
        "paths": paths,
        "components": {"schemas": {"Error": _ERROR}, "responses": _describe_refusals(adapters.values())},
    }


_ENDPOINT_PARAMETER: Described = {
    "name": "endpoint",
    "in": "path",
    "required": True,
    "description": "the endpoint by its name in ingest.endpoints: it fixes secrets, mode and tenant",
    "schema": {"type": "string", "pattern": f"^{ENDPOINT.pattern}$"},
}
_TRACEPARENT: Described = {
    "name": "traceparent",
    "in": "header",
    "required": False,
    "description": "W3C Trace Context, carried on to Kafka",
    "schema": {"type": "string"},
}
_ERROR: Described = {
    "type": "object",
    "required": ["error"],
    "additionalProperties": False,
    "properties": {
        "error": {
            "type": "object",
            "required": ["code", "message"],
            "additionalProperties": False,
            "properties": {
                "code": {"type": "string", "enum": sorted(REFUSALS)},
                "message": {"type": "string", "maxLength": 300, "description": "what is wrong, and what to do"},
            },
        }
    },
}


def _describe_webhook(adapter: Adapter, endpoint: Described | None) -> Described:
    parameters = [_TRACEPARENT] if endpoint is None else [endpoint, _TRACEPARENT]
    return {
        "operationId": adapter.name if endpoint is None else f"{adapter.name}_at_endpoint",
        "summary": f"A webhook of {adapter.name}, with its signature as the provider makes it.",
        "parameters": parameters,
        "requestBody": {
            "required": True,
            "description": "the exact bytes that were signed, in UTF-8 and without a Content-Encoding",
            "content": {adapter.media_type: {"schema": {}}},
        },
        "responses": _describe_responses(adapter),
    }


def _describe_responses(adapter: Adapter) -> Described:
    accepted = adapter.accepted()
    body = accepted.body.decode("utf-8")
    responses: Described = {
        str(accepted.status): {
            "description": "taken, now or before",
            "headers": {
                "Idempotent-Replayed": {
                    "description": "true where all of it was taken before",
                    "schema": {"type": "string", "const": "true"},
                }
            },
            "content": {accepted.content_type: {"example": json.loads(body) if body.startswith("{") else body}},
        }
    }
    return responses | _refer_to_refusals(
        {adapter.signature_status, *(refusal.status for refusal in (*HTTP.values(), *WEBHOOKS.values()))}
    )


def _describe_refusals(adapters: Iterable[Adapter]) -> Described:
    """Describes refusals by status, the signature's among them: some providers have a status of their own for it."""
    signature = [code for code in SIGNATURE if code not in WEBHOOKS]
    codes: dict[int, list[str]] = {}
    for code, refusal in (*HTTP.items(), *WEBHOOKS.items()):
        codes.setdefault(refusal.status, []).append(code)
    for status in {adapter.signature_status for adapter in adapters}:
        codes.setdefault(status, []).extend(signature)
    return {f"Refused{status}": _describe_refusal(status, codes[status]) for status in sorted(codes)}


def _refer_to_refusals(statuses: Collection[int]) -> Described:
    return {str(status): {"$ref": f"#/components/responses/Refused{status}"} for status in sorted(statuses)}


def _describe_refusal(status: int, codes: Iterable[str]) -> Described:
    refusal: Described = {
        "description": f"{_MEANINGS[status]} ({', '.join(codes)})",
        "content": {"application/json": {"schema": {"$ref": "#/components/schemas/Error"}}},
    }
    if status in (409, 429, 503):
        seconds = {"type": "string", "pattern": "^[0-9]+$"}
        refusal["headers"] = {"Retry-After": {"required": True, "description": "seconds", "schema": seconds}}
    if status == 405:
        refusal["headers"] = {"Allow": {"required": True, "schema": {"type": "string"}}}
    return refusal


def _describe_probe(name: str, summary: str, answers: Mapping[int, str]) -> Described:
    responses: Described = {
        str(status): {"description": meaning, "content": {"text/plain": {"schema": {"type": "string"}}}}
        for status, meaning in answers.items()
    }
    refused = {405, *(refusal.status for refusal in HTTP.values())}
    return {
        "operationId": name,
        "summary": summary,
        "responses": responses | _refer_to_refusals(refused - answers.keys()),
    }
