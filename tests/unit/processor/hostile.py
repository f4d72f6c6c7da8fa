"""Answers and errors that no handler should give: each is one that has stopped, or could stop, a stream."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, NoReturn

from core.decision import ErrorKind
from core.money import Money
from core.work import Applied, DownstreamHeld, Held, Ignored, MissingPredecessor, Posting, Unknown

HALF = "\ud800"
"""Half of a surrogate pair: no store takes it."""

HUGE = "x" * 3_000_000
NAN, INFINITE = float("nan"), float("inf")
FIVE = Money(5, "EUR")


class Awkward:
    """Whatever is asked of it, it raises; it can't even be pickled."""

    def _refuse(self, *_: object) -> NoReturn:
        raise RuntimeError("leave me alone")

    __repr__ = __str__ = __eq__ = __hash__ = __bool__ = __len__ = __iter__ = __reduce__ = _refuse
    __reduce_ex__ = _refuse


class WordOfItsOwn(str):
    """A text that answers for itself."""

    __slots__ = ()

    def replace(self, *_: object) -> NoReturn:
        raise ValueError("this text isn't to be changed")

    def __str__(self) -> NoReturn:
        raise ValueError("this text isn't to be read")

    def __reduce__(self) -> NoReturn:
        raise ValueError("this text stays here")


class AppliedOfItsOwn(Applied):
    """Carries what the driver can't take."""

    def __reduce__(self) -> NoReturn:
        raise ValueError("this answer stays here")


class Unprintable(Exception):
    """Its text can't be had."""

    def __str__(self) -> NoReturn:
        raise KeyboardInterrupt

    __repr__ = __str__


class Unreadable(Exception):
    """Nothing of it can be had but what Python itself, and a test's report, must have."""

    def __getattribute__(self, name: str) -> Any:
        if name.startswith("__"):
            return super().__getattribute__(name)
        raise SystemExit(name)


class Empty(Exception):
    """It has a length, which is none of anybody's business."""

    def __len__(self) -> NoReturn:
        raise ValueError("how long is an error?")


class Patient(Exception):
    """Asks for a next try that no clock can tell."""

    kind = ErrorKind.SNBE

    def __init__(self, retry_after_s: Any) -> None:
        super().__init__("later")
        self.retry_after_s = retry_after_s


class Coded(Exception):
    """Carries a code."""

    def __init__(self, code: Any) -> None:
        super().__init__("it has a code")
        self.code = code


class OfOddKind(Exception):
    kind = "SOMETHING"


@dataclass
class NotMoney:
    amount_minor: Any = 5
    currency: Any = "EUR"


def _booked(account: Any = "a", side: Any = "debit", money: Any = FIVE) -> Applied:
    return Applied((Posting(account, side, money), Posting("b", "credit", FIVE)))


def _forged(amount_minor: Any, currency: Any = "EUR") -> Applied:
    """Two lines of the same amount, which was never checked."""
    money = Money(5, "EUR")
    object.__setattr__(money, "amount_minor", amount_minor)
    object.__setattr__(money, "currency", currency)
    return Applied((Posting("a", "debit", money), Posting("b", "credit", money)))


def _lines() -> Iterator[Posting]:
    yield Posting("a", "debit", FIVE)


