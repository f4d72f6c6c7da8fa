"""Which kind an error is: by the stream's rules, by its own word, through what it hides."""

from __future__ import annotations

import http.client
import pickle
import socket
import urllib.error
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import httpx2
import pytest

from core.decision import ErrorKind
from core.errors import OfKind
from core.work import DownstreamHeld, MissingPredecessor
from processor.errors.classify import LINKS_MAX, MESSAGE_CHARS_MAX, RETRY_AFTER_S_MAX, STACK_CHARS_MAX, Classifier
from processor.errors.error_rules import Rules
from tests.unit.processor.errors.failing import (
    NRE,
    SBE,
    SLE,
    SNBE,
    Busy,
    Closed,
    DriverError,
    Grpc,
    OperationalDriverError,
    Refused,
    hidden,
    raised,
    rule,
    with_code,
)


@dataclass(frozen=True)
class ErrorCase:
    says: str
    rules: dict[str, Any]
    error: Callable[[], BaseException]
    kind: ErrorKind


TIMED_OUT = {"kind": "SBE", "error": "DriverError", "message": "statement timeout|connection attempt failed"}
CASES = [
    # what nobody configured
    ErrorCase("an unknown error is a handler's bug", {}, lambda: ZeroDivisionError(), NRE),
    ErrorCase("an error may say its kind itself", {}, lambda: Busy(), SLE),
    ErrorCase("a refused connection is the event's own trouble", {}, lambda: ConnectionRefusedError(), SNBE),
    ErrorCase("a name that can't be resolved", {}, lambda: socket.gaierror(-2, "unknown"), SNBE),
    ErrorCase("a timeout", {}, lambda: TimeoutError(), SNBE),
    ErrorCase("a server that hangs up", {}, lambda: httpx2.RemoteProtocolError("gone"), SNBE),
    ErrorCase("an event that another one must precede", {}, lambda: MissingPredecessor("a", "b"), SNBE),
    ErrorCase("a downstream that is held, wrapped by its caller", {}, lambda: raised(
        RuntimeError("no answer"), cause=DownstreamHeld("merchants", 2.0)), SNBE),
    # by class
    ErrorCase("a class", {"kinds": {"LookupError": "SNBE"}}, lambda: LookupError(), SNBE),
    ErrorCase("its base", {"kinds": {"LookupError": "SNBE"}}, lambda: KeyError("a"), SNBE),
    ErrorCase("the nearest base counts", {"kinds": {"LookupError": "SNBE", "KeyError": "SLE"}},
         lambda: KeyError("a"), SLE),
    ErrorCase("in whatever order", {"kinds": {"KeyError": "SLE", "LookupError": "SNBE"}}, lambda: KeyError("a"), SLE),
    ErrorCase("a class of a module", {"kinds": {"socket.gaierror": "SBE"}}, lambda: socket.gaierror(), SBE),
    ErrorCase("a class of a package", {"kinds": {"http.HTTPException": "SLE"}},
         lambda: http.client.HTTPException(), SLE),
    ErrorCase("not another module's", {"kinds": {"httpx2.TimeoutError": "SBE"}}, lambda: TimeoutError(), SNBE),
    ErrorCase("not a module that begins alike", {"kinds": {"htt.ReadError": "SBE"}},
         lambda: httpx2.ReadError(""), SNBE),
    ErrorCase("a name with its module comes first", {"kinds": {"gaierror": "NRE", "socket.gaierror": "SBE"}},
         lambda: socket.gaierror(), SBE),
    ErrorCase("configured before the error's own word", {"kinds": {"Busy": "SBE"}}, lambda: Busy(), SBE),
    ErrorCase("configured before the built-in", {"kinds": {"TimeoutError": "SBE"}}, lambda: TimeoutError(), SBE),
    # by message
    ErrorCase("a text", rule(**TIMED_OUT), lambda: DriverError("canceling statement due to statement timeout"), SBE),
    ErrorCase("of a class that is derived", rule(**TIMED_OUT),
         lambda: OperationalDriverError("statement timeout"), SBE),
    ErrorCase("another text of that class", rule(**TIMED_OUT), lambda: DriverError("duplicate key"), NRE),
    ErrorCase("that text of another class", rule(**TIMED_OUT), lambda: ValueError("statement timeout"), NRE),
    ErrorCase("a text of any class", rule(kind="SLE", message="(?i)deadlock"),
         lambda: ValueError("DEADLOCK found"), SLE),
    ErrorCase("a text in which letters matter", rule(kind="SLE", message="deadlock"),
         lambda: ValueError("DEADLOCK"), NRE),
    # by code
    ErrorCase("a SQLSTATE", rule(kind="SLE", code="40001"), lambda: DriverError("x", "40001"), SLE),
    ErrorCase("a class of SQLSTATEs", rule(kind="SBE", code=["53*", "08*"]), lambda: DriverError("x", "08006"), SBE),
    ErrorCase("another SQLSTATE", rule(kind="SBE", code=["53*", "08*"]), lambda: DriverError("x", "23505"), NRE),
    ErrorCase("a status of the answer", rule(kind="SNBE", code=["429", "5*"]), lambda: Refused(503), SNBE),
    ErrorCase("a status that isn't listed", rule(kind="SNBE", code=["429", "5*"]), lambda: Refused(404), NRE),
    ErrorCase("a code that is a number", rule(kind="SBE", code=[111]), lambda: OSError(111, "refused"), SBE),
    ErrorCase("a code by name", rule(kind="SBE", code="UNAVAILABLE"), lambda: with_code("code", Grpc.UNAVAILABLE), SBE),
    ErrorCase("a code that is a method isn't called", rule(kind="SBE", code="*"),
         lambda: with_code("code", print), NRE),
    ErrorCase("all that a rule names must fit", rule(kind="SBE", code="08*", message="gone"),
         lambda: DriverError("still there", "08006"), NRE),
    ErrorCase("and on one error", rule(kind="SBE", code="08*", message="gone"),
         lambda: raised(ValueError("gone"), cause=DriverError("still there", "08006")), NRE),
    # rules among themselves
    ErrorCase("the last rule that fits counts",
         {"rules": {"all": {"kind": "SBE", "error": "DriverError"}, "some": {"kind": "SLE", "code": "40001"}}},
         lambda: DriverError("x", "40001"), SLE),
    ErrorCase("a rule comes before a class",
         {"kinds": {"DriverError": "NRE"}, **rule(kind="SLE", code="40001")}, lambda: DriverError("x", "40001"), SLE),
    # wrapped and masked
    ErrorCase("the cause", {}, lambda: raised(RuntimeError("wrapped"), cause=Busy()), SLE),
    ErrorCase("the cause's cause", {}, lambda: raised(
        RuntimeError("a"), cause=raised(RuntimeError("b"), cause=ConnectionResetError())), SNBE),
    ErrorCase("the context", {}, lambda: raised(RuntimeError("while handling"), over=Busy()), SLE),
    ErrorCase("the context of the cause", {}, lambda: raised(
        RuntimeError("a"), cause=raised(RuntimeError("b"), over=Busy())), SLE),
    ErrorCase("the cause before the context", {}, lambda: raised(RuntimeError("a"), over=Closed(), cause=Busy()), SLE),
    ErrorCase("a context beside an unknown cause", {}, lambda: raised(
        RuntimeError("a"), over=Busy(), cause=ValueError("b")), SLE),
    ErrorCase("a context that `from None` hides", {}, lambda: hidden(RuntimeError("it failed"), Busy()), SLE),
    ErrorCase("an outer error that is known masks the inner one", {"kinds": {"KeyError": "NRE"}},
         lambda: raised(Busy(), cause=KeyError("a")), SLE),
    ErrorCase("as a rule for it does", {"kinds": {"RuntimeError": "SNBE", "Busy": "SBE"}},
         lambda: raised(RuntimeError("a"), cause=Busy()), SNBE),
    ErrorCase("a handler names the kind of an error whose class says too little", {"kinds": {"KeyError": "NRE"}},
         lambda: raised(OfKind(SNBE, "not there yet"), cause=KeyError("a")), SNBE),
    ErrorCase("what is configured of an inner error comes before what is built in of an outer one",
         {"kinds": {"DriverError": "SBE"}}, lambda: raised(TimeoutError("slow"), cause=DriverError("x")), SBE),
    ErrorCase("an error that is carried as an attribute", rule(kind="SBE", code="08*"),
         lambda: DriverError("wrapped", orig=DriverError("gone", "08006")), SBE),
    ErrorCase("an error that is carried as an argument", {}, lambda: urllib.error.URLError(TimeoutError("slow")), SNBE),
    # several at once
    ErrorCase("a group's member", {}, lambda: ExceptionGroup("two", [ValueError("a"), Busy()]), SLE),
    ErrorCase("of several the gravest", {}, lambda: ExceptionGroup("two", [Busy(), TimeoutError(), Closed()]), NRE),
    ErrorCase("a blocked stream is graver than a bug", {"kinds": {"TimeoutError": "SBE"}},
         lambda: ExceptionGroup("two", [Closed(), TimeoutError()]), SBE),
    ErrorCase("a member of a member", {}, lambda: ExceptionGroup("a", [ExceptionGroup("b", [raised(
        RuntimeError("c"), cause=Busy())])]), SLE),
    ErrorCase("a group as a cause", {}, lambda: raised(RuntimeError("a"), cause=ExceptionGroup("b", [Busy()])), SLE),
    ErrorCase("a group's own cause", {}, lambda: raised(ExceptionGroup("a", [ValueError("b")]), cause=Busy()), SLE),
    # the default
    ErrorCase("a default for the unlisted", {"default": "SLE"}, lambda: ZeroDivisionError(), SLE),
    ErrorCase("only for them", {"default": "SLE"}, lambda: Closed(), NRE),
    ErrorCase("and after the built-in", {"default": "SLE"},
         lambda: raised(ValueError("a"), cause=TimeoutError()), SNBE),
]  # fmt: skip


