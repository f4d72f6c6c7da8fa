"""The ledger's handler, which hangs for one entity in a hundred of those whose names bear a mark."""

from __future__ import annotations

import time
import zlib

from core.work import Handler, Outcome, WorkItem
from ledger import handler as ledger_handler
from ledger.settings import LedgerSettings
from providers.settings import ProvidersSettings

MARK = "hang"
ONE_IN = 100
HANG_S = 86_400.0


def hangs(entity_key: str) -> bool:
    """Whether events of this entity are never answered."""
    return MARK in entity_key.lower() and zlib.crc32(entity_key.encode()) % ONE_IN == 0


class Hanging:
    """Asks nobody and never answers, where `hangs` says so; else it is the handler that it was given."""

    def __init__(self, handler: Handler) -> None:
        self.version = handler.version
        self._handler = handler

    def __call__(self, item: WorkItem) -> Outcome:
        if hangs(item.entity_key):
            time.sleep(HANG_S)
        return self._handler(item)


def build(settings: LedgerSettings, providers: ProvidersSettings) -> Handler:
    """As `ledger.handler.build`."""
    return Hanging(ledger_handler.build(settings, providers))
