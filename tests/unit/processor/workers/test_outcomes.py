"""A handler's answer is checked where it answered: what can't be written down ends its event, and no other."""

from __future__ import annotations

import logging
import pickle
from collections.abc import Callable
from typing import Any

import pytest

from core.decision import ErrorKind
from core.work import Applied, Held, Ignored, Outcome, Unknown, WorkItem
from processor.errors.classify import RETRY_AFTER_S_MAX, Classifier, Failure
from processor.errors.error_rules import Rules
from processor.wiring import make_classifier
from processor.workers.deadlines import AbandonedCalls, Deadlines
from processor.workers.outcomes import check_outcome, read_version
from processor.workers.worker import LOG_BYTES_MAX, Chunk, LogTails, Task, run_chunk
from tests.unit.processor.hostile import HALF, HUGE, INFINITE, MADE_SAFE, ODD_ANSWERS, ODD_ERRORS, Awkward

BYTES_MAX = 20_000
"""Of what an event's result may be when it travels: its texts are bounded."""


class OutcomeByType:
    """Does the same with every event of one type, and applies all others."""

    version = "test-1"

    def __init__(self, act: Callable[[], Any]) -> None:
        self._act = act

    def __call__(self, item: WorkItem) -> Outcome:
        return self._act() if item.event_type == "odd" else Applied()


def _results(handler: Any, classifier: Classifier | None = None) -> dict[int, Outcome | Failure]:
    """Of an odd event and of another entity's, as they come back from a worker."""
    items = [WorkItem(seq, f"key-{seq}", f"e{seq}", "stripe", "acct", "odd", b"{}", None, 0) for seq in (1, 2)]
    object.__setattr__(items[1], "event_type", "plain")
    task = Task("test", Applied, classifier or Classifier(), Deadlines(60.0, 100.0), 1, True)  # type: ignore[arg-type]
    packed = pickle.dumps(run_chunk(task, handler, Chunk([[item] for item in items]), AbandonedCalls()), protocol=5)
    assert len(packed) < BYTES_MAX
    results = dict(pickle.loads(packed).results)
    assert results[2] == Applied()
    return results


def _raises(error: Callable[[], BaseException]) -> Callable[[], Any]:
    def act() -> Any:
        raise error()

    return act


@pytest.mark.parametrize("name", ODD_ANSWERS)
def test_what_is_no_outcome_ends_its_event_and_says_what_is_wanted(name: str) -> None:
    failure = _results(OutcomeByType(ODD_ANSWERS[name]))[1]
    assert isinstance(failure, Failure)
    assert (failure.kind, failure.error_class) == (ErrorKind.NRE, "OutcomeInvalid")
    assert "a handler returns Applied, Ignored, Unknown or Held" in failure.message


@pytest.mark.parametrize("name", MADE_SAFE)
def test_an_outcome_with_odd_texts_is_made_safe(name: str) -> None:
    outcome = _results(OutcomeByType(MADE_SAFE[name][0]))[1]
    assert type(outcome) in (Applied, Ignored, Unknown, Held)
    for text in (getattr(outcome, field, "") for field in ("code", "reason", "downstream")):
        assert text.encode("utf-8") is not None
        assert len(text) <= 2_000


@pytest.mark.parametrize("name", ODD_ERRORS)
def test_whatever_a_handler_raises_comes_back_as_plain_values(name: str) -> None:
    result = _results(OutcomeByType(_raises(ODD_ERRORS[name])))[1]
    assert isinstance(result, Failure)
    for text in (result.error_class, result.error_code or "", result.message, result.stack, result.log_lines or ""):
        assert text.encode("utf-8") is not None
    assert result.retry_after_s is None or 0 < result.retry_after_s <= RETRY_AFTER_S_MAX


@pytest.mark.parametrize("name", ODD_ERRORS)
def test_a_hook_that_raises_anything_leaves_it_to_the_rules(name: str) -> None:
    hooked = make_classifier(Rules(hook="tests.unit.processor.hook_of_kinds:decide"))
    hooked._hook = lambda *_: _raises(ODD_ERRORS[name])()
    failure = _results(OutcomeByType(_raises(lambda: ConnectionError("reset"))), hooked)[1]
    assert isinstance(failure, Failure)
    assert failure.kind is ErrorKind.SNBE
    assert "the hook" in (failure.log_lines or "")


def test_a_held_event_is_due_again_within_a_day() -> None:
    assert check_outcome(Held("merchants", INFINITE)) == Held("merchants", RETRY_AFTER_S_MAX)


@pytest.mark.parametrize("version", [None, 7, HALF, HUGE, Awkward()])
def test_a_version_that_is_no_text_stops_nothing(version: Any) -> None:
    handler = OutcomeByType(Applied)
    handler.version = version
    assert len(read_version(handler).encode("utf-8")) <= 1_000
    assert _results(handler)[1] == Applied()


def test_a_line_of_the_log_that_cannot_be_made_is_no_failure() -> None:
    tails = LogTails()
    for message, values in (("%d", ("no number",)), ("%s %s", (HALF, HUGE))):
        tails.handle(logging.LogRecord("handler", logging.WARNING, "handler.py", 1, message, values, None))
    text = tails.text() or ""
    assert len(text.encode("utf-8")) <= LOG_BYTES_MAX
    tails.begin()
    tails.handle(logging.LogRecord("handler", logging.WARNING, "handler.py", 1, "%d", ("no number",), None))
    assert tails.text() == "WARNING handler: (a line that can't be made: TypeError)"


def test_what_a_handler_logs_while_it_fails_is_kept_from_info_on(monkeypatch: pytest.MonkeyPatch) -> None:
    """A Python worker of Spark's configures no logging. What libraries say of each call stays out: it holds URLs."""

    def fail() -> Outcome:
        logging.getLogger("merchants").info("asked for merchant 7")
        logging.getLogger("httpx2").info("GET https://example.com/?token=secret")
        raise ZeroDivisionError

    root = logging.getLogger()
    monkeypatch.setattr(root, "level", logging.WARNING)
    failure = _results(OutcomeByType(fail))[1]
    assert isinstance(failure, Failure)
    assert failure.log_lines == "INFO merchants: asked for merchant 7"
    assert root.level == logging.WARNING
