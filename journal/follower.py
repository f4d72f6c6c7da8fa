"""Follows a journal by one rule, for all that is made of its rows: from a position on, or from the first row again."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from typing import ClassVar

from journal.histories import ReflectedPosition, may_follow
from journal.reader import JournalReader


class JournalFollower(ABC):
    """Something that reflects a journal's rows in their order, up to its `position`.

    It continues from there while the journal holds that row unchanged. It begins again where another journal is in the
    place: a new or restored one, or an older copy under another lineage. It raises `JournalOlder` where the very
    journal lacks reflected rows; without a lineage in its position it begins again then, too.

    Each window's rows and the position move together, so a follower whose process ends loses and repeats nothing.
    """

    what: ClassVar[str]
    """Its name in `JournalOlder`."""

    @property
    @abstractmethod
    def position(self) -> ReflectedPosition: ...

    @abstractmethod
    def begin_again(self, journal: JournalReader) -> None: ...

    @abstractmethod
    def take_windows(self, journal: JournalReader) -> Iterator[None]: ...

    def is_of(self, journal: JournalReader) -> bool:
        """Returns whether it continues from its position in this journal.

        :raises JournalOlder: it is of this very journal, and knows rows that the journal doesn't have now
        """
        return may_follow(self.what, self.position, journal)

    def follow_journal(self, journal: JournalReader, is_over: Callable[[], bool] = lambda: False) -> bool:
        """Reflects the journal up to the reader's version; False where ``is_over`` said so before the end.

        :raises JournalOlder: as `is_of`
        :raises JournalBroken: a row is missing, or a file can't be read
        """
        if not self.is_of(journal):
            self.begin_again(journal)
        windows = self.take_windows(journal)
        return all(not is_over() or self.position.seq >= journal.last_seq for _ in windows)
