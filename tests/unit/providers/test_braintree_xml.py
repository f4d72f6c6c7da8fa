"""Braintree's XML: what can be read in two ways isn't read at all."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from core.errors import Unparseable
from providers.braintree_xml import DEPTH_MAX, find_child, hash_content, parse_xml, text_of

BOMB = (
    '<!DOCTYPE a [<!ENTITY b "bbbbbbbbbb"><!ENTITY c "&b;&b;&b;&b;&b;&b;&b;&b;"><!ENTITY d "&c;&c;&c;&c;&c;&c;">]>'
    "<a>&d;&d;&d;&d;</a>"
)


@pytest.mark.parametrize(
    "xml",
    [
        "",
        " ",
        "text",
        "<a>",
        "<a></b>",
        "<a/><b/>",
        "<!DOCTYPE a><a/>",
        '<!DOCTYPE a SYSTEM "file:///etc/passwd"><a/>',
        '<!DOCTYPE a [<!ENTITY b SYSTEM "file:///etc/passwd">]><a>&b;</a>',
        '<!DOCTYPE a [<!ENTITY % b SYSTEM "https://example.com/x.dtd"> %b;]><a/>',
        '<!DOCTYPE a [<!ENTITY b "c">]><a>b</a>',
        BOMB,
        "<a>&unknown;</a>",
        "<a>&#0;</a>",
        "<a>&#xD800;</a>",
        "<a>\x00</a>",
        "<a>\x1f</a>",
        "<a b='1' b='2'/>",
        "<a xmlns:x='u' x:b='1' y:b='2'/>",
        "<a>" * (DEPTH_MAX + 1) + "</a>" * (DEPTH_MAX + 1),
        "<a>" * 50_000 + "</a>" * 50_000,
    ],
)
def test_what_is_no_plain_xml_is_refused(xml: str) -> None:
    with pytest.raises(Unparseable):
        parse_xml(xml.encode())


@pytest.mark.parametrize("encoding", ["utf-16", "utf-32", "latin-1"])
def test_only_utf8_is_read(encoding: str) -> None:
    with pytest.raises(Unparseable):
        parse_xml("<a>\xe9</a>".encode(encoding))


def test_a_declared_encoding_changes_nothing() -> None:
    for declared in ("UTF-8", "ISO-8859-1", "UTF-7", "none-such"):
        root = parse_xml(f'<?xml version="1.0" encoding="{declared}"?><a><b>\u00e9+AGE-</b></a>'.encode())
        assert text_of(root, "b") == "\u00e9+AGE-"


@given(st.binary(max_size=200))
def test_any_bytes_are_read_or_refused(xml: bytes) -> None:
    for body in (xml, b"<a>" + xml + b"</a>", b"<?xml version='1.0' encoding='" + xml + b"'?><a/>"):
        try:
            assert len(hash_content(parse_xml(body))) == 64
        except Unparseable:
            continue


def test_as_deep_as_allowed_is_read() -> None:
    assert len(hash_content(parse_xml(("<a>" * DEPTH_MAX + "</a>" * DEPTH_MAX).encode()))) == 64


def test_names_come_with_either_sign_between_words() -> None:
    root = parse_xml(b"<a><tax-amount>1</tax-amount><order_id>2</order_id></a>")
    assert (text_of(root, "tax-amount"), text_of(root, "order-id")) == ("1", "2")


@pytest.mark.parametrize(
    ("xml", "expected"),
    [
        (b"<a/>", None),
        (b"<a><b/></a>", None),
        (b"<a><b> \n </b></a>", None),
        (b'<a><b nil="true"/></a>', None),
        (b'<a><b nil="true">1</b></a>', None),
        (b"<a><b> 1\n</b></a>", "1"),
        (b"<a><b><![CDATA[<1>]]></b></a>", "<1>"),
        (b"<a><b><!-- 2 -->1</b></a>", "1"),
    ],
)
def test_what_a_field_says(xml: bytes, expected: str | None) -> None:
    assert text_of(parse_xml(xml), "b") == expected


@pytest.mark.parametrize("xml", [b"<a><b>1</b><b>1</b></a>", b"<a><b-c/><b_c/></a>"])
def test_a_field_that_comes_twice_is_refused(xml: bytes) -> None:
    root = parse_xml(xml)
    name = "b" if root.find("b") is not None else "b-c"
    with pytest.raises(Unparseable):
        find_child(root, name)


def test_a_field_that_holds_elements_is_no_text() -> None:
    with pytest.raises(Unparseable):
        text_of(parse_xml(b"<a><b>1<c/></b></a>"), "b")


@pytest.mark.parametrize(
    "same",
    [
        b"<a><b c='1' d='2'>x</b></a>",
        b"<a>\n  <b d='2'  c='1'>\n x </b>\n</a>\n",
        b'<?xml version="1.0"?><a><b c="1" d="2">&#120;</b><!-- said --></a>',
    ],
)
def test_how_it_is_laid_out_is_no_content(same: bytes) -> None:
    assert hash_content(parse_xml(same)) == hash_content(parse_xml(b'<a><b c="1" d="2">x</b></a>'))


@pytest.mark.parametrize(
    "other",
    [
        b"<a><b c='1'>x</b></a>",
        b"<a><b c='1' d='2'>y</b></a>",
        b"<a><b c='1' d='2'/></a>",
        b"<a><b c='1' d='2'>x</b><b/></a>",
        b"<a><e c='1' d='2'>x</e></a>",
        b"<a>x<b c='1' d='2'/></a>",
    ],
)
def test_everything_else_is(other: bytes) -> None:
    assert hash_content(parse_xml(other)) != hash_content(parse_xml(b"<a><b c='1' d='2'>x</b></a>"))
