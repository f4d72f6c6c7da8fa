"""What `verify` asks the index for: also of a key that another content took over."""

from __future__ import annotations

from pathlib import Path

from core.decision import Decision
from journal.index import Index
from ledger.verify.index_lookup import _problem
from tests.unit.journal.rows import row, sha

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
