"""One body masked: each way of writing it, what hides in it, and what must stay."""

from __future__ import annotations

import base64
import json
from typing import Any
from urllib.parse import parse_qs, quote, unquote, urlencode
from xml.etree import ElementTree

import pytest
from hypothesis import given
from hypothesis import strategies as st

from core.card_numbers import card_spans, has_check_digit
from ingest.pan_body import BodyMask
from tests.unit.ingest.masked_bodies import CARD, FIELDS, HIDDEN, LAST_FOUR, masked


def in_json(document: Any, **kept: Any) -> Any:
    return json.loads(masked(json.dumps(document).encode(), **kept))


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ({"note": CARD}, {"note": HIDDEN}),
        ({"note": f"paid by {CARD}, thanks"}, {"note": f"paid by {HIDDEN}, thanks"}),
        ({"note": "4111 1111 1111 1111"}, {"note": "4111 11** **** 1111"}),
        ({"note": f"é {CARD}\n{CARD}"}, {"note": f"é {HIDDEN}\n{HIDDEN}"}),
        ({"a": [{"b": [CARD, 1]}]}, {"a": [{"b": [HIDDEN, 1]}]}),
        ({CARD: 1}, {HIDDEN: 1}),
        ({"note": f"{{-{CARD}}}"}, {"note": "{-4111110000001111}"}),
        ({"note": f"{{-{CARD}"}, {"note": f"{{-{HIDDEN}"}),
        ({"note": "[4111 1111 1111 1111]"}, {"note": "[4111 11** **** 1111]"}),
        ({"note": f"[\x01{CARD}]"}, {"note": f"[\x01{HIDDEN}]"}),
        ({"note": f"{{x {CARD}"}, {"note": f"{{x {HIDDEN}"}),
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
    ("4111111111111112e99999999", "4111111111111112e99999999"),
    ("411111111111111200000.0", "411111111111111200000.0"),
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


@pytest.mark.parametrize("value", ["4111111111111111.50", "0.4111111111111111", "4.111111111111111e15"])
def test_in_any_other_field_a_number_with_a_fraction_stays(value: str):
    body = b'{"amount":%b}' % value.encode()
    assert masked(body) == body


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


@pytest.mark.parametrize("value", ["pass", "", None, True, "M", "unavailable", "***"])
def test_what_a_check_of_a_secret_gave_stays(value: object):
    assert in_json({"cvc": value, "cvc_check": "123"}) == {"cvc": value, "cvc_check": "123"}


def test_an_id_stays_whole_under_its_name_or_where_it_equals_the_events_own():
    body = {"id": CARD, "ids": [CARD], "link": f"/v1/{CARD}", "n": int(CARD), "other": "5555555555554444"}
    assert in_json({"id": [CARD], "number": 1})["id"] == [CARD]
    assert in_json({"id": {"note": CARD, "id": CARD}}) == {"id": {"note": HIDDEN, "id": HIDDEN}}
    assert in_json({"id": {"number": CARD}}) == {"id": {"number": LAST_FOUR}}
    assert in_json(body, spared=(CARD,)) == body | {"other": "555555******4444"}
    assert in_json({"note": f"re {CARD}!"}, spared=(f"re {CARD}!",)) == {"note": f"re {CARD}!"}
    assert in_json({"pan": CARD}, ids=("pan",)) == {"pan": CARD}


def test_an_ids_name_spares_nothing_but_where_the_provider_has_its_ids():
    own = {"id": CARD, "data": {"object": {"id": CARD, "refunds": {"data": [{"id": CARD}]}}}}
    assert in_json([own]) == [own]
    for filled in ("metadata", "notes", "custom_data", "additionalData", "description"):
        assert in_json({"data": {filled: {"id": CARD, "data": {"id": CARD}}}}) == {
            "data": {filled: {"id": HIDDEN, "data": {"id": HIDDEN}}}
        }
    assert in_json({"data": json.dumps({"id": CARD})}) == {"data": json.dumps({"id": HIDDEN})}
    xml = "<notification><subject><transaction><id>{}</id><x id='{}'/><custom-fields><id>{}</id></custom-fields>"
    assert masked(xml.format(CARD, CARD, CARD).encode()) == xml.format(CARD, HIDDEN, HIDDEN).encode()
    assert masked(f"data[id]={CARD}&note[id]={CARD}".encode()) == f"data[id]={CARD}&note[id]={HIDDEN}".encode()


