"""What holds for the adapter of every provider in the registry, whatever it is sent."""

from __future__ import annotations

import contextlib
import hashlib
import json
import pickle
import re
from dataclasses import replace
from datetime import timedelta
from typing import Any, get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st

from core.clock import from_rfc3339
from core.errors import PayhookError, SettingError, Unparseable
from core.event import POISON_TYPE, Dedupe, Event, Mode, to_headers
from core.keys import PART_CHARS_MAX
from core.money import MoneyInvalid
from providers import (
    Adapter,
    ContentVersionUnknown,
    ModeMismatch,
    ProvidersSettings,
    Request,
    SignatureInvalid,
    SignatureReason,
    build_adapters,
)
from providers.port import CannotSign, FetchingAdapter
from tests.contract.adapter_cases import CASES, HOW_TO_ADD
from tests.contract.adapter_cases.case import GONE, NOW, Case, Told, with_header

NAMES = sorted(build_adapters(ProvidersSettings()))
FROM_VERIFY = (SignatureInvalid, SettingError)
FROM_MONEY = (MoneyInvalid, Unparseable)
KEY_PARTS_MAX = 6
PRINTABLE = re.compile(r"[ -~]+")
HOSTILE = ("a\x00b", "a\r\nX-Forged: 1", "\ud800", "é\u202e:%3A", "x" * 65_536, "\n", ":", " ")
UNSIGNED: tuple[list[bytes], ...] = (
    [],
    [b""],
    [b" "],
    [b"\xff\xfe"],
    ["é".encode()],
    [b"\x00"],
    [b"="],
    [b",,,="],
    [b"0" * 64],
    [b"x" * 9_000],
)


@pytest.fixture(params=sorted(CASES), scope="module")
def case(request: pytest.FixtureRequest) -> Case:
    return CASES[request.param]


def only(case: Case, request: Request, mode: Mode = "live", **settings: Any) -> Event:
    (event,) = case.adapter(**settings).events(request, mode)
    return event


def told(case: Case, what: Told) -> Event:
    """The event of a valid request."""
    return only(case, case.valid(what))


def refusal(case: Case, request: Request, secrets: tuple[str, ...] | None = None) -> str | None:
    """Why a request is refused, None if it is proven. Every refusal can go to another process and keeps its words."""
    try:
        case.adapter().verify(request, case.secrets if secrets is None else secrets, NOW)
    except SignatureInvalid as invalid:
        assert invalid.reason in get_args(SignatureReason)
        travels(invalid)
        return invalid.reason
    return None


def travels(error: PayhookError) -> None:
    back = pickle.loads(pickle.dumps(error))
    assert (type(back), str(back), vars(back)) == (type(error), str(error), vars(error))


def events_of(adapter: Adapter, request: Request) -> list[Event]:
    """The events of a proven request; nothing but the port's two errors may come instead."""
    for mode in get_args(Mode):
        try:
            return [checked(adapter, event) for event in adapter.events(request, mode)]
        except (Unparseable, ModeMismatch) as error:
            travels(error)
    return []


def events_unproven(adapter: Adapter, request: Request) -> None:
    """The receiver gives no such request to `events`; it doesn't fall over one all the same."""
    with contextlib.suppress(SignatureInvalid):
        events_of(adapter, request)


def checked(adapter: Adapter, event: Event) -> Event:
    """The event, which is as the port promises."""
    keys = [event.event_key, event.entity_key] + ([event.fact_key] if event.fact_key is not None else [])
    for key in keys:
        assert PRINTABLE.fullmatch(key), key
        parts = key.split(":")
        assert parts[0] == adapter.name == event.provider
        assert 2 <= len(parts) <= KEY_PARTS_MAX
        assert max(map(len, parts)) <= PART_CHARS_MAX
    for name, value in to_headers(event, NOW, Dedupe.CLAIMED):
        assert PRINTABLE.fullmatch(value.decode("ascii") or " "), name
    assert event.body
    assert event.content_sha256 == adapter.content_sha256(event.body, event.content_version)
    assert (event.fact_key is None) == (event.fact_sha256 is None)
    assert event.occurred_at is None or event.occurred_at.utcoffset() == timedelta(0)
    if event.poison is None:
        assert event.content_version == adapter.content_version
        assert agrees(adapter, event)
    else:
        assert (event.event_type, event.fact_key) == (POISON_TYPE, None)
    return event


