"""Which kind an error is, along its cause chain."""

import pytest

from core.decision import ErrorKind
from processor.classify import STACK_CHARS_MAX, Classifier


class Busy(Exception):
    kind = ErrorKind.SLE


class Closed(Exception):
    kind = ErrorKind.NRE


def raised_from(error: Exception, cause: Exception) -> Exception:
    try:
        raise error from cause
    except Exception as caught:
        return caught


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        (Busy(), ErrorKind.SLE),
        (Closed(), ErrorKind.NRE),
        (ConnectionRefusedError(), ErrorKind.SNBE),
        (TimeoutError(), ErrorKind.SNBE),
        (ZeroDivisionError(), ErrorKind.NRE),
        (raised_from(RuntimeError("wrapped"), Busy()), ErrorKind.SLE),
        (raised_from(RuntimeError("wrapped"), ConnectionResetError()), ErrorKind.SNBE),
    ],
)
def test_the_kind_comes_from_the_error_or_from_what_caused_it(error: Exception, kind: ErrorKind):
    assert Classifier().kind(error) is kind


def test_a_streams_own_rule_comes_before_the_errors_own_word():
    assert Classifier({"Busy": ErrorKind.SBE}).kind(Busy()) is ErrorKind.SBE


def test_a_chain_that_bites_its_tail_ends():
    first, second = RuntimeError("a"), RuntimeError("b")
    first.__cause__, second.__cause__ = second, first
    assert Classifier().kind(first) is ErrorKind.NRE


def test_texts_are_bounded_and_always_valid():
    failure = Classifier().failure(ValueError("\ud800\x00" + "x" * 100_000))
    failure.message.encode("utf-8")
    assert "\x00" not in failure.message
    assert len(failure.message) < 5_000
    assert len(failure.stack) <= STACK_CHARS_MAX + 20
