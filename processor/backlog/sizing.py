"""Runs as many executors of a Spark cluster as the stream that needs most wants, within bounds."""

from __future__ import annotations

import logging
import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from py4j.protocol import Py4JError
from pyspark.sql import SparkSession

from core.errors import PayhookError
from core.spark import is_local
from processor.backlog.capacity import EXECUTORS_MAX, HOLD_S
from processor.settings import ProcessorSettings

LOOK_EVERY_S = 2.0

log = logging.getLogger(__name__)


class Executors(Protocol):
    @property
    def hold_s(self) -> float: ...
    @property
    def running(self) -> int: ...

    @property
    def most(self) -> int: ...

    @property
    def cores(self) -> int: ...

    @property
    def tasks(self) -> int:
        """Returns how many tasks a stream without a bound may have at a time."""

    def request_executors(self, stream: str, executors: int) -> None: ...


@dataclass(frozen=True, slots=True)
class FixedExecutors:
    running: int
    tasks: int
    hold_s: float = HOLD_S
    most: int = EXECUTORS_MAX

    @property
    def cores(self) -> int:
        return max(1, self.tasks // self.running)

    def request_executors(self, stream: str, executors: int) -> None: ...


class Cluster(Protocol):
    def list_running(self) -> list[str]: ...

    def ask_for(self, total: int) -> None:
        """Limits how many may be started; those that run keep running."""

    def end_idle(self, executor: str) -> bool:
        """Ends an executor unless it has a task; returns whether it does. It is listed until it has ended."""


class AdaptiveExecutors:
    """Asks for more executors at once, and ends idle ones once no stream has asked for them for a while.

    It looks at the cluster on a thread of its own, so that no batch waits for an answer.
    """

    def __init__(self, cluster: Cluster, cores: int, least: int, most: int, hold_s: float = HOLD_S) -> None:
        self.cores = cores
        self.hold_s = hold_s
        self._cluster = cluster
        self.most = most
        self._least = least
        self._wanted: dict[str, int] = {}
        self._asked = 0
        self._ending: set[str] = set()
        self.running = max(1, len(cluster.list_running()))
        self._thread: threading.Thread | None = None
        self._failed = False

    @property
    def tasks(self) -> int:
        return self.running * self.cores

    def request_executors(self, stream: str, executors: int) -> None:
        if executors == 0 and stream not in self._wanted:
            return
        self._wanted[stream] = executors
        if self._thread is None:
            self._thread = threading.Thread(target=self._look_on, name="executors", daemon=True)
            self._thread.start()

    def settle(self) -> None:
        listed = self._cluster.list_running()
        self._ending &= set(listed)
        running = sorted(set(listed) - self._ending, key=int)
        self.running = max(1, len(running))
        target = min(self.most, max(self._least, *self._wanted.values(), 1))
        if target != self._asked:
            log.info("executors: %d run, the target is %d", len(running), target)
            self._cluster.ask_for(target)
            self._asked = target
        spare = len(running) - target
        for executor in reversed(running):
            if spare > 0 and self._cluster.end_idle(executor):
                self._ending.add(executor)
                spare -= 1

    def _look_on(self) -> None:
        pause = threading.Event()
        while not pause.wait(LOOK_EVERY_S):
            try:
                self.settle()
                self._failed = False
            except (Py4JError, OSError):
                log.log(logging.DEBUG if self._failed else logging.WARNING, "executors aren't known", exc_info=True)
                self._failed = True


class SparkCluster:
    def __init__(self, session: SparkSession) -> None:
        context: Any = session.sparkContext
        self._jvm = context._jvm  # noqa: SLF001 - Python's API has none of this
        self._context = context._jsc.sc()  # noqa: SLF001

    def list_running(self) -> list[str]:
        ids = self._context.getExecutorIds()
        return [str(ids.apply(number)) for number in range(ids.size())]

    def ask_for(self, total: int) -> None:
        nowhere = self._jvm.PythonUtils.toScalaMap(self._jvm.java.util.HashMap())
        self._context.requestTotalExecutors(total, 0, nowhere)

    def end_idle(self, executor: str) -> bool:
        ids = self._jvm.PythonUtils.toSeq(self._java_list([executor]))
        # Not to be replaced, no failure, and not by force: one with a task keeps running.
        return not self._context.schedulerBackend().killExecutors(ids, False, False, False).isEmpty()

    def _java_list(self, texts: Sequence[str]) -> Any:
        array = self._jvm.java.util.ArrayList()
        for text in texts:
            array.add(text)
        return array


class NotResizable(PayhookError):
    def __init__(self, why: str) -> None:
        super().__init__(f"processor.executors_max can't be kept: {why}")


def open_executors(settings: ProcessorSettings, session: SparkSession, tasks: int) -> Executors:
    """Opens the session's executors, which have so many ``tasks`` at a time now.

    :raises NotResizable: their number is to follow the load, and the cluster can't be asked
    """
    if settings.executors_max == 0:
        return FixedExecutors(int(session.conf.get("spark.executor.instances", "1") or 1), tasks)
    check_resizable(settings, session.conf.getAll)
    cores = int(session.conf.get("spark.executor.cores") or 1)
    bounds = settings.executors_min, settings.executors_max
    return AdaptiveExecutors(SparkCluster(session), cores, *bounds, settings.executors_hold_s)


def check_resizable(settings: ProcessorSettings, spark: Mapping[str, str]) -> None:
    """
    :raises NotResizable: the cluster of these ``spark`` settings wouldn't follow the load
    """
    if is_local(settings.master):
        raise NotResizable(f"processor.master is {settings.master}; executors are a cluster's (docs/cluster.md)")
    if settings.executors_min > settings.executors_max:
        raise NotResizable(f"processor.executors_min is {settings.executors_min}, which is more")
    if "spark.executor.cores" not in spark:
        raise NotResizable("spark.executor.cores isn't set, so that one executor takes all of a worker")
