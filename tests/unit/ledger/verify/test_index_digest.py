"""The index against the journal, as wholes and key by key: nothing is changed, exchanged or left out unnoticed."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from ledger.verify.fast_path import FastPath
from ledger.verify.fast_path.hashes import SALT_BYTES, KeyDigest, key_digest
from ledger.verify.index_lookup import _problem

from core.decision import Decision
from core.keys import hash16
from journal import index_layout as layout
from journal.index import Index
from ledger.verify.derived_checks import cleared, held
from ledger.verify.evidence import Evidence
from tests.examples import examples
from tests.unit.journal.rows import row, sha
from tests.unit.ledger.verify.ledgers import SALT, Ledger, applied

ROWS = 30
Entry = tuple[int, int, int, int]
"""Both halves of a key's hash, what is held of it, and its version."""
numbers = st.integers(0, 2**64 - 1)
entries = st.lists(st.tuples(numbers, numbers, numbers, st.integers(0, 255)), min_size=1, max_size=20, unique=True)


def digest(some: list[Entry], salt: bytes = SALT) -> KeyDigest:
    columns = [np.array(column, "u8") for column in zip(*some, strict=True)] or [np.empty(0, "u8")] * 4
    return key_digest(np.stack(columns[:2], axis=1), columns[2], columns[3], salt)


@given(entries, st.data())
@settings(max_examples=examples(200), deadline=None)
def test_any_single_change_comes_to_another_digest(some: list[Entry], data: st.DataObject) -> None:
    at = data.draw(st.integers(0, len(some) - 1))
    how = data.draw(st.sampled_from(["change", "omit", "double", "swap"]))
    other = list(some)
    if how == "change":
        field, by = data.draw(st.integers(0, 3)), data.draw(st.integers(1, 255))
        changed = list(some[at])
        changed[field] = (changed[field] + by) % (256 if field == 3 else 2**64)
        if changed[field] == some[at][field]:
            return
        other[at] = cast("Entry", tuple(changed))
    elif how == "omit":
        del other[at]
    elif how == "double":
        other.append(some[at])
    else:
        to = data.draw(st.integers(0, len(some) - 1))
        other[at], other[to] = (*some[at][:2], *some[to][2:]), (*some[to][:2], *some[at][2:])
        if sorted(other) == sorted(some):
            return
    assert digest(other) != digest(some)


@given(entries, st.data())
@settings(max_examples=examples(50), deadline=None)
def test_the_order_in_which_keys_are_met_is_nothing(some: list[Entry], data: st.DataObject) -> None:
    cut = data.draw(st.integers(0, len(some)))
    shuffled = data.draw(st.permutations(some))
    assert digest(shuffled[:cut]) + digest(shuffled[cut:]) == digest(some)
    assert digest(some) - digest(some[:cut]) == digest(some[cut:])


def test_another_salt_comes_to_another_digest() -> None:
    assert digest([(1, 2, 3, 4)]) != digest([(1, 2, 3, 4)], bytes(SALT_BYTES))


@pytest.fixture
def index(tmp_path: Path) -> Iterator[Index]:
    found = Index.open(tmp_path / "index", 1)
    yield found
    found.close()


@pytest.fixture
def ledger(tmp_path: Path, index: Index) -> Ledger:
    rows = [applied(seq) for seq in range(1, ROWS + 1)]
    rows[3] = applied(4, decision=Decision.RETRY, postings=None, blocking=True)
    rows[7] = applied(8, decision=Decision.DUPLICATE, event_key=rows[0].event_key, postings=None, fact_key=None)
    found = Ledger(tmp_path, rows)
    index.apply(rows, {})
    return found


def compared(index: Index, fast_path: FastPath) -> dict[str, int] | None:
    evidence = SimpleNamespace(fast_path=lambda: fast_path, salt=SALT)
    return cleared(index, held(index, SALT), cast("Evidence", evidence))


def test_an_index_that_follows_its_journal_is_cleared(ledger: Ledger, index: Index) -> None:
    assert compared(index, ledger.fast_path()) == {"event": ROWS - 1, "open": 1, "dead": 0}


@pytest.mark.parametrize(
    "change",
    [
        lambda db: db.delete(layout.EVENT + hash16("stripe:evt_1:charge")),
        lambda db: db.put(layout.EVENT + hash16("stripe:evt_1:charge"), b"x" * 9),
        lambda db: db.put(layout.EVENT + hash16("stripe:evt_1:charge"), b"x" * 7),
        lambda db: db.put(layout.EVENT + hash16("stripe:evt_x:charge"), b"x" * 9),
        lambda db: db.put(layout.EVENT + b"short", b"x" * 9),
        lambda db: db.delete(layout.FACT + hash16("stripe:ch_1")),
        lambda db: db.put(layout.FACT + hash16("stripe:ch_1"), b"x" * 8),
        lambda db: db.put(layout.FACT + hash16("stripe:ch_x"), b"x" * 8),
        lambda db: db.delete(layout.ITEM + layout.SEQ.pack(4)),
    ],
)
def test_an_index_with_one_key_changed_is_not_cleared(
    ledger: Ledger, index: Index, change: Callable[[Any], None]
) -> None:
    change(index._store._db)
    assert compared(index, ledger.fast_path()) is None


def test_an_index_that_lags_is_held_against_what_it_reflects(tmp_path: Path) -> None:
    rows = [applied(seq) for seq in range(1, 10)]
    behind = Index.open(tmp_path / "behind", 1)
    ledger = Ledger(tmp_path, rows, index_seq=6)
    behind.apply(rows[:6], {})
    assert compared(behind, ledger.fast_path()) == {"event": 6, "open": 0, "dead": 0}
    behind.close()


KEY = "stripe:evt_1:charge.succeeded"
CONFLICT = "EventConflict"


def index_of(folder: Path, *changes: dict[str, object]) -> Index:
    """Two contents of one key, both dead, then what became of them."""
    first = row(1, event_key=KEY, content_sha256=sha("first"), decision=Decision.DEAD)
    other = row(2, event_key=KEY, content_sha256=sha("other"), decision=Decision.DEAD, error_class=CONFLICT)
    index = Index.open(folder, 1)
    rows = [first, other]
    for seq, change in enumerate(changes, 3):
        of = rows[int(str(change["item_seq"])) - 1]
        rows.append(row(seq, of.offset, first=False, event_key=KEY, content_sha256=of.content_sha256, **change))
    index.apply(rows, {})
    return index


def test_a_key_that_another_content_took_over_is_the_first_ones_still(tmp_path: Path) -> None:
    purged = {"item_seq": 1, "decision": Decision.PURGED}
    index = index_of(tmp_path, purged, {"item_seq": 2, "decision": Decision.REPLAYED})
    known = index.known_event(KEY)
    assert known is not None
    assert known.content8.hex() == sha("other")[:16]
    assert _problem(index, "event", KEY, sha("first"), 1) is None
    assert _problem(index, "event", KEY, sha("third"), 1) == "the index holds an event key with other content"
    index.close()


def test_a_key_that_nobody_gave_up_holds_one_content(tmp_path: Path) -> None:
    index = index_of(tmp_path, {"item_seq": 1, "decision": Decision.RESOLVED})
    assert _problem(index, "event", KEY, sha("first"), 1) is None
    assert _problem(index, "event", KEY, sha("third"), 1) == "the index holds an event key with other content"
    index.close()
