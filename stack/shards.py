"""Whether the journals of a lake are those that the settings name: with another number, shards would be left out."""

from __future__ import annotations

from core.event import Mode
from core.layout import StreamLayout
from core.location import Location
from core.routing import MODES, stream_of
from journal.shards import check_shards
from processor.streams import StreamConfig
from stack.settings import Settings, streams_of


def check_stream(settings: Settings, config: StreamConfig, mode: Mode, lake: Location | None = None) -> None:
    """Compares ``processor.shards`` with the journals of a stream in a mode; without a ``lake``, in the settings' own.

    :raises ShardsChanged, ShardMissing: see `journal.shards.check_shards`
    """
    layout = settings.layout
    names = config.names(mode, settings.processor.shards)
    places = [StreamLayout(layout.root, layout.lake if lake is None else lake, name) for name in names]
    check_shards(stream_of(config.name, mode), [one.journal for one in places])


def check_streams(settings: Settings, lake: Location | None = None) -> None:
    """`check_stream` of every stream, of live and of test traffic."""
    for mode in MODES:
        for config in streams_of(settings).values():
            check_stream(settings, config, mode, lake)
