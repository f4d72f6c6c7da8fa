"""Puts together what portions sent to a bucket: keys and items of the same number are all in the same one."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator

import numpy as np

from ledger.verify.survey.facts import Doubt, Facts, Gathered
from ledger.verify.survey.items import Items, items
from ledger.verify.survey.keys import is_doubtful
from ledger.verify.survey.payments import doubts_of
from ledger.verify.survey.portion import Kind, Question, Share


def gather(shares: Iterable[Share], question: Question, last_seq: int) -> Iterator[Facts | Gathered]:
    """What portions found goes through; of the buckets, what was found in each."""
    buckets: dict[int, dict[Kind, list[np.ndarray]]] = defaultdict(lambda: defaultdict(list))
    for bucket, what in shares:
        if isinstance(what, Facts):
            yield what
        else:
            kind, some = what
            buckets[bucket][kind].append(some)
    for kinds in buckets.values():
        yield _found(kinds, question, last_seq)


def _found(kinds: dict[Kind, list[np.ndarray]], question: Question, last_seq: int) -> Gathered:
    whole = question.since <= 1
    found = Gathered()
    if is_doubtful(kinds[Kind.EVENT], whole=whole):
        found.doubts.add(Doubt.EVENTS)
    if is_doubtful(kinds[Kind.FACT], whole=whole):
        found.doubts.add(Doubt.FACTS)
    found.doubts |= doubts_of(kinds[Kind.PAYMENT])
    all_of_them = items(kinds[Kind.ITEM])
    if all_of_them.doubtful:
        found.doubts.add(Doubt.ITEMS)
    indexed = _indexed(kinds[Kind.ITEM], all_of_them, question.index_seq, last_seq)
    found.open, found.open_indexed = all_of_them.open, indexed.open
    found.reopened, found.reopened_indexed = all_of_them.reopened, indexed.reopened
    return found


def _indexed(parts: list[np.ndarray], whole: Items, index_seq: int, last_seq: int) -> Items:
    return whole if index_seq >= last_seq else items([some[some["seq"] <= index_seq] for some in parts])
