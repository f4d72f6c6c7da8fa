"""Reasons why an order does nothing to an item: a code with fields, and the sentence that is made of them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from journal.target import ItemTarget


class RefusalReason(StrEnum):
    NOT_OPEN = "not_open"
    MOVED = "moved"
    """It has another row than the one that was seen."""
    RESTORED = "restored"
    """The row of the seq that was seen is another one by now: an older copy of the journal was put back."""
    NOT_DEAD = "not_dead"
    NO_BODY = "no_body"
    """It was ignored, and its bytes aren't kept any more."""
    UNDOES_NOTHING = "undoes_nothing"
    """It takes back what was never booked."""
    KEY_HELD = "key_held"
    """Other content holds its event key."""
    KEY_FREED = "key_freed"
    """The event key that it had in common with another event was freed."""
    HOLDS_NO_KEY = "holds_no_key"
    """There is no key of its own that could be freed."""
    CLAIM_KEPT = "claim_kept"
    """The receivers' claim on its key couldn't be freed."""
    OTHERS_UNPUBLISHED = "others_unpublished"
    """Kafka didn't take the other events that its body tells by now."""
    WORN_OUT = "worn_out"
    """It died after each of `dlq.replays_max` replays."""
    NOT_WHOLE = "not_whole"
    """Replaying it would leave other dead items of its entity behind."""
    LEFT_OUT = "left_out"
    """It is dead behind an item that goes with its followers, and isn't named."""
    TOO_MANY = "too_many"
    SECOND_PERSON = "second_person"
    """One person may not do so much alone."""


_SENTENCES: Mapping[RefusalReason, str] = {
    RefusalReason.NOT_OPEN: "item {item} is not open",
    RefusalReason.MOVED: "item {item} has moved on since row {row}; look again",
    RefusalReason.RESTORED: "item {item} has another row {row} than the one that was seen: the journal was "
    "restored since; "
    "look again",
    RefusalReason.NOT_DEAD: "item {item} is {decision}, not dead",
    RefusalReason.NO_BODY: "the body of item {item} isn't kept: retention dropped it, it was redacted, or its "
    "file is lost",
    RefusalReason.UNDOES_NOTHING: "item {item} reverses what was never booked, and a replay would book nothing: if "
    "money moved, book it by hand (payhook ledger enter)",
    RefusalReason.KEY_HELD: "item {item} is another content under a key that is held: if the first copy is dead, "
    "discard "
    "that, then replay this; if it was booked, it stays booked: discard this",
    RefusalReason.KEY_FREED: "item {item} is another content under a key that was freed: discard it, and let the "
    "provider "
    "send the event again",
    RefusalReason.HOLDS_NO_KEY: "item {item} holds no event key that could be freed: discard it; if another "
    "event holds its "
    "key, release that one",
    RefusalReason.CLAIM_KEPT: "Redis didn't free the key of item {item} ({problem}): nothing is released; release "
    "it again",
    RefusalReason.OTHERS_UNPUBLISHED: "Kafka didn't take what else the body of item {item} tells ({problem}): nothing "
    "is replayed; replay it again",
    RefusalReason.WORN_OUT: "item {item} was replayed {replays} times and died each time: fix its cause, then "
    "replay it with force",
    RefusalReason.NOT_WHOLE: "item {item} goes with its followers: {because}",
    RefusalReason.LEFT_OUT: "item {item} is dead behind it and isn't named; look again",
    RefusalReason.TOO_MANY: "more than {most} events of its entity are open: replay them alone",
    RefusalReason.SECOND_PERSON: "item {item}: {why}",
}


@dataclass(frozen=True, slots=True)
class ItemRefusal:
    """The refusal of the item ``item_seq``. ``about``: what the sentence names beside it, plain JSON."""

    ground: RefusalReason
    item_seq: int
    about: Mapping[str, Any] = field(default_factory=dict)

    @property
    def why_refused(self) -> str:
        about = dict(self.about)
        if "because" in about:
            about["because"] = refusal_of_json(about["because"]).why_refused
        return _SENTENCES[self.ground].format(item=self.item_seq, **about)

    def to_json(self) -> list[Any]:
        return [self.item_seq, self.ground.value, dict(self.about)]


def refusal_of_json(reported: list[Any]) -> ItemRefusal:
    item_seq, ground, about = reported
    return ItemRefusal(RefusalReason(ground), item_seq, about)


def refuse_restored(target: ItemTarget) -> ItemRefusal:
    return ItemRefusal(RefusalReason.RESTORED, target.item_seq, {"row": target.seen_seq})


def older_than_restore(seen: str, now: str) -> str | None:
    """Says why a command is void that was given to a journal of the lineage ``seen``; None: it is this one's."""
    if seen == now:
        return None
    return f"the journal was restored since it was given (lineage {seen}, now {now}); look again"


def worn_out(item_seq: int, replays: int, replays_max: int) -> ItemRefusal | None:
    return None if replays < replays_max else ItemRefusal(RefusalReason.WORN_OUT, item_seq, {"replays": replays})
