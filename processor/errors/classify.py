"""Makes an event's failure of what was raised: of one of four kinds, by `processor.errors.error_rules`."""

from __future__ import annotations

import logging
import traceback
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from enum import Enum
from functools import partial
from typing import ParamSpec, TypeAlias, TypeVar

from core.card_numbers import without_card_numbers
from core.clock import asked_s
from core.decision import ErrorKind
from core.errors import OfKind
from core.work import MissingPredecessor, PreviousEventDead, WorkItem
from processor.errors.error_rules import Rules, find_kind_by_class

log = logging.getLogger(__name__)

MESSAGE_CHARS_MAX = 2_000
STACK_CHARS_MAX = 4_096
CODE_CHARS_MAX = 100
CLASS_CHARS_MAX = 200
SCANNED_CHARS_MAX = 65_536
LINKS_MAX = 64
"""Errors looked at within one: its causes, contexts, members and what it carries."""
RETRY_AFTER_S_MAX = 86_400.0
"""A downstream that asks for more is asked once a day."""

DEFAULT_KINDS: Mapping[str, ErrorKind] = {
    "ConnectionError": ErrorKind.SNBE,
    "TimeoutError": ErrorKind.SNBE,
    "HandlerTimeout": ErrorKind.SNBE,
    "DownstreamHeld": ErrorKind.SNBE,
    "socket.gaierror": ErrorKind.SNBE,
    "httpx.TransportError": ErrorKind.SNBE,
    "httpx2.TransportError": ErrorKind.SNBE,
}
"""By class; asked when nothing is configured or said for any error of the chain."""

CODE_NAMES = ("code", "status_code", "status", "sqlstate", "pgcode", "errno")
"""Attributes under which errors, or the answers (``response``) in them, carry a code."""

GRAVEST_FIRST = (ErrorKind.SBE, ErrorKind.NRE, ErrorKind.SNBE, ErrorKind.SLE)
"""Of several errors at once: a blocked stream must not use attempts up, and what no retry helps isn't retried."""

Hook: TypeAlias = Callable[[BaseException, WorkItem | None], ErrorKind | str | None]
"""Decides by code: an error, and the event that it failed on (None outside a handler). None leaves it to the rules."""

Known: TypeAlias = Callable[[BaseException], ErrorKind | None]

_Asked = ParamSpec("_Asked")
_Answer = TypeVar("_Answer")


@dataclass(frozen=True, slots=True)
class Failure:
    """A raised error as the journal keeps it, without card numbers. ``error_class`` is the class's plain name.

    ``retry_after_s``: what the error says of the next try (its attribute of that name); a retry isn't earlier.
    ``downstream``: whose failed call it came from, if it came from one; ``called``: all that the try had called.
    ``missing_predecessor``: its followers may be tried before it (`core.work.MissingPredecessor`). ``previous_dead``:
    it can't be handled after an earlier event died (`core.work.PreviousEventDead`). ``own``: it says that the whole
    stream is blocked, and another event's success has disproved it; it counts as its event's own.
    """

    kind: ErrorKind
    error_class: str
    error_code: str | None
    message: str
    stack: str
    log_lines: str | None = None
    retry_after_s: float | None = None
    downstream: str | None = None
    missing_predecessor: bool = False
    previous_dead: bool = False
    called: tuple[str, ...] = ()
    own: bool = False

    @property
    def is_blocking(self) -> bool:
        return self.kind is ErrorKind.SBE and not self.own


