"""Notices on their way: one queue a receiver, kept until it takes them, and bounded however long it is down."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from core.backoff import doubled_s
from dlq.alerts.notice import Notice

QUEUE_MAX = 500
"""Of one receiver. One notice a rule and subject is kept, so this is met by nobody but who has hundreds of streams."""

RETRY_S_FIRST = 5.0
RETRY_S_MAX = 300.0


@dataclass(slots=True)
class Queue:
    """What one receiver is still to be told: of each rule and subject the newest word, which replaces an older one.

    ``failures`` in a row; nothing is tried before ``next_at`` (monotonic seconds). ``problem``: why the last try
    failed.
    """

    waiting: dict[tuple[str, str], Notice] = field(default_factory=dict)
    failures: int = 0
    next_at: float = 0.0
    problem: str | None = None

    def add(self, notice: Notice) -> None:
        key = (notice.rule, notice.subject)
        self.waiting.pop(key, None)
        self.waiting[key] = notice
        while len(self.waiting) > QUEUE_MAX:
            del self.waiting[next(iter(self.waiting))]

    def due(self, now_s: float) -> list[Notice]:
        """Oldest first; nothing while it is being left alone."""
        return list(self.waiting.values()) if now_s >= self.next_at else []

    def taken(self, notice: Notice) -> None:
        """The receiver has it; a newer word that came meanwhile stays."""
        key = (notice.rule, notice.subject)
        if self.waiting.get(key) == notice:
            del self.waiting[key]
        self.failures, self.next_at, self.problem = 0, 0.0, None

    def refused(self, problem: str, now_s: float) -> None:
        """The receiver didn't take one: the others wait too."""
        self.next_at = now_s + doubled_s(RETRY_S_FIRST, self.failures, RETRY_S_MAX)
        self.failures += 1
        self.problem = problem


class Outbox:
    """The queues of all receivers by name."""

    def __init__(
        self,
        receivers: Mapping[str, bool],
        waiting: Mapping[str, Iterable[Notice]] | None = None,
    ) -> None:
        """
        :param receivers: by name, whether one wants critical alerts alone
        :param waiting: what a state file remembers; of a receiver that isn't there any more it is dropped
        """
        self._only_critical = dict(receivers)
        self.queues = {name: Queue() for name in receivers}
        for name, notices in (waiting or {}).items():
            for notice in notices if name in self.queues else ():
                self.queues[name].add(notice)

    def add(self, notices: Iterable[Notice]) -> None:
        for notice in notices:
            for name, queue in self.queues.items():
                if notice.is_critical or not self._only_critical[name]:
                    queue.add(notice)
