"""Runs pytest several times and sums it up: ``python -m tests.parts "tests/unit -n 3" "tests/e2e"``.

Each argument is one run's command line. A run that fails doesn't stop the next one. At the end stand the seconds of
each folder and of the slowest tests, set-up included; then which tests failed, what was passed over and why, and how
many tests that were; the last line has the form of pytest's own.
Ends with 0 if every run did, else with the code of the first that didn't.
"""

from __future__ import annotations

import itertools
import shlex
import signal
import subprocess
import sys
import tempfile
import time
import xml.etree.ElementTree as ET
from collections import Counter, defaultdict
from dataclasses import dataclass, field
from pathlib import Path

INTERRUPTED = 2
"""The exit code of a pytest that was interrupted."""
SLOWEST = 30
"""How many of the slowest tests are listed."""
FOLDER_DEPTH = 3
"""A test's seconds are counted for its folder down to here: tests/unit/processor, tests/e2e."""


@dataclass
class Duration:
    """Seconds and number of some tests."""

    seconds: float = 0.0
    tests: int = 0

    def add(self, seconds: float) -> None:
        self.seconds += seconds
        self.tests += 1


@dataclass
class Sum:
    """What became of the tests of all runs."""

    counts: Counter[str] = field(default_factory=Counter)
    failed: list[str] = field(default_factory=list)
    passed_over: Counter[str] = field(default_factory=Counter)
    worlds: int = 0
    """Searched by `tests/unit/processor/decide/test_every_case.py`."""
    code: int = 0
    folders: defaultdict[str, Duration] = field(default_factory=lambda: defaultdict(Duration))
    tests: list[tuple[float, str]] = field(default_factory=list)
    """Each test's seconds, with what was set up and taken down for it."""

    def add(self, words: list[str], code: int, report: Path) -> None:
        """One run that ended with ``code``; its JUnit report is missing if it was killed."""
        self.code = self.code or code
        before = len(self.failed)
        if report.exists():
            for case in ET.parse(report).getroot().iter("testcase"):
                self._case(case)
        if code and len(self.failed) == before:
            self.failed.append(f"pytest {shlex.join(words)} ended with {code}")

    def _case(self, case: ET.Element) -> None:
        module = case.get("classname", "")
        file = case.get("file", module)
        if not module.startswith(file.removesuffix(".py").replace("/", ".")):
            file = module  # a state machine's test is one of hypothesis' own file
        name = f"{file}::{case.get('name')}"
        seconds = float(case.get("time", 0))
        folders = itertools.takewhile(lambda part: not part.startswith("test_"), module.split("."))
        self.folders["/".join(itertools.islice(folders, FOLDER_DEPTH))].add(seconds)
        self.tests.append((seconds, name))
        troubles = [trouble for kind in ("failure", "error") for trouble in case.findall(kind)]
        skipped = case.find("skipped")
        self.worlds += sum(int(one.get("value", 0)) for one in case.iter("property") if one.get("name") == "worlds")
        if troubles:
            self.counts["failed" if troubles[0].tag == "failure" else "errors"] += 1
            self.failed.append(f"{name}: {troubles[0].get('message', '').partition(chr(10))[0][:160]}")
        elif skipped is not None:
            self.counts["skipped"] += 1
            self.passed_over[skipped.get("message", "")] += 1
        else:
            self.counts["passed"] += 1

    def duration_lines(self) -> list[str]:
        """Two tables in Markdown: seconds by folder, and the slowest tests."""
        whole = Duration(sum(seconds for seconds, _ in self.tests), len(self.tests))
        by_seconds = sorted(self.folders.items(), key=lambda folder: -folder[1].seconds)
        folders = [*by_seconds, ("together", whole)]
        return [
            "| folder | tests | seconds of all processes |",
            "|---|---:|---:|",
            *(f"| {name or '.'} | {folder.tests:,} | {folder.seconds:,.1f} |" for name, folder in folders),
            "",
            "| slowest tests | seconds |",
            "|---|---:|",
            *(f"| {name} | {seconds:.1f} |" for seconds, name in sorted(self.tests, reverse=True)[:SLOWEST]),
            "",
        ]

    def lines(self, seconds: float) -> list[str]:
        """The summary, a line each."""
        said = [f"searched: {self.worlds:,} worlds"] if self.worlds else []
        said += [f"failed: {name}" for name in self.failed]
        said += [f"passed over: {count} tests: {reason}" for reason, count in sorted(self.passed_over.items())]
        counts = [
            f"{self.counts[kind]} {kind}" for kind in ("failed", "errors", "passed", "skipped") if self.counts[kind]
        ]
        ended = "" if not self.code or self.counts["failed"] else f", ended with {self.code}"
        return [*said, f"{', '.join(counts) or 'no tests ran'} in {seconds:.2f}s{ended}"]


def _interruptible() -> None:
    signal.signal(signal.SIGINT, signal.SIG_DFL)


def run(parts: list[str]) -> int:
    """The exit code of all of it."""
    whole, took, began_s = Sum(), list[str](), time.monotonic()
    # Ctrl-C goes to the run under way, which ends as interrupted.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    with tempfile.TemporaryDirectory() as folder:
        for number, part in enumerate(parts):
            words, report = shlex.split(part), Path(folder) / f"{number}.xml"
            command = [sys.executable, "-m", "pytest", *words, f"--junitxml={report}", "-o", "junit_family=xunit1"]
            part_began_s = time.monotonic()
            code = subprocess.run(command, check=False, preexec_fn=_interruptible).returncode
            whole.add(words, code, report)
            took.append(f"part {number + 1} took {time.monotonic() - part_began_s:.0f} s: pytest {part}")
            if code == INTERRUPTED:
                break
    durations = whole.duration_lines()
    sys.stdout.write("\n".join(["", *durations, *took, *whole.lines(time.monotonic() - began_s), ""]))
    return whole.code


if __name__ == "__main__":
    sys.exit(run(sys.argv[1:]))
