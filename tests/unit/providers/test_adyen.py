"""Adyen: every item is sliced out byte by byte, and what no row of its samples can say."""

from __future__ import annotations

import hashlib
import json
from datetime import datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from core.errors import Unparseable
from load.samples import sign
from providers import Adapter, ProvidersSettings, Request, build_adapters
from tests.unit.providers.samples.adyen import KEY, OTHER_KEY, SPOILT, body, disputed, item, signed


def test_the_index_of_the_key_that_signed_is_reported_and_of_several_items_the_oldest(
    adapter: Adapter, now: datetime
) -> None:
    keys = [KEY, OTHER_KEY]
    assert adapter.verify(Request(body(signed(item())), []), keys, now) == 0
    assert adapter.verify(Request(body(signed(item(), OTHER_KEY)), []), keys, now) == 1
    both = body(signed(item()), signed(item(pspReference="PSP2"), OTHER_KEY), signed(item(pspReference="PSP3")))
    assert adapter.verify(Request(both, []), keys, now) == 1


def test_what_is_signed_here_is_accepted_here(adapter: Adapter, now: datetime) -> None:
    secret = adapter.new_secret()
    adapter.check_secret(secret)
    first = {**item(), "additionalData": {"kept": "yes", "hmacSignature": "old"}, "ratio": 0.10}
    made = sign(adapter, body(first, item(pspReference="PSP2")), secret, now)
    assert adapter.verify(Request(made.body, []), [secret], now) == 0
    assert b'"kept":"yes"' in made.body
    assert made.headers == {"Content-Type": "application/json"}
    with pytest.raises(Unparseable):
        sign(adapter, b'{"notificationItems":[]}', secret, now)


def test_each_event_holds_the_exact_bytes_of_its_item(adapter: Adapter) -> None:
    first = '{ "NotificationRequestItem" :{"pspReference":"A","eventCode":"X","merchantAccountCode":"é",'
    first += '\n"success":"true"}}'
    second = (
        '{"NotificationRequestItem":{"eventCode":"X\\/","success":"false","pspReference":"\\u0041]},",'
        '"merchantAccountCode":"M","amount":{"value":1,"currency":"EUR"},"n":[1.50,{"a":[]}]}}'
    )
    whole = ' {"before":[{"notificationItems":[1]}],\n"notificationItems" : [ '
    whole += f'{first} ,\t{second}\r\n], "live":"true"}} \n'
    made = adapter.events(Request(whole.encode(), []), "live")
    assert [event.body for event in made] == [first.encode(), second.encode()]
    assert [event.event_id for event in made] == ["A", "A]},"]


def test_the_key_of_the_items_may_be_written_with_escapes(adapter: Adapter) -> None:
    whole = body(item()).replace(b"notificationItems", b"\\u006eotificationItems")
    (made,) = adapter.events(Request(whole, []), "live")
    assert json.loads(made.body) == {"NotificationRequestItem": item()}


_texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=8)
_extras = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**63)
    | st.floats(allow_nan=False, allow_infinity=False)
    | _texts,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(_texts, inner, max_size=3),
    max_leaves=8,
)


@given(
    st.lists(st.dictionaries(_texts, _extras, max_size=3), min_size=1, max_size=4),
    st.dictionaries(_texts, _extras, max_size=3),
    st.sampled_from([None, 1, "\t"]),
    st.booleans(),
)
def test_items_are_sliced_exactly_wherever_they_stand(
    extras: list[dict[str, Any]], around: dict[str, Any], indent: Any, ascii_only: bool
) -> None:
    adapter = build_adapters(ProvidersSettings())["adyen"]
    wrapped = [{"NotificationRequestItem": {**extra, **item(pspReference=f"P{n}")}} for n, extra in enumerate(extras)]
    whole = {**around, "notificationItems": wrapped, "live": "true"}
    text = json.dumps(whole, indent=indent, ensure_ascii=ascii_only).encode()
    made = adapter.events(Request(text, []), "live")
    assert [json.loads(event.body) for event in made] == wrapped
    at = 0
    for event in made:
        at = text.index(event.body, at) + len(event.body)
        assert adapter.content_sha256(event.body, adapter.content_version) == event.content_sha256


@pytest.mark.parametrize("changed", SPOILT)
def test_an_item_that_is_poison_is_named_by_its_bytes(adapter: Adapter, changed: dict[str, Any]) -> None:
    _, bad = adapter.events(Request(body(item(pspReference="A"), item(**changed)), []), "live")
    assert json.loads(bad.body) == {"NotificationRequestItem": item(**changed)}
    assert bad.event_key == f"adyen:{hashlib.sha256(bad.body).hexdigest()}:poison"


@pytest.mark.parametrize("extra", [{"authCode": "1", "hmacSignature": "x"}, {"authCode": "1"}, {}, None, ...])
def test_the_first_versions_hash_is_what_it_was(adapter: Adapter, extra: Any) -> None:
    """All but eventDate and the signature: keys sorted, no blanks."""
    of = item(reason="033899:1111:03/2030", additionalData=extra)
    left = {name: value for name, value in of.items() if name != "eventDate"}
    if isinstance(extra, dict):
        left["additionalData"] = {name: value for name, value in extra.items() if name != "hmacSignature"}
    expected = hashlib.sha256(json.dumps(left, sort_keys=True, separators=(",", ":")).encode()).hexdigest()
    [event] = adapter.events(Request(body(of), []), "live")
    assert adapter.content_sha256(event.body, 1) == expected


def test_the_second_versions_hash_is_what_it_was(adapter: Adapter) -> None:
    """All but eventDate, reason and additionalData, and what an action did."""
    of = item(operations=["CAPTURE"], reason="x", additionalData={"modification.action": "refund", "authCode": "1"})
    left = {name: value for name, value in of.items() if name not in ("eventDate", "reason", "additionalData")}
    text = json.dumps({**left, "modification.action": "refund"}, sort_keys=True, separators=(",", ":"))
    [event] = adapter.events(Request(body(of), []), "live")
    assert event.content_version == 3
    assert adapter.content_sha256(event.body, 2) == hashlib.sha256(text.encode()).hexdigest()


def test_the_type_that_is_asked_for_is_the_items_own(adapter: Adapter) -> None:
    with pytest.raises(Unparseable, match="eventCode"):
        adapter.money(json.dumps({"NotificationRequestItem": item()}).encode(), "REFUND")


def test_only_adyens_own_words_are_taken() -> None:
    with pytest.raises(ValidationError):
        ProvidersSettings.model_validate({"adyen": {"capture": {"Main": "automatic"}}})
    with pytest.raises(ValidationError):
        ProvidersSettings.model_validate({"adyen_auto_capture": True})


def test_a_copy_that_tells_of_a_loss_begins_with_the_event_that_is_known(adapter: Adapter) -> None:
    [known] = adapter.events(Request(disputed("CHARGEBACK", "Undefended"), []), "live")
    copy, _ = adapter.events(Request(disputed("CHARGEBACK", "Lost"), []), "live")
    assert (copy.event_key, copy.content_sha256) == (known.event_key, known.content_sha256)
