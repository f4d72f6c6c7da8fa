"""From a run's chunk to the command that is sent."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from dlq.commands import APPROVES, REPLAY, Command, Place, Proposal, Target
from dlq.selection import runs
from dlq.selection.model import RunKept, Selection
from dlq.selection.pace import interval_us


def command_of(
    stream: str, selection: Selection, kept: RunKept, chunk: runs.Chunk, targets: Sequence[Target]
) -> Command:
    """The same one for every try: nothing in it depends on when or by which process it is sent. It is of one person, or
    approved by a second one, whose name it then bears.
    """
    run, approval = kept.run, kept.approval
    command = partial(
        Command,
        chunk.command_id,
        stream,
        selection.lineage,
        mode=run.mode,
        interval_us=interval_us(run.per_s) if len(targets) > 1 else 0,
        expects=Place.IN_PLACE if run.in_place else None,
        force=run.force,
    )
    if chunk.part is runs.Part.PROPOSE:
        proposes, hands = APPROVES[run.action], tuple(sorted(kept.hands))
        return command(proposes, tuple(targets), kept.actor, run.reason, kept.started_at, hands=hands)
    if approval is None:
        at = chunk.at if run.action == REPLAY else kept.started_at
        return command(run.action, tuple(targets), kept.actor, run.reason, at)
    proposed_as = runs.command_id(stream, selection, run, runs.Part.PROPOSE, chunk.chunk)
    proposal = Proposal(proposed_as, kept.actor, run.reason, kept.started_at, tuple(sorted(kept.hands)))
    return command(run.action, tuple(targets), approval.actor, approval.reason, approval.at, proposal)
