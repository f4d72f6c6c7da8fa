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
    "notify": {"core", "journal"},
    "dlq": {"core", "journal"},
    "dead_letters": {"core", "dlq", "journal"},
    "operations": {"core", "dead_letters", "dlq", "journal"},
    "alerts": {"core", "dead_letters", "dlq", "journal", "notify", "operations"},
    "ledger": {"core", "dlq", "journal", "operations", "providers"},
    "processor": {"core", "dlq", "journal", "operations", "providers"},
    "console": {"alerts", "core", "dead_letters", "ingest", "journal", "ledger", "operations"},
    "stack": {
        *("alerts", "console", "core", "dead_letters", "dlq", "ingest", "journal", "ledger", "notify", "operations"),
        *("processor", "providers"),
    },
    "load": {
        *("console", "core", "dead_letters", "ingest", "journal", "ledger", "operations", "processor", "providers"),
        "stack",
    },
    "cli": {
        *("alerts", "console", "core", "dead_letters", "dlq", "ingest", "journal", "ledger", "load", "notify"),
        *("operations", "processor", "providers", "stack"),
    },
}
"""Each package, and those that it may import: some of those above it.

The console's API answers repeated requests by the same claim protocol as webhooks: it imports ``ingest.idempotency``.
"""


def modules(package: str) -> list[Path]:
    """A package's files."""
    return sorted((CHECKOUT / package).rglob("*.py"))


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
        allowed = MAY_IMPORT[package] | {package}
        for line, name in imported(path):
            top = name.split(".")[0]
            if top in MAY_IMPORT and top not in allowed:
                found.append(f"{path.relative_to(CHECKOUT)}:{line} imports {name}")
    return found


def test_every_package_is_listed() -> None:
    there = {path.parent.name for path in CHECKOUT.glob("*/__init__.py")} - {"tests", "docs"}
    assert there == MAY_IMPORT.keys()


def test_there_are_no_cycles() -> None:
    above: set[str] = set()
    for package, allowed in MAY_IMPORT.items():
        assert allowed <= above, f"{package} may import what stands below it"
        above.add(package)


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
