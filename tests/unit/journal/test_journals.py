"""Several journals of a stream are asked as one."""

from __future__ import annotations

from pathlib import Path

import pytest

from core.layout import Layout, StreamLayout
from journal.journals import Journals, ShardsChanged, StreamUnknown
from journal.writer import JournalWriter
from tests.unit.journal.rows import row

ENTITIES = [f"stripe:acct:pi_{number}" for number in range(20)]


@pytest.fixture
def journals(tmp_path: Path) -> Journals:
    return Journals(Layout(tmp_path, shards=2).all_ledgers())


def begin(place: StreamLayout) -> None:
    JournalWriter.create_or_open(str(place.journal), place.stream).begin_epoch({})


def test_each_entity_is_decided_in_one_of_them(journals: Journals) -> None:
    for key in ENTITIES:
        deciding = [place for place in journals.places if journals.decides_entity(place, key)]
        assert deciding == [journals.of_entity(key)]
    assert {journals.of_entity(key).stream for key in ENTITIES} == {"ledger", "ledger.1"}


def test_a_row_without_an_entity_goes_by_its_partition(journals: Journals) -> None:
    for partition in range(4):
        record = row(1, partition=partition, entity_key=None)
        deciding = [place for place in journals.places if journals.is_decided_in(place, record)]
        assert deciding == [journals.places[partition % 2]]
        assert journals.is_read_for(deciding[0], partition)


def test_one_is_found_by_its_name(journals: Journals) -> None:
    assert journals.find_place("ledger.1") == journals.places[1]
    with pytest.raises(StreamUnknown, match=r"ledger\.2 isn't a stream of this ledger: it has ledger, ledger\.1"):
        journals.find_place("ledger.2")


def test_those_that_are_there_are_listed(journals: Journals) -> None:
    assert journals.find_begun() == []
    begin(journals.first_place)
    assert journals.find_begun() == [journals.first_place]


def test_one_that_says_another_number_is_refused(journals: Journals) -> None:
    journals.check()
    begin(journals.first_place)
    with pytest.raises(ShardsChanged, match="Set it to 1"):
        journals.check()


def test_one_journal_is_whole_alone_and_no_part_of_two(tmp_path: Path) -> None:
    alone = Journals(Layout(tmp_path).all_ledgers())
    begin(alone.first_place)
    alone.check()
    assert not alone.is_divided
    with pytest.raises(ShardsChanged, match="processor.shards is 2, and its journal is one of 1"):
        Journals(Layout(tmp_path, shards=2).all_ledgers()).check()
