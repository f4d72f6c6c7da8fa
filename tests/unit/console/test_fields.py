"""A form's fields are read with a limit on each, and what is wrong is said beside it."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest
from starlette.datastructures import QueryParams

from console.forms import Fields
from console.pages.dlq import marked_items, query_of, read_filter
from core import moments
from core.decision import ErrorKind
from dead_letters.item import ItemState, Mark
from dead_letters.listing import Filter, Sort
from journal.target import ItemTarget


def fields(query: str) -> Fields:
    return Fields(QueryParams(query))


def test_what_is_empty_or_missing_is_none() -> None:
    read = fields("a=&b=%20&e=")
    assert [read.text(name) for name in "abc"] == [None, None, None]
    assert (read.number("d", 0, 9), read.read("e", moments.parse_since), read.read_choice("a", ["x"])) == (
        None,
        None,
        None,
    )
    assert read.problems == {}


@pytest.mark.parametrize("value", ["-1", "10", "1.5", "x", "٣", "9" * 30, "1e3"])
def test_a_number_that_is_none_is_a_problem(value: str) -> None:
    read = fields(f"n={value}")
    assert read.number("n", 0, 9) is None
    assert read.problems == {"n": "Enter a whole number from 0 to 9"}


def test_each_kind_of_field_says_what_is_wanted() -> None:
    read = fields(f"t={'x' * 501}&m=yesterday&c=maybe&k=a&k=b")
    assert read.text("t") is None and read.read("m", moments.parse_since) is None
    assert read.read_choice("c", ["yes", "no"]) is None and read.choices("k", ["a"]) == ()
    assert read.problems == {
        "t": "at most 500 characters are allowed",
        "m": "'yesterday' is no time: write 2026-01-31 or 2026-01-31T12:00:00Z",
        "c": "Choose one of: yes, no",
        "k": "Choose from: a",
    }


def test_a_field_given_too_often_is_a_problem() -> None:
    read = fields("&".join(f"class=c{number}" for number in range(51)))
    assert read.choices("class") == () and "class" in read.problems


def test_a_filter_comes_back_from_its_address() -> None:
    wanted = Filter(
        kinds=(ErrorKind.NRE, ErrorKind.SBE),
        classes=("A", "b & c=d"),
        providers=("stripe",),
        types=("charge.captured",),
        entity="stripe:acct:π",
        since=datetime(2026, 1, 31, tzinfo=UTC),
        until=datetime(2026, 2, 1, 12, 30, 0, 5, tzinfo=UTC),
        text="50%_",
        fingerprint="ab12",
        states=(ItemState.OPEN, ItemState.PURGED),
        marks=(Mark.POISON,),
    )
    from console.rendering import make_address

    query = make_address("/dlq", query_of(wanted)).partition("?")[2]
    assert read_filter(fields(query)).wanted == wanted
    assert make_address("/dlq", query_of(Filter())) == "/dlq"


def test_a_list_has_an_order_and_a_place() -> None:
    looked = read_filter(fields("sort=largest&after=largest.0.5.7"))
    assert (looked.sort, looked.cursor) == (Sort.LARGEST, "largest.0.5.7")
    assert read_filter(fields("")).sort is Sort.OLDEST


HASH = "0123456789abcdef"


@pytest.mark.parametrize("value", ["3", "0.1." + HASH, "5.4." + HASH, "5.5.x", f"5.{'9' * 19}.{HASH}", ""])
def test_marked_items_are_named_as_they_were_seen(value: str) -> None:
    read = fields(f"item=3.4.{HASH}&item={value}")
    assert marked_items(read) == [] and "item" in read.problems


def test_marked_items_count_once_and_more_than_a_command_takes_is_said() -> None:
    seen = [ItemTarget(3, 4, HASH), ItemTarget(5, 5, HASH)]
    assert marked_items(fields(f"item=3.4.{HASH}&item=5.5.{HASH}&item=3.4.{HASH}")) == seen
    assert marked_items(fields("")) == []
    many = fields("&".join(f"item={number}.{number}.{HASH}" for number in range(1, 5_002)))
    assert marked_items(many) == [] and "above the limit of 5000" in many.problems["item"]
