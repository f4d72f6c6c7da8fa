"""What there is to watch of a stack, by its settings: for the management listener, and for `payhook status`."""

from __future__ import annotations

from collections.abc import Callable

from console.health import Marks, Watched
from stack.children import metrics_urls, ready_url, status_files, status_urls
from stack.settings import Settings


def watched(settings: Settings, lag: Callable[[Marks], dict[str, int] | None]) -> Watched:
    """Processes are asked at the ports that are set here and at `console.metrics_urls`."""
    layout = settings.layout
    return Watched(
        ingest_ready_url=ready_url(settings),
        processor_status=layout.ledger().status,
        test_processor_status=layout.ledger("test").status if settings.ingest.test_traffic else None,
        metrics=metrics_urls(settings),
        lag=lag,
        streams=status_files(settings),
        statuses=status_urls(settings),
    )
