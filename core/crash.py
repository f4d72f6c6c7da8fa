"""Named points at which a test may end the process as a power cut would: SIGKILL, no clean-up."""

from __future__ import annotations

import os
import signal

CRASH_AT = os.environ.get("PAYHOOK_CRASH_AT") if os.environ.get("PAYHOOK_TESTING") == "1" else None


def crash_point(name: str) -> None:
    """Ends the process at once if ``PAYHOOK_TESTING=1`` and ``PAYHOOK_CRASH_AT`` names this point.

    With ``PAYHOOK_CRASH_ONCE`` naming a file, the point fires only while that file doesn't exist, and
    makes it: so that the process that is started again gets past.
    """
    if name != CRASH_AT:
        return
    once = os.environ.get("PAYHOOK_CRASH_ONCE")
    if once is not None:
        try:
            os.close(os.open(once, os.O_CREAT | os.O_EXCL))
        except FileExistsError:
            return
    os.kill(os.getpid(), signal.SIGKILL)
