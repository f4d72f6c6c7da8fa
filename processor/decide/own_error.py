"""An exception that belongs to one event becomes that event's failure, here and nowhere else: the stream goes on.

What is called through `attempt` is about one event alone: an adapter that reads its body, a record's headers, a
command's bytes, a result that is written down. What belongs to the engine, the index and the journal isn't: that
raises, and the stream starts again from the journal.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import ParamSpec, TypeVar

from core.decision import ErrorKind
from processor.judge.classify import Classifier, Failure

Asked = ParamSpec("Asked")
Answer = TypeVar("Answer")

_CLASSIFIER = Classifier()


def attempt(step: Callable[Asked, Answer], *args: Asked.args, **kwargs: Asked.kwargs) -> Answer | Failure:
    """What ``step`` answers, or the failure that its event dies of."""
    try:
        return step(*args, **kwargs)
    except BaseException as error:  # an adapter is a stranger's code too, and may call sys.exit()
        return failure_of(error)


def failure_of(error: BaseException) -> Failure:
    """An event's own exception as the journal keeps it. No retry will help: the same bytes would raise it again."""
    return replace(_CLASSIFIER.failure(error), kind=ErrorKind.NRE)
