"""The alerts' loop: looks, decides which notices go out, remembers and delivers them, and shows all of it in metrics.
It runs whatever else is down.

What it remembers over a restart is one JSON file, replaced whole, which only the alerts' own process writes. Notices on
their way wait in a queue for each receiver, bounded however long it is down; each has a thread of its own at a time.
"""

from __future__ import annotations

import json
import logging
import math
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any, Final

from prometheus_client import CollectorRegistry

from alerts.engine import Alert, AlertEngine, AlertNotice, AlertState, known_fields, tree_of
from alerts.observation import Observation
from alerts.readings import BY_DOWNSTREAM, BY_PROVIDER, Readings
from alerts.receivers import NotDelivered, NoticeReceiver
from alerts.rules import AlertReading, make_rules
from alerts.settings import AlertsSettings
from alerts.silence import Silence
from core.clock import EPOCH, Clock, doubled_s, from_rfc3339, to_rfc3339
from core.files import write_whole
from core.metrics import CATALOGUE, MetricType, Service, add_process, list_entries, make_gauge

log = logging.getLogger(__name__)

VERSION = 1
QUEUE_MAX = 500
"""Most notices that wait for one receiver. One a rule and subject is kept, so only hundreds of streams reach this."""

RETRY_S_FIRST = 5.0
RETRY_S_MAX = 300.0


class AlertWatch:
    """The alerts of one data folder. One process has it; ``run_once`` is called over and over, by one thread.

    ``under_way``: the delivery to each receiver, or its last one. No look and no other receiver waits for one.
    """

    def __init__(
        self,
        settings: AlertsSettings,
        look: Callable[[], Observation],
        receivers: Mapping[str, NoticeReceiver],
        file: Path,
        clock: Clock,
        describe: Callable[[AlertNotice], AlertNotice] = lambda notice: notice,
        silence: Silence | None = None,
    ) -> None:
        """
        :param silence: knows the rhythms of endpoints; None: they aren't looked at
        :param describe: adds to a notice what only other files say, such as the amount (`alerts.standing`)
        """
        self._look = look
        self._describe = describe
        self._receivers = receivers
        self._file = file
        self._clock = clock
        known = read_state(file)
        self._readings = Readings(
            providers=[alert.subject for alert in known.alerts if alert.rule in BY_PROVIDER],
            unknown=[alert.subject for alert in known.alerts if alert.rule == "unknown"],
            downstreams=[alert.subject for alert in known.alerts if alert.rule in BY_DOWNSTREAM],
            silence=silence,
        )
        self.engine = AlertEngine(make_rules(settings), known.alerts)
        self.queues = {name: Queue(only_critical=settings.receivers[name].only_critical) for name in receivers}
        for name, queue in self.queues.items():
            queue.add(known.waiting.get(name, ()))
        self.seen = Observation()
        self.last: list[AlertReading] = []
        self._looked_at: datetime | None = None
        self._pool = ThreadPoolExecutor(max(1, len(receivers)), thread_name_prefix="alerts")
        self._lock = threading.Lock()
        """Over alerts, queues and the file, not while anything is looked at or delivered."""
        self._closing = threading.Event()
        self.under_way: dict[str, Future[None]] = {}

    def run_once(self) -> None:
        """Looks once, and begins to deliver the notices that the look asks for. A notice is on disk before it is
        delivered: none is lost, one may come twice, under the same id."""
        now = self._clock.now()
        seen = self._look()
        with self._lock:
            self.seen, self._looked_at = seen, self._clock.now()
            self.last = self._readings.make_readings(seen, now, self._clock.monotonic_s())
            notices = [self._describe_notice(notice) for notice in self.engine.judge_readings(self.last, now)]
            for queue in self.queues.values():
                queue.add(notices)
            self._save_state()
        for notice in notices:
            log.warning("%s: %s", notice.kind, notice.text)
        self._begin_deliveries()

    def _describe_notice(self, notice: AlertNotice) -> AlertNotice:
        described = self._describe(notice)
        self.engine.describe(described)
        return described

    def close(self) -> None:
        self._closing.set()
        self._pool.shutdown(wait=True)

    def _begin_deliveries(self) -> None:
        for name in self.queues:
            before = self.under_way.get(name)
            if before is not None and not before.done():
                continue
            if before is not None:
                before.result()
            self.under_way[name] = self._pool.submit(self._deliver, name)

    def _deliver(self, name: str) -> None:
        while not self._closing.is_set():
            with self._lock:
                due = self.queues[name].find_due(self._clock.monotonic_s())
            if not due:
                return
            self._deliver_one(name, due[0])

    def _deliver_one(self, name: str, notice: AlertNotice) -> None:
        queue, problem = self.queues[name], None
        try:
            self._receivers[name].deliver(notice)
        except NotDelivered as refused:
            problem = refused.problem
            log.error("%s; %d notices wait for it", refused, len(queue.waiting))
        with self._lock:
            if problem is None:
                queue.on_taken(notice)
            else:
                queue.on_refused(problem, self._clock.monotonic_s())
            self._save_state()

    def _save_state(self) -> None:
        values: dict[str, dict[str, float | None]] = {}
        for reading in self.last:
            values.setdefault(reading.rule, {})[reading.subject] = reading.value
        remembered = RememberedAlerts(
            at=self._looked_at,
            alerts=self.engine.alerts,
            waiting={name: list(queue.waiting.values()) for name, queue in self.queues.items()},
            problems={name: queue.problem for name, queue in self.queues.items() if queue.problem is not None},
            values=values,
            done_at=self.seen.done_at,
        )
        try:
            write_state(self._file, remembered)
        except OSError as failed:
            log.error("the alerts' state can't be written: %s; after a restart alerts start over", failed)


