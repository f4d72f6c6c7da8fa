"""Checks a handler's answer where it answered, and says what it means for the events behind that one.

The driver only ever sees plain values that the journal takes.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import replace
from types import MappingProxyType

from core.decision import Decision, ErrorKind
from core.errors import PayhookError
from core.money import AMOUNT_MINOR_MAX, Money
from core.work import Applied, Held, Ignored, Outcome, Posting, PreviousEvent, Unknown, WorkItem
from processor.errors.classify import (
    MESSAGE_CHARS_MAX,
    RETRY_AFTER_S_MAX,
    Failure,
    clean_text,
    get_class_name,
)

POSTINGS_MAX = 1_000
"""Lines of one booking. A provider's event moves a handful of amounts; 1,000 lines take 100 KB of a row."""

NAME_CHARS_MAX = 256
"""Of an account, a downstream, a handler's version."""

FACT_CHARS_MAX = 4_096
NOTE_TEXTS_MAX = 8
CURRENCY_CHARS = 3

_SIGNS: Mapping[str, int] = MappingProxyType({"debit": 1, "credit": -1})

WANTED = "a handler returns Applied, Ignored, Unknown or Held (core.work)"


class OutcomeInvalid(PayhookError):
    kind = ErrorKind.NRE

    def __init__(self, problem: str) -> None:
        self.problem = problem
        super().__init__(f"the handler's answer is wrong: {problem}; {WANTED}")


def check_outcome(outcome: object) -> Outcome:
    """Returns the outcome, made of plain values: valid UTF-8, bounded, balanced.

    :raises OutcomeInvalid: it is none, or one that can't be written down; what the answer itself raises is the cause
    """
    try:
        if isinstance(outcome, Applied):
            return Applied(_check_booking(outcome.postings), _check_pair(outcome.pair), bool(outcome.undoes))
        if isinstance(outcome, Ignored):
            return Ignored(_check_text(outcome.reason, "the reason"), _check_note(outcome.note))
        if isinstance(outcome, Unknown):
            return Unknown(
                _check_text(outcome.code, "the code", NAME_CHARS_MAX), _check_text(outcome.reason, "the reason")
            )
        if isinstance(outcome, Held):
            return _check_held(outcome)
    except OutcomeInvalid:
        raise
    except Exception as wrong:
        raise OutcomeInvalid(f"it can't be read ({type(wrong).__name__})") from wrong
    raise OutcomeInvalid(f"it is of the type {get_class_name(outcome)}")


def read_version(handler: object) -> str:
    try:
        version = getattr(handler, "version", None)
        return clean_text(str.__str__(version), NAME_CHARS_MAX)
    except Exception as wrong:
        return f"unknown ({get_class_name(wrong)})"


def _check_booking(postings: object) -> tuple[Posting, ...]:
    lines = tuple(postings) if type(postings) is list else postings
    if type(lines) is not tuple:
        raise OutcomeInvalid(f"its postings are of the type {get_class_name(postings)}, expected a tuple")
    if len(lines) > POSTINGS_MAX:
        raise OutcomeInvalid(f"it has {len(lines)} postings, {POSTINGS_MAX} at most are taken")
    sums: dict[str, int] = {}
    for line in lines:
        if type(line) is not Posting:
            raise OutcomeInvalid(f"one of its postings is of the type {get_class_name(line)}")
        amount_minor, currency = _check_amount(line.money)
        _check_account(line.account)
        if type(line.side) is not str or line.side not in _SIGNS:
            raise OutcomeInvalid("a posting's side is neither debit nor credit")
        sums[currency] = sums.get(currency, 0) + _SIGNS[line.side] * amount_minor
    if any(sums.values()):
        raise OutcomeInvalid("its debits aren't its credits in each currency")
    return lines


def _check_amount(money: object) -> tuple[int, str]:
    if type(money) is not Money:
        raise OutcomeInvalid(f"a posting's money is of the type {get_class_name(money)}")
    amount_minor, currency = money.amount_minor, money.currency
    if type(amount_minor) is not int or not 0 < amount_minor <= AMOUNT_MINOR_MAX:
        raise OutcomeInvalid(
            "a posting's amount isn't a whole number above zero; its side says which way the money went"
        )
    if type(currency) is not str or not (len(currency) == CURRENCY_CHARS and currency.isascii() and currency.isupper()):
        raise OutcomeInvalid("a posting's currency isn't three capital letters")
    return amount_minor, currency


def _check_account(account: object) -> None:
    if type(account) is not str or not 0 < len(account) <= NAME_CHARS_MAX:
        raise OutcomeInvalid(f"a posting's account isn't a text of 1 to {NAME_CHARS_MAX} characters")
    if not account.isascii() and account.encode("utf-8", "ignore").decode("utf-8") != account:
        raise OutcomeInvalid("a posting's account isn't valid UTF-8")


def _check_pair(key: object) -> str | None:
    return None if key is None else _check_text(key, "the pair", FACT_CHARS_MAX)


def _check_held(held: Held) -> Held:
    if not held.retry_after_s >= 0:
        raise OutcomeInvalid("its retry_after_s isn't a number of seconds")
    retry_after_s = float(min(held.retry_after_s, RETRY_AFTER_S_MAX))
    downstream = _check_text(held.downstream, "the downstream", NAME_CHARS_MAX)
    return Held(downstream, retry_after_s, _check_text(held.reason, "the reason"))


def _check_note(note: object) -> tuple[str, ...]:
    if type(note) is not tuple or len(note) > NOTE_TEXTS_MAX:
        raise OutcomeInvalid(f"its note isn't a tuple of up to {NOTE_TEXTS_MAX} texts")
    return tuple(_check_text(text, "a text of its note") for text in note)


def _check_text(text: object, what: str, chars_max: int = MESSAGE_CHARS_MAX) -> str:
    if not isinstance(text, str):
        raise OutcomeInvalid(f"{what} is of the type {get_class_name(text)}, expected a string")
    return clean_text(str.__str__(text), chars_max)


def holds_back(item: WorkItem, result: Outcome | Failure, *, stop_on_dead: bool) -> bool:
    """Returns whether the later events of its entity wait for another batch.

    It says beforehand what `processor.decide.line` will say. ``stop_on_dead``: the stream's followers wait behind a
    dead head.
    """
    if not isinstance(result, Failure):
        return isinstance(result, Held)
    if result.kind is ErrorKind.SBE:
        return True
    if result.missing_predecessor:
        return False
    return not _is_fatal(item, result) or (stop_on_dead and not result.previous_dead)


def is_passed_dead(item: WorkItem, result: Outcome | Failure) -> bool:
    return isinstance(result, Failure) and (_is_fatal(item, result) or item.died_before)


def add_previous_dead(item: WorkItem, dead: WorkItem | None) -> WorkItem:
    if dead is None:
        return item
    return replace(item, previous=PreviousEvent(dead.event_key, Decision.DEAD.value, dead.route))


def _is_fatal(item: WorkItem, failure: Failure) -> bool:
    return failure.kind is ErrorKind.NRE or failure.kind in item.last_try


def is_disproof(result: Outcome | Failure, answered: Collection[str], called: Collection[str]) -> bool:
    """Returns whether an event's result shows that an earlier failure wasn't the whole stream's.

    ``answered``: the downstreams that the event called with success; ``called``: those that the failed try had called.
    Where it had called none, an event has to be applied.
    """
    if not called:
        return isinstance(result, Applied)
    return isinstance(result, (Applied, Ignored, Unknown)) and set(called) <= set(answered)
