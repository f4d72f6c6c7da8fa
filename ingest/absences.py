"""Remembers what a provider's API answered with 404, though its webhook names it, and when to ask again."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Hashable

from core.clock import Clock

AGAIN_AFTER_S = (1.0, 5.0, 30.0)
"""After each 404 but the last: a webhook may be some seconds ahead of the API."""


class Absences:
    """The 404s of each question, over all deliveries that ask it; of more than ``most`` questions the oldest go."""

    def __init__(self, clock: Clock, most: int) -> None:
        self._clock = clock
        self._most = most
        self._known: OrderedDict[Hashable, tuple[int, float]] = OrderedDict()
        """How often there was a 404, and when last."""

    def __len__(self) -> int:
        return len(self._known)

    def wait_s(self, question: Hashable) -> float:
        """Returns for how long it isn't to be asked."""
        times, asked_at = self._known.get(question, (0, 0.0))
        if not 1 <= times <= len(AGAIN_AFTER_S):
            return 0.0
        return max(0.0, asked_at + AGAIN_AFTER_S[times - 1] - self._clock.monotonic_s())

    def is_given_up(self, question: Hashable) -> bool:
        return self._known.get(question, (0, 0.0))[0] > len(AGAIN_AFTER_S)

    def record_absence(self, question: Hashable) -> None:
        """Counts a 404. One that comes before the question is due again is the same try, asked by two."""
        if self.wait_s(question) > 0:
            return
        times, _ = self._known.get(question, (0, 0.0))
        self._known[question] = min(times, len(AGAIN_AFTER_S)) + 1, self._clock.monotonic_s()
        self._known.move_to_end(question)
        while len(self._known) > self._most:
            self._known.popitem(last=False)

    def forget_question(self, question: Hashable) -> None:
        self._known.pop(question, None)
