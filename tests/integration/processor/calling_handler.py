"""A handler that calls one downstream an event: each call is a byte in the file that the event's body names."""

from __future__ import annotations

from pathlib import Path

from core.decision import ErrorKind
from core.work import Applied, Outcome, WorkItem, calling


class UnreachableMerchants(Exception):
    kind = ErrorKind.SNBE


class Calling:
    version = "calling-1"

    def __call__(self, item: WorkItem) -> Outcome:
        with calling("merchants"):
            with Path(item.body.decode()).open("ab") as calls:
                calls.write(b".")
            if item.event_type == "fails":
                raise UnreachableMerchants("connection refused")
        return Applied()


def build() -> Calling:
    return Calling()
