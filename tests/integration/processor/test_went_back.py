"""An older copy of one of a stream's folders is put back: it follows the journal, or the start says what is missing.

An older Redis is in `test_older_redis`, an older journal in `tests/unit/journal/test_histories.py`.
"""

from __future__ import annotations

import contextlib
import logging
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from journal.bodies import BodyStore
from journal.errors import BodyMissing
from journal.index import Index
from ledger.postings import PostingsWriter
from processor.decide.batch import Batches
from tests.integration.processor.stored import Stored

pytestmark = pytest.mark.more(reason="older copies; tests/contract has them piece by piece")


@pytest.fixture
def stored(tmp_path: Path) -> Stored:
    """Four events were decided: one of them is dead."""
    made = Stored(tmp_path / "data")
    made.folder.mkdir()
    post(made, "a", "b", "dead-c", "d")
    made.decide_all()
    return made


def post(stored: Stored, *event_ids: str) -> None:
    for one in event_ids:
        stored.kafka.post(one)


@contextlib.contextmanager
def put_back_after(folder: Path) -> Iterator[None]:
    """What happens within happens to another copy of the folder, and the one of before takes its place."""
    older = folder.parent / f"{folder.name}-older"
    shutil.copytree(folder, older)
    yield
    shutil.rmtree(folder)
    older.rename(folder)


def started(stored: Stored) -> Batches:
    """A process that has caught up and decides nothing yet."""
    batches = stored.open()
    batches.close()
    return batches


DECIDED = {"a": ["applied"], "b": ["applied"], "dead-c": ["dead"], "d": ["applied"]}
MEANWHILE = {"e": ["applied"], "dead-f": ["dead"], "g": ["applied"]}
AGAIN = ("e", "dead-f", "a", "dead-c", "h")
"""Copies of what was decided after the older copy, and before it; and a new event."""
DECIDED_AGAIN = {
    "a": ["applied", "duplicate"],
    "b": ["applied"],
    "dead-c": ["dead", "duplicate"],
    "d": ["applied"],
    "e": ["applied", "duplicate"],
    "dead-f": ["dead", "duplicate"],
    "g": ["applied"],
    "h": ["applied"],
}


def go_on(stored: Stored) -> None:
    post(stored, *MEANWHILE)
    stored.decide_all()
    assert stored.decisions() == DECIDED | MEANWHILE


def test_an_older_index_follows_the_journal_and_nothing_is_decided_twice(
    stored: Stored, caplog: pytest.LogCaptureFixture
) -> None:
    with put_back_after(stored.index):
        go_on(stored)
    index = Index.open(stored.index, 1_000)
    assert index.seq == 4
    index.close()
    with caplog.at_level(logging.WARNING):
        post(stored, *AGAIN)
        stored.decide_all()
    assert "made again" not in caplog.text, "it read only what it had missed"
    stored.check()
    assert stored.decisions() == DECIDED_AGAIN


def test_older_postings_follow_the_journal_and_nothing_is_booked_twice(stored: Stored) -> None:
    with put_back_after(stored.postings):
        go_on(stored)
    assert PostingsWriter.open(str(stored.postings)).mark_seq == 4
    assert not stored.is_booked()
    started(stored)
    stored.check()
    post(stored, *AGAIN)
    stored.decide_all()
    stored.check()
    assert stored.decisions() == DECIDED_AGAIN


# bodies


def test_with_older_bodies_a_stream_goes_on_while_its_index_has_those_of_open_events(stored: Stored) -> None:
    with put_back_after(stored.bodies):
        go_on(stored)
    post(stored, *AGAIN)
    stored.decide_all()
    assert stored.decisions() == DECIDED_AGAIN
    wanted = {row.body_sha256: row.seq for row in stored.rows() if row.decision.value != "duplicate"}
    held = BodyStore(str(stored.bodies)).find_kept(sha256 or "" for sha256 in wanted)
    assert sorted(seq for sha256, seq in wanted.items() if sha256 not in held) == [5, 6, 7], "the journal says which"


def test_an_open_event_whose_body_is_nowhere_stops_the_start_until_bodies_are_put_back(stored: Stored) -> None:
    with put_back_after(stored.bodies):
        go_on(stored)
        shutil.copytree(stored.bodies, stored.folder / "backup")
    shutil.rmtree(stored.index)
    [dead] = [row for row in stored.rows() if row.event_key == "stripe:dead-f:charge.captured"]
    for _ in range(2):
        with pytest.raises(BodyMissing, match=f"{dead.body_sha256} of an open event.*restore the table of bodies"):
            stored.open()
    shutil.rmtree(stored.bodies)
    (stored.folder / "backup").rename(stored.bodies)
    post(stored, *AGAIN)
    stored.decide_all()
    stored.check()
    assert stored.decisions() == DECIDED_AGAIN


# everything at once


def test_a_whole_data_folder_that_went_back_agrees_with_itself(stored: Stored) -> None:
    """The limit of all that is kept inside: what is kept outside, a backup, knows more rows."""
    with put_back_after(stored.folder):
        go_on(stored)
    started(stored)
    stored.check()
    assert stored.decisions() == DECIDED
    post(stored, "h")
    stored.decide_all()
    stored.check()
    assert stored.decisions() == DECIDED | {"h": ["applied"]}
