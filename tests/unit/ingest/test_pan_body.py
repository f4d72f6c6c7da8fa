"""One body masked: JSON, a form, XML or a text, what hides in it, what must stay, and what isn't found."""

from __future__ import annotations

import json
from typing import Any
from urllib.parse import parse_qs, quote, urlencode
from xml.etree import ElementTree

import pytest
from hypothesis import given
from hypothesis import strategies as st

from core.card_numbers import card_spans, has_check_digit
from core.event import poison_event
from ingest.pan_body import BodyMask
from providers import ProvidersSettings, build_adapters
from tests.unit.ingest.masked_bodies import (
    CARD,
    HIDDEN,
    KINDS,
    LAST_FOUR,
    MASKER,
    bodies_with_what_is_not_found,
    masked,
)

ADAPTERS = build_adapters(ProvidersSettings())


def in_json(document: Any, **kept: Any) -> Any:
    return json.loads(masked(json.dumps(document).encode(), **kept))


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ({"note": CARD}, {"note": HIDDEN}),
        ({"note": f"paid by {CARD}, thanks"}, {"note": f"paid by {HIDDEN}, thanks"}),
        ({"note": "4111 1111 1111 1111"}, {"note": "4111 11** **** 1111"}),
        ({"note": "4111/1111.1111_1111"}, {"note": "4111/11**.****_1111"}),
        ({"note": "4111\n1111\t1111\r\n1111"}, {"note": "4111\n11**\t****\r\n1111"}),
        ({"note": f"é {CARD}\n{CARD}"}, {"note": f"é {HIDDEN}\n{HIDDEN}"}),
        ({"a": [{"b": [CARD, 1]}]}, {"a": [{"b": [HIDDEN, 1]}]}),
        ({CARD: 1}, {HIDDEN: 1}),
        ({"note": f'{{"number":"{CARD}"}}'}, {"note": f'{{"number":"{HIDDEN}"}}'}),
        ({"note": f"https://x.example/?card={CARD}&q=1"}, {"note": f"https://x.example/?card={HIDDEN}&q=1"}),
        ({"note": f"<c n='{CARD}'/>"}, {"note": f"<c n='{HIDDEN}'/>"}),
        ([CARD], [HIDDEN]),
    ],
)
def test_a_card_number_in_any_text_of_json_is_hidden(before: Any, after: Any):
    assert in_json(before) == after


def test_a_number_stays_a_number_of_the_same_length_and_is_no_card_any_more():
    body = json.dumps({"a": int(CARD), "b": [4000000000000002, 36227206271667], "c": 1}).encode()
    after = json.loads(masked(body))
    assert after["a"] == 4111110000001111
    assert [str(number)[:6] + str(number)[-4:] for number in after["b"]] == ["4000000002", "3622721667"]
    assert after["b"] != [4000000000000002, 36227206271667]
    assert list(card_spans(json.dumps(after).encode())) == []


@given(
    st.sampled_from(
        [("4", 13), ("4", 16), ("4", 19), ("51", 16), ("34", 15), ("36", 14), ("36", 17), ("6", 17), ("6", 18)]
    ),
    st.text("0123456789", min_size=18, max_size=18),
)
def test_every_numbers_mask_is_another_number_that_is_no_card(issuer: tuple[str, int], rest: str):
    head, length = issuer
    digits = (head + rest)[: length - 1]
    number = next(digits + last for last in "0123456789" if has_check_digit((digits + last).encode()))
    after = masked(b'{"n":%b}' % number.encode())
    assert after != b'{"n":%b}' % number.encode()
    assert len(str(json.loads(after)["n"])) == length
    assert masked(after) == after


@pytest.mark.parametrize(
    "name", ["card_number", "cardNumber", "CARD-NUMBER", "pan", "number", "Primary_Account_Number"]
)
def test_a_card_field_shows_its_last_four_whatever_the_check_digit(name: str):
    assert in_json({"card": {name: "4111111111111112"}}) == {"card": {name: "************1112"}}
    assert in_json({name: "4111 1111 1111 1112"}) == {name: "**** **** **** 1112"}
    assert in_json({name: 4111111111111112}) == {name: 1000000000001112}
    assert in_json({name: ["500000000012", {"value": "500000000012"}]}) == {
        name: ["********0012", {"value": "********0012"}]
    }


