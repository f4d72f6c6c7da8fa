"""Spark on a lake that is on a real object store: maintenance beside the writer, verification, a reading stream."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from stack.jars import STORE_LIST, is_installed
from tests.object_store.fixtures import store_folder
from tests.object_store.fixtures import versity as object_store

__all__ = ["object_store", "store_folder"]

CHECKOUT = Path(__file__).parents[3]
END_S = 240.0


@pytest.mark.skipif(not is_installed(*STORE_LIST), reason="no jars for an object store: make setup OBJECT_STORE=1")
def test_spark_maintains_verifies_and_streams_a_lake_on_an_object_store(store_folder: str, tmp_path: Path) -> None:
    command = [sys.executable, "-m", "tests.faults.ledger.on_a_store", store_folder, str(tmp_path)]
    done = subprocess.run(
        command, cwd=CHECKOUT, env=dict(os.environ), capture_output=True, text=True, timeout=END_S, check=False
    )
    assert done.returncode == 0, done.stderr[-3_000:]
    reported = json.loads(done.stdout.splitlines()[-1])
    assert reported["problems"] == []
    assert set(reported["tables"]) == {"journal", "bodies", "postings"}
    assert reported["committed_meanwhile"] > 0
    made = 12 + reported["committed_meanwhile"]
    assert all(after < made for _, after in reported["tables"].values()), reported["tables"]
    assert reported["same_rows"] and reported["verified"]
    assert reported["streamed"] == reported["last_seq"]