@pytest.mark.row("E1")
@pytest.mark.parametrize("case", CASES, ids=lambda case: case.says)
def test_each_rule(case: ErrorCase) -> None:
    assert Classifier(Rules.model_validate(case.rules)).find_kind(case.error()) is case.kind


def test_a_chain_that_bites_its_tail_ends() -> None:
    first, second = RuntimeError("a"), RuntimeError("b")
    first.__cause__, second.__cause__ = second, first
    assert Classifier().find_kind(first) is NRE
    assert Classifier().make_failure(first).kind is NRE


def test_an_endless_chain_is_looked_at_for_so_long_only() -> None:
    def chain(length: int) -> Exception:
        error: Exception = Busy()
        for _ in range(length):
            error = raised(RuntimeError("wrapped"), cause=error)
        return error

    assert Classifier().find_kind(chain(LINKS_MAX - 1)) is SLE
    assert Classifier().find_kind(chain(LINKS_MAX)) is NRE


def test_texts_are_bounded_and_always_valid() -> None:
    failure = Classifier().make_failure(ValueError("\ud800\x00" + "x" * 100_000))
    failure.message.encode("utf-8")
    assert "\x00" not in failure.message
    assert len(failure.message) <= MESSAGE_CHARS_MAX + 20
    assert len(failure.stack) <= STACK_CHARS_MAX + 20


