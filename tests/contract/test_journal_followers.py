"""Everything that is made from a journal's rows follows it by one rule, whatever becomes of the journal."""

from __future__ import annotations

import shutil
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable

from alerts.looking import DeadItems
from core.clock import ManualClock
from core.decision import Decision
from core.keys import join_key
from core.money import Money, MoneyFact, Movement
from core.work import postings_to_json
from dead_letters.file import IndexFile
from dead_letters.follow import FollowingIndex
from journal import reader as reader_module
from journal.bodies import BodyStore
from journal.histories import JournalOlder
from journal.index import Index
from journal.reader import JournalFollower, JournalReader
from journal.rewrite import Rewriter, take_snapshot
from journal.schema import JournalRow
from journal.writer import JournalWriter
from ledger.accounts import book_fact
from ledger.postings import PostingsWriter
from operations.command import PAUSE_RUN, RESUME_RUN
from operations.selection.journal import RunLog
from tests.unit.journal.rows import NOW, TOPIC, bare_row, row

CONTROL = "payments.control"
RUN = join_key("payhook", "run", "1")
ROWS_BEFORE, ROWS_LATER = 12, 24
ROWS_IN_WINDOW = 5
FIRST, OTHER = "a", "another"
AT = datetime(2026, 1, 31, 12, tzinfo=UTC)


