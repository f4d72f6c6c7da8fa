"""Which processes the work streams run in, and where each tells of itself."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from core.event import Mode
from core.routing import stream_of
from processor.streams import taking
from stack.settings import Settings, streams_of


def processes(settings: Settings, mode: Mode) -> dict[str, list[str]]:
    """The processor's processes in a mode by name, and the streams that each runs.

    One process, ``processor`` (``processor-test``); or, apart, one a stream: ``processor-ledger``.
    """
    names = [stream.name for stream in taking(streams_of(settings), mode)]
    if not settings.processor.streams_apart:
        return {stream_of("processor", mode): names}
    return {f"processor-{stream_of(name, mode)}": [name] for name in names}


def metrics_ports(settings: Settings, mode: Mode) -> dict[str, int]:
    """The loopback port of each process's metrics: the one that is set and those after it. None where none is set."""
    processor = settings.processor
    first = processor.metrics_port if mode == "live" else processor.test_metrics_port
    return {name: first + number for number, name in enumerate(processes(settings, mode)) if first}


def metrics_urls(settings: Settings) -> dict[str, str]:
    """The metrics page of each process by its name, where a port is set for it here, or its URL is."""
    first, workers = settings.ingest.metrics_port, settings.ingest.workers
    names = ["ingest", *(f"ingest-{number}" for number in range(1, workers))]
    ports = {name: first + number for number, name in enumerate(names) if first}
    for mode in settings.ingest.modes:
        ports |= metrics_ports(settings, mode)
    if settings.alerts.metrics_port:
        ports["alerts"] = settings.alerts.metrics_port
    here = {name: f"http://127.0.0.1:{port}/metrics" for name, port in ports.items()}
    return here | settings.console.metrics_urls


def metrics_port(settings: Settings, mode: Mode, chosen: tuple[str, ...]) -> int | None:
    """The port of the process that runs the chosen streams, or all of them."""
    ports = metrics_ports(settings, mode)
    running = (name for name, streams in processes(settings, mode).items() if not chosen or set(chosen) & set(streams))
    return next((ports[name] for name in running if name in ports), None)


def status_files(settings: Settings, mode: Mode) -> Mapping[str, Path]:
    """Each stream's status file in a mode, by its name there (``ledger-test``)."""
    layout = settings.layout
    names = [stream_of(stream.name, mode) for stream in taking(streams_of(settings), mode)]
    return {name: layout.stream(name).status for name in names}
