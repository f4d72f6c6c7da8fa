"""Card numbers in texts: what counts as one, what doesn't, and how much of it stays."""

from __future__ import annotations

import json
import logging

import pytest
from hypothesis import given
from hypothesis import strategies as st

from core.card_numbers import (
    card_spans,
    has_check_digit,
    is_card_number,
    masked_number,
    quote_masked,
    without_card_numbers,
)
from core.log import JsonFormatter
from core.money import Money, MoneyInvalid

CARD, HIDDEN = "4111111111111111", "411111******1111"

# Numbers that payment providers publish for tests (the last one is made up): an issuer and a length each.
PUBLISHED = {
    "4111111111111111": "Visa",
    "4242424242424242": "Visa",
    "4222222222222": "Visa of 13",
    "5555555555554444": "Mastercard",
    "5105105105105100": "Mastercard",
    "2223003122003222": "Mastercard's second range",
    "2720992593319364": "Mastercard's second range, its end",
    "378282246310005": "American Express",
    "371449635398431": "American Express",
    "6011111111111117": "Discover",
    "6011000990139424": "Discover",
    "3056930009020004": "Diners Club of 16",
    "36227206271667": "Diners Club of 14",
    "38520000023237": "Diners Club of 14",
    "3530111333300000": "JCB",
    "3566002020360505": "JCB",
    "6200000000000005": "UnionPay",
    "6205500000000000004": "UnionPay of 19",
    "6759649826438453": "Maestro",
    "6304000000000000": "Maestro",
    "5018717010109": "Maestro of 13",
}


def spans(text: str) -> list[str]:
    raw = text.encode()
    return [raw[start:end].decode() for start, end in card_spans(raw)]


def with_check_digit(digits: str) -> str:
    """Luhn as its description tells it: from the right every second digit doubled, a sum's digits added."""
    total = 0
    for place, digit in enumerate(reversed(digits)):
        value = int(digit) * (2 if place % 2 == 0 else 1)
        total += value // 10 + value % 10
    return digits + str(-total % 10)


@pytest.mark.parametrize("number", PUBLISHED, ids=PUBLISHED.values())
def test_published_test_cards_count(number: str):
    assert is_card_number(number.encode())
    assert spans(f"paid with {number}.") == [number]


@pytest.mark.parametrize("number", PUBLISHED)
def test_a_single_wrong_digit_is_no_card(number: str):
    wrong = number[:-1] + str((int(number[-1]) + 1) % 10)
    assert not is_card_number(wrong.encode())


@given(st.text("0123456789", min_size=12, max_size=18))
def test_the_check_digit_is_luhns(digits: str):
    right = with_check_digit(digits)
    assert [has_check_digit((digits + last).encode()) for last in "0123456789"].count(True) == 1
    assert has_check_digit(right.encode())


@pytest.mark.parametrize(
    "number",
    [
        with_check_digit("841253456472233"),  # a 16-digit reference that begins like no issuer
        with_check_digit("991314079822002"),
        with_check_digit("170000000000"),  # milliseconds of 2023
        with_check_digit("411111111111"[:11]),
        with_check_digit("41111111111111"),  # Visa has no 15
        with_check_digit("51000000000000000"),  # nor Mastercard 18
        with_check_digit("227200000000000"[:14]),
    ],
)
def test_what_no_issuer_gives_out_is_no_card(number: str):
    assert not is_card_number(number.encode())
    assert spans(number) == []


@pytest.mark.parametrize(
    "text",
    [
        "4111 1111 1111 1111",
        "4111-1111-1111-1111",
        "3782 822463 10005",
        "3782-822463-10005",
        "3852 000002 3237",
        "6205 5000 0000 0000 004",
        "620550 0000000000004",
        "5018 7170 1010 9",
        "4111.1111.1111.1111",
        "4111/1111/1111/1111",
        "4111_1111_1111_1111",
        "4111,1111,1111,1111",
        "4111\t1111\t1111\t1111",
        "4111\r\n1111\r\n1111\r\n1111",
        "4111 1111-1111.1111",
        "4111  1111 - 1111  1111",
        "3782.822463.10005",
        "41111111 1111 1111",
    ],
)
def test_usual_groups_count(text: str):
    assert spans(text) == [text]
    assert spans(f"card: {text}, exp 12/29") == [text]


