"""Retry policies, read from strings: `exponential(1s, x2, max 16s, 5 tries, jitter 50%)`.

Forms::

    exponential(FIRST, xFACTOR, max LONGEST, N tries, jitter P%)
    forever(FIRST, xFACTOR, max LONGEST, jitter P%)
    fixed(DELAY xN, DELAY xN, …, jitter P%)

A delay is ``250ms``, ``1s`` or ``2m``; ``max`` and ``jitter`` may be left out.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass

from core.errors import PayhookError

TRIES_MAX = 1_000
DELAY_S_MAX = 7 * 86_400.0

_UNIT_S = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0}
_FORM = re.compile(r"\s*(exponential|forever|fixed)\s*\((.*)\)\s*", re.DOTALL)
_DELAY = re.compile(r"(\d+(?:\.\d+)?)(ms|s|m|h)")
_FACTOR = re.compile(r"x(\d+(?:\.\d+)?)")
_TRIES = re.compile(r"(\d+) tr(?:y|ies)")
_JITTER = re.compile(r"jitter (\d+(?:\.\d+)?)%")
_MAX = re.compile(r"max (\S+)")
_REPEATED = re.compile(r"(\S+?)(?:\s*x(\d+))?")


class PolicyInvalid(PayhookError):
    """A retry policy that can't be read; points at the part that is wrong."""

    def __init__(self, text: str, part: str, problem: str) -> None:
        self.text = text
        self.part = part
        self.problem = problem
        super().__init__(f"retry policy {text!r}: {part!r} at character {max(text.find(part), 0) + 1}: {problem}")


@dataclass(frozen=True, slots=True)
class RetryPolicy:
    """When a failed event is tried again. ``tries`` is the most retries, None for no end.

    ``jitter`` is a share of the delay that is added at most: a retry is never early, and with a factor
    of at least 1 + jitter the delays always grow.
    """

    text: str
    first_s: float
    factor: float
    longest_s: float
    tries: int | None
    jitter: float
    steps_s: tuple[float, ...] = ()

    def delay_s(self, retry: int, random: Callable[[], float]) -> float | None:
        """Seconds before retry number ``retry`` (1 is the first); None when none is left.

        ``random`` gives a share in [0, 1) of the jitter.
        """
        base = self._base_s(retry)
        return None if base is None else base * (1.0 + self.jitter * random())

    def _base_s(self, retry: int) -> float | None:
        if self.tries is not None and retry > self.tries:
            return None
        if self.steps_s:
            return self.steps_s[retry - 1]
        doublings = min(retry - 1, 64)
        return float(min(self.longest_s, self.first_s * self.factor**doublings))


def parse_policy(text: str) -> RetryPolicy:
    """Reads a policy.

    :raises PolicyInvalid: names the part that can't be read
    """
    form = _FORM.fullmatch(text)
    if form is None:
        raise PolicyInvalid(text, text, "exponential(…), forever(…) or fixed(…) is wanted")
    parts = [part.strip() for part in form[2].split(",")]
    jitter = 0.0
    if parts and (found := _JITTER.fullmatch(parts[-1])):
        jitter = float(found[1]) / 100
        parts.pop()
    if not 0 <= jitter <= 1:
        raise PolicyInvalid(text, f"jitter {found[1] if found else ''}%", "0 to 100 % is wanted")
    if form[1] == "fixed":
        return _fixed(text, parts, jitter)
    return _growing(text, parts, jitter, endless=form[1] == "forever")


def _fixed(text: str, parts: list[str], jitter: float) -> RetryPolicy:
    steps: list[float] = []
    for part in parts:
        found = _REPEATED.fullmatch(part)
        if found is None:
            raise PolicyInvalid(text, part, "a delay such as 5s or 5s x3 is wanted")
        steps += [_seconds(text, found[1])] * int(found[2] or 1)
        if len(steps) > TRIES_MAX:
            raise PolicyInvalid(text, part, f"more than {TRIES_MAX} tries")
    return RetryPolicy(text, steps[0], 1.0, max(steps), len(steps), jitter, tuple(steps))


def _growing(text: str, parts: list[str], jitter: float, *, endless: bool) -> RetryPolicy:
    first = _seconds(text, parts[0])
    factor, longest, tries = 2.0, DELAY_S_MAX, None
    for part in parts[1:]:
        if found := _FACTOR.fullmatch(part):
            factor = float(found[1])
        elif found := _MAX.fullmatch(part):
            longest = _seconds(text, found[1])
        elif (found := _TRIES.fullmatch(part)) and not endless:
            tries = int(found[1])
        else:
            raise PolicyInvalid(text, part, "not known here")
    if factor < 1:
        raise PolicyInvalid(text, f"x{factor}", "a factor below 1 would shrink the delays")
    if not endless and tries is None:
        raise PolicyInvalid(text, parts[-1], "the number of tries is missing, such as 5 tries")
    if tries is not None and not 1 <= tries <= TRIES_MAX:
        raise PolicyInvalid(text, f"{tries} tries", f"1 to {TRIES_MAX} tries are wanted")
    return RetryPolicy(text, first, factor, longest, tries, jitter)


def _seconds(text: str, part: str) -> float:
    found = _DELAY.fullmatch(part)
    if found is None:
        raise PolicyInvalid(text, part, "a delay such as 250ms, 1s or 2m is wanted")
    seconds = float(found[1]) * _UNIT_S[found[2]]
    if not 0 < seconds <= DELAY_S_MAX:
        raise PolicyInvalid(text, part, f"more than 0 and at most {DELAY_S_MAX:.0f} s is wanted")
    return seconds
