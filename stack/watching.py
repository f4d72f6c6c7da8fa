"""Builds what watches a stack, from its settings: for the management listener, and for `payhook status`."""

from __future__ import annotations

from collections.abc import Callable

from console.health import Marks, WatchedServices
from console.received import AskReceived, ReceiptTail, not_read
from core.clock import Clock
from core.routing import topics_of
from stack.children import metrics_urls, ready_url, status_files, status_urls
from stack.settings import Settings


def build_watched(
    settings: Settings, lag: Callable[[Marks], dict[str, int] | None], received: AskReceived = not_read
) -> WatchedServices:
    """Processes are asked at the ports that are set here and at `console.metrics_urls`."""
    files, metrics = status_files(settings), metrics_urls(settings)
    return WatchedServices(ready_url(settings), files, metrics, lag, status_urls(settings), received)


def open_receipt_tail(settings: Settings, clock: Clock) -> ReceiptTail:
    """Opens the reader of the receipts of the traffic that is taken here."""
    return ReceiptTail(settings.kafka, {mode: topics_of(mode).receipts for mode in settings.ingest.taken_modes}, clock)