@pytest.mark.parametrize(
    ("text", "card"),
    [
        ("4111 1111 1111 1111 123", "4111 1111 1111 1111"),
        ("1225 4111 1111 1111 1111 999", "4111 1111 1111 1111"),
        (f";{CARD}=25121010000012345678?", CARD),
        (f"%B{CARD}^DOE/JOHN^2512101?", CARD),
        (f"https://shop.example/pay?card={CARD}&x=1", CARD),
        (f"カード{CARD}です", CARD),
        (f"({CARD})", CARD),
        (f"- {CARD} -", CARD),
        (f"tr_{CARD}", CARD),
        (f"order-{CARD}", CARD),
        (f"card{CARD}exp1229", CARD),
        (f"{CARD}x", CARD),
        (f"{CARD}-1", CARD),
        (f"{CARD}_a", CARD),
        (f"{CARD}D2512101", CARD),
    ],
)
def test_a_card_is_found_in_what_stands_around_it(text: str, card: str):
    assert spans(text) == [card]


@pytest.mark.parametrize(
    "text",
    [
        f"{CARD}0000",
        f"0.{CARD}",
        f"{CARD}.50",
        "41 11 11 11 11 11 11 11",
        "4111, 1111, 1111, 1111",
        "4111    1111    1111    1111",
        "12345678-4111-1111-1111-111111111111",
        "ab12cd34-4111-1111-1111-1111abcdef00",
        f"{'ab' * 12}{CARD}",
        "2026-01-31 12:00:00",
        "52.520008,13.404954",
        "+49 171 1234 5678",
    ],
)
def test_part_of_a_longer_word_or_number_is_no_card(text: str):
    assert spans(text) == []
    assert without_card_numbers(text) is text


@pytest.mark.parametrize(
    ("text", "hidden"),
    [
        (f"é\U0001f600 {CARD} \ud83d", f"é\U0001f600 {HIDDEN} \ud83d"),
        (f";{CARD}=25121010000012345678?", f";{HIDDEN}={'*' * 20}?"),
        (f";{CARD}D25121010000012345678F", f";{HIDDEN}D{'*' * 21}"),
        (f"%B{CARD}^DOE/JOHN^2512101999 00?;", f"%B{HIDDEN}^DOE/JOHN^{'*' * 13}?;"),
    ],
)
def test_a_number_is_hidden_in_any_text_and_a_tracks_rest_with_it(text: str, hidden: str):
    assert without_card_numbers(text) == hidden


def test_two_cards_are_two_and_both_are_hidden():
    text = f"{CARD},{CARD};5555-5555-5555-4444"
    assert without_card_numbers(text) == "411111******1111,411111******1111;5555-55**-****-4444"


@pytest.mark.parametrize("number", PUBLISHED)
def test_six_digits_and_four_stay_in_the_same_length(number: str):
    hidden = masked_number(number.encode()).decode()
    assert hidden == number[:6] + "*" * (len(number) - 10) + number[-4:]


@given(st.text(max_size=40), st.sampled_from(sorted(PUBLISHED)), st.text(max_size=40))
def test_a_text_keeps_all_but_the_digits_that_are_hidden(before: str, number: str, after: str):
    text = f"{before} {number} {after}"
    hidden = without_card_numbers(text)
    assert len(hidden) == len(text)
    assert number not in hidden or number in before + after
    assert all(new == old or (new == "*" and old in "0123456789") for new, old in zip(hidden, text, strict=True))


def test_a_quotation_is_masked_before_it_is_cut():
    assert quote_masked(f"card {CARD}", 20) == "'card 411111******111'"
    assert quote_masked(int(CARD), 20) == "'411111******1111'"
    assert quote_masked(None, 20) == "'None'"


def test_no_card_number_is_in_a_money_error():
    with pytest.raises(MoneyInvalid) as caught:
        Money(1, CARD)
    assert "411111******1111" in str(caught.value)


def test_no_card_number_is_in_a_log_line():
    try:
        raise ValueError(f"the card {CARD} was refused")
    except ValueError as error:
        trace = (type(error), error, error.__traceback__)
    record = logging.LogRecord("ingest", logging.ERROR, __file__, 1, "paid with %s", (CARD,), trace)
    line = json.loads(JsonFormatter().format(record))
    assert line["message"] == "paid with 411111******1111"
    assert "ValueError: the card 411111******1111 was refused" in line["error"]
    assert CARD not in json.dumps(line)
