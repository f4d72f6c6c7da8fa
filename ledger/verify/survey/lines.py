"""The postings table read in step with the journal: for each batch of rows, the lines up to its last seq."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ledger.postings import POSTINGS_SCHEMA
from ledger.verify.survey.bookings import Lines
from ledger.verify.survey.files import TableFiles


class LinesInStep:
    """Lines out of order are handed out as they come: they are never what is expected."""

    def __init__(self, files: TableFiles, names: Sequence[str], since: int, until: int) -> None:
        self.files = files
        self._batches = files.batches(names, since, until, POSTINGS_SCHEMA.names)
        self._since = since
        self._held: pa.RecordBatch | None = None

    def up_to(self, until: int) -> pa.Table:
        """The next lines, up to a seq, as `POSTINGS_SCHEMA`."""
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
        return pa.Table.from_batches(taken, POSTINGS_SCHEMA).combine_chunks()

    def _next(self) -> pa.RecordBatch | None:
        for rows in self._batches:
            kept = rows if rows["seq"][0].as_py() >= self._since else rows.filter(pc.field("seq") >= self._since)
            if kept.num_rows:
                return kept.select(POSTINGS_SCHEMA.names).cast(POSTINGS_SCHEMA)
        return None


def lines_as_booked(rows: pa.RecordBatch, table: pa.Table) -> Lines | None:
    """The lines of booking rows, where the table's are what the rows say: no booking need be parsed then.

    They are written as the journal writes them, and compared with what it holds. None: look at the bookings themselves.
    """
    seqs = table["seq"].to_numpy()
    begins = np.flatnonzero(np.diff(seqs, prepend=-1))
    if len(rows) == 0 or len(begins) != len(rows) or (seqs[begins] != rows["seq"].to_numpy()).any():
        return None
    sizes = np.diff(np.append(begins, len(seqs)))
    number = np.arange(len(seqs)) - np.repeat(begins, sizes)
    account, side, amount, currency = (_whole(table[name]) for name in ("account", "side", "amount_minor", "currency"))
    if (number != table["line"].to_numpy()).any() or not all(map(_is_plain, (account, side, currency))):
        return None
    parts = ('{"account":"', account, '","side":"', side, '","amount_minor":', amount.cast(pa.string()))
    texts = pc.binary_join_element_wise(*parts, ',"currency":"', currency, '"}', "")
    by_row = pa.ListArray.from_arrays(pa.array(np.append(begins, len(seqs)), pa.int32()), texts)
    written = pc.binary_join_element_wise("[", pc.binary_join(by_row, ","), "]", "")
    if not written.equals(rows["postings"]):
        return None
    return Lines(np.repeat(np.arange(len(sizes)), sizes), number.astype("i4"), account, side, amount, currency)


def _whole(column: pa.ChunkedArray) -> pa.Array:
    return column.combine_chunks() if column.num_chunks != 1 else column.chunk(0)


def _is_plain(texts: pa.Array) -> bool:
    """Whether each stands in JSON as it is: nothing in one could be taken for the end of it."""
    return not any('"' in one or "\\" in one for one in texts.unique().to_pylist())


def expected_lines(rows: pa.RecordBatch, lines: Lines) -> pa.Table:
    """The lines of booking rows, as `ledger.postings.flat` makes them."""
    of_row = pa.array(lines.row)
    told = {
        "line": pa.array(lines.number),
        "merchant": lines.merchants(),
        "account": lines.account,
        "side": lines.side,
        "amount_minor": lines.amount_minor,
        "currency": lines.currency,
    }
    columns = [
        (told[field.name] if field.name in told else rows[field.name].take(of_row)).cast(field.type)
        for field in POSTINGS_SCHEMA
    ]
    return pa.table(columns, POSTINGS_SCHEMA)
