"""Budgets say what a batch may do with each downstream; reports, on the way back from executors, what it did."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from core.clock import asked_s

ANY = "*"
"""At the end of a name in the settings: every downstream whose name begins so. Alone: every one that isn't named."""

CHAIN_MAX = 32
PROBLEM_CHARS_MAX = 100


@dataclass(frozen=True, slots=True)
class Budget:
    """Limits what a batch, or one task's share of it, may do with one downstream.

    ``calls``: most calls; ``retries``: most of them for events or tries that failed before; ``at_once``: most at a
    time; ``failures``: failed calls in a row after which the batch calls no more; ``probing``: they are a half-open
    breaker's probes, which mustn't be made twice.
    """

    calls: int
    retries: int
    at_once: int
    failures: int
    probing: bool = False

    def make_share(self, part: int, parts: int) -> Budget:
        """Returns share number ``part`` of ``parts``: together they allow no more than the whole.

        Every share may have one failed call.
        """
        at_once = _divide_evenly(self.at_once, part, parts)
        return Budget(
            calls=_divide_evenly(self.calls, part, parts) if at_once else 0,
            retries=_divide_evenly(self.retries, part, parts),
            at_once=at_once,
            failures=max(1, _divide_evenly(self.failures, part, parts)),
            probing=self.probing,
        )

    def subtract_report(self, report: CallReport) -> Budget:
        calls = report.calls - report.late + report.out
        return replace(self, calls=max(0, self.calls - calls), retries=max(0, self.retries - report.retries))


@dataclass(slots=True)
class CallReport:
    """Counts of the calls to one downstream. Times in seconds.

    ``calls`` have ended; earlier batches had abandoned ``late`` of them; this one has abandoned ``out`` more.
    ``failed_in_a_row`` are the last ones; ``peak`` is how many calls ran at a time; ``waited`` says that a call had to
    wait for another one; ``quiet_s`` is the longest Retry-After; ``problem`` is the last failure's class.
    """

    calls: int = 0
    late: int = 0
    out: int = 0
    retries: int = 0
    failed: int = 0
    failed_in_a_row: int = 0
    held: int = 0
    peak: int = 0
    seconds: float = 0.0
    waited: bool = False
    quiet_s: float = 0.0
    problem: str = ""

    @property
    def mean_s(self) -> float:
        return self.seconds / self.calls if self.calls else 0.0

    def note_return(self, error: BaseException | None) -> None:
        if error is None:
            self.failed_in_a_row = 0
            return
        self.failed += 1
        self.failed_in_a_row += 1
        self.quiet_s = max(self.quiet_s, _quiet_s(error))
        self.problem = type(error).__name__[:PROBLEM_CHARS_MAX]

    def add(self, other: CallReport) -> None:
        """Adds what another task did at the same time. Failures at the end of both count as one row."""
        self.calls += other.calls
        self.late += other.late
        self.out += other.out
        self.retries += other.retries
        self.failed += other.failed
        self.failed_in_a_row += other.failed_in_a_row
        self.held += other.held
        self.peak += other.peak
        self.seconds += other.seconds
        self.waited |= other.waited
        self.quiet_s = max(self.quiet_s, other.quiet_s)
        self.problem = other.problem or self.problem

    def follow(self, later: CallReport) -> None:
        before = 0 if later.failed < later.calls else self.failed_in_a_row
        peak = max(self.peak, later.peak)
        self.add(later)
        self.failed_in_a_row, self.peak = before + later.failed_in_a_row, peak


@dataclass(frozen=True, slots=True)
class Budgets:
    by_name: Mapping[str, Budget] = field(default_factory=dict)
    by_pattern: Mapping[str, Budget] = field(default_factory=dict)

    def find_budget(self, downstream: str) -> Budget | None:
        known = self.by_name.get(downstream)
        if known is not None:
            return known
        pattern = find_pattern(downstream, self.by_pattern)
        return None if pattern is None else self.by_pattern[pattern]

    def make_shares(self, parts: int, turn: int) -> list[Budgets]:
        return [
            Budgets(
                {name: budget.make_share((part + turn) % parts, parts) for name, budget in self.by_name.items()},
                {name: budget.make_share((part + turn) % parts, parts) for name, budget in self.by_pattern.items()},
            )
            for part in range(parts)
        ]

    def subtract_reports(self, reports: Mapping[str, CallReport]) -> Budgets:
        left = {name: budget.subtract_report(reports.get(name, CallReport())) for name, budget in self.by_name.items()}
        for name, report in reports.items():
            if name not in left and (fresh := self.find_budget(name)) is not None:
                left[name] = fresh.subtract_report(report)
        return Budgets(left, self.by_pattern)

    def subtract_loss(self) -> Budgets:
        left = {name: replace(budget, calls=0) if budget.probing else budget for name, budget in self.by_name.items()}
        return Budgets(left, self.by_pattern)


def merge_reports(reports: Sequence[Mapping[str, CallReport]]) -> dict[str, CallReport]:
    merged_reports: dict[str, CallReport] = {}
    for task_reports in reports:
        for name, report in task_reports.items():
            merged_reports.setdefault(name, CallReport()).add(report)
    return merged_reports


def walk_causes(error: BaseException) -> Iterator[BaseException]:
    link: BaseException | None = error
    for _ in range(CHAIN_MAX):
        if link is None:
            return
        yield link
        # Not by `or`: an error may have a length, and be empty.
        link = link.__context__ if link.__cause__ is None else link.__cause__


def _quiet_s(error: BaseException) -> float:
    return next((seconds for link in walk_causes(error) if (seconds := asked_s(link)) > 0), 0.0)


def _divide_evenly(count: int, part: int, parts: int) -> int:
    return count // parts + (part < count % parts)


def find_pattern(name: str, patterns: Mapping[str, object]) -> str | None:
    """Finds the pattern that holds for a downstream: its own name, else the longest that ends in ``*``, else None."""
    if name in patterns:
        return name
    fitting = [text for text in patterns if text.endswith(ANY) and name.startswith(text[:-1])]
    return max(fitting, key=len, default=None)
