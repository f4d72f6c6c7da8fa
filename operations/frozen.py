"""Frozen selections in the lake: sets of dead items that never change, each a file named by the hash of its content.

A selection has a number too, by which people call it: the file of that number names the digest. Numbers are given by
putting a file where none is, so that any number of processes, on any machines, may freeze at once.
"""

from __future__ import annotations

import hashlib
import json
import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from datetime import datetime
from enum import StrEnum
from functools import cached_property

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from pydantic import TypeAdapter

from core.clock import to_rfc3339
from core.errors import PayhookError
from core.keys import join_key
from core.location import Location, make_folder
from journal.errors import problem_of
from journal.schema import JournalRow
from journal.storage import Storage, open_storage
from journal.target import HASH_CHARS, ItemTarget
from operations.acceptance import ENTITY_ITEMS_MAX
from operations.command import Command, ReplayMode
from operations.commands import command_of, command_tree
from operations.refusals import ItemRefusal, refusal_of_json

COMMAND_ID_CHARS = 32


class RunState(StrEnum):
    PROPOSED = "proposed"
    """It waits for a second person's approval."""
    RUNNING = "running"
    PAUSED = "paused"
    SENT = "sent"
    """Each item was sent or refused; some may be on their way."""
    CANCELLED = "cancelled"
    """Items that weren't sent stay as they are; the others still finish."""


class RunEnding(StrEnum):
    RESTORED = "restored"
    BROKEN = "broken"


def command_id_of(digest: str) -> str:
    """Makes the id of the command that begins a selection's run, of its proposal, and of its cancellation: each comes
    once."""
    return digest[:COMMAND_ID_CHARS]


def run_entity(digest: str) -> str:
    return join_key("payhook", digest)


def command_headers(command: Command) -> str:
    return json.dumps({"run": command_tree(command)}, sort_keys=True, separators=(",", ":"))


def command_of_row(row: JournalRow) -> Command:
    return command_of(json.loads(row.headers or "{}")["run"])


@dataclass(frozen=True, slots=True)
class PortionResult:
    """The state of a run after a portion. ``upto``: the first place that wasn't taken. ``over``: each of its items has
    ended, or other runs wait and its last items are left to the stream. ``ended``: why it doesn't continue, where no
    person said so."""

    upto: int
    state: RunState
    refused: tuple[ItemRefusal, ...] = ()
    over: bool = False
    ended: RunEnding | None = None

    def to_headers(self, before: str | None) -> str:
        reported = {
            "upto": self.upto,
            "state": self.state.value,
            "refused": [refusal.to_json() for refusal in self.refused],
            "over": self.over,
            "ended": None if self.ended is None else self.ended.value,
        }
        tree = {**json.loads(before or "{}"), "portion": reported}
        return json.dumps(tree, sort_keys=True, separators=(",", ":"))

    @classmethod
    def of_headers(cls, headers: str | None) -> PortionResult:
        reported = json.loads(headers or "{}")["portion"]
        return cls(
            reported["upto"],
            RunState(reported["state"]),
            tuple(map(refusal_of_json, reported["refused"])),
            reported["over"],
            None if reported["ended"] is None else RunEnding(reported["ended"]),
        )


_HEADER, _NONCE = b"payhook.selection", b"payhook.nonce"
_NUMBER_DIGITS = 12
NEWEST = 10**_NUMBER_DIGITS
SPAN_SEQS_MAX = 250_000
"""Most rows of the journal from the first to the last of a portion of ignored or unknown items: these are read while
live traffic waits, and rows lie by their seq."""

TRIES_MAX = 20
"""Other selections that may be frozen at the same moment."""

SCHEMA = pa.schema(
    [("item_seq", pa.int64()), ("seen_seq", pa.int64()), ("seen_hash", pa.uint64()), ("line", pa.int32())],
)
"""In item order. ``line``: the place of the first item of the same entity."""


class SelectionUnknown(PayhookError):
    def __init__(self, name: int | str) -> None:
        self.name = name
        reported = f"s{name}" if isinstance(name, int) else name
        super().__init__(f"there is no selection {reported}; `payhook dlq selections` lists those that are kept")


