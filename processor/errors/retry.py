"""Retry policies, read from strings: `exponential(1s, x2, max 16s, 5 tries, jitter 50%)`.

Forms::

    exponential(FIRST, xFACTOR, max LONGEST, N tries, jitter P%)
    forever(FIRST, xFACTOR, max LONGEST, jitter P%)
    fixed(DELAY xN, DELAY xN, …, jitter P%)
    DELAY xN, DELAY xN, …
    LimitedExponentialRetryPolicy(FIRST, LONGEST, FACTOR, N)
    UnlimitedExponentialRetryPolicy(FIRST, LONGEST, FACTOR)
    FixedDelayRetryPolicy(DELAYxN, DELAYxN, …)

The parts of the two exponential classes may be named, in any order: ``initialDelay=1, maxDelay=60, multiplier=2,
maxDelayCount=120``. A jitter may end all three.

A delay is ``250ms``, ``1s``, ``2m`` or ``1h``; in a list a bare number is milliseconds, so that ``5000x3, 15000x5`` is
read too. ``max`` and ``jitter`` may be left out, ``xFACTOR`` is 2 unless it is named. In the last three a bare number
of an exponential policy is seconds, and N is how many retries there are at the longest delay, once it is reached.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Annotated

from pydantic import AfterValidator

from core.errors import PayhookError

TRIES_MAX = 1_000
DELAY_S_MAX = 7 * 86_400.0
FACTOR_MAX = 100.0
TEXT_CHARS_MAX = 1_000

_UNIT_S = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0}
_FORM = re.compile(r"\s*([A-Za-z_]\w*)\s*\(")
_ROUNDING = 1e-9
_NUMBER = r"\d{1,12}(?:\.\d{1,9})?"
_DELAY = re.compile(rf"({_NUMBER})\s*(ms|s|m|h)")
_BARE = re.compile(_NUMBER)
_FACTOR = re.compile(rf"[xX]\s*({_NUMBER})")
_NAMED = re.compile(r"([A-Za-z]+)\s*[=:]\s*(.*)")
_TRIES = re.compile(r"(\d{1,12})\s+tr(?:y|ies)")
_JITTER = re.compile(rf"jitter\s+({_NUMBER})\s*%")
_MAX = re.compile(r"max\s+(.+)")
_COUNT = re.compile(r"\d{1,12}")
_STEP = re.compile(rf"({_NUMBER}\s*(?:ms|s|m|h)?)(?:\s*[xX]\s*(\d{{1,12}}))?")


LIMITED, UNLIMITED = "LimitedExponentialRetryPolicy", "UnlimitedExponentialRetryPolicy"
_FIXED = ("fixed", "FixedDelayRetryPolicy")
_EXPONENTIAL = {
    LIMITED: ("initialDelay", "maxDelay", "multiplier", "maxDelayCount"),
    UNLIMITED: ("initialDelay", "maxDelay", "multiplier"),
}
_FORMS = ("exponential", "forever", *_FIXED, *_EXPONENTIAL)


class PolicyInvalid(PayhookError):
    def __init__(self, text: str, column: int, part: str, problem: str) -> None:
        self.text = text
        self.column = column
        self.part = part
        self.problem = problem
        shown = text.replace("\n", " ").replace("\t", " ")
        pointer = " " * (column - 1) + "^" * max(1, len(part))
        shown_part = repr(part) if part else "nothing there"
        super().__init__(f"retry policy, character {column}, {shown_part}: {problem}\n  {shown}\n  {pointer}")


@dataclass(frozen=True, slots=True)
class RetryPolicy:
    """When a failed event is tried again. ``tries`` is the most retries, None for no end.

    ``jitter`` is the share of a delay that is added at most. A retry is never early, and the next delay is never
    exceeded, so growing delays stay in order. Once they no longer grow, they lie between ``longest_s`` and that with
    its whole jitter.
    """

    text: str
    first_s: float
    factor: float
    longest_s: float
    tries: int | None
    jitter: float
    steps_s: tuple[float, ...] = ()

    def delay_s(self, retry: int, random: Callable[[], float]) -> float | None:
        """Returns the seconds before retry number ``retry`` (1 is the first); None when none is left.

        ``random`` gives a share in [0, 1) of the jitter.
        """
        base = self.least_s(retry)
        if base is None:
            return None
        longer = self._longer_s(retry, base)
        room = self.jitter * base
        return base + random() * (room if longer is None else min(room, longer - base))

    def least_s(self, retry: int) -> float | None:
        if self.tries is not None and retry > self.tries:
            return None
        return self.steps_s[retry - 1] if self.steps_s else self._grown_s(retry)

    @property
    def grows_for(self) -> int:
        if self.factor == 1 or self.first_s >= self.longest_s:
            return 0
        return math.ceil(math.log(self.longest_s / self.first_s) / math.log(self.factor) - _ROUNDING)

    def _longer_s(self, retry: int, base: float) -> float | None:
        if self.steps_s:
            return next((step for step in self.steps_s[retry:] if step > base), None)
        following = self._grown_s(retry + 1)
        return following if following > base else None

    def _grown_s(self, retry: int) -> float:
        if self.factor == 1:
            return self.first_s
        # By logarithms, since a power of a large number of retries is more than a float holds.
        if (retry - 1) * math.log(self.factor) >= math.log(self.longest_s / self.first_s):
            return self.longest_s
        return float(min(self.longest_s, self.first_s * self.factor ** (retry - 1)))


def choose_policy(written: str | None, present: RetryPolicy) -> RetryPolicy:
    """Chooses the policy that an event was ``written`` down with, whatever is configured now.

    A text that this code can't read (another version wrote it) gives the present one.
    """
    if written is None or written == present.text:
        return present
    try:
        return parse_policy(written)
    except PolicyInvalid:
        return present


@lru_cache(maxsize=256)
def parse_policy(text: str) -> RetryPolicy:
    """
    :raises PolicyInvalid: points at the part that can't be read
    """
    if len(text) > TEXT_CHARS_MAX:
        raise PolicyInvalid(text[:TEXT_CHARS_MAX], TEXT_CHARS_MAX, "", f"more than {TEXT_CHARS_MAX} characters")
    return _PolicyReader(text).read_policy()


def _check_policy(text: str) -> str:
    try:
        parse_policy(text)
    except PolicyInvalid as wrong:
        raise ValueError(str(wrong)) from None
    return text


PolicyText = Annotated[str, AfterValidator(_check_policy)]
"""A setting that holds a policy: one that can't be read is refused with the place."""


