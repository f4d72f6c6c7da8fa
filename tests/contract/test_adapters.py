"""What holds for the adapter of every provider in the registry, whatever it is sent."""

from __future__ import annotations

import contextlib
import hashlib
import re
from dataclasses import replace
from datetime import timedelta

import pytest

from core.clock import from_rfc3339
from core.errors import SettingError, Unparseable
from load.samples import CannotSign, sign
from load.samples.sender import NOW, Sample
from providers import (
    ContentVersionUnknown,
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
    UNSIGNED,
    checked,
    event_of,
    events_of,
    named_alike,
    only,
    refusal,
    travels,
)


@pytest.fixture(params=sorted(CASES), scope="module")
def case(request: pytest.FixtureRequest) -> Case:
    return CASES[request.param]


def test_every_adapter_is_what_its_name_says(case: Case) -> None:
    adapter = case.adapter()
    assert adapter.name == case.name
    assert re.fullmatch("[a-z0-9]{2,32}", adapter.name)
    assert 400 <= adapter.signature_status < 500
    assert adapter.content_version >= 1
    assert adapter.identity_fields
    assert all(isinstance(name, str) and name for name in adapter.identity_fields)


def test_a_valid_request_is_proven_by_the_secret_that_signed(case: Case) -> None:
    body, (first, second) = case.body(Sample()), case.secrets
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
        request = case.asked_with(case.request(case.body(Sample()), first), first, listed)
        assert refusal(case, request, listed) in ("mismatch", "missing")


def test_a_request_altered_in_one_bit_is_refused(case: Case) -> None:
    requests = list(case.altered(case.valid()))
    assert len(requests) > 100
    assert [request for request in requests if refusal(case, request) is None] == []


@pytest.mark.parametrize("values", UNSIGNED, ids=lambda values: repr(values)[:20])
def test_what_is_no_signature_is_refused_with_a_known_reason(case: Case, values: list[bytes]) -> None:
    for request in case.resigned(case.valid(), values):
        assert refusal(case, request) is not None


def test_another_spelling_of_a_good_signature_is_refused(case: Case) -> None:
    """But for a scheme that Mollie may write before it."""
    request = case.valid()
    for name in case.signature_headers:
        good = request.one(name) or b""
        others = {good + b"\x00", good[:-1], good.swapcase(), good.rstrip(b"="), good + b"="}
        others.discard(good)
        others |= {b"sha256=" + good} if case.name != "mollie" else {b"sha1=" + good.removeprefix(b"sha256=")}
        for other in others:
            spelt = replace(request, headers=with_header(request.headers, name, other))
            assert refusal(case, spelt) in ("mismatch", "malformed", "missing"), (name, other)


@pytest.mark.parametrize("spelt", [b"%b ", b"%b\t", b" \t%b \t"], ids=["blank", "tab", "around"])
def test_blanks_around_a_header_are_no_part_of_it(case: Case, spelt: bytes) -> None:
    """RFC 9110, section 5.5: some proxies write them."""
    request = case.valid()
    headers = [(name, spelt % value) for name, value in request.headers]
    assert case.adapter().verify(replace(request, headers=headers), case.secrets, NOW) == 0


def test_a_signature_header_that_comes_twice_is_refused_even_if_both_are_good(case: Case) -> None:
    request = case.valid()
    for name in case.signature_headers:
        value = request.one(name)
        assert value is not None
        assert refusal(case, replace(request, headers=with_header(request.headers, name, value, value))) == "several"


@pytest.mark.row("A9")
def test_a_signed_time_holds_for_as_long_as_the_provider_says(case: Case) -> None:
    request, adapter = case.valid(), case.adapter()
    if case.tolerance_s is None:
        assert adapter.verify(request, case.secrets, NOW + timedelta(days=30)) == 0
        return
    ahead, held = timedelta(seconds=case.tolerance_s), timedelta(seconds=case.taken_s or case.tolerance_s)
    assert adapter.verify(request, case.secrets, NOW + held) == adapter.verify(request, case.secrets, NOW - ahead) == 0
    for now, reason in ((NOW + held + timedelta(seconds=1), "stale"), (NOW - ahead - timedelta(seconds=1), "future")):
        with pytest.raises(SignatureInvalid) as caught:
            adapter.verify(request, case.secrets, now)
        assert caught.value.reason == reason


def test_one_request_is_read_the_same_every_time(case: Case) -> None:
    assert event_of(case, Sample()) == event_of(case, Sample())
    assert case.adapter().verify(case.valid(), case.secrets, NOW) == 0


def test_an_event_is_named_by_its_provider_and_holds_its_own_bytes(case: Case) -> None:
    request = case.valid()
    (event,) = events_of(case.adapter(), request)
    assert event.poison is None
    assert event.mode == "live"
    assert (event.fact_key is not None) == case.books
    assert event.occurred_at is None or from_rfc3339(event.occurred_at.isoformat()) == event.occurred_at


