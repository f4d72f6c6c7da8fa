"""Signed nonsense for every adapter, through the whole receiver application: what it may do with any bytes at all.

The short run is beside this file, the long one in ``tests/faults``.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx2
from hypothesis import strategies as st

from core.errors import Unparseable
from load.samples import CannotSign
from providers import Request
from providers.port import FetchingAdapter, SignatureInvalid
from tests.contract.adapter_cases.case import GONE, SAMPLE, Case
from tests.unit.ingest.app_under_test import Bench

DELIBERATE = frozenset({"not_fetched", "not_configured"})
"""Without a provider that answers and with settings of one endpoint only, these 503s are true."""
KEY_CHARS_MAX = 1_100
"""Four parts of at most 256 characters and what joins them."""

_TEXTS = st.one_of(
    st.text(max_size=40),
    st.sampled_from(
        [
            "",
            "\x00",
            "\r\nevent_key: x",
            "a:b%3A",
            "\ud800",
            "é\u202e",
            "1e9",
            "-1",
            "true",
            "12.50",
            "9" * 40,
            "x" * 70_000,
        ]
    ),
)
_LEAVES = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.sampled_from([2**63, 2**64, -(2**63) - 1, 10**4_000]),
    st.floats(),
    _TEXTS,
)
_JSON = st.recursive(
    _LEAVES,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=12), inner, max_size=4),
    max_leaves=12,
)


def bodies(case: Case) -> st.SearchStrategy[bytes]:
    """Bytes of any kind; JSON of any kind; the provider's own bodies with fields or bytes changed."""
    own = [case.body(SAMPLE), *case.others()]
    return st.one_of(
        st.binary(max_size=300),
        _JSON.map(_dumps),
        st.sampled_from(own).flatmap(lambda body: _spoiled(case, body)),
        st.sampled_from(own).flatmap(_mutated),
    )


class FuzzedReceiver:
    """One receiver for all of a run's requests."""

    def __init__(self, case: Case, bench: Bench, runner: asyncio.Runner, client: httpx2.AsyncClient) -> None:
        self._case = case
        self._bench = bench
        self._runner = runner
        self._client = client

    def take(self, body: bytes, path: str = "") -> int:
        """Signs and posts a body; returns the status of the answer, whose form and effect are checked.

        :raises AssertionError: it did what it never may
        """
        request = self._signed(body)
        before = len(self._bench.publisher.records)
        answer = self._runner.run(
            self._client.post(
                f"/webhooks/{self._case.name}{path}",
                content=request.body,
                headers=[*request.headers, (b"host", b"receiver")],
            )
        )
        self._check(answer, self._bench.publisher.records[before:])
        return answer.status_code

    def _signed(self, body: bytes) -> Request:
        """What the provider can't sign is posted all the same."""
        try:
            request = self._case.request(body, self._case.secrets[0])
        except (Unparseable, CannotSign):
            return Request(body, [])
        adapter = self._bench.adapters[self._case.name]
        if isinstance(adapter, FetchingAdapter) and request.fetched is not None:
            with contextlib.suppress(SignatureInvalid, Unparseable):
                wanted = adapter.wants(request, self._case.secrets[:1])
                assert wanted is not None
                self._bench.fetch.by_url[wanted.url] = request.fetched
        return request

    def _check(self, answer: httpx2.Response, records: list[tuple[bytes, bytes, dict[str, str]]]) -> None:
        accepted = self._bench.adapters[self._case.name].accepted()
        if answer.status_code == accepted.status:
            assert answer.content == accepted.body
        else:
            code = answer.json()["error"]["code"]
            assert answer.status_code < 500 or (answer.status_code == 503 and code in DELIBERATE), answer.text
            assert records == [], "a refused request leaves nothing"
        for key, _, headers in records:
            assert not headers.get("poison", "").startswith("the adapter failed"), headers["poison"]
            for text in (key.decode("ascii"), *headers.values()):
                assert text.isascii() and text.isprintable() and len(text) <= KEY_CHARS_MAX, text[:200]


@contextlib.contextmanager
def fuzzed(case: Case, folder: Path) -> Iterator[FuzzedReceiver]:
    bench = Bench(folder)
    bench.adapters = {case.name: case.adapter()}
    (folder / case.name).write_text(case.secrets[0] + "\n", "utf-8")
    with asyncio.Runner() as runner:
        opened = contextlib.AsyncExitStack()
        client = runner.run(opened.enter_async_context(bench.client()))
        try:
            yield FuzzedReceiver(case, bench, runner, client)
        finally:
            runner.run(opened.aclose())


def _dumps(document: Any) -> bytes:
    return json.dumps(document).encode()


def _spoiled(case: Case, body: bytes) -> st.SearchStrategy[bytes]:
    """One to three fields that hold something else or are gone."""
    values = st.one_of(_JSON, st.just(GONE))
    places = st.lists(st.tuples(st.sampled_from(case.fields(body)), values), min_size=1, max_size=3)

    def apply(changes: list[tuple[tuple[str | int, ...], object]]) -> bytes:
        spoiled = body
        for path, value in changes:
            # What an earlier change took away can't be changed again.
            with contextlib.suppress(LookupError, TypeError, ValueError):
                spoiled = case.spoiled(spoiled, path, value)
        return spoiled

    return places.map(apply)


@st.composite
def _mutated(draw: st.DrawFn, body: bytes) -> bytes:
    """Some bytes dropped, doubled, put in or turned around."""
    changed = body
    for _ in range(draw(st.integers(1, 4))):
        start = draw(st.integers(0, max(0, len(changed) - 1)))
        end = min(len(changed), start + draw(st.integers(0, 60)))
        part = changed[start:end]
        instead = draw(st.one_of(st.just(b""), st.just(part * 2), st.binary(max_size=8), st.just(part[::-1])))
        changed = changed[:start] + instead + changed[end:]
    return changed