def agrees(adapter: Adapter, event: Event) -> bool:
    """What `money` reads from the event's own bytes is what the event was named with."""
    try:
        fact = adapter.money(event.body, event.event_type)
    except FROM_MONEY as error:
        travels(error)
        return event.fact_key is None
    return (event.fact_key, event.fact_sha256) == ((fact.fact_key, fact.sha256) if fact else (None, None))


@pytest.mark.parametrize("name", NAMES)
def test_every_provider_of_the_registry_has_a_case(name: str) -> None:
    assert name in {case.name for case in CASES.values()}, HOW_TO_ADD.format(name=name)


def test_every_adapter_is_what_its_name_says(case: Case) -> None:
    adapter = case.adapter()
    assert adapter.name == case.name
    assert re.fullmatch("[a-z0-9]{2,32}", adapter.name)
    assert 400 <= adapter.signature_status < 500
    assert adapter.content_version >= 1
    assert adapter.identity_fields
    assert all(isinstance(name, str) and name for name in adapter.identity_fields)


def test_a_valid_request_is_proven_by_the_secret_that_signed(case: Case) -> None:
    body, (first, second) = case.body(Told()), case.secrets
    for signing, listed, index in (
        (first, [first, second], 0),
        (second, [first, second], 1),
        (second, [second], 0),
        (first, [first, first], 0),
    ):
        request = case.asked_with(case.request(body, signing), signing, listed)
        assert case.adapter().verify(request, listed, NOW) == index


def test_without_the_secret_that_signed_nothing_is_proven(case: Case) -> None:
    first, second = case.secrets
    for listed in ((second,), ()):
        request = case.asked_with(case.request(case.body(Told()), first), first, listed)
        assert refusal(case, request, listed) in ("mismatch", "missing")


def test_a_request_altered_in_one_bit_is_refused(case: Case) -> None:
    requests = list(case.altered(case.valid()))
    assert len(requests) > 100
    assert [request for request in requests if refusal(case, request) is None] == []


@pytest.mark.parametrize("values", UNSIGNED, ids=lambda values: repr(values)[:20])
def test_what_is_no_signature_is_refused_with_a_known_reason(case: Case, values: list[bytes]) -> None:
    for request in case.resigned(case.valid(), values):
        assert refusal(case, request) is not None


def test_a_signature_header_that_comes_twice_is_refused_even_if_both_are_good(case: Case) -> None:
    request = case.valid()
    for name in case.signature_headers:
        value = request.one(name)
        assert value is not None
        assert refusal(case, replace(request, headers=with_header(request.headers, name, value, value))) == "several"


def test_a_signed_time_holds_for_as_long_as_the_provider_says(case: Case) -> None:
    request, adapter = case.valid(), case.adapter()
    if case.tolerance_s is None:
        assert adapter.verify(request, case.secrets, NOW + timedelta(days=30)) == 0
        return
    held = timedelta(seconds=case.tolerance_s)
    assert adapter.verify(request, case.secrets, NOW + held) == adapter.verify(request, case.secrets, NOW - held) == 0
    for now, reason in ((NOW + held + timedelta(seconds=1), "stale"), (NOW - held - timedelta(seconds=1), "future")):
        with pytest.raises(SignatureInvalid) as caught:
            adapter.verify(request, case.secrets, now)
        assert caught.value.reason == reason


