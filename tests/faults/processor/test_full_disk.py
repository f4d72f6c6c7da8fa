"""A disk that is really full, or really read-only, under everything that a stream keeps."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

CHECKOUT = Path(__file__).parents[3]
SECONDS_MAX = 180.0
OWN_MOUNTS = ["unshare", "--mount", *([] if os.geteuid() == 0 else ["--map-root-user"])]


@pytest.mark.parametrize("fault", ["full", "readonly"])
def test_the_stream_pauses_and_goes_on_once_the_disk_can_be_written(tmp_path: Path, fault: str) -> None:
    command = [sys.executable, "-m", "tests.integration.processor.on_a_small_disk", str(tmp_path), fault]
    ran = subprocess.run(
        [*OWN_MOUNTS, *command], cwd=CHECKOUT, capture_output=True, text=True, timeout=SECONDS_MAX, check=False
    )
    assert ran.returncode == 0, ran.stderr[-3_000:]
    reasons = json.loads(ran.stdout)
    assert reasons, "it never paused"
    wanted = "No space left on device" if fault == "full" else "Read-only file system"
    assert any(wanted in reason for reason in reasons), reasons
