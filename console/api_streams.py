"""Which work streams the API knows."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, TypeAlias

from pydantic import StringConstraints

from console.dead_letters import DeadLetters
from ingest.idempotency import Problem

StreamWanted: TypeAlias = Annotated[str, StringConstraints(min_length=1, max_length=60)]


@dataclass(frozen=True, slots=True)
class Streams:
    """Dead letters by the name of their stream: ``ledger``, ``ledger-test``, ``notify``."""

    by_name: Mapping[str, DeadLetters]

    def of(self, stream: str) -> DeadLetters:
        """
        :raises Problem: there is no such stream
        """
        try:
            return self.by_name[stream]
        except KeyError:
            told = ", ".join(sorted(self.by_name)) or "none"
            raise Problem(404, "stream-unknown", "No such stream", f"streams are: {told}") from None