WRITTEN = {
    "４１１１１１１１１１１１１１１１": "４１１１１１@@@@@@１１１１",
    "4111\u00a01111\u202f1111\u20071111": "4111\u00a011**\u202f****\u20071111",
    "4111\u200b1111\u20601111\ufeff1111": "4111\u200b11**\u2060****\ufeff1111",
    "4\u200b\u200b\u200b\u200b\u200b111111111111111": "4\u200b\u200b\u200b\u200b\u200b11111******1111",
    "４１１１／１１１１．１１１１－１１１１": "４１１１／１１@@．@@@@－１１１１",
    "4111\n1111\t1111\r\n1111": "4111\n11**\t****\r\n1111",
    "4111/1111/1111/1111": "4111/11**/****/1111",
    "𝟒𝟏𝟏𝟏𝟏𝟏𝟏𝟏𝟏𝟏𝟏𝟏𝟏𝟏𝟏𝟏": "𝟒𝟏𝟏𝟏𝟏𝟏######𝟏𝟏𝟏𝟏",
}


@pytest.mark.parametrize("text", WRITTEN)
def test_other_digits_blanks_and_dashes_are_read_as_what_they_look_like(text: str):
    """A star stands for each byte; an escape is one of a star (a pair of escapes is two)."""
    after = WRITTEN[text].replace("@", "***").replace("#", "****")
    escaped = WRITTEN[text].replace("@", "*").replace("#", "**")
    assert json.loads(masked(json.dumps({"a": text}, ensure_ascii=False).encode())) == {"a": after}
    assert json.loads(masked(json.dumps({"a": text}).encode())) == {"a": escaped}
    assert json.loads(masked(json.dumps({"a": text}).replace("/", "\\/").encode()))["a"].count("*") >= 6
    form = masked(f"x=1&a={quote(text, safe='')}".encode())
    assert unquote(form.decode()) == f"x=1&a={after}"
    assert masked(f"<a>{text}</a>".encode()) == f"<a>{after}</a>".encode()
    assert masked(f"text {text}".encode()) == f"text {after}".encode()


def test_base64_is_looked_into_wherever_it_stands():
    def encoded(text: str) -> str:
        return base64.b64encode(text.encode()).decode()

    for text, hidden in (
        (f"card {CARD}", f"card {HIDDEN}"),
        ("x4111 1111 1111 1111", "x4111 11** **** 1111"),
        (f'{{"cvc":"123","n":{CARD}}}', '{"cvc":"***","n":4111110000001111}'),
        (f"<a>{CARD}</a>", f"<a>{HIDDEN}</a>"),
    ):
        assert in_json({"a": encoded(text)}) == {"a": encoded(hidden)}
    assert in_json({"a": f"see {encoded(CARD)}!"}) == {"a": f"see {encoded(HIDDEN)}!"}
    assert in_json({"a": f"data:x;base64,{encoded(CARD).rstrip('=')}"}) == {
        "a": f"data:x;base64,{encoded(HIDDEN).rstrip('=')}"
    }
    assert in_json({"a": f"ref_{encoded(CARD)}"}) == {"a": f"ref_{encoded(HIDDEN)}"}
    assert masked(f"text {encoded(CARD)}".encode()) == f"text {encoded(HIDDEN)}".encode()
    assert masked(f"a=1&b={encoded(CARD)}".encode()) == f"a=1&b={encoded(HIDDEN)}".encode()
    for harmless in ("pi_3MtwBwLkdIwHu7ix28a3tqPa", encoded("x" * 40), encoded("1" * 13), "eyJ" * 20):
        assert in_json({"a": harmless}) == {"a": harmless}


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
        mask = BodyMask(FIELDS, frozenset(), frozenset())
        mask.masked(text.encode())
        assert mask.secret is secret, text


@pytest.mark.parametrize(
    ("raw", "after"),
    [
        (rb'{"a":"\u0034111111111111111"}', rb'{"a":"\u0034' + b'11111******1111"}'),
        (rb'{"a":"411111111111\u00311\u00311"}', rb'{"a":"411111******\u00311\u00311"}'),
        (rb'{"a":"4111111\u00311111\u00311\u00311"}', rb'{"a":"411111*\u002a****\u00311\u00311"}'),
        (rb'{"a":"4111\u00201111\u00201111\u00201111"}', rb'{"a":"4111\u002011**\u0020****\u00201111"}'),
        (
            rb'{"a":"4111\u002d1111-1111-1111"}',
            rb'{"a":"4111\u002d1111-1111-1111"}'.replace(b"d1111-1111", b"d11**-****"),
        ),
        (rb'{"a":"x\n4111111111111111"}', rb'{"a":"x\n411111******1111"}'),
        (rb'{"a":"\u30ab4111111111111111\t"}', rb'{"a":"\u30ab411111******1111\t"}'),
        (rb'{"a":"\\4111111111111111\""}', rb'{"a":"\\411111******1111\""}'),
        (rb'{"cvc":"\u00312\n3\u00e9"}', rb'{"cvc":"\u002a***' + rb'*\u002a"}'),
    ],
)
def test_escapes_hide_nothing_and_keep_their_length(raw: bytes, after: bytes):
    assert masked(raw) == after


