"""Settles what crosses entities once every line's events have been answered, and numbers the rows. Pure.

Of events with one fact one is booked; an undo of what isn't booked is unknown; a failure that says that the whole
stream is blocked counts as its event's own where others went well meanwhile.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime

from core.decision import Decision
from core.work import Applied, Outcome
from journal.schema import JournalRow, pair_of
from processor.decide.item import BatchItem, reject_duplicate_fact
from processor.decide.line import Answers, Line, decide_line
from processor.errors.classify import Failure

EARLY_UNDO = "undo"
"""The code of an undo that is unknown (`core.work.Unknown`): nothing is booked that it could take back."""


def collect_answers(
    lines: Iterable[Line],
    results: Mapping[int, Outcome | Failure],
    handler_version: str,
    now: datetime,
    blocked: str | None,
) -> Answers:
    """Collects what handlers said, as it holds for the whole batch. ``blocked``: why the stream was blocked before
    it."""
    answered = dict(results)
    if blocked is None:
        for item in (item for line in lines for item in line.items if item.suspect):
            # Since it failed so, others went well: now it is its own failure.
            result = answered.get(item.seq)
            if isinstance(result, Failure) and result.is_blocking:
                answered[item.seq] = replace(result, own=True)
    first = next(iter(find_blocking_failures(answered.values())), None)
    why = blocked if first is None else f"{first.error_class}: {first.message}"
    return Answers(answered, handler_version, now, why)


def find_blocking_failures(results: Iterable[Outcome | Failure]) -> list[Failure]:
    return [result for result in results if isinstance(result, Failure) and result.is_blocking]


def list_named_pairs(answers: Answers) -> set[str]:
    applied = [answer for answer in answers.by_item.values() if isinstance(answer, Applied)]
    return {answer.pair for answer in applied if answer.pair is not None}


def settle_lines(lines: Iterable[Line], answers: Answers, booked: Mapping[str, int]) -> list[BatchItem]:
    """Decides the events of every line.

    :param booked: of `list_named_pairs`, as `journal.index.Index.booked_of` says before this batch
    """
    left = dict(booked)
    decided = [item for line in lines for item in decide_line(line, answers)]
    taken: dict[str, str] = {}
    for item in sorted(decided, key=lambda item: item.row.item_seq):
        row, fact = item.row, item.row.fact_key
        if fact is None or row.decision is not Decision.APPLIED:
            continue
        if fact in taken:
            row.postings = row.handler_version = None
            reject_duplicate_fact(item, bytes.fromhex(taken[fact])[:8])
            continue
        answer = answers.by_item.get(item.seq)
        if isinstance(answer, Applied):
            _settle_pair(row, answer, left)
        taken[fact] = row.fact_sha256 or ""
    return decided


def _settle_pair(row: JournalRow, answer: Applied, left: dict[str, int]) -> None:
    """Makes an undo of what isn't booked unknown, and books nothing for what was undone before it was reported.

    :param left: by pair, movements less undos; takes in this one
    """
    pair = answer.pair
    if pair is None:
        return
    before = left.get(pair, 0)
    left[pair] = before - 1 if answer.undoes else before + 1
    row.pair = pair_of(pair, undoes=answer.undoes)
    if answer.undoes and before <= 0:
        row.decision, row.error_code, row.postings = Decision.UNKNOWN, EARLY_UNDO, None
        row.reason = f"nothing of {pair} is left in this journal: whether money moved before isn't known"
    elif not answer.undoes and before < 0:
        row.postings, row.reason = None, f"books nothing: what undoes {pair} came before"


def assign_item_seqs(decided: Sequence[BatchItem]) -> int:
    """Gives new items their final names: the rows of those that were taken up again come before theirs.

    :returns: by how many seqs they moved
    """
    count = sum(not item.new for item in decided)
    for item in decided:
        if item.new:
            item.row.item_seq += count
    return count


def number_rows(
    decided: Sequence[BatchItem],
    commands: Sequence[BatchItem],
    ordered: Sequence[BatchItem],
    next_seq: int,
    now: datetime,
) -> list[BatchItem]:
    """Numbers the rows of this batch and returns their items, in seq order.

    Events taken up again come first, then the new offsets in Kafka's order, so that an entity's rows follow one another
    as its events do; what commands did to items (``ordered``) comes last.
    """
    again = [item for item in decided if not item.new]
    new = sorted([*(item for item in decided if item.new), *commands], key=lambda item: item.seq)
    every = [*again, *new, *ordered]
    for seq, item in enumerate(every, next_seq):
        item.row.seq = seq
        item.row.decided_at = now
    for item in every:
        if item.cause is not None:
            item.row.cause_seq = item.cause.row.seq
    return every
