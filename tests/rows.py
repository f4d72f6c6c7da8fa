"""Says which test shows which row of the requirements: ``python -m tests.rows``.

It prints docs/rows.md, which `make docs` writes. It ends with 1 where a row has no test, or a test names a row that
there isn't; `make rows` says which. A test shows a row by ``@pytest.mark.row("A4")``.
"""

from __future__ import annotations

import ast
import sys
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

TESTS = Path(__file__).parent
ROWS = {
    "A1": "load: ten million events a day, and bursts of ten times as many",
    "A2": "each transaction takes effect once, and none is missed",
    "A3": "a claim by the provider's id and type: seven days in Redis, at most 165 bytes",
    "A4": "five tries, each later than the last with jitter, then the dead-letter queue",
    "A5": "the events of one payment, or of one merchant, are handled one after another",
    "A6": "without Redis the journal's index tells duplicates",
    "A7": "poison ends by itself and holds nobody up",
    "A8": "the queue's depth, inflow, outflow and time to clear, as it is now",
    "A9": "clocks that are ten minutes off",
    "A10": "one id with another type is another event",
    "A11": "a downstream in an outage is called seldom, and its retries have a budget",
    "A12": "an item that is open for a day is told of, and then told of again",
    "A13": "one movement under two ids, and one event under two ids, are found",
    "A14": "Idempotency-Key for any FastAPI application",
    "A15": "from an event to postings, subscribers and reports",
    "A16": "every answer and every outcome is on record",
    "A17": "what counts as in time, and as a success",
    "A18": "the dashboard",
    "A19": "alerts on depth, retries and slow claims",
    "A20": "a provider by one file, in a package of one's own",
    "B1": "an event that fails leaves its batch, which goes on",
    "B2": "a retry is never early, and each one is later",
    "B3": "what can't succeed is dead at its first try",
    "B4": "the queue is listed, purged and replayed beside live traffic",
    "B5": "one stream's failure stays its own",
    "B6": "a stream is a section of a file and a handler, from any topic",
    "B7": "records of older and newer code, and Avro by two schemas",
    "B8": "first tries, retries by number and deaths are counted apart",
    "C1": "a dead letter's headers name its origin",
    "C2": "the queue's name and what is copied into it are settings",
    "C3": "only a topic that is marked takes dead letters",
    "C4": "dead letters and their requests are counted",
    "C5": "an event is done once its dead letter is acknowledged",
    "D1": "an event that hangs delays no other one, and no offset is lost",
    "D2": "a head that holds up many is found, told of and ended",
    "D3": "a stream takes the traffic that it names",
    "D4": "waiting is by entity, and a stream may wait before its first try",
    "D5": "executors are asked for and given back, by a forecast",
    "D6": "a backlog is gone when it was said to be",
    "D7": "Protobuf and Avro payloads, and ones that are too large",
    "D8": "calls at a time follow what the receiver can take",
    "E1": "an error's kind by class, cause, text or hook",
    "E2": "policies of a stream over those of all, one for each kind",
    "E3": "policies as texts",
    "E4": "an outage stops the stream, which probes and goes on",
    "E5": "an event that fails parks, and those after it wait in order",
    "E6": "its policy, number of tries and reason are shown with it",
    "E7": "who comes after a dead event is told so, and hooks are called",
    "E8": "no dead letter is lost on its way",
    "E9": "an item's page has all that is known of it",
    "E10": "a replay of one event, or with those behind it",
    "E11": "the queue by kind, class, provider, type and time",
    "F1": "a history that went back is refused until a person decides",
    "F2": "nothing that a handler or an adapter does stops a stream",
    "F3": "what is booked is what the provider moved",
    "F4": "secured Kafka and Redis, clusters, object stores",
    "F5": "several deciders, and one that takes over",
    "F6": "containers and the chart start as they are described",
    "F7": "what takes two people isn't done by one, and files are the owner's",
    "F8": "a test run says the same each time",
    "G1": "an unknown type or status is kept, told of and no success",
    "G2": "a provider's balance after any sequence, in any order",
    "G3": "one ledger whichever API told",
    "G4": "events that never came are fetched from the provider's list",
    "G5": "a provider that falls silent is told of",
    "G6": "a settlement report is compared with the books to the cent",
    "G7": "each promise is one query that two engines run",
    "G8": "a page's commands, examples and sentences do what they say",
    "G9": "what waits is shown and costs no row a probe",
    "G10": "one search, a list of what came in, and the ledger's API",
    "G11": "another user of the machine reads and stops nothing",
    "G12": "two runs of tests, each with its reasons",
}
"""Each row's name and what it is about."""

HEAD = """\
# Rows and their tests

<!-- Written by `make docs`. Don't edit. -->

Which tests show which requirement. One test is run by its name: `.venv/bin/python -m pytest FILE -k NAME`.
A test says it by `@pytest.mark.row("A4")`; `make rows` ends with 1 where a row has none. Those of `make test-more`
and `make test-faults` are among them.

| row | about | tests |
|---|---|---|
"""

Function = ast.FunctionDef | ast.AsyncFunctionDef


def find_rows(decorators: Iterable[ast.expr]) -> Iterator[str]:
    """The names in ``@pytest.mark.row(NAME)``."""
    for decorator in decorators:
        if isinstance(decorator, ast.Call) and ast.unparse(decorator.func) == "pytest.mark.row":
            yield ast.literal_eval(decorator.args[0])


def find_tests(tests: Path = TESTS) -> dict[str, list[str]]:
    """The tests of each row as ``FILE::NAME``, by file and place."""
    found = defaultdict[str, list[str]](list)
    for file in sorted(tests.rglob("test_*.py")):
        for node in ast.walk(ast.parse(file.read_text("utf-8"))):
            if isinstance(node, Function | ast.ClassDef):
                for row in find_rows(node.decorator_list):
                    found[row].append(f"{file.relative_to(tests.parent)}::{node.name}")
    return dict(found)


def find_problems(tests: Mapping[str, list[str]], rows: Mapping[str, str]) -> list[str]:
    """What is wrong, a line each: rows without a test, and tests of a row that there isn't."""
    missing = [f"{name} has no test: {about}" for name, about in rows.items() if name not in tests]
    unknown = [f"{test}: there is no row {name}" for name in tests if name not in rows for test in tests[name]]
    return missing + unknown


def page(tests: Mapping[str, list[str]]) -> str:
    """docs/rows.md."""
    lines = [
        f"| {name} | {about} | {', '.join(f'`{test}`' for test in tests.get(name, ())) or 'none'} |"
        for name, about in ROWS.items()
    ]
    return HEAD + "\n".join(lines) + "\n"


def main() -> int:
    tests = find_tests()
    sys.stdout.write(page(tests))
    problems = find_problems(tests, ROWS)
    sys.stderr.writelines(f"{problem}\n" for problem in problems)
    return bool(problems)


if __name__ == "__main__":
    sys.exit(main())
