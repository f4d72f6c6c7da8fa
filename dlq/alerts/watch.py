"""The loop: looks, decides what is to be told, remembers it, tells it. Runs whatever else is down."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from core.clock import Clock
from dlq.alerts.engine import Engine
from dlq.alerts.notice import Notice
from dlq.alerts.outbox import Outbox, Queue
from dlq.alerts.readings import Readings, Seen
from dlq.alerts.receivers import NotTold, Receiver
from dlq.alerts.rules import Reading, rules
from dlq.alerts.settings import AlertsSettings
from dlq.alerts.state_file import Remembered, read_state, write_state

log = logging.getLogger(__name__)


class Watch:
    """All alerts of one data folder. One process has it; ``step`` is called over and over, by one thread."""

    def __init__(
        self,
        settings: AlertsSettings,
        look: Callable[[], Seen],
        receivers: Mapping[str, Receiver],
        file: Path,
        clock: Clock,
    ) -> None:
        self._look = look
        self._receivers = receivers
        self._file = file
        self._clock = clock
        self._readings = Readings(settings)
        known = read_state(file)
        self.engine = Engine(rules(settings), clear_s=settings.clear_s, repeat_s=settings.repeat_s, alerts=known.alerts)
        self.outbox = Outbox({name: settings.receivers[name].only_critical for name in receivers}, known.waiting)
        self.last: list[Reading] = []
        self._pool = ThreadPoolExecutor(max(1, len(receivers)), thread_name_prefix="alerts")

    def step(self) -> None:
        """One look, and what it asks to be told. A notice is on disk before anybody is told: none is lost, one may
        come twice, under the same id.
        """
        now = self._clock.now()
        self.last = self._readings.of(self._look(), now, self._clock.monotonic())
        notices = self.engine.look(self.last, now)
        for notice in notices:
            log.warning("%s: %s", notice.kind, notice.text)
        self.outbox.add(notices)
        self._remember()
        if self._tell():
            self._remember()

    def close(self) -> None:
        self._pool.shutdown(wait=True, cancel_futures=True)

    def _tell(self) -> bool:
        """Tells each receiver what is due, all of them at the same time; returns whether anybody was asked."""
        now_s = self._clock.monotonic()
        due = {name: queue.due(now_s) for name, queue in self.outbox.queues.items()}
        asked = [name for name, notices in due.items() if notices]
        list(self._pool.map(lambda name: self._tell_one(name, due[name]), asked))
        return bool(asked)

    def _tell_one(self, name: str, notices: list[Notice]) -> None:
        queue: Queue = self.outbox.queues[name]
        for notice in notices:
            try:
                self._receivers[name].tell(notice)
            except NotTold as refused:
                queue.refused(refused.problem, self._clock.monotonic())
                log.error("%s; %d notices wait for it", refused, len(queue.waiting))
                return
            queue.taken(notice)

    def _remember(self) -> None:
        queues = self.outbox.queues
        values: dict[str, dict[str, float | None]] = {}
        for reading in self.last:
            values.setdefault(reading.rule, {})[reading.subject] = reading.value
        remembered = Remembered(
            at=self._clock.now(),
            alerts=self.engine.alerts,
            waiting={name: list(queue.waiting.values()) for name, queue in queues.items()},
            problems={name: queue.problem for name, queue in queues.items() if queue.problem is not None},
            values=values,
        )
        try:
            write_state(self._file, remembered)
        except OSError as failed:
            log.error("what alerts remember can't be written: %s; after a restart they begin anew", failed)
