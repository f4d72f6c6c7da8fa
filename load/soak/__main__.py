"""``make soak [ONLY=receiver|processor]``: whether a process that runs for long takes more and more memory.

Prints what it holds after each step; exit 1 if that grows. The receiver's takes some minutes, the processor's an hour.
"""

from __future__ import annotations

import argparse
import shutil
import sys
from pathlib import Path

from rich.console import Console

from load.soak.processor import SECONDS, soak_processor
from load.soak.receiver import REQUESTS, soak_receiver
from stack.paths import DEFAULT_DATA_DIR


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", choices=("receiver", "processor"), default="receiver")
    parser.add_argument("--requests", type=int, default=REQUESTS, help="to the receiver, in all")
    parser.add_argument("--seconds", type=float, default=SECONDS, help="of load on the processor")
    parser.add_argument("--data", type=Path, default=DEFAULT_DATA_DIR.parent / "soak")
    wanted = parser.parse_args()
    console = Console()
    shutil.rmtree(wanted.data, ignore_errors=True)
    wanted.data.mkdir(parents=True)
    try:
        if wanted.only == "processor":
            flat = soak_processor(wanted.data, wanted.seconds, console)
        else:
            flat = soak_receiver(wanted.data, wanted.requests, console)
    finally:
        shutil.rmtree(wanted.data, ignore_errors=True)
    return 0 if flat else 1


if __name__ == "__main__":
    sys.exit(main())
