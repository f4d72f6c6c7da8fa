"""A stream's handler, as `test_payload` names it."""

from __future__ import annotations

from core.work import Applied, Outcome, WorkItem


class PayloadHandler:
    """Shows what it was given."""

    version = "seen-1"

    def __call__(self, item: WorkItem) -> Outcome:
        self.item = item
        return Applied()


def build() -> PayloadHandler:
    return PayloadHandler()
