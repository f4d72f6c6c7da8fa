"""Divides the journals among more shards (docs/decisions/0004), while no processor runs."""

from __future__ import annotations

import contextlib
import time
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from core.clock import Clock
from core.errors import PayhookError
from core.layout import StreamLayout
from core.location import Location
from core.routing import MODES, Shard, stream_of
from journal.errors import StorageDown
from journal.journals import DIVIDING_NOTE, check_none_missing, check_shards, read_dividing, shard_in
from journal.lake import has_table, open_table
from journal.lease import LAPSES_S, Lease
from journal.log import LOG
from journal.reader import JournalReader
from journal.snapshots import copy_for
from journal.state import JournalState
from journal.storage import open_storage
from journal.writer import JournalWriter
from ledger.maintain.tables import hold_maintenance_lock
from processor.history.check import read_decided_partitions
from processor.settings import SHARDS_MAX
from stack.backup.copying import UNREADABLE, data_files, log_files
from stack.backup.trees import at_once, tree_at
from stack.settings import Settings, streams_of

LOOK_S = 1.0


class SplitRefused(PayhookError):
    """Nothing was changed; the message says what to do."""


class PlaceTaken(PayhookError):
    """The place of a shard's copy holds something else. It isn't touched."""

    def __init__(self, place: Location, source: Location) -> None:
        self.place = place
        self.source = source
        super().__init__(
            f"what is at {place} is no copy of {source}, nor the beginning of one: move it away, then run this again. "
            "Until then no processor starts"
        )


class LeaseLost(PayhookError):
    """This process was paused for so long that another one has taken a stream's lease. Nothing more was changed."""

    def __init__(self, stream: str) -> None:
        self.stream = stream
        super().__init__(
            f"another process has taken the lease of {stream} meanwhile: stop it, or let it end if it divides the "
            "journals too. Then run this again"
        )


@dataclass(frozen=True, slots=True)
class DividedStream:
    stream: str
    before: int
    journals: dict[str, int]


def split(settings: Settings, shards: int, clock: Clock) -> list[DividedStream]:
    """Divides every stream of what receivers publish, of live and of test traffic; those that are divided so stay.

    Interrupted, it is to be run again: until it is done no processor of these streams starts.

    :param shards: how many there will be, a multiple of those there are
    :raises SplitRefused, ShardsChanged, ShardMissing: nothing was changed
    :raises MaintenanceRunning: maintenance or a backup is at the tables
    :raises LeaseLost: another process decides a stream, or divides it
    :raises PlaceTaken: there is something else where a shard's journal is to be
    :raises Fenced, StorageDown, JournalBroken: see `journal.writer.JournalWriter`; run it again
    """
    partitions = settings.kafka.events_partitions
    if not 1 <= shards <= SHARDS_MAX or partitions % shards:
        raise SplitRefused(f"kafka.events_partitions is {partitions}: the shards must divide it, {SHARDS_MAX} at most")
    with hold_maintenance_lock(settings.layout.run, clock.now()):
        streams = list(_find_streams(settings, shards))
        with _hold_leases(streams, clock) as check_leases:
            if streams != list(_find_streams(settings, shards)):
                raise SplitRefused("the journals were divided meanwhile, from another host: run it again")
            for stream in streams:
                stream.begin()
            return [stream.divide_journals(clock, check_leases) for stream in streams]