class Classifier:
    """Decides an error's kind. Made on the driver, once a stream; it travels to the executors with each task.

    1. The hook, if it answers.
    2. The outermost error that is known: by the stream's `Rules`, or by its own attribute ``kind``. An unknown one is
       looked through: its cause, its context (also where ``from None`` hides it), the errors in its arguments and
       attributes. Of a group's members the gravest known one counts.
    3. In the same way by `DEFAULT_KINDS`.
    4. The stream's default.
    """

    def __init__(self, rules: Rules | None = None, hook: Hook | None = None) -> None:
        self._rules = rules or Rules()
        self._hook = hook

    def find_kind(self, error: BaseException, item: WorkItem | None = None) -> ErrorKind:
        return self._judge(error, item)[0]

    def make_failure(self, error: BaseException, log_lines: str | None = None, item: WorkItem | None = None) -> Failure:
        """Writes the error down. One that can't be read counts as a bug of the handler."""
        try:
            return self._make_failure(error, log_lines, item)
        except BaseException as unreadable:  # raised by the error's own code, which may raise anything
            problem = f"the error can't be read: looking at it raised {get_class_name(unreadable)}"
            return Failure(ErrorKind.NRE, get_class_name(error), None, problem, stack="", log_lines=log_lines)

    def _make_failure(self, error: BaseException, log_lines: str | None, item: WorkItem | None) -> Failure:
        kind, hook_problem = self._judge(error, item)
        lines = [line for line in (log_lines, hook_problem) if line is not None]
        code = next((code for link in walk_links(error) for code in _find_codes(link)), None)
        stack = "".join([*traceback.format_exception(error), *_list_hidden(error)])
        return Failure(
            kind=kind,
            error_class=_find_class_name(error),
            error_code=None if code is None else _clean_kept_text(code, CODE_CHARS_MAX),
            message=_read_text(error),
            stack=_clean_kept_text(stack, STACK_CHARS_MAX, keep_end=True),
            log_lines="\n".join(lines) or None,
            retry_after_s=_retry_after_s(error),
            missing_predecessor=any(isinstance(link, MissingPredecessor) for link in walk_links(error)),
            previous_dead=any(isinstance(link, PreviousEventDead) for link in walk_links(error)),
        )

    def _judge(self, error: BaseException, item: WorkItem | None) -> tuple[ErrorKind, str | None]:
        kind, problem = self._ask_hook(error, item)
        for known in (self._find_configured_kind, partial(find_kind_by_class, kinds=DEFAULT_KINDS)):
            kind = kind or _search_kind(error, known, set())
        return kind or self._rules.default, problem

    def _ask_hook(self, error: BaseException, item: WorkItem | None) -> tuple[ErrorKind | None, str | None]:
        """Asks the hook, and ignores it where it fails: otherwise an outage of the hook would kill every event."""
        if self._hook is None:
            return None, None
        try:
            answer = self._hook(error, item)
            return (None if answer is None else ErrorKind(answer)), None
        except BaseException as wrong:  # sys.exit() in a hook too: the rules are still there
            problem = (
                f"the hook {self._rules.hook} failed, the rules decided: {get_class_name(wrong)}: {_read_text(wrong)}"
            )
            log.error("%s", problem)
            return None, problem

    def _find_configured_kind(self, error: BaseException) -> ErrorKind | None:
        kind = self._rules.find_kind(error, _read_text(error), list(_find_codes(error)))
        if kind is not None:
            return kind
        kind_of_error = _read_attribute(error, "kind")
        return kind_of_error if isinstance(kind_of_error, ErrorKind) else None


def clean_text(text: str, chars_max: int, *, keep_end: bool = False) -> str:
    if len(text) > chars_max:
        text = "…" + text[1 - chars_max :] if keep_end else text[: chars_max - 1] + "…"
    return text.replace("\x00", "\\x00").encode("utf-8", "backslashreplace").decode("utf-8")


def _clean_kept_text(text: str, chars_max: int, *, keep_end: bool = False) -> str:
    """Removes card numbers before it cuts the text, so that no number is cut in two."""
    looked_at = text[-SCANNED_CHARS_MAX:] if keep_end else text[:SCANNED_CHARS_MAX]
    return clean_text(without_card_numbers(looked_at), chars_max, keep_end=keep_end)


