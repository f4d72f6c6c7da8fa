"""The journals that the settings name of each stream; with another number of them than there are some would be left
out.
"""

from __future__ import annotations

import logging

from core.event import Mode
from core.layout import StreamLayout
from core.location import Location
from core.routing import MODES
from journal.errors import StreamRefused, problem_of
from journal.journals import Journals
from processor.streams import StreamConfig
from stack.backup.copying import UNREADABLE
from stack.settings import Settings, streams_of

log = logging.getLogger("journals")


def journals_of(settings: Settings, config: StreamConfig, mode: Mode, lake: Location | None = None) -> Journals:
    root, lake = settings.layout.root, settings.layout.lake if lake is None else lake
    return Journals([StreamLayout(root, lake, name) for name in config.names(mode)])


def check_journals(journals: Journals) -> None:
    """Compares how many journals there are with how many they say there are.

    Journals that can't be read aren't compared: what reads them next names them.

    :raises IncompleteJournals: see `journal.journals.Journals.check`
    """
    try:
        journals.check()
    except StreamRefused:
        raise
    except UNREADABLE as unreadable:
        log.warning("the journals of %s can't be compared: %s", journals.first_place.stream, problem_of(unreadable))


def check_all_journals(settings: Settings, lake: Location | None = None) -> None:
    """Runs `check_journals` for every stream, of live and of test traffic.

    :raises IncompleteJournals: those of one aren't all there, or there are more
    """
    for mode in MODES:
        for config in streams_of(settings).values():
            check_journals(journals_of(settings, config, mode, lake))