class SelectionBroken(PayhookError):
    def __init__(self, digest: str, problem: str) -> None:
        self.digest = digest
        self.problem = problem
        super().__init__(f"selection {digest} {problem}; nothing was done: select again")


@dataclass(frozen=True, slots=True)
class Selection:
    """A frozen set of dead, of ignored, or of unknown items. ``digest``: hex SHA-256 of its file.

    ``amounts``: minor units by currency, of the items whose money is known; ``unknown_amounts`` counts the others.
    ``journal_seq``: how much of the journal was known when it was frozen, ``lineage``: the journal's then; after a
    restore nothing is done with it any more. ``filter`` is its JSON, for people. ``state``: ``open`` for dead items,
    ``ignored``, or ``unknown``.
    """

    stream: str
    frozen_at: datetime
    actor: str
    note: str
    filter: str
    count: int
    journal_seq: int
    lineage: str
    amounts: Mapping[str, int] = field(default_factory=dict)
    unknown_amounts: int = 0
    state: str = "open"
    number: int = 0
    digest: str = ""

    @property
    def name(self) -> str:
        return f"s{self.number}"

    def to_json(self) -> bytes:
        reported = {**asdict(self), "frozen_at": to_rfc3339(self.frozen_at)}
        return json.dumps(reported, sort_keys=True, separators=(",", ":")).encode()

    @classmethod
    def of_json(cls, raw: bytes) -> Selection:
        return _SELECTION.validate_json(raw, strict=True)


_SELECTION = TypeAdapter(Selection)


def _are_items(table: pa.Table, count: int) -> bool:
    if table.num_rows != count or any(column.null_count for column in table.columns):
        return False
    return bool((np.diff(table["item_seq"].to_numpy(), prepend=0) > 0).all())


@dataclass(frozen=True)
class FrozenSelection:
    selection: Selection
    table: pa.Table

    def to_bytes(self) -> bytes:
        header = {_HEADER: replace(self.selection, number=0, digest="").to_json(), _NONCE: uuid.uuid4().bytes}
        sink = pa.BufferOutputStream()
        pq.write_table(self.table.replace_schema_metadata(header), sink)
        return bytes(sink.getvalue())

    @classmethod
    def of_bytes(cls, raw: bytes, digest: str) -> FrozenSelection:
        """Reads a file; columns and header fields that newer code adds are passed over.

        :raises SelectionBroken: it isn't the file of this digest, or can't be read
        """
        if hashlib.sha256(raw).hexdigest() != digest:
            raise SelectionBroken(digest, "isn't what was frozen (its hash differs)")
        try:
            table = pq.read_table(pa.BufferReader(raw))
            selection = replace(Selection.of_json(table.schema.metadata[_HEADER]), digest=digest)
            table = table.select(SCHEMA.names).cast(SCHEMA)
        except Exception as unread:
            # Arrow says with an OSError too that bytes are no Parquet; nothing but these bytes is read here.
            raise SelectionBroken(digest, f"can't be read ({problem_of(unread)})") from unread
        if not _are_items(table, selection.count):
            raise SelectionBroken(digest, "doesn't hold the items that its header says, each once and in their order")
        return cls(selection, table)

    @cached_property
    def item_seqs(self) -> np.ndarray:
        seqs: np.ndarray = self.table["item_seq"].to_numpy()
        return seqs

    def pick_targets(self, places: Sequence[int] | np.ndarray) -> list[ItemTarget]:
        columns = self.table.take(pa.array(places, pa.int64())).select(SCHEMA.names[:3])
        rows = zip(*(column.to_pylist() for column in columns.columns), strict=True)
        return [ItemTarget(item_seq, seen_seq, f"{head:0{HASH_CHARS}x}") for item_seq, seen_seq, head in rows]


