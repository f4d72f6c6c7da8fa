"""Values as pages write them."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from markupsafe import Markup, escape

from console import formats
from tests.dead_letters import HOSTILE


@pytest.mark.parametrize(
    ("time", "words"),
    [
        (timedelta(days=3, hours=4, minutes=5), "3 d 4 h"),
        (timedelta(days=3, minutes=5), "3 d"),
        (3_723, "1 h 2 min"),
        (61.9, "1 min 1 s"),
        (0, "0 s"),
        (timedelta(minutes=-5), "-5 min"),
        (None, ""),
    ],
)
def test_a_span_is_reported_by_its_two_greatest_units(time: timedelta | float | None, words: str) -> None:
    assert formats.format_span(time) == words


@pytest.mark.parametrize(
    ("minor", "currency", "words"),
    [
        (123_450, "EUR", "1,234.50 EUR"),
        (1_234, "JPY", "1,234 JPY"),
        (-5, "KWD", "-0.005 KWD"),
        (-5, "EUR", "-0.05 EUR"),
        (0, "EUR", "0.00 EUR"),
        (10**15, "USD", "10,000,000,000,000.00 USD"),
        (None, "EUR", ""),
        (5, None, ""),
    ],
)
def test_money_has_its_currencys_decimals(minor: int | None, currency: str | None, words: str) -> None:
    assert formats.format_money(minor, currency) == words


def test_a_moment_is_exact_for_machines_and_short_for_people() -> None:
    at = datetime(2026, 1, 31, 12, 0, 1, 250_000, tzinfo=UTC)
    assert formats.mark_up_moment(at) == '<time datetime="2026-01-31T12:00:01.250000Z">2026-01-31 12:00:01</time>'
    assert formats.mark_up_moment(None) == ""


@pytest.mark.parametrize("text", HOSTILE)
def test_no_text_of_a_stranger_steers_or_is_markup(text: str) -> None:
    for shown in (escape(formats.clean_value(text)), formats.format_lines(text)):
        assert not set(shown) & set("<>\"'\x1b\x07\u202e\u2066")


def test_what_is_markup_already_stays_so_and_none_is_nothing() -> None:
    assert formats.clean_value(Markup("<b>")) == Markup("<b>")
    assert (formats.clean_value(None), formats.clean_value(7)) == ("", 7)


def test_long_texts_are_cut() -> None:
    assert len(formats.clean_value("x" * 100_000)) < 2_100
    assert len(formats.format_lines("x\n" * 100_000)) < 20_100
