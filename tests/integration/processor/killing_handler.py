"""A handler for executors in processes of their own: it does what an event's type says."""

from __future__ import annotations

import os
import re
import time

from core.work import Applied, Outcome, WorkItem


class Killing:
    version = "killing-1"

    def __call__(self, item: WorkItem) -> Outcome:
        if item.event_type == "kills":
            os._exit(9)
        if item.event_type == "hangs":
            time.sleep(30)
        if item.event_type == "freezes":
            # The search never ends and never lets another thread run.
            re.match(r"(a+)+$", "a" * 64 + "b")
        if item.event_type == "bug":
            raise ZeroDivisionError("division by zero")
        return Applied()


def build() -> Killing:
    return Killing()