def test_json_and_xml_within_a_text_of_json_are_looked_through():
    inner = {"cvc": "123", "number": "4111111111111112", "n": int(CARD), "id": CARD, "t": [f"x\n{CARD}"]}
    after = in_json({"raw": json.dumps(inner), "id": 1})
    assert json.loads(after["raw"]) == {
        "cvc": "***",
        "number": "************1112",
        "n": 4111110000001111,
        "id": HIDDEN,
        "t": [f"x\n{HIDDEN}"],
    }
    assert in_json({"raw": f'<c a="1"><cvv>123</cvv>{CARD}</c>'}) == {"raw": f'<c a="1"><cvv>***</cvv>{HIDDEN}</c>'}
    assert in_json({"raw": f"{{not json {CARD}, cvc: 123"}) == {"raw": f"{{not json {HIDDEN}, cvc: ***"}


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (f"card={CARD}&cvc=123", f"card={HIDDEN}&cvc=***"),
        ("card=4111+1111+1111+1111&cvc=123", "card=4111+11**+****+1111&cvc=***"),
        (f"card={CARD}&amp;cvc=123", f"card={HIDDEN}&amp;cvc=***"),
        (f"card%3D{CARD}%26cvc%3D123", f"card%3D{HIDDEN}%26cvc%3D***"),
        (f"{CARD}=1&x=2", f"{HIDDEN}=1&x=2"),
        ("https://x.example/?q=4111+1111+1111+1111", "https://x.example/?q=4111+11**+****+1111"),
        ("card=4111%201111%201111%201111", "card=4111%2011**%20****%201111"),
        ("see x?card=4111%C2%A01111%C2%A01111-1111 now", "see x?card=4111%C2%A011**%C2%A0****-1111 now"),
        ("4" + "%31" * 15, "4" + "%31" * 5 + "%2A" * 6 + "%31" * 4),
        ("4111%25201111%25201111%25201111", "4111%252011**%2520****%25201111"),
        (f"&#52;{CARD[1:]}", f"&#52;{HIDDEN[1:]}"),
        ("4111&#32;1111&#x20;1111&#32;1111", "4111&#32;11**&#x20;****&#32;1111"),
        ("4111&nbsp;1111&ndash;1111&shy;1111", "4111&nbsp;11**&ndash;****&shy;1111"),
        ("411111&#49;1&#x31;1111111", "411111&#42;*&#x2a;***1111"),
        ("&lt;cvc&gt;123&lt;/cvc&gt;", "&lt;cvc&gt;***&lt;/cvc&gt;"),
        (quote('{"cvc":"123"}'), quote('{"cvc":"***"}', safe="*")),
        ("{&quot;cvc&quot;:&quot;123&quot;}", "{&quot;cvc&quot;:&quot;***&quot;}"),
    ],
)
def test_a_text_that_a_form_or_a_page_wrote_is_read(before: str, after: str):
    assert in_json({"a": [before]}) == {"a": [after]}
    assert in_json({"a": json.dumps([before])}) == {"a": json.dumps([after])}
    assert in_json({"a": after}) == {"a": after}


@pytest.mark.parametrize(
    "text",
    [
        *("cvc=123", "cvc: 123", "https://x.example/?cid=123&a=1", "a=1&b=2", "a=1&cid=", "cid=1 & cvc=2"),
        *("100%25 off &amp; more", "%41%42%zz%", "&#52", "&nope;4111", "&#9999999;", "1&nbsp;000&nbsp;000", "%E9%FF"),
        *("4111+1111", "+49+4111", "12%3A00%3A00+01%3A00", f"%3D{CARD}0000", "4111&times;1111&times;1111&times;1111"),
    ],
)
def test_other_texts_with_such_escapes_stay_as_they_are(text: str):
    assert in_json({"a": text}) == {"a": text}


def test_a_card_fields_text_in_escapes_shows_its_last_four():
    assert in_json({"pan": "4111%201111%201111%201112"}) == {"pan": "****%20****%20****%201112"}
    assert in_json({"number": "&#52;111111111111112"}) == {"number": "&#42;***********1112"}


