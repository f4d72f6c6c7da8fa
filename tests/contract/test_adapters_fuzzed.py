"""Whatever is in a request, every adapter reads it as the port promises, or refuses it by the port's errors."""

from __future__ import annotations

import contextlib
import json
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from core.errors import SettingError, Unparseable
from load.samples.sender import NOW, Sample
from providers import (
    Request,
    SignatureInvalid,
)
from providers.port import FetchingAdapter
from tests.contract.adapter_cases import CASES
from tests.contract.adapter_cases.case import GONE, Case, with_header
from tests.contract.adapter_cases.promises import (
    FROM_MONEY,
    FROM_VERIFY,
    HOSTILE,
    events_of,
    events_unproven,
)

pytestmark = pytest.mark.more(reason="half a minute of other bodies; test_adapters has each kind once")


@pytest.fixture(params=sorted(CASES), scope="module")
def case(request: pytest.FixtureRequest) -> Case:
    return CASES[request.param]


SCALARS = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-(2**70), 2**70),
    st.floats(),
    st.text(max_size=30),
    st.sampled_from(["", *HOSTILE, "NaN", "1e5", "10.00", "-0", "2026-13-01T00:00:00Z", "٣", "9" * 5_000]),
)
VALUES = st.one_of(
    st.just(GONE),
    SCALARS,
    st.lists(SCALARS, max_size=3),
    st.dictionaries(st.sampled_from(["id", "amount", "value", "type", "", "\x00"]), SCALARS, max_size=3),
)


KINDS: tuple[object, ...] = (
    GONE,
    None,
    True,
    0,
    -1,
    2**63,
    1.5,
    "",
    "x",
    "1",
    "1e5",
    "\x00",
    [],
    [1],
    {},
    {"id": 1},
    [{}],
)


def test_each_field_of_each_kind_of_value_is_read_or_refused_by_the_book(case: Case) -> None:
    adapter = case.adapter()
    for body in (case.body(Sample()), *case.others()):
        for path in case.fields(body):
            for value in KINDS:
                with contextlib.suppress(*FROM_VERIFY, Unparseable):
                    request = case.request(case.spoiled(body, path, value), case.secrets[0])
                    adapter.verify(request, case.secrets, NOW)
                    events_of(adapter, request)


def test_bodies_of_other_kinds_are_events_that_hold_what_the_port_promises(case: Case) -> None:
    for body in case.others():
        request = case.request(body, case.secrets[0])
        assert case.adapter().verify(request, case.secrets, NOW) == 0
        events = events_of(case.adapter(), request)
        assert {event.poison for event in events} == {None}
        assert len({event.event_key for event in events}) == len(events)


@given(data=st.data())
def test_a_signed_body_with_anything_in_any_place_is_read_or_refused_by_the_book(
    case: Case, data: st.DataObject
) -> None:
    body = case.body(Sample())
    for _ in range(data.draw(st.integers(1, 3))):
        with contextlib.suppress(ValueError, LookupError, TypeError, SyntaxError):
            body = case.spoiled(body, data.draw(st.sampled_from(case.fields(body))), data.draw(VALUES))
    adapter = case.adapter()
    try:
        request = case.request(body, case.secrets[0])
        adapter.verify(request, case.secrets, NOW)
    except (*FROM_VERIFY, Unparseable):
        events_unproven(adapter, Request(body, []))
    else:
        events_of(adapter, request)


BODIES = st.one_of(
    st.binary(max_size=200),
    st.recursive(SCALARS, lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner)).map(
        lambda document: json.dumps(document).encode("utf-8", "surrogatepass")
    ),
    st.sampled_from(
        [b"", b"{}", b"[]", b"null", b"\xef\xbb\xbf{}", b"{" * 9_000, b"[" * 9_000, b'{"a":NaN}', b"id=tr_1"]
    ),
    st.sampled_from(["utf-16", "utf-32", "latin-1"]).map('{"id":"é"}'.encode),
)


@given(data=st.data(), body=BODIES)
def test_any_bytes_with_any_headers_are_answered_by_the_book(case: Case, data: st.DataObject, body: bytes) -> None:
    valid = case.valid()
    names = st.sampled_from([name for name, _ in valid.headers] + [b"x-other"]) | st.binary(max_size=10)
    values = st.sampled_from([value for _, value in valid.headers]) | st.binary(max_size=80)
    request = Request(body, data.draw(st.lists(st.tuples(names, values), max_size=6)), "default", valid.fetched)
    adapter = case.adapter()
    with contextlib.suppress(*FROM_VERIFY):
        adapter.verify(request, case.secrets, NOW)
    if isinstance(adapter, FetchingAdapter):
        with contextlib.suppress(*FROM_VERIFY, Unparseable):
            adapter.wants(request, case.secrets)
    events_unproven(adapter, request)
    with contextlib.suppress(*FROM_MONEY):
        adapter.money(body, data.draw(st.sampled_from(["", "refund.created", "REFUND", "\x00"])))
    with contextlib.suppress(Unparseable):
        adapter.content_sha256(body, adapter.content_version)


@given(
    data=st.data(),
    value=st.binary(max_size=80) | st.sampled_from([text.encode("utf-8", "replace") for text in HOSTILE]),
)
def test_a_header_that_isnt_signed_says_nothing_that_isnt_checked(
    case: Case, data: st.DataObject, value: bytes
) -> None:
    """Ids and environments in headers, there or not, once or twice."""
    request, adapter = case.valid(), case.adapter()
    name = data.draw(st.sampled_from([name for name, _ in request.headers] + [b"origin", b"square-environment"]))
    headers = with_header(request.headers, name, *data.draw(st.sampled_from([(), (value,), (value, value)])))
    with contextlib.suppress(*FROM_VERIFY):
        adapter.verify(replace(request, headers=headers), case.secrets, NOW)
        events_of(adapter, replace(request, headers=headers))


@given(body=BODIES)
def test_any_signed_bytes_are_read_or_refused_by_the_book(case: Case, body: bytes) -> None:
    adapter = case.adapter()
    with contextlib.suppress(*FROM_VERIFY, Unparseable):
        request = case.request(body, case.secrets[0])
        adapter.verify(request, case.secrets, NOW)
        events_of(adapter, request)


@given(secret=st.text(max_size=60))
def test_any_text_is_a_secret_or_is_refused_as_one(case: Case, secret: str) -> None:
    """What `check_secret` takes is taken by `verify`, and what it refuses is refused there by the same error."""
    adapter = case.adapter()
    taken = True
    try:
        adapter.check_secret(secret)
    except SettingError:
        taken = False
    try:
        adapter.verify(case.valid(), [secret], NOW)
    except SignatureInvalid:
        assert taken
    except SettingError:
        assert not taken
