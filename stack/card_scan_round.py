"""One scan of a data folder's lake for card data: ``python -m stack.card_scan_round``, from a schedule of one's own."""

from __future__ import annotations

import logging
import os
import sys

from core.clock import Clock, SystemClock
from core.errors import PayhookError
from core.log import configure_logging
from core.routing import MODES, stream_of
from providers import build_adapters
from stack.card_scan import CardScan, Scanned
from stack.maintenance_round import stream_tables
from stack.settings import Settings, load_settings, streams_of

log = logging.getLogger("card-scan")

NICE = 10
"""As `stack.maintenance_round`."""


def run_once(settings: Settings, clock: Clock) -> Scanned:
    """Reads the bodies that no scan has read; what it came to is also in the run folder."""
    report = settings.layout.card_scan
    scan = CardScan(settings.ingest.pan, build_adapters(settings.providers), clock)
    received = {
        stream_of(name, mode)
        for name, one in streams_of(settings).items()
        if one.source_stream is None
        for mode in MODES
    }
    tables = [one for one in stream_tables(settings) if one.stream in received]
    scanned = scan.run(tables, Scanned.read(report, clock))
    report.parent.mkdir(parents=True, exist_ok=True)
    scanned.write(report)
    for one in scanned.found:
        log.error(
            "%s of %s holds card data at %s: `payhook ledger redact` removes the body, and see docs/card-numbers.md",
            *(one.event_key, one.stream, ", ".join(one.places)),
        )
    return scanned


def main() -> int:
    configure_logging()
    os.nice(NICE)
    try:
        settings = load_settings()
        if not settings.ingest.pan.enabled:
            log.info("ingest.pan.enabled is false: nothing is masked, and nothing is looked for")
            return 0
        scanned = run_once(settings, SystemClock())
    except PayhookError as problem:
        log.error("%s", problem)
        return 1
    log.info("%d bodies read, %d kept ones hold card data", scanned.bodies, len(scanned.found))
    if not scanned.whole:
        log.error("%s", scanned.problem)
    return 0 if scanned.whole else 1


if __name__ == "__main__":
    code = main()
    sys.stdout.flush()
    sys.stderr.flush()
    # As cli.main: delta-rs's threads can abort an interpreter that takes its time to end.
    os._exit(code)