@dataclass(frozen=True, slots=True)
class _StreamSplit:
    lake: Location
    first: StreamLayout
    topic: str
    before: int
    shards: int

    def layout_of(self, number: int) -> StreamLayout:
        return self.first.of_shard(number)

    def begin(self) -> None:
        """Stops processors: none starts until all journals are divided, and no earlier one commits to any of them."""
        if read_dividing(_read_state(self.first).notes) is None:
            _open_writer(self.first).begin_epoch({}, notes={DIVIDING_NOTE: str(self.shards)})
        for number in range(1, self.before):
            _open_writer(self.layout_of(number)).begin_epoch({})

    def divide_journals(self, clock: Clock, check_leases: Callable[[], None]) -> DividedStream:
        """Makes the copies first. Nothing is done with them before the first shard's journal says so: it is last."""
        for number in range(self.before, self.shards):
            if not self._is_copied(number):
                self._copy(number, clock, check_leases)
        for number in reversed(range(self.before)):
            place, shard = self.layout_of(number), Shard(number, self.shards)
            notes = _read_state(place).notes
            if shard_in(notes) != shard or read_dividing(notes) is not None:
                check_leases()
                _open_writer(place).divide_journal(self.topic, shard, clock.now())
        layouts = [self.layout_of(number) for number in range(self.shards)]
        return DividedStream(
            self.first.stream, self.before, {layout.stream: _read_state(layout).next_seq - 1 for layout in layouts}
        )

    def _is_copied(self, number: int) -> bool:
        """Returns whether a shard's journal says that it is the shard's, which a whole copy does last. One that can't
        be read was never whole; nobody has written to it.
        """
        place = self.layout_of(number)
        try:
            return has_table(str(place.journal)) and shard_in(_read_state(place).notes) == Shard(number, self.shards)
        except UNREADABLE:
            return False

    def _copy(self, number: int, clock: Clock, check_leases: Callable[[], None]) -> None:
        place, source, shard = self.layout_of(number), self.layout_of(number % self.before), Shard(number, self.shards)
        check_leases()
        copy_for(str(source.snapshots_folder), str(place.snapshots_folder), lineage := uuid.uuid4().hex)
        for table, copy in ((source.bodies_table, place.bodies_table), (source.journal, place.journal)):
            self._copy_table(table, copy, check_leases)
        check_leases()
        _open_writer(place).divide_journal(self.topic, shard, clock.now(), lineage=lineage)

    def _copy_table(self, source: Location, target: Location, check_leases: Callable[[], None]) -> None:
        """Shares the table's files, which no writer ever changes. Removes and writes over none of them.

        So what an interruption left is completed. If this process is paused, what another one makes of the copy stays.
        """
        if not has_table(str(source)):
            return
        tree, path, to = tree_at(self.lake, private=False), self._path(source), self._path(target)
        table = open_table(str(source))
        entries = log_files(source, table.version(), with_state=True)
        # The version is of this division: while it held the leases no other process could write the journal.
        check_leases()
        if not _is_begun(source, target, entries):
            check_leases()
            raise PlaceTaken(target, source)

        def share(name: str) -> None:
            if not tree.share_file(f"{path}/{name}", f"{to}/{name}") and not tree.has_file(f"{to}/{name}"):
                raise StorageDown("a shard's copy", str(target), f"{name} of {source} can't be shared")

        files = [*data_files(table), *entries]
        at_once(share, files)
        tree.sync(f"{to}/{name}" for name in files)

    def _path(self, place: Location) -> str:
        return str(place).removeprefix(str(self.lake)).strip("/")


def _is_begun(source: Location, target: Location, entries: Sequence[str]) -> bool:
    original, copy, last = open_storage(source), open_storage(target), max(entries)
    copied = [f"{LOG}/{file.name}" for file in copy.files(LOG)]
    return all(name <= last and (name not in entries or copy.read(name) == original.read(name)) for name in copied)


def _find_streams(settings: Settings, shards: int) -> Iterator[_StreamSplit]:
    layout = settings.layout
    for mode in MODES:
        for config in streams_of(settings).values():
            first = layout.stream(stream_of(config.name, mode))
            if not config.is_dividable or not has_table(str(first.journal)):
                continue
            state = _read_state(first)
            before, begun, partitions = (
                shard_in(state.notes).count,
                read_dividing(state.notes),
                read_decided_partitions(state),
            )
            if begun not in (None, shards):
                raise SplitRefused(f"{first.stream} is being divided among {begun} shards: finish that first")
            if before == shards and begun is None:
                continue
            if shards % before:
                problem = f"{first.stream} is divided among {before} shards: their number can only be multiplied"
                raise SplitRefused(f"{problem}. Several shards may run on one machine")
            if partitions is not None and partitions % shards:
                uneven = f"decided by {partitions} partitions last, which {shards} shards don't divide"
                raise SplitRefused(f"{first.stream} was {uneven}: run it with the new kafka.events_partitions before")
            check = check_shards if begun is None else check_none_missing
            check(first.stream, [first.of_shard(number).journal for number in range(before)])
            yield _StreamSplit(layout.lake, first, config.events_topic(mode), before, shards)


@contextlib.contextmanager
def _hold_leases(streams: Sequence[_StreamSplit], clock: Clock) -> Iterator[Callable[[], None]]:
    owner = uuid.uuid4().hex
    places = [stream.layout_of(number) for stream in streams for number in range(stream.before)]
    leases = {place.stream: Lease(str(place.lease), owner, clock, place.lease_lock) for place in places}
    until = time.monotonic() + LAPSES_S + 2 * LOOK_S
    try:
        while running := [name for name, lease in leases.items() if not lease.take_lease()]:
            if time.monotonic() > until:
                holder = leases[running[0]].holder
                where = "" if holder is None else f" on {holder.host}"
                raise SplitRefused(f"a processor decides {running[0]}{where}: stop all processors first")
            time.sleep(LOOK_S)
        for lease in leases.values():
            lease.keep_renewing(lambda: None)
        yield lambda: _check_leases(leases)
    finally:
        for lease in leases.values():
            lease.release()


def _check_leases(leases: Mapping[str, Lease]) -> None:
    for stream, lease in leases.items():
        if not lease.renew():
            raise LeaseLost(stream)


def _open_writer(place: StreamLayout) -> JournalWriter:
    return JournalWriter.create_or_open(str(place.journal), place.stream)


def _read_state(place: StreamLayout) -> JournalState:
    return JournalReader(str(place.journal)).state()
