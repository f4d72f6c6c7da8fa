"""The scopes that `make test` searches; ``python -m tests.unit.processor.scopes`` prints how large they are."""

from __future__ import annotations

import logging
import sys
import time
from collections.abc import Callable, Mapping

from processor.settings import DeadHead
from tests.unit.processor.memory import use_memory
from tests.unit.processor.search import Arrival, Scope, Search

_ONE, _TWO = Arrival(), (Arrival(), Arrival())
_HERE, _THERE = Arrival("e1", "fact"), Arrival("e2", "fact")
_COPY, _CHANGED = Arrival(copy_of=0), Arrival(copy_of=0, changed=True)

SCOPES: Mapping[str, Callable[[DeadHead], Scope]] = {
    "one event and its copy, changed or not": lambda policy: Scope(
        policy,
        answers=("applied", "ignored", "unknown", "stuck", "bug"),
        arrivals=((), (_ONE,), (_COPY,), (_CHANGED,)),
        actions=("replay", "purge", "replay ignored"),
        events_max=1,
        records_max=2,
    ),
    "two events of one line, outages and predecessors": lambda policy: Scope(
        policy,
        answers=("applied", "held", "missing", "down"),
        arrivals=((), (_ONE,), _TWO),
        actions=("replay", "resolve"),
        events_max=2,
        records_max=2,
    ),
    "two lines that share a fact": lambda policy: Scope(
        policy,
        answers=("applied", "bug", "stuck"),
        arrivals=((), (_HERE,), (_THERE,), (_HERE, _THERE)),
        actions=("replay", "purge"),
        events_max=2,
        records_max=2,
    ),
    "three events of one line": lambda policy: Scope(
        policy,
        answers=("applied", "bug", "missing", "after_dead"),
        arrivals=((), (_ONE,), _TWO),
        actions=("replay",),
        events_max=3,
        records_max=3,
    ),
    "four events of two lines that share a fact": lambda policy: Scope(
        policy,
        answers=("applied", "bug"),
        arrivals=((), (_HERE,), (_THERE,)),
        actions=("replay",),
        events_max=4,
        records_max=4,
    ),
}
"""What `make test` goes through: each ends."""


def main() -> None:
    """Prints how many worlds each scope has, and how many batches led there."""
    logging.disable(logging.CRITICAL)
    use_memory(setattr)
    for name, scope in SCOPES.items():
        for policy in DeadHead:
            search, began = Search(scope(policy)), time.process_time()
            search.run()
            spent_s = time.process_time() - began
            sys.stdout.write(
                f"{search.states:6,} worlds, {search.batches:7,} batches, {spent_s:5.1f} s: {name}, {policy.value}\n"
            )


if __name__ == "__main__":
    main()
