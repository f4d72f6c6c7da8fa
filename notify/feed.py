"""Who gets what of the ledger's journal: the feed of the notify stream."""

from __future__ import annotations

from pathlib import Path

from core.errors import SettingError
from core.event import Mode
from journal.schema import JournalRow
from notify.facts import FACT_COLUMNS, notice_json
from notify.settings import NotifySettings
from notify.subscribers import SubscribersFile


class FactFeed:
    """Every subscriber of a mode gets every row that changed the books, as an envelope; its handler passes over what it
    doesn't want.

    So a subscriber that is disabled, or wants more types from now on, has no gap that isn't in the stream's journal.
    """

    columns = FACT_COLUMNS

    def __init__(self, subscribers: SubscribersFile) -> None:
        self._subscribers = subscribers

    def receivers(self, mode: Mode) -> tuple[str, ...]:
        """The names of a mode's subscribers, disabled ones too; none while there is no file.

        :raises SubscribersUnreadable: the file is there and wrong
        """
        if not self._subscribers.path.exists():
            return ()
        return tuple(name for name, one in self._subscribers.all().items() if one.mode == mode)

    def body(self, row: JournalRow) -> bytes:
        return notice_json(row)


def build(settings: NotifySettings) -> FactFeed:
    """
    :raises SettingError: the subscribers file isn't named
    """
    if not settings.subscribers_file:
        raise SettingError("notify.subscribers_file", "the path of the subscribers file is wanted")
    return FactFeed(SubscribersFile(Path(settings.subscribers_file)))