CARD_FIELD_NUMBERS = [
    ("4111111111111112.0", "1000000000000112.0"),
    ("4.111111111111112e15", "1.000000000001112e15"),
    ("4.1111111111111120000000E+0015", "1.0000000000000000000000E+0015"),
    ("0.004111111111111112e18", "1.000000000000001112e18"),
    ("4111111111111112e-4", "1000000000001112e-4"),
    ("20260131.5", "20260131.5"),
    ("1e15", "1e15"),
]
"""Numbers as JSON writes them, and as a card field shows them."""


@pytest.mark.parametrize(("written", "shown"), CARD_FIELD_NUMBERS)
@pytest.mark.parametrize("template", ['{"number":%s}', '{"card":{"pan": [ %s ,1]}}', '{"number":-%s}'])
def test_a_card_field_hides_a_number_with_a_fraction_or_an_exponent(template: str, written: str, shown: str):
    after = masked((template % written).encode())
    assert after == (template % shown).encode()
    json.loads(after)


@pytest.mark.parametrize("written", [written for written, shown in CARD_FIELD_NUMBERS if written != shown])
@pytest.mark.parametrize("template", ['{"number":"%s"}', '{"pan":"-%s "}', "a=1&number=%s", "<a><pan>%s</pan></a>"])
def test_a_card_field_hides_a_text_that_is_such_a_number(template: str, written: str):
    after = masked((template % (quote(written) if "&" in template else written)).encode())
    assert b"4111111" not in after.replace(b".", b"") and b"*" * 7 in after


@pytest.mark.parametrize(
    "value", ["8008", "MM00064", None, "EE1DF78D-0001", "", "************1111", "42", 20260131, "x" * 16, "1" * 20]
)
def test_a_number_that_is_no_card_number_stays(value: object):
    assert in_json({"number": value}) == {"number": value}


@pytest.mark.parametrize(
    "name",
    [
        *("cvc", "CVV", "cvv2", "card_cvc", "securityCode", "track2", "track1_data", "pinBlock", "cid", "cav2"),
        *("cvc_code", "track2DiscretionaryData", "discretionary-data"),
    ],
)
def test_a_cards_secret_is_hidden_wholly(name: str):
    assert in_json({"source": {name: "123"}}) == {"source": {name: "***"}}
    assert in_json({name: f";{CARD}=2512"}) == {name: "*" * 22}
    assert in_json({name: 123}) == {name: 100}
    assert in_json({name: 7}) == {name: 0}
    assert in_json({name: -1.5}) == {name: 1000}
    assert in_json({name: ["12\n3"]}) == {name: ["*****"]}
    assert in_json({name: {"value": "123"}}) == {name: {"value": "***"}}


@pytest.mark.parametrize("value", ["pass", "", None, True, "M", "unavailable", "***"])
def test_what_a_check_of_a_secret_gave_stays(value: object):
    assert in_json({"cvc": value, "cvc_check": "123"}) == {"cvc": value, "cvc_check": "123"}


def test_an_id_stays_whole_under_its_name_or_where_it_equals_the_events_own():
    body = {"id": CARD, "ids": [CARD], "link": f"/v1/{CARD}", "n": int(CARD), "other": "5555555555554444"}
    assert in_json({"id": [CARD], "number": 1})["id"] == [CARD]
    assert in_json({"id": {"note": CARD, "id": CARD}}) == {"id": {"note": HIDDEN, "id": HIDDEN}}
    assert in_json({"id": {"number": CARD}}) == {"id": {"number": LAST_FOUR}}
    assert in_json(body, spared=(CARD,)) == body | {"other": "555555******4444"}
    assert in_json({"note": f"ré {CARD}!"}, spared=(f"ré {CARD}!",)) == {"note": f"ré {CARD}!"}
    assert in_json({"pan": CARD}, ids=("pan",)) == {"pan": CARD}


