"""The index bench's engine decides what it is given, so that its time is the time of deciding."""

from pathlib import Path

from core.layout import Layout
from journal.reader import JournalReader
from journal.start_checks import check_whole
from journal.writer import JournalWriter
from load.bench.history import STREAM, make_history
from load.bench.index import EVENTS_PER_BATCH, _bytes_of, _Engine

ROWS = 1_000


def test_a_made_history_is_whole_to_the_processor_that_starts_on_it(tmp_path: Path):
    places = Layout(tmp_path).ledger()
    make_history(Path(places.journal), Path(places.postings), STREAM, ROWS)
    state = JournalWriter.create_or_open(str(places.journal), STREAM).begin_epoch({})
    check_whole(str(places.journal), JournalReader(str(places.journal), state.version), state, 0)
    assert state.next_seq == ROWS + 1


def test_new_events_are_applied_and_those_of_the_history_are_duplicates(tmp_path: Path):
    places = Layout(tmp_path).ledger()
    make_history(Path(places.journal), None, STREAM, ROWS)
    engine = _Engine(places)
    assert engine.batch_s(0.0, ROWS) > 0
    assert engine.batch_s(0.1, ROWS) > 0
    engine.close()
    rows = [row for batch in JournalReader(str(places.journal)).rows_after(ROWS) for row in batch]
    assert [row.decision for row in rows[:EVENTS_PER_BATCH]] == ["applied"] * EVENTS_PER_BATCH
    second = [row.decision.value for row in rows[EVENTS_PER_BATCH:]]
    assert (second.count("duplicate"), second.count("applied")) == (40, 360)
    assert _bytes_of(places.index) > 0
