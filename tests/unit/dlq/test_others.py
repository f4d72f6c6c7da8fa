"""Dead letters of another program: what their headers say, and what can't be brought back."""

from __future__ import annotations

import pytest

from dlq.others import LetterUnusable, OthersLetter, OthersTopic, letter_of
from journal.schema import TopicRecord

ORIGIN = {"topic": b"orders", "partition": b"1", "offset": b"41"}


def letter(
    changed: dict[str, bytes | None] | None = None,
    value: bytes | None = None,
    key: bytes | None = None,
    own: tuple[tuple[str, bytes], ...] = (),
) -> OthersLetter:
    headers = [(f"__dlq.errors.{name}", raw) for name, raw in (ORIGIN | (changed or {})).items() if raw is not None]
    return letter_of("dlq.orders", 0, TopicRecord(5, value, (*headers, *own), key=key))


def test_headers_alone_are_a_reference() -> None:
    found = letter({"group": b"shop", "delivery.count": b"3"})
    assert (found.origin, found.group, found.deliveries) == (("orders", 1, 41), "shop", "3")
    assert (found.name, found.place_name, found.is_copy, found.problem) == ("0:5", "dlq.orders/0/5", False, None)


def test_any_part_of_the_original_makes_it_a_copy() -> None:
    assert [letter(value=b"").is_copy, letter(key=b"k").is_copy, letter(own=(("ce_id", b"1"),)).is_copy] == [True] * 3
    assert letter(own=(("ce_id", b"1"),)).own_headers == [("ce_id", b"1")]


@pytest.mark.parametrize(
    ("changed", "problem"),
    [
        ({"topic": None}, r"its header __dlq.errors.topic is missing \(KIP-1191\)"),
        ({"partition": None, "offset": None}, "partition and __dlq.errors.offset are missing"),
        ({"offset": b"-1"}, "offset is '-1', expected a number"),
        ({"partition": "٣".encode()}, "expected a number"),
        ({"topic": b"payments.events"}, "use payhook dlq replay --stream"),
    ],
)
def test_what_does_not_say_where_it_came_from_is_refused(changed: dict[str, bytes | None], problem: str) -> None:
    others = OthersTopic("dlq.orders", lambda: pytest.fail("Kafka isn't asked"), lambda: pytest.fail("nor told"))
    with pytest.raises(LetterUnusable, match=problem):
        others.bring_back([letter(), letter(changed)])


@pytest.mark.parametrize("name", ["5", "a:b", "0:", "-1:5", "s1"])
def test_a_name_is_partition_and_offset(name: str) -> None:
    others = OthersTopic("dlq.orders", lambda: pytest.fail("Kafka isn't asked"), lambda: pytest.fail("nor told"))
    with pytest.raises(LetterUnusable, match="expected PARTITION:OFFSET"):
        others.find_letters([name])