def test_a_text_that_is_made_to_be_slow_to_match_is_not() -> None:
    """Backtracking would take longer than the universe is old."""
    rules = Rules.model_validate(rule(kind="SBE", message="^(a|aa)+$"))
    assert Classifier(rules).find_kind(ValueError("a" * 1_900 + "!")) is NRE


class UnprintableError(Exception):
    def __str__(self) -> str:
        raise TypeError("not a string")

    @property
    def response(self) -> object:
        raise RuntimeError("no answer came")


def test_an_error_whose_own_code_fails_is_judged_all_the_same() -> None:
    failure = Classifier(Rules.model_validate(rule(kind="SLE", message="can't be had"))).make_failure(
        UnprintableError()
    )
    assert (failure.kind, failure.error_code) == (SLE, None)
    assert "TypeError" in failure.message


def test_what_from_none_hides_can_be_read_in_the_stack() -> None:
    failure = Classifier().make_failure(hidden(RuntimeError("it failed"), TimeoutError("slow database")))
    assert (failure.kind, failure.error_class) == (SNBE, "RuntimeError")
    assert "TimeoutError: slow database" in failure.stack


def test_the_class_behind_an_error_that_only_names_a_kind_is_written_down() -> None:
    assert Classifier().make_failure(raised(OfKind(SNBE, "a"), cause=KeyError("b"))).error_class == "KeyError"
    assert Classifier().make_failure(OfKind(SNBE, "a")).error_class == "OfKind"


def test_the_code_is_the_outermost_one() -> None:
    inner = raised(RuntimeError("a"), cause=DriverError("b", "08006"))
    assert Classifier().make_failure(inner).error_code == "08006"
    assert Classifier().make_failure(raised(DriverError("a", "40001"), cause=inner)).error_code == "40001"


@pytest.mark.parametrize(
    ("wanted", "reported"),
    [(7, 7.0), (0, None), (-1, None), ("7", None), (float("nan"), None), (1e9, RETRY_AFTER_S_MAX)],
)
def test_a_retry_is_not_earlier_than_any_error_within_it_asks_for(wanted: object, reported: float | None) -> None:
    error = ValueError("later")
    error.retry_after_s = wanted  # type: ignore[attr-defined]
    assert Classifier().make_failure(raised(RuntimeError("wrapped"), cause=error)).retry_after_s == reported


def test_kinds_travel_between_processes() -> None:
    back = pickle.loads(pickle.dumps(OfKind(SNBE, "not there yet")))
    assert (back.kind, str(back)) == (SNBE, "not there yet")