def test_an_ids_name_spares_nothing_but_where_the_provider_has_its_ids():
    own = {"id": CARD, "data": {"object": {"id": CARD, "refunds": {"data": [{"id": CARD}]}}}}
    assert in_json([own]) == [own]
    for filled in ("metadata", "notes", "custom_data", "additionalData", "description"):
        assert in_json({"data": {filled: {"id": CARD, "data": {"id": CARD}}}}) == {
            "data": {filled: {"id": HIDDEN, "data": {"id": HIDDEN}}}
        }
    assert in_json({"data": json.dumps({"id": CARD})}) == {"data": json.dumps({"id": HIDDEN})}
    assert masked(f"data[id]={CARD}&note[id]={CARD}".encode()) == f"data[id]={CARD}&note[id]={HIDDEN}".encode()


def test_in_xml_an_id_is_an_elements_own_text_where_the_provider_has_its_ids():
    xml = (
        "<notification><subject><transaction><id>{0}</id><x id='{1}'/><id><x>{1}</x></id>"
        "<custom-fields><id>{1}</id></custom-fields></transaction></subject></notification>"
    )
    assert masked(xml.format(CARD, CARD).encode()) == xml.format(CARD, HIDDEN).encode()
    torn = "<notification><subject></b><id>{}</id>"
    assert masked(torn.format(CARD).encode()) == torn.format(HIDDEN).encode(), "nobody knows where ids stand"


def test_a_tracks_data_go_with_its_number():
    assert in_json({"a": f";{CARD}=25121010000012345678?"}) == {"a": f";{HIDDEN}={'*' * 20}?"}
    assert in_json({"a": f"%B{CARD}^DOE/JOHN^251210199900?"}) == {"a": f"%B{HIDDEN}^DOE/JOHN^{'*' * 12}?"}


def test_a_code_or_a_track_that_was_masked_is_said():
    for text, secret in (
        (f'{{"a":"{CARD}"}}', False),
        ('{"cvc":"123"}', True),
        ('{"cvc":123}', True),
        (f'{{"a":";{CARD}=25121010000012345678?"}}', True),
        ("<a><cvv>123</cvv></a>", True),
        ("cvc=123", True),
        ('{"cvc":"pass"}', False),
    ):
        mask = BodyMask(KINDS, frozenset(), frozenset())
        mask.mask_body(text.encode())
        assert mask.secret is secret, text


@pytest.mark.parametrize(
    ("raw", "after"),
    [
        (rb'{"a":"\u0034111111111111111"}', rb'{"a":"\u0034' + b'11111******1111"}'),
        (rb'{"a":"411111111111\u00311\u00311"}', rb'{"a":"411111******\u00311\u00311"}'),
        (rb'{"a":"4111111\u00311111\u00311\u00311"}', rb'{"a":"411111*\u002a****\u00311\u00311"}'),
        (rb'{"a":"4111\u00201111\u00201111\u00201111"}', rb'{"a":"4111\u002011**\u0020****\u00201111"}'),
        (rb'{"a":"4111\/1111\/1111\/1111"}', rb'{"a":"4111\/11**\/****\/1111"}'),
        (rb'{"a":"x\n4111111111111111"}', rb'{"a":"x\n411111******1111"}'),
        (rb'{"a":"\u30ab4111111111111111\t"}', rb'{"a":"\u30ab411111******1111\t"}'),
        (rb'{"a":"\\4111111111111111\""}', rb'{"a":"\\411111******1111\""}'),
        (rb'{"cvc":"\u00312\n3\u00e9"}', rb'{"cvc":"\u002a***' + rb'*\u002a"}'),
        (rb'{"c\u0076c":"123"}', rb'{"c\u0076c":"***"}'),
        (rb'{"\u0034111111111111111":1}', rb'{"\u0034' + b'11111******1111":1}'),
        (rb'{"a":"\u0034111111111111111', rb'{"a":"\u0034' + b"11111******1111"),
    ],
)
def test_jsons_own_escapes_hide_nothing_and_keep_their_length(raw: bytes, after: bytes):
    assert masked(raw) == after


