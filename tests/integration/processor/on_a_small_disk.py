"""A stream whose disk fills up or turns read-only and then recovers, in a process of its own.

``python -m tests.integration.processor.on_a_small_disk FOLDER limit|full|readonly`` prints the reasons of its outages
as JSON. ``full`` and ``readonly`` mount a small disk: they want a mount namespace of their own (``unshare -m``).
``limit`` wants nothing: the kernel refuses every write that makes a file longer.
"""

from __future__ import annotations

import json
import resource
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

from core.clock import SystemClock
from load.client import wait_for
from processor import application
from processor.application import StreamLoop
from tests.integration.processor.stored import FileKafka, Stored, StoredStream
from tests.processes import fill_disk

DISK = "12m"
GOES_ON_S = 60.0
OUTAGES_WANTED = 6
BEFORE = ("a", "b", "dead-c", "d")
MEANWHILE = ("e", "a", "dead-f", "g", "h")
DECIDED = {
    **{name: ["applied"] for name in "bdegh"},
    "a": ["applied", "duplicate"],
    "dead-c": ["dead"],
    "dead-f": ["dead"],
}


def limited(_disk: Path) -> Callable[[], None]:
    """Returns what lifts it."""
    _, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, hard))
    return lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (hard, hard))


def filled(disk: Path) -> Callable[[], None]:
    filler = disk / "filler"
    fill_disk(filler)
    return filler.unlink


def made_read_only(disk: Path) -> Callable[[], None]:
    """A read-only view of it over itself: a kernel refuses to turn a mount read-only while a file is open for writing,
    and the index's log always is."""

    def run(*words: str) -> None:
        subprocess.run([*words, str(disk)], check=True)

    run("mount", "--bind", str(disk))
    run("mount", "-o", "remount,bind,ro")
    return lambda: run("umount", "--lazy")


FAULTS = {"limit": limited, "full": filled, "readonly": made_read_only}


def main(folder: Path, fault: str) -> None:
    disk = folder / "disk"
    disk.mkdir()
    if fault != "limit":
        subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={DISK}", "tmpfs", str(disk)], check=True)
    stored = Stored(disk)
    stored.kafka, stored.dlq = FileKafka(folder / "kafka"), folder / "dlq"
    application.OUTAGE_S_FIRST, application.OUTAGE_S_MAX = 0.1, 0.3
    stream = StoredStream(stored)
    loop, outages = StreamLoop(stream, stream, SystemClock(), lambda _: False), stream.outages
    for event_id in (*BEFORE, *MEANWHILE):
        stored.kafka.post(event_id)
    stored.kafka.shown = len(BEFORE)
    loop.start()
    assert wait_for(lambda: decided(stored) >= len(BEFORE), GOES_ON_S)
    heal = FAULTS[fault](disk)
    stored.kafka.shown = None
    assert wait_for(lambda: len(outages) >= OUTAGES_WANTED, GOES_ON_S), outages
    assert loop.is_alive
    heal()
    assert wait_for(lambda: decided(stored) == len(BEFORE) + len(MEANWHILE), GOES_ON_S), outages
    loop.stop()
    loop.join(GOES_ON_S)
    stored.check()
    assert stored.decisions() == DECIDED
    sys.stdout.write(json.dumps(list(dict.fromkeys(outages))))


def decided(stored: Stored) -> int:
    return len(stored.rows()) if (stored.journal / "_delta_log").exists() else 0


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2])
