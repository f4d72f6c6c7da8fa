"""``python -m stack.die_with_parent PARENT COMMAND…``: runs COMMAND so that it dies with its parent.

Linux kills a process whose parent has died if it asked for that, and the wish survives ``exec``. Asking
between fork and exec isn't safe in a process with threads; asking here, before an ``exec``, is. Where
there is no such call, the next `payhook up` or `payhook down` ends what a killed supervisor left.
"""

from __future__ import annotations

import ctypes
import os
import signal
import sys

_PR_SET_PDEATHSIG = 1


def main() -> None:
    parent, command = int(sys.argv[1]), sys.argv[2:]
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
        if os.getppid() != parent:
            sys.exit("the parent died before its child began")
    os.execvp(command[0], command)


if __name__ == "__main__":
    main()
