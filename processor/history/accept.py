"""A person accepts what was lost: the journal says so, and its topics' next histories begin."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime

from core.clock import to_rfc3339
from core.decision import Decision
from core.errors import PayhookError
from core.location import Location
from core.routing import mode_of
from journal.anchoring import ANCHORED_NOTE
from journal.histories import NOWHERE, History
from journal.reader import JournalReader
from journal.schema import JournalRow
from journal.state import JournalState
from journal.writer import JournalWriter, Turn
from processor.history.check import LOOKED_NOTE
from processor.history.find import Findings, Parted

ACCEPTED_NOTE = "accepted"
"""The journal's note of the last loss that was accepted."""

REASON_CHARS_MAX = 500


class MovedOn(PayhookError):
    """The journal has rows that the findings don't know."""

    def __init__(self, stream: str, seq: int, now: int) -> None:
        self.stream = stream
        self.seq = seq
        self.now = now
        super().__init__(
            f"stream {stream}: row {seq} was the last one when it was looked at, it is {now} now; look again"
        )


@dataclass(frozen=True, slots=True)
class LostEvent:
    """An event that a provider was answered 2xx for, of which there is neither a decision nor a record."""

    event_key: str
    provider: str | None
    received_at: datetime | None
    content_sha256: str | None = None


@dataclass(frozen=True, slots=True)
class Acceptance:
    """Who accepts what, and when (UTC)."""

    actor: str
    reason: str
    at: datetime


def accept(
    journal: Location,
    findings: Findings,
    events: Sequence[LostEvent],
    anchored: int,
    acceptance: Acceptance,
    *,
    is_older: bool = False,
) -> JournalState:
    """Writes the loss and begins the next histories, in one commit; the writer before is fenced off.

    :param anchored: the last seq of which an anchor is on Kafka now
    :param is_older: what was derived from the journal knows later rows; a new lineage begins before that commit
    :raises MovedOn: rows came since it was looked at
    :raises Fenced, StorageDown, CommitUnknown: as `JournalWriter`
    """
    _check_seq(findings, JournalReader(str(journal)).last_seq)
    writer = JournalWriter.create_or_open(str(journal), findings.stream)
    state = (
        writer.renew_lineage(acceptance.at, acceptance.reason, publish_again=True)
        if is_older
        else writer.begin_epoch({})
    )
    _check_seq(findings, state.next_seq - 1)
    return writer.turn(_turn(state, findings, events, anchored, acceptance))


def _check_seq(findings: Findings, seq: int) -> None:
    if seq != findings.seq:
        raise MovedOn(findings.stream, findings.seq, seq)


def _turn(
    state: JournalState, findings: Findings, events: Sequence[LostEvent], anchored: int, acceptance: Acceptance
) -> Turn:
    rows = [*_ranges(state, findings, acceptance), *_events(findings, events, acceptance)]
    for seq, row in enumerate(rows, state.next_seq):
        row.seq = row.item_seq = seq
    marks, start, histories = dict(state.marks), dict(state.start), dict(state.histories)
    for parted in findings.parted:
        topic, begins = parted.topic, {one.partition: one.begins for one in parted.partings}
        marks[topic] = start[topic] = begins
        histories[topic] = _next(state, parted)
    decided = {
        "actor": acceptance.actor,
        "reason": acceptance.reason[:REASON_CHARS_MAX],
        "at": to_rfc3339(acceptance.at),
    }
    given_up = {"anchors": [anchored, remembered]} if (remembered := _anchored(state)) > anchored else {}
    notes = {
        ACCEPTED_NOTE: json.dumps({**decided, **given_up, "rows": len(rows)}),
        LOOKED_NOTE: str(state.next_seq - 1 + len(rows)),
        ANCHORED_NOTE: str(min(anchored, remembered)),
    }
    return Turn(rows, marks, start, histories, state.generation + 1, notes)


def _next(state: JournalState, parted: Parted) -> History:
    topic = parted.topic
    start = state.start.get(topic, {})
    ends = {one.partition: one.lost[1] if one.lost else one.until for one in parted.partings}
    known = {number: start.get(number, ends[number] if number not in state.marks[topic] else 0) for number in ends}
    return state.history(topic).next(parted.topic_id, known, ends)


def _ranges(state: JournalState, findings: Findings, acceptance: Acceptance) -> Iterator[JournalRow]:
    for parted in findings.parted:
        for one in parted.partings:
            if one.lost is not None:
                yield _lost(
                    acceptance,
                    topic=one.topic,
                    partition=one.partition,
                    offset=one.lost[0],
                    offset_until=one.lost[1],
                    first=True,
                    history=state.history(one.topic).of_row(),
                )


def _events(findings: Findings, events: Sequence[LostEvent], acceptance: Acceptance) -> Iterator[JournalRow]:
    topic = findings.parted[0].topic if findings.parted else ""
    for event in events:
        yield _lost(
            acceptance,
            topic=topic,
            partition=NOWHERE,
            offset=NOWHERE,
            first=False,
            event_key=event.event_key,
            provider=event.provider,
            received_at=event.received_at,
            content_sha256=event.content_sha256,
            mode=mode_of(findings.stream),
        )


def _lost(acceptance: Acceptance, **of_it: object) -> JournalRow:
    same: dict[str, object] = {"actor": acceptance.actor, "reason": acceptance.reason, "decided_at": acceptance.at}
    return JournalRow(seq=0, item_seq=0, decision=Decision.LOST, **same, **of_it)  # type: ignore[arg-type]


def _anchored(state: JournalState) -> int:
    return int(state.notes.get(ANCHORED_NOTE, 0))
