"""Where a new stream begins in its topic, and that it says so."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, cast

import pytest

from core.settings import KafkaSettings
from journal.kafka_log import Held
from journal.state import Marks
from processor.source.source_settings import Starting, parse_starting
from processor.source.sources import KafkaSource
from processor.streams import StreamInvalid, load_streams
from tests.unit.processor.history.logs import MemoryLog, journal_of, records

EVENTS, CONTROL = "guests", "payments.control"
HELD: Held = {EVENTS: {0: (2, 10), 1: (0, 4)}, CONTROL: {0: (1, 5)}}
STREAM = """
[ledger]
enabled = false
[notify]
enabled = false
[greet]
source = "{source}"
handler = "greeting:build"
starting_offsets = "{starting}"
"""


class TimedLog:
    """Kafka holds records of noon from these offsets on."""

    def offsets_at(self, topic: str, ends: Mapping[int, tuple[int, int]], moment: datetime) -> Mapping[int, int]:
        assert (topic, moment) == (EVENTS, datetime(2026, 1, 31, 12, tzinfo=UTC))
        return {0: 7, 1: 4}

    def close(self) -> None:
        """Nothing is open."""


class TimedSource(KafkaSource):
    def log(self) -> Any:
        return TimedLog()


def source(starting: str) -> KafkaSource:
    return TimedSource(cast(Any, None), KafkaSettings(), EVENTS, CONTROL, starting=parse_starting(starting))


@pytest.mark.row("B6")
@pytest.mark.parametrize(
    ("starting", "begins", "said"),
    [
        (
            "earliest",
            {0: 2, 1: 0},
            "begins in guests at earliest (starting_offsets): 12 records wait, none is left out",
        ),
        ("latest", {0: 10, 1: 4}, "begins in guests at latest (starting_offsets): no record waits, 12 are left out"),
        (
            "2026-01-31T13:00:00+01:00",
            {0: 7, 1: 4},
            "begins in guests at 2026-01-31T13:00:00+01:00 (starting_offsets): 3 records wait, 9 are left out",
        ),
    ],
)
def test_a_new_stream_begins_where_it_is_set_and_says_what_that_leaves_out(
    starting: str, begins: dict[int, int], said: str
) -> None:
    from_ = source(starting)
    marks = from_.find_start_marks(None, HELD)
    assert marks == {EVENTS: begins, CONTROL: {0: 1}}, "commands are read from the first one"
    assert from_.describe_start(None, HELD, marks) == said


@pytest.mark.parametrize("starting", ["latest", "2026-01-31T12:00:00Z"])
def test_a_stream_that_has_begun_goes_on_where_it_is_and_says_nothing(tmp_path: Path, starting: str) -> None:
    log = MemoryLog(records("a", "b"), topic=EVENTS)
    state = journal_of(tmp_path / "journal", MemoryLog(records("a", "b")), records("a", "b"))
    known = next(iter(state.marks))
    from_ = TimedSource(cast(Any, None), KafkaSettings(), known, CONTROL, starting=parse_starting(starting))
    held: Held = {known: {0: (0, 9), 1: (4, 6)}, CONTROL: {0: (1, 5)}}
    marks: Marks = from_.find_start_marks(state, held)
    assert marks[known] == {0: 0, 1: 0}, "a partition that came later begins with its first record ever"
    assert from_.describe_start(state, held, marks) is None
    log.close()


@pytest.mark.parametrize("starting", ["", "Latest", "now", "2026-01-31", "2026-01-31T12:00:00"])
def test_what_is_no_place_to_begin_is_named_with_its_file(tmp_path: Path, starting: str) -> None:
    file = tmp_path / "streams.toml"
    file.write_text(STREAM.format(source="kafka:guests", starting=starting))
    with pytest.raises(StreamInvalid, match=rf"{file}: \[greet\] starting_offsets.*earliest, latest, or a time"):
        load_streams(str(file))


def test_a_stream_that_reads_a_journal_has_no_place_to_choose(tmp_path: Path) -> None:
    file = tmp_path / "streams.toml"
    text = STREAM.format(source="journal:ledger", starting="latest").replace("enabled = false", "", 1)
    file.write_text(text)
    with pytest.raises(StreamInvalid, match="begins with what is applied from then on"):
        load_streams(str(file))


def test_the_setting_is_read(tmp_path: Path) -> None:
    file = tmp_path / "streams.toml"
    file.write_text(STREAM.format(source="kafka:guests", starting="2026-01-31T12:00:00Z"))
    streams: Sequence[str] = [load_streams(str(file))[name].starting_offsets for name in ("greet", "ledger")]
    assert streams == ["2026-01-31T12:00:00Z", "earliest"]
    assert parse_starting(streams[0]) == Starting(streams[0], datetime(2026, 1, 31, 12, tzinfo=UTC))
