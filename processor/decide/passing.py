"""Within a batch: whether an event's followers may run after it, and whether they pass a dead one over."""

from __future__ import annotations

from collections.abc import Collection

from core.decision import ErrorKind
from core.work import Applied, Held, Ignored, Outcome, WorkItem
from processor.judge.classify import Failure


def holds_back(item: WorkItem, result: Outcome | Failure, *, stop_on_dead: bool) -> bool:
    """Whether the later events of its entity wait for another batch.

    ``stop_on_dead``: the stream's followers don't go on past a dead head.
    """
    if not isinstance(result, Failure):
        return isinstance(result, Held)
    if result.kind is ErrorKind.SBE:
        return True
    if result.missing_predecessor:
        return False
    return stop_on_dead or not _dies(item, result)


def is_passed_dead(item: WorkItem, result: Outcome | Failure) -> bool:
    """Whether those that run after it see `WorkItem.previous_dead`: it died of this, or it had died and waits again."""
    return isinstance(result, Failure) and (_dies(item, result) or item.died_before)


def disproves(result: Outcome | Failure, answered: Collection[str], called: Collection[str]) -> bool:
    """Whether an event's result shows that an earlier failure wasn't the whole stream's.

    ``answered``: the downstreams that the event called with success; ``called``: those that the failed try had called.
    Where it had called none, an event has to be applied.
    """
    if not called:
        return isinstance(result, Applied)
    return isinstance(result, (Applied, Ignored)) and set(called) <= set(answered)


def _dies(item: WorkItem, failure: Failure) -> bool:
    return failure.kind is ErrorKind.NRE or (item.last_try and failure.kind is not ErrorKind.SBE)
