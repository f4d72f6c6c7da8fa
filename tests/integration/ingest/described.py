"""The receiver held to its own description by schemathesis, over real sockets: unsigned and signed requests."""

from __future__ import annotations

from typing import Any

import requests
import schemathesis
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from schemathesis import Case, GenerationMode
from schemathesis.checks import CheckFunction
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    response_headers_conformance,
    response_schema_conformance,
    status_code_conformance,
)

from core.clock import SystemClock
from core.errors import Unparseable
from load.samples import CannotSign, sign
from providers.port import FetchingAdapter
from providers.registry import build_adapters
from tests.integration.ingest.conftest import PROVIDERS, ReceiverUnderTest
from tests.receiver_openapi import describe

CHECKS: list[CheckFunction] = [
    status_code_conformance,
    content_type_conformance,
    response_headers_conformance,
    response_schema_conformance,
]
DELIBERATE = frozenset({"not_published", "not_configured", "not_fetched"})
TIMEOUT_S = 60.0


def hold_to_its_description(receiver: ReceiverUnderTest, mode: GenerationMode, requests_max: int) -> dict[int, int]:
    """Posts what the description allows (or, negated, doesn't); returns how often each status was answered.

    :raises AssertionError: an answer that isn't described, or a 5xx that isn't meant
    """
    adapters = build_adapters(PROVIDERS)
    schema = schemathesis.openapi.from_dict(describe(adapters))
    schema.config.update(base_url=receiver.url)
    answered: dict[int, int] = {}
    posting = requests.Session()

    @settings(max_examples=requests_max, suppress_health_check=list(HealthCheck))
    @given(case=schema.as_strategy(generation_mode=mode), signs=st.booleans())
    def run(case: Case[Any], signs: bool) -> None:
        prepared = requests.Request(**_arguments(case, receiver.url)).prepare()
        if signs:
            _sign(prepared, receiver)
        answer = posting.send(prepared, timeout=TIMEOUT_S)
        answered[answer.status_code] = answered.get(answer.status_code, 0) + 1
        if answer.status_code >= 500:
            assert answer.status_code == 503 and answer.json()["error"]["code"] in DELIBERATE, answer.text
        case.validate_response(answer, checks=CHECKS)

    run()
    return answered


def _arguments(case: Case[Any], url: str) -> dict[str, Any]:
    arguments: dict[str, Any] = case.as_transport_kwargs(base_url=url)
    return {name: value for name, value in arguments.items() if name in _REQUEST_FIELDS}


_REQUEST_FIELDS = frozenset({"method", "url", "headers", "files", "data", "params", "auth", "cookies", "json"})


def _sign(prepared: requests.PreparedRequest, receiver: ReceiverUnderTest) -> None:
    """As the provider that the path names would; what can't be signed goes as it is."""
    provider = str(prepared.url).partition("/webhooks/")[2].partition("/")[0]
    adapter = build_adapters(PROVIDERS).get(provider)
    if adapter is None or isinstance(adapter, FetchingAdapter):
        return  # it would be asked about on the internet
    body = prepared.body or b""
    assert isinstance(body, str | bytes)
    raw = body.encode() if isinstance(body, str) else body
    try:
        signed = sign(adapter, raw, receiver.servers.secrets[provider], SystemClock().now())
    except (Unparseable, CannotSign):
        return
    prepared.prepare_body(signed.body, None)
    prepared.headers.update(signed.headers)
