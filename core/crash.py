"""Named points at which a test may end the process as a power cut would: SIGKILL, no clean-up."""

from __future__ import annotations

import os
import signal
from pathlib import Path

CRASH_AT = (
    frozenset(os.environ.get("PAYHOOK_CRASH_AT", "").split(","))
    if os.environ.get("PAYHOOK_TESTING") == "1"
    else frozenset()
)


def crash_point(name: str) -> None:
    """Ends the process at once if ``PAYHOOK_TESTING=1`` and ``PAYHOOK_CRASH_AT`` (comma-separated) names this point.

    With ``PAYHOOK_CRASH_ONCE`` naming a folder, a point fires only while the folder has no file of its name, and makes
    it. So the process that is started again gets past it.
    """
    if name not in CRASH_AT:
        return
    once = os.environ.get("PAYHOOK_CRASH_ONCE")
    if once is not None:
        try:
            os.close(os.open(Path(once) / name, os.O_CREAT | os.O_EXCL))
        except FileExistsError:
            return
    os.kill(os.getpid(), signal.SIGKILL)
