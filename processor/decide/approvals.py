"""Whether a second person's act stands: what it approves was received, as it is told, from somebody else."""

from __future__ import annotations

import hashlib
from typing import Protocol

from core.keys import join_key
from dlq.commands import Command, encode
from dlq.hands import in_common
from journal.index import KnownEvent
from journal.index_layout import CONTENT_BYTES


class ProposalLookup(Protocol):
    """What is asked of the index."""

    def known_event(self, event_key: str) -> KnownEvent | None: ...


def not_approved(index: ProposalLookup, command: Command) -> str | None:
    """Why an approval doesn't stand. Its proposal is taken for given only if the journal holds that very one."""
    proposed = command.proposed
    known = index.known_event(join_key("payhook", proposed.command_id, proposed.action))
    if known is None or known.content8 != hashlib.sha256(encode(proposed)).digest()[:CONTENT_BYTES]:
        return f"no proposal {proposed.command_id} with these items, this proposer and this reason was received"
    if in_common({proposed.actor, *proposed.hands}, {command.actor}):
        return f"{command.actor} proposed it, or could have: another person must approve it"
    return None