def test_a_form_stays_a_form():
    fields = {"card[number]": CARD, "cvc": "123", "note": "+ 4111 1111 1111 1111 é", "id": CARD, "n": "4008"}
    after = masked(urlencode(fields).encode())
    assert parse_qs(after.decode()) == {
        "card[number]": [LAST_FOUR],
        "cvc": ["***"],
        "note": ["+ 4111 11** **** 1111 é"],
        "id": [CARD],
        "n": ["4008"],
    }


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (f"{CARD}=1&b=2", f"{HIDDEN}=1&b=2"),
        (f"b=2&{CARD}", f"b=2&{HIDDEN}"),
        (f"metadata[{CARD}][note]=1", f"metadata[{HIDDEN}][note]=1"),
        ("4111+1111+1111+1111=", "4111+11**+****+1111="),
        ("%34111%201111%201111%201111=1", "%34111%2011**%20****%201111=1"),
        ("note=%34%31111%31111%31%31%31%31%31%31%31&x=1", "note=%34%31111%31***%2A%2A%2A%31%31%31%31&x=1"),
    ],
)
def test_a_forms_names_and_escapes_hide_nothing(before: str, after: str):
    assert masked(before.encode()) == after.encode()


def test_xml_stays_xml():
    before = (
        f'<?xml version="1.0"?><n:a xmlns:n="u"><n:card-number type="x">{CARD}</n:card-number><id>{CARD}</id>'
        f"<CVV><![CDATA[123]]></CVV><note>&amp; &#233;{CARD}</note><pan> 4111111111111112</pan>"
        f'<card number="4111111111111112" cvc=\'1\' n="{CARD}"/><number>8008</number><!-- {CARD} --></n:a>'
    )
    after = masked(before.encode()).decode()
    assert after == (
        f'<?xml version="1.0"?><n:a xmlns:n="u"><n:card-number type="x">{LAST_FOUR}</n:card-number><id>{CARD}</id>'
        f"<CVV><![CDATA[***]]></CVV><note>&amp; &#233;{HIDDEN}</note><pan> ************1112</pan>"
        f'<card number="************1112" cvc=\'*\' n="{HIDDEN}"/><number>8008</number><!-- {HIDDEN} --></n:a>'
    )
    ElementTree.fromstring(after)


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (f'{{"a":"{CARD}","cvc":"12', f'{{"a":"{HIDDEN}","cvc":"12'),
        (f'{{"id":"{CARD}","a":{CARD},', f'{{"id":"{HIDDEN}","a":{HIDDEN},'),
        (f"pay {CARD} or {CARD}", f"pay {HIDDEN} or {HIDDEN}"),
        (f"{{{CARD}\\{CARD} \\n{CARD}", f"{{{HIDDEN}\\{HIDDEN} \\n{HIDDEN}"),
        (f"\x00\x01{CARD}", f"\x00\x01{HIDDEN}"),
        ("", ""),
        ("{", "{"),
        ('{"a": "\\', '{"a": "\\'),
        (f'{{"a": NaN, "a": "{CARD}"}}', f'{{"a": NaN, "a": "{HIDDEN}"}}'),
    ],
)
def test_what_is_no_body_at_all_is_masked_as_a_text(before: str, after: str):
    assert masked(before.encode()) == after.encode()


def test_bytes_that_are_no_text_are_no_hindrance():
    assert masked(b"\xff\x80" + CARD.encode() + b"\xc3") == b"\xff\x80" + HIDDEN.encode() + b"\xc3"
    assert masked(b'{"a":"\xff' + CARD.encode() + b'"}') == b'{"a":"\xff' + HIDDEN.encode() + b'"}'


@pytest.mark.parametrize(("what", "body"), bodies_with_what_is_not_found(), ids=lambda value: str(value)[:40])
def test_what_the_page_says_isnt_found_stays_as_it_was_sent(what: str, body: bytes):
    assert what
    assert masked(body) == body
    event = poison_event("stripe", body, "live", "-")
    assert MASKER.mask_event(event, ADAPTERS["stripe"]) is event


def test_the_page_has_an_example_of_each_that_isnt_found():
    assert len(bodies_with_what_is_not_found()) >= 15
