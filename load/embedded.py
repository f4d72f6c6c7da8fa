"""The whole stack for the length of a ``with`` block, by the same commands that a person types."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import MappingProxyType

from core.errors import PayhookError

UP_S_MAX = 330.0
"""`payhook up` gives up by itself before."""

DOWN_S_MAX = 60.0


class StackNotUp(PayhookError):
    """`payhook up` failed; its own words say why."""

    def __init__(self, said: str) -> None:
        self.said = said
        super().__init__(f"the stack didn't start: {said}")


SAMPLE_CONFIG = Path(__file__).parent / "payhook.toml"
"""Lets the sample sender's events book."""

FREE_PORTS = {"PAYHOOK_INGEST__PORT": "0", "PAYHOOK_CONSOLE__PORT": "0"}
"""Any free ones: stacks of several runs start at once, and would look for the next free one at the same moment."""

_NO_MORE: Mapping[str, str] = MappingProxyType({})


def payhook(
    *words: str, timeout_s: float = 600.0, stdin: str = "", env: Mapping[str, str] = _NO_MORE
) -> subprocess.CompletedProcess[str]:
    """Runs the `payhook` command in this interpreter's environment, with the settings of the samples.

    ``stdin``: its standard input. ``env``: more variables.
    """
    return subprocess.run(
        [sys.executable, "-m", "cli.main", *words],
        env={**FREE_PORTS, **os.environ, "PAYHOOK_CONFIG": str(SAMPLE_CONFIG), **env},
        capture_output=True,
        text=True,
        input=stdin,
        timeout=timeout_s,
        check=False,
    )


@contextlib.contextmanager
def embedded_stack(data_dir: Path) -> Iterator[Path]:
    """Starts everything on free ports under ``data_dir`` and stops it at the end, also where SIGTERM ends the block.

    :raises StackNotUp: with what the command said
    """
    with _sigterm_exits():
        try:
            up = payhook("up", "--detach", "--data", str(data_dir), timeout_s=UP_S_MAX)
            if up.returncode != 0:
                raise StackNotUp((up.stdout + up.stderr)[-2_000:])
            yield data_dir
        finally:
            payhook("down", "--data", str(data_dir), timeout_s=DOWN_S_MAX)


@contextlib.contextmanager
def _sigterm_exits() -> Iterator[None]:
    """SIGTERM would end this process and leave the stack running. Only the main thread hears signals."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(signal.SIGTERM, lambda number, _frame: sys.exit(128 + number))
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)
