"""Imports go one way: what everything rests on knows nothing of what rests on it."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

CHECKOUT = Path(__file__).parents[2]

MAY_IMPORT: dict[str, set[str]] = {
    "core": set(),
    "providers": {"core"},
    "journal": {"core"},
    "ingest": {"core", "providers"},
    "dlq": {"core", "journal"},
    "dlq.alerts": {"core", "journal", "notify"},
    "dlq.report": {"core", "journal", "ledger"},
    "ledger": {"core", "journal", "providers"},
    "ledger.reversals": {"core", "dlq", "journal"},
    "ledger.verify": {"core", "dlq", "journal", "providers"},
    "notify": {"core", "journal"},
    "processor": {"core", "dlq", "journal", "ledger", "notify", "providers"},
    "console": {"core", "dlq", "ingest", "journal", "ledger", "stack"},
    "stack": {"console", "core", "dlq", "ingest", "journal", "ledger", "load", "notify", "processor", "providers"},
    "demo": {"core", "load", "stack"},
    "cli": {
        *("console", "demo", "core", "dlq", "ingest", "journal", "ledger", "load", "notify", "processor", "providers"),
        "stack",
    },
    "load": {"core", "dlq", "ingest", "journal", "ledger", "processor", "providers", "stack"},
}
"""Each package, and those that it may import. A sub-package of its own line reads more than its parent may.

The console's API answers repeated requests by the same claim protocol as webhooks: it imports ``ingest.idempotency``.
"""

MAINS = {"ingest", "processor", "console"}
"""Their ``__main__`` composes a process from the settings tree and the jars' places; nothing else there does."""


def modules(package: str) -> list[Path]:
    """A package's files, without those of sub-packages that have a line of their own."""
    folder = CHECKOUT / package.replace(".", "/")
    others = [CHECKOUT / other.replace(".", "/") for other in MAY_IMPORT if other.startswith(package + ".")]
    return [path for path in sorted(folder.rglob("*.py")) if not any(other in path.parents for other in others)]


def imported(path: Path) -> Iterator[tuple[int, str]]:
    """Line and dotted name of each import, wherever in the file it stands."""
    for node in ast.walk(ast.parse(path.read_text("utf-8"))):
        if isinstance(node, ast.Import):
            yield from ((node.lineno, alias.name) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}:{node.lineno}: a relative import hides its package"
            yield node.lineno, node.module or ""


def offences(package: str) -> list[str]:
    found = []
    for path in modules(package):
        allowed = MAY_IMPORT[package] | {package.split(".")[0]}
        if package in MAINS and path.name == "__main__.py":
            allowed |= {"stack"}
        for line, name in imported(path):
            top = name.split(".")[0]
            if top in MAY_IMPORT and top not in allowed:
                found.append(f"{path.relative_to(CHECKOUT)}:{line} imports {name}")
    return found


def test_every_package_is_listed() -> None:
    there = {path.parent.name for path in CHECKOUT.glob("*/__init__.py")} - {"tests", "docs"}
    assert there <= MAY_IMPORT.keys()


@pytest.mark.parametrize("package", sorted(MAY_IMPORT))
def test_a_package_imports_only_what_it_may(package: str) -> None:
    assert offences(package) == []


def test_the_processor_knows_no_handler() -> None:
    handlers = {"ledger", "notify"}
    knowing = {
        path.name for path in modules("processor") for _, name in imported(path) if name.split(".")[0] in handlers
    }
    assert knowing == set()


def test_nothing_outside_of_tests_imports_tests() -> None:
    assert [
        str(path)
        for package in MAY_IMPORT
        for path in modules(package)
        for _, name in imported(path)
        if name == "tests"
    ] == []


def test_test_only_packages_stay_in_tests() -> None:
    """The official SDKs and fakes are oracles, not dependencies."""
    oracles = {"stripe", "Adyen", "standardwebhooks", "braintree", "paddle_billing", "razorpay", "square"}
    only_tests = oracles | {"boto3", "fakeredis", "hypothesis", "moto", "pytest", "schemathesis"}
    offending = [
        f"{path.relative_to(CHECKOUT)}:{line} imports {name}"
        for package in MAY_IMPORT
        for path in modules(package)
        for line, name in imported(path)
        if name.split(".")[0] in only_tests
    ]
    assert offending == []
