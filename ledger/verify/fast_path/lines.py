"""The postings table read in step with the journal: for each batch of rows, the lines up to its last seq."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ledger.postings import POSTINGS_SCHEMA
from ledger.verify.fast_path.bookings import Lines
from ledger.verify.fast_path.files import FEW_VALUES, TableFiles

_OF_A_LINE = ("line", "merchant", "account", "side", "amount_minor", "currency")

BOOKED = ("postings", *(name for name in POSTINGS_SCHEMA.names if name not in _OF_A_LINE))
"""The columns of a booking row that its lines repeat."""


READ_SCHEMA = pa.schema(
    [
        field.with_type(pa.dictionary(pa.int32(), field.type)) if field.name in FEW_VALUES else field
        for field in POSTINGS_SCHEMA
    ]
)
"""`POSTINGS_SCHEMA`, with dictionaries where the files have them."""


class LinesInStep:
    """Lines out of order are handed out as they come: they are never what is expected."""

    def __init__(self, files: TableFiles, names: Sequence[str], since: int, until: int) -> None:
        self.files = files
        self._batches = files.batches(names, since, until, POSTINGS_SCHEMA.names)
        self._since = since
        self._held: pa.RecordBatch | None = None

    def up_to(self, until: int) -> pa.Table:
        """The next lines, up to a seq, as `READ_SCHEMA`."""
        taken = []
        while True:
            rows = self._held if self._held is not None else self._next()
            self._held = None
            if rows is None:
                break
            at = int(np.searchsorted(rows["seq"].to_numpy(), until, side="right"))
            taken.append(rows.slice(0, at))
            if at < len(rows):
                self._held = rows.slice(at)
                break
        return pa.Table.from_batches(taken, READ_SCHEMA).combine_chunks()

    def _next(self) -> pa.RecordBatch | None:
        for rows in self._batches:
            kept = rows if rows["seq"][0].as_py() >= self._since else rows.filter(pc.field("seq") >= self._since)
            if kept.num_rows:
                return kept.select(READ_SCHEMA.names).cast(READ_SCHEMA)
        return None


def lines_as_booked(rows: pa.RecordBatch, table: pa.Table) -> Lines | None:
    """The lines of booking rows, where the table's match the rows column by column: no booking need be parsed.

    They are written as the journal writes them, and compared with what it holds. None: look at the bookings themselves.
    """
    seqs = table["seq"].to_numpy()
    begins = np.flatnonzero(np.diff(seqs, prepend=-1))
    if len(rows) == 0 or len(begins) != len(rows) or (seqs[begins] != rows["seq"].to_numpy()).any():
        return None
    sizes = np.diff(np.append(begins, len(seqs)))
    of_row = np.repeat(np.arange(len(sizes)), sizes)
    number = (np.arange(len(seqs)) - begins[of_row]).astype("i4")
    if (number != table["line"].to_numpy()).any():
        return None
    account, side, amount, currency = (_whole(table[name]) for name in ("account", "side", "amount_minor", "currency"))
    lines = Lines(of_row, number, account, side, amount, currency)
    if not _are_written(lines, sizes, rows["postings"]) or not _repeat_their_rows(table, rows, lines):
        return None
    return lines


def _are_written(lines: Lines, sizes: np.ndarray, postings: pa.Array) -> bool:
    """Whether the bookings are the texts of the lines, one after the other."""
    few = (lines.account, lines.side, lines.currency)
    if lines.amount_minor.null_count or not all(map(_is_plain, few)):
        return False
    last = lines.number + 1 == np.repeat(sizes, sizes)
    opens, ends = np.where(lines.number == 0, 0, 1), np.where(last, 1, 0)
    head = _of_few(
        ((lines.account, lines.side), opens),
        lambda account, side, at: f'{"[,"[at]}{{"account":"{account}","side":"{side}","amount_minor":',
    )
    tail = _of_few(((lines.currency,), ends), lambda currency, at: f',"currency":"{currency}"}}{("", "]")[at]}')
    texts = pc.binary_join_element_wise(head, lines.amount_minor.cast(pa.string()), tail, "")
    at_ends = np.cumsum(sizes) - 1
    written, whole = np.cumsum(pc.binary_length(texts).to_numpy()), pc.binary_length(postings).to_numpy()
    return bool((written[at_ends] == np.cumsum(whole)).all()) and _bytes(texts) == _bytes(postings)


def _repeat_their_rows(table: pa.Table, rows: pa.RecordBatch, lines: Lines) -> bool:
    """Whether each line repeats its row's columns."""
    of_row = pa.array(lines.row)
    if not _same_values(_whole(table["merchant"]), lines.merchants()):
        return False
    for name in BOOKED:
        if name in ("seq", "postings"):
            continue
        of_line, by_row = _whole(table[name]), rows[name].take(of_row)
        if pa.types.is_dictionary(of_line.type):
            if not _same_values(of_line, by_row):
                return False
        elif not of_line.equals(by_row.cast(of_line.type)):
            return False
    return True