def test_one_request_is_read_the_same_every_time(case: Case) -> None:
    assert told(case, Told()) == told(case, Told())
    assert case.adapter().verify(case.valid(), case.secrets, NOW) == 0


def test_an_event_is_named_by_its_provider_and_holds_its_own_bytes(case: Case) -> None:
    request = case.valid()
    (event,) = events_of(case.adapter(), request)
    assert event.poison is None
    assert event.mode == "live"
    assert (event.fact_key is not None) == case.books
    assert event.occurred_at is None or from_rfc3339(event.occurred_at.isoformat()) == event.occurred_at


def test_a_redelivery_is_the_same_event_whatever_differs_between_deliveries(case: Case) -> None:
    first, again = (told(case, Told(delivery=number)) for number in (1, 2))
    for name in ("event_key", "entity_key", "content_sha256", "content_version", "fact_key", "fact_sha256"):
        assert getattr(first, name) == getattr(again, name), name


def test_the_signing_secret_makes_no_other_event(case: Case) -> None:
    body = case.body(Told())
    first, second = (only(case, case.request(body, secret)) for secret in case.secrets)
    assert (first.event_key, first.content_sha256) == (second.event_key, second.content_sha256)


def test_another_amount_is_another_content_of_the_same_event_and_fact(case: Case) -> None:
    first, other = (told(case, Told(amount_minor=amount)) for amount in (1_250, 1_251))
    assert first.content_sha256 != other.content_sha256
    assert first.event_key == other.event_key
    assert first.fact_key == other.fact_key
    assert (first.fact_sha256 != other.fact_sha256) == case.books


def test_an_amount_that_cant_be_trusted_costs_the_event_its_fact_and_no_more(case: Case) -> None:
    """It is named as ever, and fails when it is handled, where a person sees it."""
    body, adapter, named = case.body(Told()), case.adapter(), told(case, Told())
    lost = 0
    for path in case.amounts() if case.books else ():
        for value in ("x", "1e5", 10**16, 12.5, None, [], GONE):
            try:
                request = case.request(case.spoiled(body, path, value), case.secrets[0])
            except Unparseable:
                continue  # no such amount can be signed
            event = checked(adapter, only(case, request))
            assert (event.poison, event.event_key, event.entity_key) == (None, named.event_key, named.entity_key)
            if event.fact_key is None:
                lost += 1
                with pytest.raises(FROM_MONEY):
                    adapter.money(event.body, event.event_type)
    assert (lost > 0) == case.books


def test_two_partial_refunds_of_one_payment_are_two_facts_of_one_entity(case: Case) -> None:
    first, second = (told(case, Told(event=f"e{number}", movement=f"m{number}")) for number in (1, 2))
    assert first.event_key != second.event_key
    assert (first.entity_key == second.entity_key) == case.of_payment
    assert (first.fact_key != second.fact_key) == case.books


def test_one_movement_under_two_event_ids_is_one_fact(case: Case) -> None:
    first, second = (told(case, Told(event=event)) for event in ("e1", "e2"))
    assert (first.fact_key, first.fact_sha256) == (second.fact_key, second.fact_sha256)


def test_order_is_kept_for_a_payment_or_for_a_merchant_as_is_set(case: Case) -> None:
    requests = [case.valid(Told(event=f"e{number}", movement=f"m{number}", payment=f"p{number}")) for number in (1, 2)]
    assert len({only(case, request).entity_key for request in requests}) == 2
    assert len({only(case, request, entity="merchant").entity_key for request in requests}) == 1


def test_each_event_of_a_batch_has_its_own_bytes_and_one_forged_event_refuses_them_all(case: Case) -> None:
    several = [Told(event=f"e{number}", movement=f"m{number}", payment=f"p{number}") for number in range(3)]
    body = case.batch(several)
    if body is None:
        assert len(events_of(case.adapter(), case.valid())) == 1
        return
    request = case.request(body, case.secrets[0])
    events = events_of(case.adapter(), request)
    assert [event.event_key for event in events] == [told(case, one).event_key for one in several]
    assert len({event.body for event in events}) == len(several)
    told_by = request.fetched.body if request.fetched is not None else request.body
    assert all(event.body in told_by for event in events)
    assert [altered for altered in case.altered(request) if refusal(case, altered) is None] == []


