"""Whom the notify stream tells, and what: the processor asks this of it when it starts."""

from __future__ import annotations

from pathlib import Path

from core.event import Mode
from journal.schema import JournalRow
from notify.facts import FACT_COLUMNS, fact_json
from notify.settings import NotifySettings
from notify.subscribers import SubscribersFile


class NotifyFeed:
    """Every subscriber of a mode gets every applied row; which types and tenants it wants, the handler knows."""

    columns = FACT_COLUMNS

    def __init__(self, subscribers: Path) -> None:
        self._subscribers = subscribers

    def receivers(self, mode: Mode) -> tuple[str, ...]:
        """Names; none where there is no file.

        :raises SubscribersUnreadable: the file is wrong
        """
        if not self._subscribers.exists():
            return ()
        known = SubscribersFile(self._subscribers).all().values()
        return tuple(subscriber.name for subscriber in known if subscriber.mode == mode)

    def body(self, row: JournalRow) -> bytes:
        return fact_json(row)


def build(settings: NotifySettings) -> NotifyFeed:
    """The feed of the stream; ``settings.subscribers_file`` is named."""
    return NotifyFeed(Path(settings.subscribers_file))
