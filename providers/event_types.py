"""Three tables say what an adapter knows of its provider's event types; everything else is unknown."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal, TypeAlias

Meaning: TypeAlias = Literal["books", "person", "nothing", "unknown"]


def types_of_objects(text: str) -> frozenset[str]:
    """Parses types from lines ``object: action action``; a line without a colon goes on.

    An object's type is ``object.action``.
    """
    types: set[str] = set()
    about = ""
    for line in text.splitlines():
        head, colon, actions = line.rpartition(": ")
        about = head.strip() if colon else about
        types.update(f"{about}.{action}" for action in actions.split())
    return frozenset(types)


@dataclass(frozen=True)
class EventTypes:
    """The types of one provider, each in one table.

    :ivar books: read for their money; an event of theirs may still say that none moved
    :ivar person: move money, or may, and aren't booked: a person does, by a manual entry
    :ivar nothing: move no money of the account's, by the page that says so
    """

    books: frozenset[str]
    person: frozenset[str] = frozenset()
    nothing: Mapping[str, frozenset[str]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        tables = [self.books, self.person, *self.nothing.values()]
        for number, table in enumerate(tables):
            for other in tables[number + 1 :]:
                assert not table & other, f"in two tables: {', '.join(sorted(table & other))}"

    def meaning_of(self, event_type: str) -> Meaning:
        if event_type in self.books:
            return "books"
        if event_type in self.person:
            return "person"
        return "nothing" if any(event_type in table for table in self.nothing.values()) else "unknown"
