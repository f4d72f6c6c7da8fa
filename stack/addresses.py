"""Where the processes of a stack answer: their metrics, their streams' statuses, and whether the receiver is ready."""

from __future__ import annotations

from pathlib import Path
from urllib.parse import urlsplit

from core.event import Mode
from core.routing import shard_of, stream_of
from core.status_file import StreamStatuses
from processor.streams import list_names
from stack.servers.ports import LOOPBACK
from stack.settings import Settings, stream_names, streams_of


def list_processors(settings: Settings, mode: Mode) -> dict[str, list[str]]:
    names = list_names(streams_of(settings), [mode])
    return {
        stream_of("processor", mode, number): [name for name in names if shard_of(name) == number]
        for number in range(settings.processor.shards)
    }


def metrics_ports(settings: Settings, mode: Mode) -> dict[str, int]:
    """Returns the port of each process's metrics; empty where no port is set.

    They are the port that is set and those after it, live traffic's processes first.
    """
    first = settings.processor.metrics_port
    before = 0 if mode == "live" else len(list_processors(settings, "live"))
    return {name: first + number for number, name in enumerate(list_processors(settings, mode), before) if first}


def metrics_urls(settings: Settings) -> dict[str, str]:
    """Returns the metrics page of each process by its name, where its port or its URL is set here.

    The receiver's processes are where the receiver answers.
    """
    first, workers = settings.ingest.metrics_port, settings.ingest.workers
    names = ["ingest", *(f"ingest-{number}" for number in range(1, workers))]
    receivers = {name: first + number for number, name in enumerate(names) if first}
    ports: dict[str, int] = {}
    for mode in settings.ingest.taken_modes:
        ports |= metrics_ports(settings, mode)
    if settings.alerts.metrics_port:
        ports["alerts"] = settings.alerts.metrics_port
    host = urlsplit(settings.console.ingest_url).hostname or LOOPBACK
    urls = {name: f"http://{host}:{port}/metrics" for name, port in receivers.items()}
    urls |= {name: f"http://{LOOPBACK}:{port}/metrics" for name, port in ports.items()}
    return urls | settings.console.metrics_urls


def metrics_port(settings: Settings, mode: Mode, number: int) -> int | None:
    return metrics_ports(settings, mode).get(stream_of("processor", mode, number))


def status_files(settings: Settings) -> dict[str, Path]:
    return {name: settings.layout.stream(name).status for name in stream_names(settings)}


def status_urls(settings: Settings) -> list[str]:
    processors = [url for name, url in metrics_urls(settings).items() if name.startswith("processor")]
    return [f"{url.removesuffix('/metrics')}/status" for url in processors]


def open_statuses(settings: Settings) -> StreamStatuses:
    return StreamStatuses(status_files(settings), status_urls(settings))


def ready_url(settings: Settings) -> str:
    return f"{settings.console.ingest_url or f'http://{LOOPBACK}:{settings.ingest.port}'}/readyz"