def _same_values(some: pa.DictionaryArray, other: pa.Array) -> bool:
    """Whether two columns of few values are equal, whatever each one's dictionary is."""
    other = other.dictionary_encode()
    values = some.dictionary.to_pylist()
    number = {value: at for at, value in reversed(list(enumerate(values)))}
    mine = np.array([number[value] for value in values] or [0])[some.indices.fill_null(0).to_numpy()]
    their = np.array([number.get(value, -1) for value in other.dictionary.to_pylist()] or [0])
    there = some.is_valid()
    if not there.equals(other.is_valid()):
        return False
    differ = mine != their[other.indices.fill_null(0).to_numpy()]
    return not (differ & there.to_numpy(zero_copy_only=False)).any()


def _of_few(some: tuple[tuple[pa.DictionaryArray, ...], np.ndarray], text: Callable[..., str]) -> pa.Array:
    """Of each line a text that its few values make: every one is made once."""
    columns, place = some
    values = [column.dictionary.to_pylist() for column in columns]
    code = np.zeros(len(place), "i8")
    for column, few in zip(columns, values, strict=True):
        code = code * len(few) + column.indices.to_numpy()
    code = code * 2 + place
    there, at = np.unique(code, return_inverse=True)
    texts = []
    for one in there.tolist():
        one, second = divmod(one, 2)
        parts: list[str] = []
        for few in reversed(values):
            one, which = divmod(one, len(few))
            parts.insert(0, few[which])
        texts.append(text(*parts, second))
    return pa.array(texts, pa.string()).take(pa.array(at))


def _bytes(texts: pa.Array) -> bytes:
    """All of them, one after the other."""
    _, ends, data = texts.cast(pa.binary()).buffers()
    since, until = np.frombuffer(ends, "<i4")[[texts.offset, texts.offset + len(texts)]].tolist()
    return b"" if data is None else bytes(data.slice(since, until - since))


def _whole(column: pa.ChunkedArray) -> pa.Array:
    return column.combine_chunks() if column.num_chunks != 1 else column.chunk(0)


def _is_plain(texts: pa.DictionaryArray) -> bool:
    """Whether each stands in JSON as it is: nothing in one could be taken for the end of it."""
    return texts.null_count == 0 and not any('"' in one or "\\" in one for one in texts.dictionary.to_pylist())


def expected_lines(rows: pa.RecordBatch, lines: Lines) -> pa.Table:
    """The lines of booking rows, as `ledger.postings.flat` makes them."""
    of_row = pa.array(lines.row)
    of_lines = {
        "line": pa.array(lines.number),
        "merchant": lines.merchants(),
        "account": lines.account,
        "side": lines.side,
        "amount_minor": lines.amount_minor,
        "currency": lines.currency,
    }
    columns = [
        (of_lines[field.name] if field.name in of_lines else rows[field.name].take(of_row)).cast(field.type)
        for field in POSTINGS_SCHEMA
    ]
    return pa.table(columns, POSTINGS_SCHEMA)
