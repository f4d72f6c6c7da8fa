"""Whether the journals of a lake are those that the settings name: with another number, shards would be left out."""

from __future__ import annotations

import logging

from core.event import Mode
from core.layout import StreamLayout
from core.location import Location
from core.routing import MODES, stream_of
from journal.errors import Refused, problem_of
from journal.shards import check_shards
from processor.streams import StreamConfig
from stack.backup.copying import UNREADABLE
from stack.settings import Settings, streams_of

log = logging.getLogger("shards")


def check_stream(settings: Settings, config: StreamConfig, mode: Mode, lake: Location | None = None) -> None:
    """Compares ``processor.shards`` with the journals of a stream in a mode; without a ``lake``, in the settings' own.
    Journals that can't be read aren't compared: what reads them next names them.

    :raises ShardsChanged, ShardMissing: see `journal.shards.check_shards`
    """
    layout = settings.layout
    names = config.names(mode, settings.processor.shards)
    places = [StreamLayout(layout.root, layout.lake if lake is None else lake, name) for name in names]
    try:
        check_shards(stream_of(config.name, mode), [one.journal for one in places])
    except Refused:
        raise
    except UNREADABLE as unreadable:
        log.warning("the journals of %s can't be compared: %s", stream_of(config.name, mode), problem_of(unreadable))


def check_streams(settings: Settings, lake: Location | None = None) -> None:
    """`check_stream` of every stream, of live and of test traffic."""
    for mode in MODES:
        for config in streams_of(settings).values():
            check_stream(settings, config, mode, lake)
