"""What a handler calls outside: each call is asked for first, so that whoever decides about all of them can say no."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from contextvars import ContextVar
from typing import Protocol

NAME_CHARS_MAX = 256


class Calls(Protocol):
    """The calls that are left in this batch, and what became of those that were made."""

    def calling(self, downstream: str) -> contextlib.AbstractContextManager[None]:
        """Takes one call; what is raised within counts as the downstream's failure, its duration as its latency.

        :raises DownstreamHeld: no call is left
        """


class Unlimited:
    """For where nobody limits: tests, and commands that a person runs."""

    @contextlib.contextmanager
    def calling(self, downstream: str) -> Iterator[None]:  # noqa: ARG002 - it may always be called
        yield


_UNLIMITED = Unlimited()
_calls: ContextVar[Calls | None] = ContextVar("calls", default=None)


def calling(downstream: str) -> contextlib.AbstractContextManager[None]:
    """Around every request that a handler sends out: ``with calling("merchants"): client.get(…)``.

    Only what says that the downstream is ill belongs inside: a refusal that it gives in good health is raised after it.

    :raises DownstreamHeld: it isn't to be called now; let it pass through
    :raises ValueError: the name is none; it goes into rows, metrics and the status
    """
    if not isinstance(downstream, str) or not 0 < len(downstream) <= NAME_CHARS_MAX or not downstream.isprintable():
        raise ValueError(f"a downstream's name is printable text of 1 to {NAME_CHARS_MAX} characters")
    return (_calls.get() or _UNLIMITED).calling(downstream)


@contextlib.contextmanager
def limited_by(calls: Calls) -> Iterator[None]:
    """Within, `calling` asks ``calls``. A thread sees its own: pass it on."""
    before = _calls.set(calls)
    try:
        yield
    finally:
        _calls.reset(before)
