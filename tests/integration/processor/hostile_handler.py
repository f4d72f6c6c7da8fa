"""A handler for executors in processes of their own: it does whatever an event's id says."""

from __future__ import annotations

import os
import time

from core.work import Outcome, WorkItem
from tests.unit.processor.fakes import booked
from tests.unit.processor.hostile import MADE_SAFE, ODD_ANSWERS, ODD_ERRORS

HANGS_S = 30.0
ANSWERS = [*ODD_ANSWERS.values(), *(answer for answer, _ in MADE_SAFE.values())]
ERRORS = list(ODD_ERRORS.values())


class Hostile:
    version = "hostile-1"

    def __call__(self, item: WorkItem) -> Outcome:
        word, _, number = item.event_key.split(":")[1].partition("_")
        match word:
            case "answer":
                return ANSWERS[int(number)]()  # type: ignore[no-any-return]
            case "error":
                raise ERRORS[int(number)]()
            case "kills":
                os._exit(9)
            case "hangs":
                time.sleep(HANGS_S)
        return booked()


def build() -> Hostile:
    return Hostile()
