"""What a handler answered, checked where it answered: the driver only ever sees plain values that the journal takes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from core.decision import ErrorKind
from core.errors import PayhookError
from core.money import Money
from core.work import Applied, Held, Ignored, Outcome, Posting
from processor.judge.classify import MESSAGE_CHARS_MAX, RETRY_AFTER_S_MAX, clean, own_name

POSTINGS_MAX = 1_000
"""Lines of one booking. A provider's event moves a handful of amounts; 1,000 lines take 100 KB of a row."""

NAME_CHARS_MAX = 256
"""Of an account, a downstream, a handler's version."""

WANTED = "a handler returns Applied, Ignored or Held (core.work)"


class OutcomeInvalid(PayhookError):
    """A handler returned what isn't an outcome, or an outcome that can't be written down."""

    kind = ErrorKind.NRE

    def __init__(self, problem: str) -> None:
        self.problem = problem
        super().__init__(f"the handler's answer is wrong: {problem}; {WANTED}")

    def __reduce__(self) -> tuple[type[OutcomeInvalid], tuple[str]]:
        return OutcomeInvalid, (self.problem,)


def checked(outcome: object) -> Outcome:
    """The outcome, made of plain values: valid UTF-8, bounded, balanced.

    :raises OutcomeInvalid: it is none, or one that can't be written down; what the answer itself raises is the cause
    """
    try:
        if isinstance(outcome, Applied):
            return Applied(_booking(outcome.postings))
        if isinstance(outcome, Ignored):
            return Ignored(_text(outcome.reason, "the reason"))
        if isinstance(outcome, Held):
            return _held(outcome)
    except OutcomeInvalid:
        raise
    except Exception as wrong:
        raise OutcomeInvalid(f"it can't be read ({type(wrong).__name__})") from wrong
    raise OutcomeInvalid(f"it is of the type {own_name(outcome)}")


def version_of(handler: object) -> str:
    """A handler's version as rows keep it; one that isn't a text is named by its type."""
    try:
        version = getattr(handler, "version", None)
        return clean(str.__str__(version), NAME_CHARS_MAX)
    except Exception as wrong:
        return f"unknown ({own_name(wrong)})"


def _booking(postings: Iterable[Posting]) -> tuple[Posting, ...]:
    if not isinstance(postings, (tuple, list)):
        raise OutcomeInvalid(f"its postings are of the type {own_name(postings)}, a tuple is wanted")
    if len(postings) > POSTINGS_MAX:
        raise OutcomeInvalid(f"it has {len(postings)} postings, {POSTINGS_MAX} at most are taken")
    lines = tuple([_line(line) for line in postings])
    sums: Counter[str] = Counter()
    for line in lines:
        sums[line.money.currency] += line.money.amount_minor if line.side == "debit" else -line.money.amount_minor
    if any(sums.values()):
        raise OutcomeInvalid("its debits aren't its credits in each currency")
    return lines


def _line(line: object) -> Posting:
    if not isinstance(line, Posting):
        raise OutcomeInvalid(f"one of its postings is of the type {own_name(line)}")
    account, side, money = line.account, line.side, line.money
    if type(account) is not str or not 0 < len(account) <= NAME_CHARS_MAX or not _is_kept(account):
        raise OutcomeInvalid(f"a posting's account isn't a text of 1 to {NAME_CHARS_MAX} characters")
    if type(side) is not str or side not in ("debit", "credit"):
        raise OutcomeInvalid("a posting's side is neither debit nor credit")
    money = Money(money.amount_minor, str.__str__(money.currency))
    if money.amount_minor <= 0:
        raise OutcomeInvalid("a posting's amount isn't above zero; its side says which way the money went")
    return Posting(account, side, money)


def _held(held: Held) -> Held:
    if not held.retry_after_s >= 0:
        raise OutcomeInvalid("its retry_after_s isn't a number of seconds")
    retry_after_s = float(min(held.retry_after_s, RETRY_AFTER_S_MAX))
    downstream = _text(held.downstream, "the downstream", NAME_CHARS_MAX)
    return Held(downstream, retry_after_s, _text(held.reason, "the reason"))


def _text(text: object, what: str, chars_max: int = MESSAGE_CHARS_MAX) -> str:
    if not isinstance(text, str):
        raise OutcomeInvalid(f"{what} is of the type {own_name(text)}, a text is wanted")
    return clean(str.__str__(text), chars_max)


def _is_kept(text: str) -> bool:
    return text.isascii() or text.encode("utf-8", "ignore").decode("utf-8") == text