def test_a_text_that_is_no_body_is_read_in_such_escapes_too():
    assert masked(b"pay 4111%201111%201111%201111") == b"pay 4111%2011**%20****%201111"
    assert masked(b'{"a":"4111&nbsp;1111-1111-1111","b"') == b'{"a":"4111&nbsp;11**-****-1111","b"'


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
    assert masked(b"note=%34%31111%31111%31%31%31%31%31%31%31&x=1") == b"note=%34%31111%31***%2A%2A%2A%31%31%31%31&x=1"
    assert masked(f"payload={quote(json.dumps({'cvc': 12, 't': CARD}))}".encode()) == (
        f"payload={quote(json.dumps({'cvc': 10, 't': HIDDEN}), safe='/*')}".encode()
    )


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (f"{CARD}=1&b=2", f"{HIDDEN}=1&b=2"),
        (f"b=2&{CARD}", f"b=2&{HIDDEN}"),
        (f"metadata[{CARD}][note]=1", f"metadata[{HIDDEN}][note]=1"),
        ("4111+1111+1111+1111=", "4111+11**+****+1111="),
        ("%34111%201111%201111%201111=1", "%34111%2011**%20****%201111=1"),
    ],
)
def test_a_card_number_in_a_forms_name_is_hidden(before: str, after: str):
    assert masked(before.encode()) == after.encode()


@pytest.mark.parametrize("stray", ["", "A", "AA", "A="])
def test_letters_at_the_end_of_base64_that_make_no_byte_hide_nothing(stray: str):
    letters = base64.b64encode(f"paid by {CARD}".encode()).decode()
    after = in_json({"note": letters + stray})["note"]
    assert base64.b64decode(after[: len(letters)]).decode() == f"paid by {HIDDEN}"
    assert after[len(letters) :] == stray


def test_xml_in_base64_in_a_form_stays_what_it_is():
    def form(number: str, code: str) -> bytes:
        xml = f"<notification><id>{CARD}</id><number>{number}</number><cvv>{code}</cvv></notification>"
        return urlencode({"signature": "pub|0f", "payload": base64.encodebytes(xml.encode())}).encode()

    assert masked(form(CARD, "123")) == form(LAST_FOUR, "***")
    assert masked(form("", "")) == form("", "")


def test_xml_stays_xml():
    before = (
        f'<?xml version="1.0"?><n:a xmlns:n="u"><n:card-number type="x">{CARD}</n:card-number><id>{CARD}</id>'
        f"<CVV><![CDATA[123]]></CVV><note>&#52;{CARD[1:]} &#x34;{CARD[1:]} &amp; &#233;{CARD}</note>"
        f"<card number=\"4111111111111112\" cvc='1'/><number>8008</number><!-- {CARD} --></n:a>"
    )
    after = masked(before.encode()).decode()
    assert after == (
        f'<?xml version="1.0"?><n:a xmlns:n="u"><n:card-number type="x">{LAST_FOUR}</n:card-number><id>{CARD}</id>'
        f"<CVV><![CDATA[***]]></CVV><note>&#52;{HIDDEN[1:]} &#x34;{HIDDEN[1:]} &amp; &#233;{HIDDEN}</note>"
        f"<card number=\"************1112\" cvc='*'/><number>8008</number><!-- {HIDDEN} --></n:a>"
    )
    ElementTree.fromstring(after)


@pytest.mark.parametrize("encoding", ["utf-16", "utf-16-le", "utf-16-be", "utf-32", "utf-8-sig"])
def test_other_encodings_hide_nothing(encoding: str):
    body = json.dumps({"a": CARD, "cvc": "123", "id": CARD, "n": int(CARD)})
    after = masked(body.encode(encoding)).decode(encoding)
    assert json.loads(after) == {"a": HIDDEN, "cvc": "***", "id": CARD, "n": 4111110000001111}


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (f'{{"a":"{CARD}","cvc":"12', f'{{"a":"{HIDDEN}","cvc":"**'),
        (f'{{"id":"{CARD}","a":{CARD},', f'{{"id":"{HIDDEN}","a":{HIDDEN},'),
        (f'{{"a":"\\u0034{CARD[1:]}', f'{{"a":"\\u0034{HIDDEN[1:]}'),
        (f"pay {CARD} cvv=123; pan: 500000000012", f"pay {HIDDEN} cvv=***; pan: ********0012"),
        (f"{{{CARD}\\{CARD} \\n{CARD}", f"{{{HIDDEN}\\{HIDDEN} \\n{HIDDEN}"),
        (f"\x00\x01{CARD}", f"\x00\x01{HIDDEN}"),
        ("\x00\x00\x00", "\x00\x00\x00"),
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


def test_deep_and_large_bodies_are_masked_in_time():
    deep = b"[" * 2_000 + b'"' + CARD.encode() + b'"' + b"]" * 2_000
    assert HIDDEN.encode() in masked(deep)
    for junk in (
        b"a " * 200_000,
        b"a" * 400_000,
        b"<a " * 130_000,
        b"4111 " * 80_000,
        b"number:" * 60_000,
        b"4111111111111111 id=1 " * 20_000,
    ):
        masked(junk)
        masked(b'{"a":"' + junk + b'"}')
