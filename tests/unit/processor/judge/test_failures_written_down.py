"""What is written down of an error: bounded texts, its stack, its class and code, when it may be tried again."""

from __future__ import annotations

import pickle

import pytest

from core.errors import OfKind
from processor.judge.classify import MESSAGE_CHARS_MAX, RETRY_AFTER_S_MAX, STACK_CHARS_MAX, Classifier
from processor.judge.error_rules import Rules
from tests.unit.processor.judge.failing import NRE, SLE, SNBE, DriverError, hidden, raised, rule


def test_texts_are_bounded_and_always_valid() -> None:
    failure = Classifier().failure(ValueError("\ud800\x00" + "x" * 100_000))
    failure.message.encode("utf-8")
    assert "\x00" not in failure.message
    assert len(failure.message) <= MESSAGE_CHARS_MAX + 20
    assert len(failure.stack) <= STACK_CHARS_MAX + 20


def test_a_text_that_is_made_to_be_slow_to_match_is_not() -> None:
    """Backtracking would take longer than the universe is old."""
    rules = Rules.model_validate(rule(kind="SBE", message="^(a|aa)+$"))
    assert Classifier(rules).kind(ValueError("a" * 1_900 + "!")) is NRE


class Unprintable(Exception):
    def __str__(self) -> str:
        raise TypeError("not a string")

    @property
    def response(self) -> object:
        raise RuntimeError("no answer came")


def test_an_error_whose_own_code_fails_is_judged_all_the_same() -> None:
    failure = Classifier(Rules.model_validate(rule(kind="SLE", message="can't be had"))).failure(Unprintable())
    assert (failure.kind, failure.error_code) == (SLE, None)
    assert "TypeError" in failure.message


def test_what_from_none_hides_can_be_read_in_the_stack() -> None:
    failure = Classifier().failure(hidden(RuntimeError("it failed"), TimeoutError("slow database")))
    assert (failure.kind, failure.error_class) == (SNBE, "RuntimeError")
    assert "TimeoutError: slow database" in failure.stack


def test_the_class_behind_an_error_that_only_names_a_kind_is_written_down() -> None:
    assert Classifier().failure(raised(OfKind(SNBE, "a"), cause=KeyError("b"))).error_class == "KeyError"
    assert Classifier().failure(OfKind(SNBE, "a")).error_class == "OfKind"


def test_the_code_is_the_outermost_one() -> None:
    inner = raised(RuntimeError("a"), cause=DriverError("b", "08006"))
    assert Classifier().failure(inner).error_code == "08006"
    assert Classifier().failure(raised(DriverError("a", "40001"), cause=inner)).error_code == "40001"


@pytest.mark.parametrize(
    ("wanted", "reported"),
    [(7, 7.0), (0, None), (-1, None), ("7", None), (float("nan"), None), (1e9, RETRY_AFTER_S_MAX)],
)
def test_a_retry_is_not_earlier_than_any_error_within_it_asks_for(wanted: object, reported: float | None) -> None:
    error = ValueError("later")
    error.retry_after_s = wanted  # type: ignore[attr-defined]
    assert Classifier().failure(raised(RuntimeError("wrapped"), cause=error)).retry_after_s == reported


def test_kinds_travel_between_processes() -> None:
    back = pickle.loads(pickle.dumps(OfKind(SNBE, "not there yet")))
    assert (back.kind, str(back)) == (SNBE, "not there yet")