@dataclass(slots=True)
class Queue:
    """The notices that wait for one receiver: for each rule and subject the newest, which replaces an older one.

    ``only_critical``: it gets no others. ``failures`` in a row; nothing is tried before ``next_at`` (monotonic
    seconds). ``problem``: why the last try failed.
    """

    only_critical: bool = False
    waiting: dict[tuple[str, str], AlertNotice] = field(default_factory=dict)
    failures: int = 0
    next_at: float = 0.0
    problem: str | None = None

    def add(self, notices: Iterable[AlertNotice]) -> None:
        for notice in notices:
            if notice.is_critical or not self.only_critical:
                key = (notice.rule, notice.subject)
                self.waiting.pop(key, None)
                self.waiting[key] = notice
                while len(self.waiting) > QUEUE_MAX:
                    del self.waiting[next(iter(self.waiting))]

    def find_due(self, now_s: float) -> list[AlertNotice]:
        return list(self.waiting.values()) if now_s >= self.next_at else []

    def on_taken(self, notice: AlertNotice) -> None:
        key = (notice.rule, notice.subject)
        if self.waiting.get(key) == notice:
            del self.waiting[key]
        self.failures, self.next_at, self.problem = 0, 0.0, None

    def on_refused(self, problem: str, now_s: float) -> None:
        self.next_at = now_s + doubled_s(RETRY_S_FIRST, self.failures, RETRY_S_MAX)
        self.failures += 1
        self.problem = problem


@dataclass(frozen=True, slots=True)
class RememberedAlerts:
    """The alerts' state over a restart. ``at``: when it was written, None where there is nothing. ``problems``: by
    receiver, why its last try failed. ``done_at``: as `Observation` has it."""

    at: datetime | None = None
    alerts: Sequence[Alert] = ()
    waiting: Mapping[str, Sequence[AlertNotice]] = field(default_factory=dict)
    problems: Mapping[str, str] = field(default_factory=dict)
    values: Mapping[str, Mapping[str, float | None]] = field(default_factory=dict)
    done_at: Mapping[str, datetime] = field(default_factory=dict)


