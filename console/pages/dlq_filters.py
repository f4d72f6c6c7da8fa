"""A filter of dead items as an address has it, and back."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from console.forms import Fields
from core import moments
from core.clock import to_rfc3339
from core.decision import ErrorKind
from dlq.command import CommandInvalid, Target
from dlq.command_fields import target_of_text
from dlq.index import Filter, FilterInvalid, ItemState, Mark, Sort
from dlq.index.listing import TEXT_CHARS_MAX

KINDS = tuple(kind.value for kind in ErrorKind)
STATES = tuple(state.value for state in ItemState if state is not ItemState.SETTLED)
MARKS = tuple(mark.value for mark in Mark)
SORTS = tuple(sort.value for sort in Sort)


@dataclass(frozen=True, slots=True)
class Looked:
    """What a list shows: the filter, its order, and the page of it."""

    wanted: Filter
    sort: Sort
    cursor: str | None


def read(fields: Fields) -> Looked:
    """The form's fields; its problems are in `Fields.problems`."""
    wanted = Filter(
        kinds=tuple(ErrorKind(kind) for kind in fields.choices("kind", KINDS)),
        classes=fields.choices("class"),
        providers=fields.choices("provider"),
        types=fields.choices("type"),
        entity=fields.text("entity"),
        since=fields.moment("from", moments.since),
        until=fields.moment("to", moments.until),
        text=fields.text("text", TEXT_CHARS_MAX),
        fingerprint=fields.text("cause", 64),
        states=tuple(ItemState(state) for state in fields.choices("state", STATES)) or (ItemState.OPEN,),
        marks=tuple(Mark(mark) for mark in fields.choices("mark", MARKS)),
    )
    return Looked(wanted, Sort(fields.choice("sort", SORTS) or Sort.OLDEST), fields.text("after", 100))


def items(fields: Fields) -> list[Target]:
    """The items that were marked one by one, each as its page showed it."""
    try:
        seen = {target.item_seq: target for target in map(target_of_text, fields.listed("item"))}
        Filter(items=tuple(seen))
    except (CommandInvalid, FilterInvalid) as wrong:
        fields.wrong("item", str(wrong))
        return []
    return list(seen.values())


def query(wanted: Filter) -> Mapping[str, object]:
    """The same as an address's fields; the inverse of `read`."""
    return {
        "kind": [kind.value for kind in wanted.kinds],
        "class": list(wanted.classes),
        "provider": list(wanted.providers),
        "type": list(wanted.types),
        "entity": wanted.entity,
        "from": to_rfc3339(wanted.since) if wanted.since else None,
        "to": to_rfc3339(wanted.until) if wanted.until else None,
        "text": wanted.text,
        "cause": wanted.fingerprint,
        "state": [] if wanted.states == (ItemState.OPEN,) else [state.value for state in wanted.states],
        "mark": [mark.value for mark in wanted.marks],
    }