def parse_delay(text: str) -> float:
    """Reads a delay such as ``250ms``, ``30s``, ``2m`` or ``1h``; ``0s`` is none.

    :raises ValueError: it isn't one
    """
    match = _DELAY.fullmatch(text.strip())
    seconds = -1.0 if match is None else float(match[1]) * _UNIT_S[match[2]]
    if not 0 <= seconds <= DELAY_S_MAX:
        raise ValueError(f"{text!r} isn't a delay such as 250ms, 30s, 2m or 1h, {DELAY_S_MAX:.0f}s at most")
    return seconds


def _check_delay(text: str) -> str:
    parse_delay(text)
    return text


DelayText = Annotated[str, AfterValidator(_check_delay)]


@dataclass(frozen=True, slots=True)
class _Part:
    text: str
    at: int


class _PolicyReader:
    def __init__(self, text: str) -> None:
        self._text = text

    def read_policy(self) -> RetryPolicy:
        named = _FORM.match(self._text)
        if named is None:
            return self._read_fixed(self._split_parts(0, len(self._text)))
        form, since = named[1], named.end()
        if form not in _FORMS:
            raise self._make_error(_Part(form, named.start(1)), f"unknown form; known are {', '.join(_FORMS)}")
        until = self._text.find(")", since)
        if until < 0:
            raise self._make_error(_Part("", len(self._text.rstrip())), "the closing ) is missing")
        beyond = self._text[until + 1 :]
        if beyond.strip():
            at = len(self._text) - len(beyond.lstrip())
            raise self._make_error(_Part(beyond.strip(), at), "nothing may follow the closing )")
        parts = self._split_parts(since, until)
        if form in _EXPONENTIAL:
            return self._read_exponential(form, parts)
        return self._read_fixed(parts) if form in _FIXED else self._read_growing(parts, endless=form == "forever")

    def _split_parts(self, since: int, until: int) -> list[_Part]:
        parts: list[_Part] = []
        at = since
        for piece in self._text[since:until].split(","):
            stripped = piece.strip()
            parts.append(_Part(stripped, at + len(piece) - len(piece.lstrip()) if stripped else at))
            at += len(piece) + 1
        return parts

    def _read_fixed(self, parts: list[_Part]) -> RetryPolicy:
        jitter = self._take_jitter(parts)
        steps: list[float] = []
        for part in parts:
            match = _STEP.fullmatch(part.text)
            if match is None:
                raise self._make_error(part, "expected a delay such as 5s, 5s x3 or 5000x3 (milliseconds)")
            seconds, times = self._read_seconds(_Part(match[1].strip(), part.at), bare_s=0.001), int(match[2] or 1)
            if not 1 <= times <= TRIES_MAX - len(steps):
                raise self._make_error(part, f"expected 1 to {TRIES_MAX} tries in all")
            steps += [seconds] * times
        return RetryPolicy(self._text, steps[0], 1.0, max(steps), len(steps), jitter, tuple(steps))

    def _read_exponential(self, form: str, parts: list[_Part]) -> RetryPolicy:
        names = _EXPONENTIAL[form]
        jitter = self._take_jitter(parts)
        if len(parts) != len(names):
            raise self._make_error(parts[-1], f"{form} takes {len(names)} parts: {', '.join(names)}")
        parts = self._order_by_name(form, parts)
        first, longest = self._read_seconds(parts[0], bare_s=1.0), self._read_seconds(parts[1], bare_s=1.0)
        multiplier = _FACTOR.fullmatch(parts[2].text) or _BARE.fullmatch(parts[2].text)
        factor = float(multiplier[0].lstrip("xX")) if multiplier else 0.0
        if not 1 <= factor <= FACTOR_MAX:
            raise self._make_error(parts[2], f"expected a multiplier of 1 to {FACTOR_MAX:g}")
        if longest < first:
            raise self._make_error(parts[0], f"longer than the longest delay, {longest:g} s")
        growing = RetryPolicy(self._text, first, factor, longest if factor > 1 else first, None, jitter)
        if len(names) == len(_EXPONENTIAL[UNLIMITED]):
            return growing
        at_longest = int(parts[3].text) if _COUNT.fullmatch(parts[3].text) else 0
        tries = growing.grows_for + at_longest
        if not 1 <= at_longest <= tries <= TRIES_MAX:
            raise self._make_error(parts[3], f"expected 1 or more, and at most {TRIES_MAX} tries in all")
        return replace(growing, tries=tries)

    def _order_by_name(self, form: str, parts: list[_Part]) -> list[_Part]:
        found = [(part, _NAMED.fullmatch(part.text)) for part in parts]
        if all(match is None for _, match in found):
            return parts
        values: dict[str, _Part] = {}
        for part, match in found:
            if match is None or match[1] not in _EXPONENTIAL[form] or match[1] in values:
                raise self._make_error(part, f"expected each of {', '.join(_EXPONENTIAL[form])} once")
            values[match[1]] = _Part(match[2], part.at + match.start(2))
        return [values[name] for name in _EXPONENTIAL[form]]

    def _read_growing(self, parts: list[_Part], *, endless: bool) -> RetryPolicy:
        jitter, end = self._take_jitter(parts), parts[-1]
        first = self._read_seconds(parts[0])
        limits: dict[str, float] = {}
        for part in parts[1:]:
            name, value = self._read_limit(part, endless=endless)
            if name in limits:
                raise self._make_error(part, f"the {name} is named a second time")
            limits[name] = value
        if not endless and "number of tries" not in limits:
            raise self._make_error(end, "the number of tries is missing after it, such as 5 tries")
        longest = limits.get("longest delay", DELAY_S_MAX)
        if longest < first:
            raise self._make_error(parts[0], f"longer than the longest delay, {longest:g} s")
        tries, factor = None if endless else int(limits["number of tries"]), limits.get("factor", 2.0)
        return RetryPolicy(self._text, first, factor, longest if factor > 1 else first, tries, jitter)

    def _read_limit(self, part: _Part, *, endless: bool) -> tuple[str, float]:
        if match := _FACTOR.fullmatch(part.text):
            if not 1 <= float(match[1]) <= FACTOR_MAX:
                raise self._make_error(part, f"expected a factor of 1 to {FACTOR_MAX:g}: delays never shrink")
            return "factor", float(match[1])
        if match := _MAX.fullmatch(part.text):
            return "longest delay", self._read_seconds(_Part(match[1], part.at + match.start(1)))
        if match := _TRIES.fullmatch(part.text):
            if endless:
                raise self._make_error(part, "forever(…) has no number of tries; exponential(…) has")
            if not 1 <= int(match[1]) <= TRIES_MAX:
                raise self._make_error(part, f"expected 1 to {TRIES_MAX} tries")
            return "number of tries", int(match[1])
        raise self._make_error(part, "expected x2, max 16s, 5 tries or, as the last, jitter 50%")

    def _take_jitter(self, parts: list[_Part]) -> float:
        last = parts[-1]
        match = _JITTER.fullmatch(last.text)
        if match is None or len(parts) == 1:
            return 0.0
        if not 0 <= float(match[1]) <= 100:
            raise self._make_error(last, "expected 0 to 100 %")
        parts.pop()
        return float(match[1]) / 100

    def _read_seconds(self, part: _Part, *, bare_s: float = 0.0) -> float:
        match = _DELAY.fullmatch(part.text)
        if match is None and not (bare_s and _BARE.fullmatch(part.text)):
            raise self._make_error(part, "expected a delay such as 250ms, 1s, 2m or 1h")
        seconds = float(part.text) * bare_s if match is None else float(match[1]) * _UNIT_S[match[2]]
        if not 0.001 <= seconds <= DELAY_S_MAX:
            raise self._make_error(part, f"expected 1 ms to {DELAY_S_MAX:.0f} s")
        return seconds

    def _make_error(self, part: _Part, problem: str) -> PolicyInvalid:
        return PolicyInvalid(self._text, part.at + 1, part.text, problem)
