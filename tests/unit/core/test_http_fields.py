"""Header values are read by RFC 9110's grammar: legal forms of one value read as the plain one."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from core.http_fields import media_type_of, split_list, strip_blanks

BLANKS = st.text(" \t", max_size=3)
TOKEN = st.text("!#$%&'*+-.^_`|~09azAZ", min_size=1, max_size=8)
TEXT = st.text(st.characters(min_codepoint=0x20, max_codepoint=0x7E), max_size=10)
"""What a quoted string may say."""


def quoted(text: str) -> str:
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'


@st.composite
def lists(draw: st.DrawFn) -> tuple[str, list[str]]:
    """A legal list (section 5.6.1), and its members."""
    members = draw(st.lists(st.one_of(TOKEN, TEXT.map(quoted)), max_size=5))
    written = []
    for member in members:
        written += [draw(BLANKS) for _ in range(draw(st.integers(0, 2)))]
        written.append(draw(BLANKS) + member + draw(BLANKS))
    return ",".join(written), members


@st.composite
def media_types(draw: st.DrawFn) -> tuple[str, str, dict[str, str]]:
    """A legal Content-Type (section 8.3.1), its media type, and its parameters."""
    media_type = draw(TOKEN) + "/" + draw(TOKEN)
    parameters = draw(st.dictionaries(TOKEN.map(str.lower), st.one_of(TOKEN, TEXT), max_size=4))
    written = [media_type]
    for name, text in parameters.items():
        written += [draw(BLANKS) for _ in range(draw(st.integers(0, 2)))]
        as_token = text and all(char in "!#$%&'*+-.^_`|~09azAZ" for char in text) and draw(st.booleans())
        written.append(
            f"{draw(BLANKS)}{draw(st.sampled_from([name, name.upper()]))}={text if as_token else quoted(text)}"
        )
        written[-1] += draw(BLANKS)
    written += [draw(BLANKS) for _ in range(draw(st.integers(0, 2)))]
    return ";".join(written), media_type.lower(), parameters


@given(lists())
def test_a_list_has_its_members_and_no_empty_ones(case: tuple[str, list[str]]) -> None:
    written, members = case
    assert split_list(written.encode()) == [member.encode() for member in members]


@given(media_types(), BLANKS, BLANKS)
def test_a_content_type_has_its_parameters_however_it_is_written(
    case: tuple[str, str, dict[str, str]], before: str, behind: str
) -> None:
    written, media_type, parameters = case
    found = media_type_of(f"{before}{written}{behind}".encode())
    assert found == (media_type.encode(), {name.encode(): text.encode() for name, text in parameters.items()})


@given(st.binary(max_size=40))
def test_any_bytes_are_read_without_an_error(value: bytes) -> None:
    media_type_of(value)
    split_list(value)
    assert strip_blanks(b" \t" + strip_blanks(value) + b"\t ") == strip_blanks(value)


@pytest.mark.parametrize("value", [b'"' * 16_000, b'"\\' * 8_000, b'a;b="' + b"\\" * 16_000, b'",' * 8_000])
def test_what_is_not_closed_reaches_to_the_end(value: bytes) -> None:
    assert b"".join(split_list(value)).replace(b",", b"") == value.replace(b",", b"")
    media_type_of(value)