def test_the_content_hash_of_other_versions(case: Case) -> None:
    """Version 0 is poison's: the hash of the bytes."""
    body = told(case, Told()).body
    assert case.adapter().content_sha256(body, 0) == hashlib.sha256(body).hexdigest()
    with pytest.raises(ContentVersionUnknown) as caught:
        case.adapter().content_sha256(body, 1_000_000)
    travels(caught.value)


def test_an_acknowledgement_is_a_2xx(case: Case) -> None:
    answer = case.adapter().accepted()
    assert 200 <= answer.status < 300
    assert "/" in answer.content_type


def test_an_empty_secret_is_refused(case: Case) -> None:
    with pytest.raises(SettingError) as caught:
        case.adapter().check_secret("")
    travels(caught.value)


def test_a_new_secret_is_of_the_providers_form_and_signs(case: Case) -> None:
    adapter = case.adapter()
    first, second = adapter.new_secret(), adapter.new_secret()
    assert first != second
    adapter.check_secret(first)
    try:
        signed = adapter.sign(case.body(Told()), first, NOW)
    except CannotSign as cannot:
        travels(cannot)
        assert cannot.provider == case.name
        return
    if isinstance(adapter, FetchingAdapter):
        return
    headers = [(name.lower().encode(), value.encode()) for name, value in signed.headers.items()]
    request = Request(signed.body, headers)
    assert adapter.verify(request, [second, first], NOW) == 1
    assert events_of(adapter, request)


@pytest.mark.parametrize("text", HOSTILE, ids=lambda text: ascii(text)[:20])
def test_no_ids_text_reaches_a_key_or_a_header_raw(case: Case, text: str) -> None:
    """Read or refused: `checked` holds what is read to what a key and a header may be made of."""
    for field in ("event", "movement", "payment", "account"):
        body = case.hostile(field, text)
        with contextlib.suppress(*FROM_VERIFY, Unparseable):
            request = case.request(body, case.secrets[0])
            case.adapter().verify(request, case.secrets, NOW)
            events_of(case.adapter(), request)


@pytest.mark.parametrize("length", [257, 65_536])
def test_ids_that_are_long_stay_different(case: Case, length: int) -> None:
    keys = []
    for end in ("a", "b"):
        request = case.request(case.hostile("movement", "x" * length + end), case.secrets[0])
        with contextlib.suppress(SignatureInvalid):
            case.adapter().verify(request, case.secrets, NOW)
            keys += [event.fact_key or event.content_sha256 for event in events_of(case.adapter(), request)]
    assert len(set(keys)) == len(keys)


def test_what_has_to_be_fetched_is_on_the_providers_own_host(case: Case) -> None:
    adapter = case.adapter()
    assert isinstance(adapter, FetchingAdapter) == (case.fetched_from is not None)
    if isinstance(adapter, FetchingAdapter):
        wanted = adapter.wants(case.valid(), case.secrets)
        assert wanted is not None
        assert wanted.url.startswith(case.fetched_from or "")
        assert wanted.kept_s >= 0


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
    for body in (case.body(Told()), *case.others()):
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
        assert [event.poison for event in events_of(case.adapter(), request)] == [None]


@given(data=st.data())
def test_a_signed_body_with_anything_in_any_place_is_read_or_refused_by_the_book(
    case: Case, data: st.DataObject
) -> None:
    body = case.body(Told())
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


def test_no_signature_at_all_is_missing_or_malformed(case: Case) -> None:
    for request in case.resigned(case.valid(), []):
        assert refusal(case, request) in ("missing", "malformed")
