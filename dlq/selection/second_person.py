"""Whether a run takes a second person, and who can't be that one. The processor holds every run to both, too."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from core.clock import Clock
from dlq.done_alone import DoneAlone
from dlq.frozen import Selection
from dlq.limits import AloneLimits, Hands, Volume, in_common, kind_of, same_person
from dlq.selection.journal import RunLog
from dlq.selection.model import Run, RunKept, SecondPersonWanted


def why_two_people(selection: Selection, run: Run, limits: AloneLimits, before: Volume) -> str | None:
    """Why another person must approve a run; None: none need. ``before``: the most that any hand
    behind it did alone within a day."""
    if run.propose:
        return "it was asked for a second person's approval"
    return limits.beyond(kind_of(run.action), Volume(selection.count, Counter(selection.amounts)), before)


class SecondPerson:
    """Says so of one stream's runs."""

    def __init__(self, limits: AloneLimits, log: RunLog, clock: Clock, hands: Hands = same_person) -> None:
        self._limits = limits
        self._log = log
        self._clock = clock
        self._hands = hands

    def why(self, selection: Selection, run: Run, actor: str) -> str | None:
        """Why this run of a person needs another's approval; None: it doesn't."""
        before = DoneAlone(self._log.commands_since).of(self._hands(actor), kind_of(run.action), self._clock.now())
        return why_two_people(selection, run, self._limits, before)

    def check(self, proposed: RunKept, behind: Iterable[str], actor: str) -> None:
        """``behind``: who else could have proposed the run, as its command names them.

        :raises SecondPersonWanted: who approves it proposed it, or somebody could act as both
        """
        if same_person(proposed.actor) == same_person(actor):
            raise SecondPersonWanted(proposed.number, actor)
        if in_common({*behind, *self._hands(proposed.actor)}, self._hands(actor)):
            raise SecondPersonWanted(proposed.number, proposed.actor, actor)