class ItemOrder:
    """The items of a selection in the order in which a run takes them: with followers, an entity's together."""

    def __init__(self, frozen: FrozenSelection, mode: ReplayMode) -> None:
        self._frozen = frozen
        count, lines = frozen.selection.count, frozen.table["line"].to_numpy()
        # The rows of ignored and unknown items are read from the journal; those of dead ones are in the index.
        self._seen: np.ndarray | None = (
            None if frozen.selection.state == "open" else frozen.table["seen_seq"].to_numpy()
        )
        self.places: np.ndarray = np.arange(count)
        self._lines: np.ndarray | None = None
        if mode is ReplayMode.WITH_FOLLOWERS:
            self.places = np.lexsort((self.places, lines))
            self._lines = lines[self.places]

    @property
    def count(self) -> int:
        return len(self.places)

    def end(self, begin: int, count: int) -> int:
        """Finds where a portion of about ``count`` items ends. An entity's items are never parted, unless they are more
        than are looked through for followers: then each part is refused."""
        end = min(begin + count, self.count)
        if self._seen is not None:
            seen = self._seen[self.places[begin:end]]
            end = begin + max(1, int(np.sum(np.maximum.accumulate(seen) - np.minimum.accumulate(seen) < SPAN_SEQS_MAX)))
        if self._lines is None or end == self.count or self._lines[end] != self._lines[end - 1]:
            return end
        line = self._lines[end]
        first = int(np.searchsorted(self._lines, line))
        if first > begin:
            return first
        return min(int(np.searchsorted(self._lines, line, "right")), begin + ENTITY_ITEMS_MAX)

    def pick_targets(self, begin: int, end: int) -> list[ItemTarget]:
        return self._frozen.pick_targets(self.places[begin:end])

    def item_seq(self, index: int) -> int:
        return int(self._frozen.item_seqs[self.places[index]])


class SelectionFiles:
    def __init__(self, place: Location) -> None:
        self._place = str(place)

    def put(self, frozen: FrozenSelection) -> Selection:
        """Keeps a selection whole under the next number.

        :raises OSError: the lake can't be written
        """
        raw = frozen.to_bytes()
        digest = hashlib.sha256(raw).hexdigest()
        make_folder(self._place)
        storage = self._storage
        storage.put_new(f"{digest}.parquet", raw)
        number = max(self.list_numbers(), default=0)
        for _ in range(TRIES_MAX):
            number += 1
            selection = replace(frozen.selection, number=number, digest=digest)
            try:
                storage.put_new(_make_file_name(number), selection.to_json())
            except FileExistsError:
                continue
            return selection
        raise OSError(f"{self._place}: {TRIES_MAX} numbers were taken meanwhile")

    def list_numbers(self) -> list[int]:
        names = (file.name.removesuffix(".json") for file in self._storage.files() if file.name.endswith(".json"))
        return [int(name) for name in names if name.isdigit()]

    def list_newest(self, before: int, limit: int) -> list[Selection]:
        numbers = sorted((number for number in self.list_numbers() if number < before), reverse=True)
        return [self.get(number) for number in numbers[:limit]]

    def get(self, number: int) -> Selection:
        try:
            return Selection.of_json(self._storage.read(_make_file_name(number)))
        except FileNotFoundError:
            raise SelectionUnknown(number) from None

    def read(self, digest: str) -> FrozenSelection:
        """
        :raises SelectionUnknown: there is no such selection
        :raises SelectionBroken: its file was changed, or can't be read
        :raises OSError: the lake can't be read
        """
        try:
            raw = self._storage.read(f"{digest}.parquet")
        except FileNotFoundError:
            raise SelectionUnknown(digest) from None
        return FrozenSelection.of_bytes(raw, digest)

    def drop(self, selection: Selection) -> None:
        self._storage.delete([_make_file_name(selection.number), f"{selection.digest}.parquet"])

    @property
    def _storage(self) -> Storage:
        return open_storage(self._place)


ReadSelection = Callable[[str], FrozenSelection]
"""A selection by its digest, as `SelectionFiles.read`."""


def nothing_frozen(digest: str) -> FrozenSelection:
    raise SelectionUnknown(digest)


def _make_file_name(number: int) -> str:
    return f"{number:0{_NUMBER_DIGITS}d}.json"


def each_line(entities: Iterable[str | None]) -> Iterator[int]:
    """Yields for each item the place of the first item of its entity; an item without an entity stands alone."""
    firsts: dict[str, int] = {}
    for place, entity in enumerate(entities):
        yield place if entity is None else firsts.setdefault(entity, place)