def read_state(file: Path) -> RememberedAlerts:
    """Reads the remembered state; empty if the file isn't there or can't be read: alerts then begin again."""
    try:
        tree = json.loads(file.read_text("utf-8"))
        if tree["version"] != VERSION:
            raise ValueError(f"version {tree['version']}, expected {VERSION}")
        return RememberedAlerts(
            at=from_rfc3339(tree["at"]),
            alerts=[_parse_alert(alert) for alert in tree["alerts"]],
            waiting={
                name: [AlertNotice.from_tree(notice) for notice in notices] for name, notices in tree["waiting"].items()
            },
            problems={str(name): str(text) for name, text in tree["problems"].items()},
            values=tree["values"],
            done_at={str(rule): from_rfc3339(at) for rule, at in tree["done_at"].items()},
        )
    except FileNotFoundError:
        return RememberedAlerts()
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as unreadable:
        log.error(
            "%s can't be read (%s): alerts start over, and those that still hold are sent once more", file, unreadable
        )
        return RememberedAlerts()


def write_state(file: Path, remembered: RememberedAlerts) -> None:
    assert remembered.at is not None
    tree = {
        "version": VERSION,
        "at": to_rfc3339(remembered.at),
        "alerts": [tree_of(alert) for alert in remembered.alerts],
        "waiting": {name: [notice.as_tree() for notice in notices] for name, notices in remembered.waiting.items()},
        "problems": dict(remembered.problems),
        "values": remembered.values,
        "done_at": {rule: to_rfc3339(at) for rule, at in remembered.done_at.items()},
    }
    write_whole(file, json.dumps(tree, indent=1) + "\n")


def _parse_alert(tree: dict[str, Any]) -> Alert:
    known = known_fields(Alert, tree)
    if not all(isinstance(known[name], str) for name in ("rule", "subject", "name", "text")):
        raise TypeError(f"{known} isn't an alert")
    times = {name: from_rfc3339(known[name]) for name in ("sent_at", "clear_since") if known.get(name) is not None}
    return Alert(
        **{
            **known,
            **times,
            "since": from_rfc3339(known["since"]),
            "state": AlertState(known["state"]),
            "value": float(known["value"]),
            "number": int(known["number"]),
        }
    )


GAUGES: Final[Mapping[str, str]] = {
    rule.name: rule.gauge for rule in make_rules(AlertsSettings()).values() if rule.gauge
}
"""The gauge that shows a rule's readings, by the rule; one with a label has the subject there.

What can't be seen stays there as it was seen last, as the built-in alert does: a Prometheus alert ends where its value
is gone, isn't a number (``NaN > 0`` is false), or is 0. What was never seen is NaN, or has no series.
"""


class AlertMetrics:
    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self.registry = CollectorRegistry()
        self._gauges = {
            entry.name: make_gauge(entry.name, self.registry)
            for entry in list_entries(Service.ALERTS, MetricType.GAUGE)
        }
        for name in GAUGES.values():
            if not CATALOGUE[name].labels:
                self._gauges[name].set(math.nan)
        self._fired: set[tuple[str, str]] = set()
        add_process(self.registry)

    def update(self, watch: AlertWatch) -> None:
        self._gauges["payhook_alerts_looked_timestamp_seconds"].set((self._clock.now() - EPOCH).total_seconds())
        known = {alert.key: alert.value for alert in watch.engine.alerts}
        for reading in watch.last:
            # After a restart the last value of what fires is its alert's.
            value = known.get((reading.rule, reading.subject)) if reading.value is None else reading.value
            if value is not None:
                self._show(reading, value)
        for stream, dead in watch.seen.dead.items():
            if dead is None:
                self._gauges["payhook_dlq_open"].remove(stream)
            else:
                self._gauges["payhook_dlq_open"].labels(stream).set(dead.depth)
        self._show_firing(
            {(alert.rule, alert.subject) for alert in watch.engine.alerts if alert.state is AlertState.FIRING}
        )
        for name, queue in watch.queues.items():
            self._gauges["payhook_alert_notices_unsent"].labels(name).set(len(queue.waiting))

    def _show_firing(self, firing: set[tuple[str, str]]) -> None:
        shown = self._gauges["payhook_alert_firing"]
        for alert in firing:
            shown.labels(*alert).set(1)
        for alert in self._fired - firing:
            shown.remove(*alert)
        self._fired = firing

    def _show(self, reading: AlertReading, value: float) -> None:
        name = GAUGES.get(reading.rule)
        if name is not None:
            of_it = self._gauges[name]
            (of_it.labels(reading.subject) if CATALOGUE[name].labels else of_it).set(value)
