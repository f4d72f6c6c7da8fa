"""What a handler raised, sorted into the four error kinds."""

from __future__ import annotations

import traceback
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from core.card_numbers import without_card_numbers
from core.decision import ErrorKind

MESSAGE_CHARS_MAX = 2_000
STACK_CHARS_MAX = 4_096
CHAIN_MAX = 32
RETRY_AFTER_S_MAX = 86_400.0
"""A downstream that asks for more is asked once a day."""

DEFAULT_KINDS: Mapping[str, ErrorKind] = {
    "ConnectionError": ErrorKind.SNBE,
    "TimeoutError": ErrorKind.SNBE,
    "HandlerTimeout": ErrorKind.SNBE,
}
"""By class name or that of a base. What isn't listed is a handler's bug: NRE, dead at once."""


@dataclass(frozen=True, slots=True)
class Failure:
    """A raised error as the journal keeps it, without card numbers. ``error_class`` is the class's plain name.

    ``retry_after_s``: what the error says of the next try (its attribute of that name); a retry isn't earlier.
    ``downstream``: whose failed call it came from, if it came from one.
    """

    kind: ErrorKind
    error_class: str
    error_code: str | None
    message: str
    stack: str
    log_lines: str | None = None
    retry_after_s: float | None = None
    downstream: str | None = None


class Classifier:
    """Decides an error's kind: its own ``kind`` attribute, else by class along the cause chain.

    ``kinds`` are a stream's own rules by class name; they come before everything else.
    """

    def __init__(self, kinds: Mapping[str, ErrorKind] | None = None) -> None:
        self._kinds = dict(kinds or {})

    def kind(self, error: BaseException) -> ErrorKind:
        chain = list(_chain(error))
        for rules in (self._kinds, None, DEFAULT_KINDS):
            for link in chain:
                found = _own_kind(link) if rules is None else _by_class(link, rules)
                if found is not None:
                    return found
        return ErrorKind.NRE

    def failure(self, error: BaseException, log_lines: str | None = None) -> Failure:
        code, stack = getattr(error, "code", None), "".join(traceback.format_exception(error))
        return Failure(
            kind=self.kind(error),
            error_class=type(error).__name__,
            error_code=None if code is None else clean(without_card_numbers(str(code)), 100),
            message=clean(without_card_numbers(str(error)), MESSAGE_CHARS_MAX),
            stack=clean(without_card_numbers(stack), STACK_CHARS_MAX, keep_end=True),
            log_lines=log_lines,
            retry_after_s=_retry_after_s(error),
        )


def clean(text: str, chars_max: int, *, keep_end: bool = False) -> str:
    """Text that every store takes: valid UTF-8, no NUL, bounded."""
    if len(text) > chars_max:
        text = "…" + text[1 - chars_max :] if keep_end else text[: chars_max - 1] + "…"
    return text.replace("\x00", "\\x00").encode("utf-8", "backslashreplace").decode("utf-8")


def _chain(error: BaseException) -> Iterator[BaseException]:
    seen: set[int] = set()
    link: BaseException | None = error
    while link is not None and id(link) not in seen and len(seen) < CHAIN_MAX:
        seen.add(id(link))
        yield link
        link = link.__cause__ or link.__context__


def _retry_after_s(error: BaseException) -> float | None:
    for link in _chain(error):
        wanted = getattr(link, "retry_after_s", None)
        if isinstance(wanted, (int, float)) and wanted > 0:
            return min(float(wanted), RETRY_AFTER_S_MAX)
    return None


def _own_kind(error: BaseException) -> ErrorKind | None:
    kind = getattr(error, "kind", None)
    return kind if isinstance(kind, ErrorKind) else None


def _by_class(error: BaseException, rules: Mapping[str, ErrorKind]) -> ErrorKind | None:
    for base in type(error).__mro__:
        if base.__name__ in rules:
            return rules[base.__name__]
    return None