def walk_links(error: BaseException) -> Iterator[BaseException]:
    """Yields the error and all within it, outermost first, each once, `LINKS_MAX` at most."""
    waiting, seen = [error], set[int]()
    while waiting and len(seen) < LINKS_MAX:
        link = waiting.pop()
        if id(link) not in seen:
            seen.add(id(link))
            yield link
            waiting += reversed([*_list_members(link), *_list_inner_errors(link)])


def _search_kind(error: BaseException, known: Known, seen: set[int]) -> ErrorKind | None:
    if id(error) in seen or len(seen) >= LINKS_MAX:
        return None
    seen.add(id(error))
    kind = known(error)
    if kind is not None:
        return kind
    kinds = {_search_kind(member, known, seen) for member in _list_members(error)}
    gravest = next((kind for kind in GRAVEST_FIRST if kind in kinds), None)
    if gravest is not None:
        return gravest
    return next(
        (kind for inner in _list_inner_errors(error) if (kind := _search_kind(inner, known, seen)) is not None), None
    )


def _list_members(error: BaseException) -> tuple[BaseException, ...]:
    return error.exceptions if isinstance(error, BaseExceptionGroup) else ()


def _list_inner_errors(error: BaseException) -> list[BaseException]:
    carried = [*error.args, *getattr(error, "__dict__", {}).values()]
    return [inner for inner in (error.__cause__, error.__context__, *carried) if isinstance(inner, BaseException)]


def _retry_after_s(error: BaseException) -> float | None:
    longest_s = max(asked_s(link) for link in walk_links(error))
    return min(longest_s, RETRY_AFTER_S_MAX) if longest_s > 0 else None


def _list_hidden(error: BaseException) -> Iterator[str]:
    for link in walk_links(error):
        if link.__suppress_context__ and link.__cause__ is None and link.__context__ is not None:
            behind = link.__context__
            yield f"(hidden behind {type(link).__name__}: {type(behind).__name__}: {_read_text(behind)[:300]})\n"


def _find_class_name(error: BaseException) -> str:
    if isinstance(error, OfKind) and error.__cause__ is not None:
        return _find_class_name(error.__cause__)
    return get_class_name(error)


def get_class_name(value: object) -> str:
    """Reads the plain name from the type itself: an object, and a metaclass, may answer an attribute as they like."""
    return clean_text(type.__dict__["__name__"].__get__(type(value)), CLASS_CHARS_MAX)


def _read_text(error: BaseException) -> str:
    try:
        text = str(error)
    except BaseException as unprintable:  # its own code, which may raise anything
        text = f"its text can't be had: __str__ raised {get_class_name(unprintable)}"
    return _clean_kept_text(text, MESSAGE_CHARS_MAX)


def _find_codes(error: BaseException) -> Iterator[str]:
    for bearer in (error, _read_attribute(error, "response")):
        for name in CODE_NAMES:
            code = _read_attribute(bearer, name)
            if isinstance(code, Enum):
                code = code.value if isinstance(code.value, (int, str)) else code.name
            if isinstance(code, (int, str)) and not isinstance(code, bool):
                yield str(code)


def _read_attribute(bearer: object, name: str) -> object:
    try:
        return getattr(bearer, name, None)
    except Exception:
        return None


_CLASSIFIER = Classifier()


def catch_event_error(
    step: Callable[_Asked, _Answer], *args: _Asked.args, **kwargs: _Asked.kwargs
) -> _Answer | Failure:
    """Calls ``step`` and returns its answer, or the failure that its event dies of: the stream continues.

    Use it for what is about one event alone: an adapter that reads its body, a record's headers, a command's bytes.
    Errors of the engine, the index and the journal must raise: the stream starts again from the journal.
    """
    try:
        return step(*args, **kwargs)
    except BaseException as error:  # an adapter is a stranger's code too, and may call sys.exit()
        return make_event_failure(error)


def make_event_failure(error: BaseException) -> Failure:
    return replace(_CLASSIFIER.make_failure(error), kind=ErrorKind.NRE)


def make_engine_failure(error_class: str, message: str) -> Failure:
    return Failure(ErrorKind.NRE, error_class, None, message, stack="")