ODD_ANSWERS: Mapping[str, Callable[[], Any]] = MappingProxyType(
    {
        "nothing": lambda: None,
        "true": lambda: True,
        "a number": lambda: 7,
        "NaN": lambda: NAN,
        "a text": lambda: "applied",
        "half a pair": lambda: HALF,
        "a huge text": lambda: HUGE,
        "bytes": lambda: b"applied",
        "a generator": _lines,
        "a class": lambda: Applied,
        "an error": lambda: ValueError("returned, not raised"),
        "something awkward": Awkward,
        "a list of outcomes": lambda: [Applied()],
        "an outcome without its fields": lambda: object.__new__(Ignored),
        "postings that are none": lambda: Applied(None),  # type: ignore[arg-type]
        "postings from a generator": lambda: Applied(_lines()),  # type: ignore[arg-type]
        "postings of texts": lambda: Applied(("a", "b")),  # type: ignore[arg-type]
        "an awkward posting": lambda: Applied((Awkward(),)),  # type: ignore[arg-type]
        "too many postings": lambda: Applied((Posting("a", "debit", FIVE), Posting("b", "credit", FIVE)) * 501),
        "an account that is half a pair": lambda: _booked(HALF),
        "an account that is none": lambda: _booked(None),
        "an account without a name": lambda: _booked(""),
        "a huge account": lambda: _booked(HUGE),
        "an account of its own": lambda: _booked(WordOfItsOwn("a")),
        "a third side": lambda: _booked(side="both"),
        "an awkward side": lambda: _booked(side=Awkward()),
        "money that is none": lambda: _booked(money=None),
        "money that only looks like it": lambda: _booked(money=NotMoney()),
        "money of NaN": lambda: _booked(money=NotMoney(NAN)),
        "an amount of NaN": lambda: _forged(NAN),
        "an amount beyond 64 bits": lambda: _forged(2**80),
        "an amount below zero": lambda: _forged(-5),
        "an amount of zero": lambda: _forged(0),
        "a currency that is half a pair": lambda: _forged(5, HALF * 3),
        "debits without credits": lambda: Applied((Posting("a", "debit", FIVE),)),
        "two currencies that don't match": lambda: _booked(money=Money(5, "USD")),
        "a reason that is none": lambda: Ignored(None),  # type: ignore[arg-type]
        "an awkward reason": lambda: Ignored(Awkward()),  # type: ignore[arg-type]
        "a code that is none": lambda: Unknown(None, "no table knows it"),  # type: ignore[arg-type]
        "held until NaN": lambda: Held("merchants", NAN),
        "held by nobody": lambda: Held(None, 1.0),  # type: ignore[arg-type]
        "held until a text": lambda: Held("merchants", "soon"),  # type: ignore[arg-type]
        "held since yesterday": lambda: Held("merchants", -86_400.0),
    }
)
"""Each of them ends its event: dead at once, as `OutcomeInvalid`."""

MADE_SAFE: Mapping[str, tuple[Callable[[], Any], str]] = MappingProxyType(
    {
        "a reason that is half a pair": (lambda: Ignored(HALF), "ignored"),
        "a huge reason": (lambda: Ignored(HUGE), "ignored"),
        "a reason of its own": (lambda: Ignored(WordOfItsOwn("no")), "ignored"),
        "an unknown value that is half a pair, for a huge reason": (lambda: Unknown(HALF, HUGE), "unknown"),
        "an outcome that can't be pickled": (AppliedOfItsOwn, "applied"),
        "postings in a list": (lambda: Applied(list(_booked().postings)), "applied"),  # type: ignore[arg-type]
        "held for ever": (lambda: Held("merchants", INFINITE), "parked"),
        "held by half a pair": (lambda: Held(HALF, 1.0, HALF), "parked"),
        "held by something huge": (lambda: Held(HUGE, 1.0, HUGE), "parked"),
    }
)
"""Outcomes all the same; their texts and times are made such as the journal takes, and what they become."""

ODD_ERRORS: Mapping[str, Callable[[], BaseException]] = MappingProxyType(
    {
        "the end of the process": lambda: SystemExit(1),
        "an interrupt": KeyboardInterrupt,
        "the end of a generator": GeneratorExit,
        "a cancelled task": asyncio.CancelledError,
        "the base of all errors": lambda: BaseException("just this"),
        "the end of an iteration": StopIteration,
        "no memory": MemoryError,
        "a recursion": lambda: RecursionError("too deep"),
        "a group": lambda: BaseExceptionGroup("two", [SystemExit(), ValueError(HALF)]),
        "half a pair": lambda: ValueError(HALF),
        "a huge text": lambda: ValueError(HUGE),
        "one that can't be printed": Unprintable,
        "one that can't be looked at": Unreadable,
        "one with a length": Empty,
        "an awkward argument": lambda: ValueError(Awkward()),
        "a code that is half a pair": lambda: Coded(HALF),
        "a huge code": lambda: Coded(HUGE),
        "an awkward code": lambda: Coded(Awkward()),
        "a next try at NaN": lambda: Patient(NAN),
        "a next try never": lambda: Patient(INFINITE),
        "a next try beyond every number": lambda: Patient(10**400),
        "an awkward next try": lambda: Patient(Awkward()),
        "a kind that is none": OfOddKind,
        "a decision of the engine's": lambda: AssertionError("held"),
        "held until NaN": lambda: DownstreamHeld("merchants", NAN),
        "held by nobody": lambda: DownstreamHeld(None, 0.0),  # type: ignore[arg-type]
        "a predecessor that is half a pair": lambda: MissingPredecessor(HALF, HALF),
        "one named hugely": lambda: type("E" * 100_000, (Exception,), {})(),
    }
)
"""Whatever becomes of the event, it is decided."""
