"""Watches a data folder's stack and sends alerts: ``python -m stack.alerting``, beside the processor.

A process of its own, so that it can report a processor, a receiver or a management listener that is down.
"""

from __future__ import annotations

import contextlib
import logging
import sys
import threading
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import asdict
from pathlib import Path

import httpx2
from prometheus_client import start_http_server

from alerts.looking import ReplicaWatch, RoundReport, StackObserver, WatchedPlaces
from alerts.receivers import make_receivers
from alerts.silence import Silence
from alerts.standing import NoticeDescriber
from alerts.watch import AlertMetrics, AlertWatch, read_state
from core.clock import Clock, SystemClock
from core.errors import PayhookError
from core.files import try_lock
from core.kafka import open_admin
from core.location import is_url
from core.log import configure_logging
from core.routing import topics_of
from ledger.queries.journals import LedgerJournals
from ledger.queries.unknown import find_unknown_events
from notify.handler import disabled_since
from stack.addresses import metrics_urls, ready_url, status_files, status_urls
from stack.data_folder import secure_data_folder
from stack.servers.server import stopped_by_signal
from stack.services.dead_letters import open_dead_letter_index
from stack.settings import Settings, load_settings, stream_names, streams_of

log = logging.getLogger("alerts")

TURN_S = 5.0
"""How often a second process asks whether the first one has ended."""


def collect_places(settings: Settings) -> WatchedPlaces:
    layout, statuses = settings.layout, status_files(settings)
    return WatchedPlaces(
        ready_url=ready_url(settings),
        statuses=statuses,
        journals={name: layout.stream(name).journal for name in statuses},
        metrics={name: url for name, url in metrics_urls(settings).items() if name != "alerts"},
        status_urls=status_urls(settings),
        rounds={
            "backup": RoundReport(layout.backed_up, settings.backup.every_h * 3_600 if settings.backup.folder else 0.0),
            "verification": RoundReport(layout.verification_file, settings.ledger.verify.every_h * 3_600),
            "maintenance": RoundReport(layout.maintained_file, settings.ledger.maintain.every_s),
        },
        disks=_list_disks(settings),
        verified=layout.verified_file,
        caught_up=layout.caught_up if settings.ingest.catch_up_every_s else None,
        subscribers=lambda: disabled_since(settings.notify),
        replicas=ReplicaWatch(open_admin(settings.kafka), _list_topics(settings)).check_replicas,
    )


def build_describer(settings: Settings, clock: Clock) -> NoticeDescriber:
    layout = settings.layout
    indexes = {name: open_dead_letter_index(layout.stream(name), settings, clock) for name in stream_names(settings)}

    def unknown_amounts(what: str) -> Mapping[str, int]:
        amounts = Counter[str]()
        for mode in settings.ingest.taken_modes:
            for unknown in find_unknown_events(LedgerJournals.open(layout.all_ledgers(mode)).list_journals()):
                amounts.update(unknown.amounts if f"{unknown.provider}: {unknown.what}" == what else {})
        return dict(amounts)

    return NoticeDescriber(indexes, unknown_amounts, settings.console.public_url)


def _list_disks(settings: Settings) -> dict[str, Path]:
    lake, backup = settings.layout.lake, settings.backup.folder
    disks = {"data folder": settings.data_dir}
    if isinstance(lake, Path) and not lake.is_relative_to(settings.data_dir):
        disks["lake"] = lake
    return disks | ({"backups": Path(backup)} if backup and not is_url(backup) else {})


def _list_topics(settings: Settings) -> list[str]:
    modes = settings.ingest.taken_modes
    traffic_topics = [topic for mode in modes for topic in asdict(topics_of(mode)).values()]
    streams = streams_of(settings).values()
    return traffic_topics + [topic for mode in modes for stream in streams for topic in stream.dlq_topics(mode)]


@contextlib.contextmanager
def await_turn(lock: Path, stop: threading.Event) -> Iterator[bool]:
    """Waits until no other process looks after this data folder: two would tell everything twice.

    False when it was stopped before. A process that dies gives its lock back.
    """
    waits = False
    while True:
        with try_lock(lock) as is_ours:
            if is_ours:
                yield True
                return
        if not waits:
            log.info("another process evaluates the alerts already; this one waits until it ends")
        waits = True
        if stop.wait(TURN_S):
            yield False
            return


def watch(settings: Settings, stop: threading.Event) -> None:
    clock, alerts = SystemClock(), settings.alerts
    metrics = AlertMetrics(clock)
    if alerts.metrics_port:
        start_http_server(alerts.metrics_port, settings.metrics_host, metrics.registry)
    with httpx2.Client(trust_env=False) as client:
        looking = StackObserver(collect_places(settings), client, clock, read_state(settings.layout.alerts).done_at)
        describe = build_describer(settings, clock)
        silence = Silence(settings.layout.rhythms_file)
        watching = AlertWatch(
            alerts, looking.observe_stack, make_receivers(alerts), settings.layout.alerts, clock, describe, silence
        )
        if not alerts.receivers:
            log.info("no alert receiver is configured (alerts.receivers); run `payhook alerts` to see what is firing")
        try:
            while True:
                began_s = clock.monotonic_s()
                watching.run_once()
                metrics.update(watching)
                if stop.wait(max(0.0, alerts.every_s - (clock.monotonic_s() - began_s))):
                    return
        finally:
            watching.close()


def main() -> int:
    configure_logging()
    try:
        settings = load_settings()
        secure_data_folder(settings)
    except PayhookError as problem:
        sys.stderr.write(f"{problem}\n")
        return 1
    with stopped_by_signal() as stop:
        if not settings.alerts.every_s:
            log.info("alerts.every_s is 0: alerts aren't evaluated")
            stop.wait()
            return 0
        with await_turn(settings.layout.alerts_lock, stop) as is_ours:
            if is_ours:
                watch(settings, stop)
    return 0


if __name__ == "__main__":
    sys.exit(main())