def test_a_redelivery_is_the_same_event_whatever_differs_between_deliveries(case: Case) -> None:
    first, again = (event_of(case, Sample(delivery=number)) for number in (1, 2))
    for name in ("event_key", "entity_key", "content_sha256", "content_version", "fact_key", "fact_sha256"):
        assert getattr(first, name) == getattr(again, name), name


def test_one_event_in_two_versions_of_an_api_is_one_content(case: Case) -> None:
    for older, newer in case.renderings():
        first, other = (only(case, case.request(body, case.secrets[0])) for body in (older, newer))
        assert first.event_key == other.event_key
        assert first.content_sha256 == other.content_sha256
        checked(case.adapter(), first)
        checked(case.adapter(), other)


def test_no_header_that_is_not_signed_makes_another_event(case: Case) -> None:
    named_alike(case)


def test_the_signing_secret_makes_no_other_event(case: Case) -> None:
    body = case.body(Sample())
    first, second = (only(case, case.request(body, secret)) for secret in case.secrets)
    assert (first.event_key, first.content_sha256) == (second.event_key, second.content_sha256)


def test_another_amount_is_another_content_of_the_same_event_and_fact(case: Case) -> None:
    first, other = (event_of(case, Sample(amount_minor=amount)) for amount in (1_250, 1_251))
    assert (first.content_sha256 != other.content_sha256) == case.names_amounts
    assert first.event_key == other.event_key
    assert first.fact_key == other.fact_key
    assert (first.fact_sha256 != other.fact_sha256) == case.books


def test_an_amount_that_cant_be_trusted_costs_the_event_its_fact_and_no_more(case: Case) -> None:
    """It is named as ever, and fails when it is handled, where a person sees it."""
    body, adapter, named = case.body(Sample()), case.adapter(), event_of(case, Sample())
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
    first, second = (event_of(case, Sample(event=f"e{number}", movement=f"m{number}")) for number in (1, 2))
    assert first.event_key != second.event_key
    assert (first.entity_key == second.entity_key) == case.of_payment
    assert (first.fact_key != second.fact_key) == case.books


@pytest.mark.row("A13")
def test_one_movement_under_two_event_ids_is_one_fact(case: Case) -> None:
    first, second = (event_of(case, Sample(event=event)) for event in ("e1", "e2"))
    assert (first.fact_key, first.fact_sha256) == (second.fact_key, second.fact_sha256)


@pytest.mark.row("A5")
def test_order_is_kept_for_a_payment_or_for_a_merchant_as_is_set(case: Case) -> None:
    requests = [
        case.valid(Sample(event=f"e{number}", movement=f"m{number}", payment=f"p{number}")) for number in (1, 2)
    ]
    assert len({only(case, request).entity_key for request in requests}) == 2
    assert len({only(case, request, entity="merchant").entity_key for request in requests}) == 1


def test_each_event_of_a_batch_has_its_own_bytes_and_one_forged_event_refuses_them_all(case: Case) -> None:
    several = [Sample(event=f"e{number}", movement=f"m{number}", payment=f"p{number}") for number in range(3)]
    body = case.batch(several)
    if body is None:
        assert len(events_of(case.adapter(), case.valid())) == 1
        return
    request = case.request(body, case.secrets[0])
    events = events_of(case.adapter(), request)
    assert [event.event_key for event in events] == [event_of(case, one).event_key for one in several]
    assert len({event.body for event in events}) == len(several)
    reported_by = request.fetched.body if request.fetched is not None else request.body
    assert all(event.body in reported_by for event in events)
    assert [altered for altered in case.altered(request) if refusal(case, altered) is None] == []


def test_the_content_hash_of_other_versions(case: Case) -> None:
    """Version 0 is poison's: the hash of the bytes."""
    body = event_of(case, Sample()).body
    assert case.adapter().content_sha256(body, 0) == hashlib.sha256(body).hexdigest()
    assert case.adapter().content_sha256(b"\xff", 0) == hashlib.sha256(b"\xff").hexdigest()
    for version in (case.adapter().content_version + 1, 1_000_000):
        with pytest.raises(ContentVersionUnknown, match="upgrade") as caught:
            case.adapter().content_sha256(body, version)
        travels(caught.value)


def test_an_acknowledgement_is_a_2xx(case: Case) -> None:
    answer = case.adapter().accepted()
    assert 200 <= answer.status < 300
    assert "/" in answer.content_type


def test_an_empty_secret_is_refused(case: Case) -> None:
    with pytest.raises(SettingError, match=f"secrets/{case.name}") as caught:
        case.adapter().check_secret("")
    travels(caught.value)
    with pytest.raises(SettingError):
        case.adapter().verify(case.valid(), [""], NOW)


def test_a_new_secret_is_of_the_providers_form_and_signs(case: Case) -> None:
    adapter = case.adapter()
    first, second = adapter.new_secret(), adapter.new_secret()
    assert first != second
    adapter.check_secret(first)
    try:
        signed = sign(adapter, case.body(Sample()), first, NOW)
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


def test_no_signature_at_all_is_missing_or_malformed(case: Case) -> None:
    for request in case.resigned(case.valid(), []):
        assert refusal(case, request) in ("missing", "malformed")
