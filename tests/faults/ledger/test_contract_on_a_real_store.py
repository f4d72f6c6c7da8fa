"""The whole contract of tables and backups on object stores that aren't mocks: put, race, fence, lost and late answers.

In a pytest of its own each, with the variables by which a person names their own server (docs/storage.md).
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

from tests.object_store import ObjectStore
from tests.object_store.fixtures import azure, versity

__all__ = ["azure", "versity"]

CHECKOUT = Path(__file__).parents[3]
END_S = 900.0
FILES = (
    "test_storage.py",
    "test_tables_on_an_object_store.py",
    "test_journal_append.py",
    "test_journal_append_files.py",
    "test_journal_fence.py",
    "test_journal_lineage.py",
    "test_journal_port.py",
    "test_backup_of_an_object_store.py",
)
PASSED_MIN = 80


def contract(store: ObjectStore) -> str:
    """The summary of the contract's tests on a store; fails the test where one failed."""
    env = {name: value for name, value in os.environ.items() if not name.startswith(("PAYHOOK_", "PYTEST_"))}
    env |= {
        "PAYHOOK_TEST_OBJECT_STORE": store.endpoint,
        "PAYHOOK_TEST_OBJECT_STORE_SCHEME": store.scheme,
        **store.variables(),
    }
    files = [f"tests/contract/{name}" for name in FILES]
    command = [sys.executable, "-m", "pytest", *files, "-q", "-n", "0", "--timeout=300"]
    done = subprocess.run(command, cwd=CHECKOUT, env=env, capture_output=True, text=True, timeout=END_S, check=False)
    assert done.returncode == 0, done.stdout[-6_000:] + done.stderr[-2_000:]
    summary = done.stdout.splitlines()[-1]
    passed = re.search(r"(\d+) passed", summary)
    assert passed is not None and int(passed.group(1)) >= PASSED_MIN, summary
    return summary


def test_versity_gateway_keeps_the_contract(versity: ObjectStore) -> None:
    contract(versity)


def test_azures_emulator_keeps_the_contract(azure: ObjectStore) -> None:
    contract(azure)
