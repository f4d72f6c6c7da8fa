"""What there is to watch of a stack, by its settings: for the management listener, and for `payhook status`."""

from __future__ import annotations

from collections.abc import Callable

from console.health import Marks, Watched
from stack.children import metrics_urls, ready_url, status_files, status_urls
from stack.settings import Settings


def watched(settings: Settings, lag: Callable[[Marks], dict[str, int] | None]) -> Watched:
    """Processes are asked at the ports that are set here and at `console.metrics_urls`."""
    files, metrics = status_files(settings), metrics_urls(settings)
    return Watched(ready_url(settings), files, metrics, lag, status_urls(settings))
