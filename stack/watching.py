"""What there is to watch of a stack, by its settings: for the management listener, and for `payhook status`."""

from __future__ import annotations

from collections.abc import Callable

from console.health import Marks, Watched
from stack.children import metrics_urls, status_files
from stack.settings import Settings

METRICS, STATUS = "/metrics", "/status"


def watched(settings: Settings, lag: Callable[[Marks], dict[str, int] | None]) -> Watched:
    """Processes are asked at the ports that are set here and at `console.metrics_urls`."""
    layout, modes, urls = settings.layout, settings.ingest.modes, metrics_urls(settings)
    return Watched(
        ingest_ready_url=f"{settings.console.ingest_url or f'http://127.0.0.1:{settings.ingest.port}'}/readyz",
        processor_status=layout.ledger().status,
        test_processor_status=layout.ledger("test").status if settings.ingest.test_traffic else None,
        metrics=urls,
        lag=lag,
        streams={name: file for mode in modes for name, file in status_files(settings, mode).items()},
        statuses=status_urls(settings),
    )


def status_urls(settings: Settings) -> list[str]:
    """Where each processor says how its streams are."""
    processors = [url for name, url in metrics_urls(settings).items() if name.startswith("processor")]
    return [f"{url.removesuffix(METRICS)}{STATUS}" for url in processors]
