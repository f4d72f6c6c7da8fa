"""Several streams divide a topic: what none of them took is named, and what one of them passed over wrongly."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path

import pytest

from core.clock import ManualClock
from core.decision import Decision
from core.event import ELSEWHERE_TYPE, Dedupe, to_headers
from core.where import HeaderFilter
from journal.schema import JournalRow, TopicRecord
from journal.writer import JournalWriter
from ledger.verify import Finding, Lake, Options, Report, verify
from ledger.verify.engine import SqlEngine
from ledger.verify.evidence import VerifyLimits
from ledger.verify.kafka_checks import Division
from tests.events import make_event
from tests.integration.ledger.conftest import AT, EVENTS, KEYS, FakeKafka, new_row
from tests.integration.ledger.findings import failed
from tests.rewritten_files import Rows, rewrite
from tests.unit.journal.rows import bare_row

WHERES = {"east": HeaderFilter.read({"tenant": "eu-*"}), "west": HeaderFilter.read({"tenant": "!eu-*"})}
TENANTS = ("eu-a", "us-a", "us-b", "eu-a", None, "eu-b")
"""Of the topic's records in turn."""


@dataclass
class TwoStreams:
    """Two streams of one topic, each with a journal by the real writer."""

    folder: Path
    kafka: FakeKafka

    def lake(self, stream: str) -> Lake:
        return Lake.from_data_dir(self.folder, stream)

    def write(self, stream: str, rows: Sequence[JournalRow], until: int, start: int = 0) -> None:
        writer = JournalWriter.create_or_open(str(self.lake(stream).journal), stream)
        writer.begin_epoch({EVENTS: {0: start}})
        writer.commit(rows, {EVENTS: {0: until}}, 0)

    def own(self, *offsets: int) -> list[JournalRow]:
        return [new_row(0, EVENTS, 0, offset, Decision.APPLIED, f"evt_{offset}") for offset in offsets]

    def elsewhere(self, stream: str, low: int, high: int) -> JournalRow:
        about = {"event_type": ELSEWHERE_TYPE, "headers": WHERES[stream].text, "decided_at": AT}
        return bare_row(0, Decision.IGNORED, topic=EVENTS, offset=low, offset_until=high, **about)


def numbered(*rows: JournalRow) -> list[JournalRow]:
    for seq, row in enumerate(rows, 1):
        row.seq = row.item_seq = seq
    return list(rows)


def record(offset: int, tenant: str | None) -> TopicRecord:
    event = make_event(f"evt_{offset}", "charge", entity_key=f"e{offset}", tenant=tenant)
    return TopicRecord(offset, b"{}", tuple(to_headers(event, AT, Dedupe.CLAIMED)))


@pytest.fixture
def streams(tmp_path: Path) -> TwoStreams:
    kafka = FakeKafka({EVENTS: {0: (0, len(TENANTS))}})
    kafka.planted = {(EVENTS, 0, offset): record(offset, tenant) for offset, tenant in enumerate(TENANTS)}
    return TwoStreams(tmp_path, kafka)


Ask = Callable[..., Report]


@pytest.fixture
def ask(engine: SqlEngine, streams: TwoStreams) -> Ask:
    def check(stream: str, *names: str, division: Sequence[str] = ("east", "west")) -> Report:
        divided = Division(EVENTS, {name: [name] for name in division}) if division else None
        options, clock = Options(division=divided), ManualClock(AT + timedelta(seconds=5))
        return verify(engine, streams.lake(stream), streams.kafka, KEYS, VerifyLimits(), clock, options, names=names)

    return check


NAMES = ("offsets_accounted", "topic_divided", "elsewhere_is_others")


def one(report: Report, name: str) -> Finding:
    return next(finding for finding in report.findings if finding.name == name)


def divide(streams: TwoStreams) -> None:
    """As both streams decide `TENANTS`."""
    east, west = (streams.elsewhere(stream, *span) for stream, span in {"east": (1, 5), "west": (0, 6)}.items())
    first, third, fifth = streams.own(0, 3, 5)
    streams.write("east", numbered(first, east, third, fifth), 6)
    streams.write("west", numbered(west, *streams.own(1, 2, 4)), 6)


def test_two_streams_divide_a_topic_whole(streams: TwoStreams, ask: Ask) -> None:
    divide(streams)
    for stream in ("east", "west"):
        found = ask(stream, *NAMES)
        assert not failed(found), found.as_json()
        assert one(found, "topic_divided").figures == {"offsets": 6}
        assert one(found, "elsewhere_is_others").figures == {"compared": 3}