def make_row(seq: int, word: str) -> JournalRow:
    """Makes a row. Of eight, two are about a run, one or two die, and the others book.

    ``word`` tells rows of one number apart.
    """
    kind, content = seq % 8, f"{word} {seq}"
    if kind in (1, 5):
        action = PAUSE_RUN if kind == 1 else RESUME_RUN
        said = {"topic": CONTROL, "offset": (seq - 1) // 4, "event_type": action, "entity_key": RUN}
        return bare_row(seq, Decision.APPLIED, **said, actor=word, event_key=f"payhook:{content}:{action}")
    offset = seq - 1 - (seq + 3) // 4
    if kind == 2 or (kind == 6 and word == FIRST):
        return row(seq, offset, decision=Decision.DEAD, error_class="Boom", event_type=word, provider="stripe")
    fact = MoneyFact(f"stripe:{content}:capture", Movement.CAPTURE, "acct", f"pi_{seq}", Money(seq, "EUR"))
    postings = postings_to_json(book_fact(fact, "stripe", "m-1"))
    return row(seq, offset, fact_key=fact.fact_key, fact_sha256=fact.sha256, postings=postings, provider="stripe")


class FollowedJournal:
    """A journal with something that happened to it."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.journal = folder, str(folder / "journal")
        self.bodies = BodyStore(str(folder / "bodies"))
        self.begin()

    def begin(self) -> None:
        self.writer = JournalWriter.create_or_open(self.journal, "ledger")
        self.writer.begin_epoch({TOPIC: {0: 0}, CONTROL: {0: 0}})

    def write(self, first: int, last: int, word: str = FIRST) -> None:
        rows = [make_row(seq, word) for seq in range(first, last + 1)]
        control = (last + 3) // 4
        self.writer.commit(rows, {TOPIC: {0: last - control}, CONTROL: {0: control}}, 0)

    def keep_copy(self) -> None:
        shutil.copytree(self.journal, self.folder / "copy")

    def put_copy_back(self) -> None:
        shutil.rmtree(self.journal)
        shutil.copytree(self.folder / "copy", self.journal)
        self.begin()

    def goes_on(self) -> None:
        self.write(ROWS_BEFORE + 1, ROWS_LATER)

    def is_made_anew(self) -> None:
        shutil.rmtree(self.journal)
        self.begin()
        self.write(1, ROWS_LATER, OTHER)

    def is_restored(self) -> None:
        """An older copy goes on, by a person's decision, with other rows under the same numbers."""
        self.put_copy_back()
        JournalWriter(self.journal, "ledger").renew_lineage(AT, "the disk died")
        self.begin()
        self.write(ROWS_BEFORE + 1, ROWS_LATER, OTHER)

    def is_compacted(self) -> None:
        path = Path(self.journal)
        before = take_snapshot(path, "seq")
        staged = path / "_staged.parquet"
        tables = [pq.read_table(path / file.name) for file in sorted(before.files, key=lambda file: file.first or 0)]
        pq.write_table(pa.concat_tables(tables), staged)
        Rewriter(before).replace_files(before.files, [staged], 1_800_000_000_000)


class FollowerCase(ABC):
    """A follower, opened again with each call as after a restart, and what it says."""

    keeps_nothing = False

    def __init__(self, site: FollowedJournal, folder: Path) -> None:
        self.site, self.folder = site, folder

    def follow(self) -> int:
        """Its position after it followed."""
        follower = self.open()
        try:
            follower.follow_journal(JournalReader(self.site.journal))
            return follower.position.seq
        finally:
            self.close(follower)

    @abstractmethod
    def open(self) -> JournalFollower: ...

    def close(self, follower: JournalFollower) -> None:  # noqa: B027 - most hold nothing open
        pass

    @abstractmethod
    def content(self) -> object: ...


class OfIndex(FollowerCase):
    def open(self) -> Index:
        return Index.open(self.folder / "index", 1)

    def close(self, follower: JournalFollower) -> None:
        assert isinstance(follower, Index)
        follower.close()

    def content(self) -> object:
        index = Index.read_only(self.folder / "index")
        events, facts = list(index.event_entries()), list(index.fact_entries())
        items = [(item.row.item_seq, item.row.event_type) for item in index.open_items()]
        index.close()
        return events, facts, sorted(items)


class OfPostings(FollowerCase):
    def open(self) -> PostingsWriter:
        return PostingsWriter.open(str(self.folder / "postings"))

    def content(self) -> object:
        rows = DeltaTable(str(self.folder / "postings")).to_pyarrow_table().to_pylist()
        return sorted(tuple(sorted(map(str, posting.items()))) for posting in rows)


class OfDeadLetterIndex(FollowerCase):
    @property
    def file(self) -> IndexFile:
        return IndexFile(self.folder / "dead.sqlite")

    def open(self) -> FollowingIndex:
        return FollowingIndex(self.file)

    def content(self) -> object:
        with self.file.begin_read() as connection:
            items = connection.execute("SELECT item_seq, state, event_type FROM items ORDER BY item_seq").fetchall()
            return items, connection.execute("SELECT * FROM cube ORDER BY 1, 2, 3, 4, 5, 6").fetchall()


class OfDeadItems(FollowerCase):
    keeps_nothing = True

    def __init__(self, site: FollowedJournal, folder: Path) -> None:
        super().__init__(site, folder)
        self.items = DeadItems(Path(site.journal), ManualClock(NOW + timedelta(seconds=1)))

    def open(self) -> DeadItems:
        return self.items

    def content(self) -> object:
        return self.items.read(), self.items._lives, self.items._died


class OfRunLog(FollowerCase):
    keeps_nothing = True

    def __init__(self, site: FollowedJournal, folder: Path) -> None:
        super().__init__(site, folder)
        self.log = RunLog(Path(site.journal), CONTROL)

    def open(self) -> RunLog:
        return self.log

    def content(self) -> object:
        return {entity: (run.state, run.changed_by, run.given) for entity, run in self.log._runs.items()}


Cases = Callable[[FollowedJournal, Path], FollowerCase]
EVERY = pytest.mark.parametrize("case", [OfIndex, OfPostings, OfDeadLetterIndex, OfDeadItems, OfRunLog])


@pytest.fixture(autouse=True)
def small_windows(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("ROWS_PER_WINDOW", "ROWS_PER_WIDE_WINDOW", "ROWS_PER_TABLE", "ROWS_PER_CHUNK"):
        monkeypatch.setattr(reader_module, name, ROWS_IN_WINDOW)


@pytest.fixture
def site(tmp_path: Path) -> FollowedJournal:
    site = FollowedJournal(tmp_path)
    site.write(1, ROWS_BEFORE)
    return site


def made_at_once(case: Cases, site: FollowedJournal) -> object:
    """Returns what a follower says that reads the journal as it is now from its first row."""
    folder = site.folder / "fresh"
    folder.mkdir()
    fresh = case(site, folder)
    fresh.follow()
    return fresh.content()


@EVERY
@pytest.mark.parametrize(
    "happens", [FollowedJournal.goes_on, FollowedJournal.is_made_anew, FollowedJournal.is_compacted]
)
def test_it_says_what_the_journal_says(
    site: FollowedJournal, case: Cases, happens: Callable[[FollowedJournal], None]
) -> None:
    follower = case(site, site.folder)
    follower.follow()
    before = follower.content()
    happens(site)
    follower.follow()
    assert follower.content() == made_at_once(case, site)
    assert (follower.content() == before) == (happens is FollowedJournal.is_compacted)


@EVERY
def test_after_a_restore_it_says_what_the_journal_says(site: FollowedJournal, case: Cases) -> None:
    site.keep_copy()
    site.goes_on()
    follower = case(site, site.folder)
    follower.follow()
    before = follower.content()
    site.is_restored()
    follower.follow()
    assert follower.content() == made_at_once(case, site)
    assert follower.content() != before


@EVERY
def test_where_it_is_ahead_of_its_journal_it_refuses_unless_it_keeps_nothing(
    site: FollowedJournal, case: Cases
) -> None:
    site.keep_copy()
    site.goes_on()
    follower = case(site, site.folder)
    follower.follow()
    before = follower.content()
    site.put_copy_back()
    if follower.keeps_nothing:
        follower.follow()
        assert follower.content() == made_at_once(case, site)
        return
    with pytest.raises(JournalOlder, match=r"is 12 rows ahead of its journal"):
        follower.follow()
    assert follower.content() == before


@pytest.mark.parametrize("case", [OfIndex, OfPostings, OfDeadLetterIndex, OfDeadItems])
def test_a_process_that_ends_between_two_windows_loses_and_repeats_nothing(
    site: FollowedJournal, case: Cases, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The log of runs takes all in one window."""
    site.goes_on()
    follower = case(site, site.folder)
    opened = follower.open()
    windows = opened.take_windows

    def end(journal: JournalReader) -> Iterator[None]:
        for taken, _ in enumerate(windows(journal), 1):
            if taken == 2:
                raise KeyboardInterrupt
            yield

    monkeypatch.setattr(opened, "take_windows", end)
    with pytest.raises(KeyboardInterrupt):
        opened.follow_journal(JournalReader(site.journal))
    assert 0 < opened.position.seq < ROWS_LATER
    monkeypatch.undo()
    follower.close(opened)
    assert follower.follow() == ROWS_LATER
    assert follower.content() == made_at_once(case, site)
