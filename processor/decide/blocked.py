"""Whether the whole stream is blocked, which event is tried next to find out, and what lifts the block."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TypeAlias

from core.work import Outcome
from journal.open_item import OpenItem
from journal.schema import JournalRow
from processor.calls.budget import Report
from processor.decide.item import Item, is_suspect
from processor.decide.line import disproves
from processor.judge.classify import Failure

PROBE_S_FIRST = 1.0
LOOKED_AT_MAX = 1_000
"""Events among which a probe chooses: of those that wait, and of those that are read and not decided."""

NEEDS_MAX = 50
ANY = ""
"""Needed where a failed try had called no downstream: any event that is applied."""

NOTE = "blocked"
"""The journal's note of why the whole stream is blocked, so that the next start doesn't decide into it."""

Account: TypeAlias = tuple[str | None, str | None, str | None]
Rank: TypeAlias = tuple[bool, bool]
"""Of an event: whether it has failed so itself, and whether another one of its account has. The lowest tells most."""


@dataclass(frozen=True, slots=True)
class Blocked:
    """A stream's state: ``reason`` is None while it isn't blocked.

    ``probe_s``: seconds until the next probe. ``needs``: the downstreams that the failed tries had called; the block
    ends once events have called each of them with success.
    """

    reason: str | None = None
    probe_s: float = 0.0
    needs: frozenset[str] = frozenset()

    @classmethod
    def noted(cls, notes: Mapping[str, str]) -> Blocked:
        """As the process before this one left it."""
        if NOTE not in notes:
            return cls()
        kept = json.loads(notes[NOTE])
        if kept["reason"] is None:
            return cls()
        return cls(kept["reason"], max(PROBE_S_FIRST, float(kept["probe_s"])), frozenset(kept.get("needs", [ANY])))

    def note(self) -> dict[str, str]:
        """For the journal."""
        return {NOTE: json.dumps({"reason": self.reason, "probe_s": self.probe_s, "needs": sorted(self.needs)})}

    def after_failures(self, failures: Sequence[Failure], probe_s_max: float) -> Blocked:
        """The first probe comes at once: it tells an outage from an event that fails by its own fault."""
        called = {name for failure in failures for name in failure.called or (ANY,)}
        needs = self.needs | called
        probe_s = 0.0 if self.reason is None else min(max(PROBE_S_FIRST, self.probe_s * 2), probe_s_max)
        reason = f"{failures[0].error_class}: {failures[0].message}"
        return Blocked(reason, probe_s, needs if len(needs) <= NEEDS_MAX else frozenset((ANY,)))

    def after_result(self, result: Outcome | Failure, reports: Mapping[str, Report]) -> Blocked:
        """``reports``: the calls of the one event that was tried."""
        answered = {name for name, report in reports.items() if report.calls - report.late > report.failed}
        needs = frozenset(name for name in self.needs if not _is_met(name, result, answered))
        return replace(self, needs=needs) if needs else Blocked()


def _is_met(need: str, result: Outcome | Failure, answered: Collection[str]) -> bool:
    return disproves(result, answered, () if need == ANY else (need,))


def choose(waiting: Iterable[OpenItem], arrived: Iterable[Item]) -> tuple[Rank, OpenItem | Item] | None:
    """The event that is tried next: of those that tell most the first, those that wait before those that arrive."""
    of_waiting = list(waiting)
    suspects = {_account(item.row) for item in of_waiting if is_suspect(item.row)}

    def rank(item: OpenItem | Item) -> Rank:
        return isinstance(item, OpenItem) and is_suspect(item.row), _account(item.row) in suspects

    every: list[OpenItem | Item] = [*of_waiting, *arrived]
    best = min(every, key=rank, default=None)
    return None if best is None else (rank(best), best)


def _account(row: JournalRow) -> Account:
    return row.tenant, row.provider, row.account