def test_what_neither_took_is_named(streams: TwoStreams, ask: Ask) -> None:
    """Both wrote that offsets 3 and 4 are the other one's."""
    first, fifth = streams.own(0, 5)
    streams.write("east", numbered(first, streams.elsewhere("east", 1, 5), fifth), 6)
    streams.write("west", numbered(streams.elsewhere("west", 0, 6), *streams.own(1, 2)), 6)
    found = ask("east", *NAMES)
    assert one(found, "offsets_accounted").ok
    [offender] = one(found, "topic_divided").offenders
    assert (offender["topic"], offender["partition"]) == (EVENTS, 0)
    assert (offender["at_offset"], offender["until_offset"]) == (3, 5)
    assert [offender["offset"] for offender in one(found, "elsewhere_is_others").offenders] == [3]
    assert [offender["offset"] for offender in one(ask("west", *NAMES), "elsewhere_is_others").offenders] == [4]


def test_what_the_only_stream_of_a_topic_left_out_is_named(streams: TwoStreams, ask: Ask) -> None:
    divide(streams)
    offenders = one(ask("east", "topic_divided", division=["east"]), "topic_divided").offenders
    assert [(offender["at_offset"], offender["until_offset"]) for offender in offenders] == [(1, 3), (4, 5)]


def test_the_first_and_the_last_record_that_neither_took_are_named(streams: TwoStreams, ask: Ask) -> None:
    streams.write("east", numbered(streams.elsewhere("east", 0, 6), *streams.own(3)), 6)
    streams.write("west", numbered(streams.elsewhere("west", 0, 6), *streams.own(1, 2, 4)), 6)
    offenders = one(ask("west", "topic_divided"), "topic_divided").offenders
    assert [(offender["at_offset"], offender["until_offset"]) for offender in offenders] == [(0, 1), (5, 6)]


def test_what_one_hasn_t_read_yet_or_began_behind_is_no_gap(streams: TwoStreams, ask: Ask) -> None:
    streams.write("east", numbered(streams.elsewhere("east", 2, 3), *streams.own(3)), 4, start=2)
    streams.write("west", numbered(streams.elsewhere("west", 0, 6), *streams.own(1, 2, 4)), 6)
    found = ask("west", "topic_divided")
    assert (found.ok, one(found, "topic_divided").figures) == (True, {"offsets": 2})


def test_as_long_as_the_other_one_hasn_t_begun_nothing_is_proved(streams: TwoStreams, ask: Ask) -> None:
    streams.write("west", numbered(streams.elsewhere("west", 0, 6), *streams.own(1, 2, 4)), 6)
    assert one(ask("west", "topic_divided"), "topic_divided").not_checked == "east hasn't begun"


def test_a_stream_that_has_no_other_beside_it_isn_t_asked_how_they_divide(streams: TwoStreams, ask: Ask) -> None:
    divide(streams)
    assert [finding.name for finding in ask("east", *NAMES, division=()).findings] == [
        *("offsets_accounted", "elsewhere_is_others")
    ]


@pytest.mark.parametrize(
    ("change", "problem", "offset"),
    [
        (lambda row: row.update(offset_until=4), "an offset with no first row", 4),
        (lambda row: row.update(offset=2), "an offset with no first row", 1),
        (lambda row: row.update(offset_until=9), "rows beyond the marks", None),
    ],
)
def test_an_offset_that_is_in_no_row_beside_what_is_elsewhere_is_named(
    streams: TwoStreams, ask: Ask, change: Callable[[dict[str, object]], object], problem: str, offset: int | None
) -> None:
    divide(streams)

    def of_elsewhere(rows: Rows) -> None:
        change(next(row for row in rows if row["event_type"] == ELSEWHERE_TYPE))

    rewrite(Path(streams.lake("east").journal), of_elsewhere)
    offenders = one(ask("east", "offsets_accounted"), "offsets_accounted").offenders
    assert [(offender["problem"], offender.get("offset")) for offender in offenders] == [(problem, offset)]


def test_an_offset_that_two_rows_say_is_elsewhere_is_named(streams: TwoStreams, ask: Ask) -> None:
    divide(streams)

    def twice(rows: Rows) -> None:
        rows.append({**next(row for row in rows if row["event_type"] == ELSEWHERE_TYPE), "offset": 2})

    rewrite(Path(streams.lake("east").journal), twice)
    offenders = one(ask("east", "offsets_accounted"), "offsets_accounted").offenders
    assert [(offender["problem"], offender["offset"]) for offender in offenders] == [
        ("an offset with several first rows", 2)
    ]
