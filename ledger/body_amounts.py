"""The amount that an event's body reports, as its adapter reads it: for lists, not for bookings."""

from __future__ import annotations

import logging
from functools import cached_property

from core.errors import PayhookError
from core.money import Money
from providers.port import Adapter
from providers.reconciled import choose_reader
from providers.registry import build_adapters
from providers.settings import ProvidersSettings

log = logging.getLogger(__name__)


class BodyAmounts:
    """Reads amounts by provider and type; adapters are made when the first one is asked for."""

    def __init__(self, settings: ProvidersSettings) -> None:
        self._settings = settings

    @cached_property
    def _provider_adapters(self) -> dict[str, Adapter]:
        return build_adapters(self._settings)

    def __call__(self, provider: str, event_type: str, body: bytes) -> Money | None:
        """Returns the amount; None where no money moves, the provider is unknown, or the body can't be read."""
        adapter = self._provider_adapters.get(provider)
        if adapter is None:
            return None
        try:
            fact = choose_reader(adapter, event_type).money(body, event_type)
        except PayhookError:
            return None
        except Exception as bug:
            # An event may be dead because its adapter fails on it just so.
            log.warning("the adapter of %s fails on a %s: %s", provider, event_type, type(bug).__name__)
            return None
        return fact.money if fact is not None else None
