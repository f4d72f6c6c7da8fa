"""What a load run measured, in figures and over time. It is kept, and a later run is compared with it."""

from __future__ import annotations

import json
from bisect import bisect_right
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, TypeAlias

from core.errors import PayhookError
from load.latency import Decided, percentile

VERSION = 1
SHARES = {"p50": 0.5, "p95": 0.95, "p99": 0.99}
POINTS_MAX = 120
"""Of a curve; a longer run has longer steps."""

Series: TypeAlias = Mapping[str, Sequence[float | None]]
"""By name a value a step; None where there was nothing to measure."""


class NoReport(PayhookError):
    """There is no report to compare with, or it is of another version."""

    def __init__(self, file: Path, problem: str) -> None:
        self.file = file
        self.problem = problem
        super().__init__(f"{file} is no report of a load run: {problem}. Name one that `make load` wrote")


@dataclass(frozen=True, slots=True)
class Sent:
    """One webhook as locust posted it; ``at`` is Unix time in seconds."""

    at: float
    ms: float
    status: int
    event_keys: tuple[str, ...]

    @property
    def is_taken(self) -> bool:
        return 200 <= self.status < 300


@dataclass(frozen=True, slots=True)
class Figure:
    """Holds one line of the verdict. ``is_met`` is None where there is no target."""

    what: str
    measured: str
    wanted: str = ""
    is_met: bool | None = None


@dataclass(frozen=True, slots=True)
class Report:
    """``at``: when it began, RFC 3339. ``target``: a receiver's address, or the embedded stack."""

    at: str
    target: str
    rate_per_s: float
    seconds: int
    cores: int
    figures: tuple[Figure, ...]
    every_s: float
    series: Series

    @property
    def is_met(self) -> bool:
        return all(one.is_met is not False for one in self.figures)

    @property
    def verdict(self) -> str:
        missed = [one.what for one in self.figures if one.is_met is False]
        return f"missed: {', '.join(missed)}" if missed else "met"


def read_sent(log: Path) -> list[Sent]:
    """Returns what locust's log holds, in the order of answers."""
    with log.open(encoding="utf-8") as lines:
        read = (json.loads(line) for line in lines)
        return [Sent(one["at"], one["ms"], one["status"], tuple(one["event_keys"])) for one in read]


def over_time(sent: Sequence[Sent], decided: Sequence[Decided]) -> tuple[float, Series]:
    """Seconds of a step, and the curves: arrivals and refusals a second, percentiles of answers (ms) and of decisions
    (s), and how many accepted events weren't decided yet.
    """
    if not sent:
        return 1.0, {}
    begin = min(one.at for one in sent)
    received = sorted(one.received_at.timestamp() for one in decided)
    committed = sorted(one.committed_at.timestamp() for one in decided)
    end = max([*(one.at for one in sent), *committed])
    every_s = max(1.0, float(-(-(end - begin) // POINTS_MAX)))
    steps = int((end - begin) // every_s) + 1

    def spread(pairs: Iterator[tuple[float, float]]) -> list[list[float]]:
        """Values by the step that their moment is in."""
        places = defaultdict[int, list[float]](list)
        for at, value in pairs:
            places[int((at - begin) // every_s)].append(value)
        return [places[step] for step in range(steps)]

    answers = spread((one.at, one.ms) for one in sent)
    refused = spread((one.at, 1.0) for one in sent if not one.is_taken)
    decisions = spread((one.received_at.timestamp(), one.seconds) for one in decided)
    ends = [begin + (step + 1) * every_s for step in range(steps)]
    curves: dict[str, list[float | None]] = {
        "arrivals": [len(values) / every_s for values in answers],
        "refused": [len(values) / every_s for values in refused],
    }
    for name, share in SHARES.items():
        curves[f"answer_ms_{name}"] = _percentiles(answers, share)
        if decided:
            curves[f"decision_s_{name}"] = _percentiles(decisions, share)
    if decided:
        curves["undecided"] = [float(bisect_right(received, at) - bisect_right(committed, at)) for at in ends]
    return every_s, curves


def _percentiles(steps: Sequence[Sequence[float]], share: float) -> list[float | None]:
    return [percentile(values, share) if values else None for values in steps]


def write_report(report: Report, folder: Path, page: Callable[[Report], str]) -> Path:
    """Writes ``load-TIME.json`` and its page beside it; returns the page's path."""
    folder.mkdir(parents=True, exist_ok=True)
    file = folder / f"load-{report.at[:19].replace(':', '')}.json"
    file.write_text(json.dumps({"version": VERSION, **asdict(report)}, indent=1), "utf-8")
    html = file.with_suffix(".html")
    html.write_text(page(report), "utf-8")
    return html


def last_report(folder: Path) -> Path:
    """The newest report's JSON.

    :raises NoReport: there is none
    """
    files = sorted(folder.glob("load-*.json"))
    if not files:
        raise NoReport(folder, "no run has written one yet")
    return files[-1]


def read_report(file: Path) -> Report:
    """A report by its JSON, or by its page beside that.

    :raises NoReport: it can't be read
    """
    try:
        read: dict[str, Any] = json.loads(file.with_suffix(".json").read_text("utf-8"))
        if read.pop("version") != VERSION:
            raise NoReport(file, "another version of `make load` wrote it")
        return Report(**{**read, "figures": tuple(Figure(**one) for one in read["figures"])})
    except (OSError, ValueError, KeyError, TypeError) as unreadable:
        raise NoReport(file, str(unreadable)) from unreadable
