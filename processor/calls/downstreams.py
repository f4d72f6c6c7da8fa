"""The driver decides what handlers may call: it sees every outcome, and says before each batch what may be called."""

from __future__ import annotations

import json
import logging
from collections import Counter, OrderedDict
from collections.abc import Callable, Mapping, MutableMapping
from typing import Any, TypeAlias

from core.clock import Clock, SystemClock
from core.decision import ErrorKind
from core.work import Held, Outcome
from processor.calls.breaker import CLOSED
from processor.calls.budget import ANY, Budgets, CallReport, find_pattern
from processor.calls.downstream import Downstream
from processor.errors.classify import Failure
from processor.settings import DownstreamSettings

log = logging.getLogger(__name__)

NOTE = "breakers"
"""The name of what is kept with the journal (`JournalState.notes`)."""

NAMES_MAX = 1_000
FAILURE_CHARS_MAX = 300
NOTE_CHARS_MAX = 32_768
"""Half of what all notes of a journal may take: some 250 breakers that aren't closed."""


OnRound: TypeAlias = Callable[[str, str, int, CallReport], None]
"""Called after each batch for each downstream that was asked for, or whose state changed: its name, its state, how many
calls at a time it gets, what became of its calls."""

OnForgotten: TypeAlias = Callable[[str], None]
"""Called for each downstream of a round when it is forgotten: its name."""


class Downstreams:
    """The downstreams of one work stream: a breaker, a concurrency limit and a retry budget for each.

    ``settings`` by name, or by a pattern that ends in ``*``; defaults for the rest. ``tries`` are the retry policy's.
    ``notes`` are the journal's. Not thread-safe: the driver has one batch at a time.
    """

    def __init__(
        self,
        settings: Mapping[str, DownstreamSettings] | None = None,
        clock: Clock | None = None,
        *,
        tries: int | None = None,
        notes: Mapping[str, str] | None = None,
        on_round: OnRound | None = None,
        on_forgotten: OnForgotten | None = None,
    ) -> None:
        every = {ANY: DownstreamSettings(), **(settings or {})}
        self._settings = {name: _opens_before_retries_end(given, tries) for name, given in every.items()}
        self._clock = clock or SystemClock()
        self._on_round = on_round
        self._on_forgotten = on_forgotten
        self._known: OrderedDict[str, Downstream] = OrderedDict()
        self._states: dict[str, str] = {}
        self._turn = 0
        for name, kept in _read_note(notes or {}).items():
            self._known[name] = self._make_downstream(name, kept)

    def make_budgets(self) -> Budgets:
        return Budgets(
            {name: downstream.make_budget() for name, downstream in self._known.items()},
            {
                pattern: Downstream(pattern, settings, self._clock).make_budget()
                for pattern, settings in self._settings.items()
            },
        )

    def take_turn(self) -> int:
        self._turn += 1
        return self._turn

    def judge(self, results: MutableMapping[int, Outcome | Failure], reports: Mapping[str, CallReport]) -> None:
        """Takes in what a batch did, then sets when each held event is due again.

        An event whose call failed while its downstream was down is held too: an outage costs no attempt.
        """
        refused, failures = _collect_failures(results)
        for name, report in reports.items():
            self._get_downstream(name).learn_calls(report)
            self._get_downstream(name).learn_events(report, refused[name], failures.get(name, ""))
        for name, downstream in self._known.items():
            self._report_state(name, downstream, reports.get(name))
        held = {seq: result for seq, result in results.items() if isinstance(result, Held)}
        for item_seq in sorted(held):
            waiting = held[item_seq]
            results[item_seq] = self._get_downstream(waiting.downstream).schedule_held(waiting, waiting.retry_after_s)
        self._excuse_failures(results, reports)

    def _report_state(self, name: str, downstream: Downstream, report: CallReport | None) -> None:
        state, before = downstream.state, self._states.get(name, CLOSED)
        if state != before:
            next_try = "" if downstream.next_try_at is None else f"; next try at {downstream.next_try_at}"
            log.log(logging.INFO if state == CLOSED else logging.WARNING, "%s %s%s", name, downstream.text(), next_try)
        if report is None and state == before:
            return
        self._states[name] = state
        if self._on_round is not None:
            self._on_round(name, state, downstream.at_once, report or CallReport())

    def _excuse_failures(
        self, results: MutableMapping[int, Outcome | Failure], reports: Mapping[str, CallReport]
    ) -> None:
        """Holds what failed because of its downstream, behind the others, so that the next probes are other events."""
        for item_seq, result in sorted(results.items()):
            if not isinstance(result, Failure) or result.downstream is None or result.kind is ErrorKind.SBE:
                continue
            downstream = self._get_downstream(result.downstream)
            if downstream.may_excuse(reports.get(result.downstream)):
                results[item_seq] = downstream.schedule_held(Held(result.downstream, 0.0), result.retry_after_s or 0.0)

    def make_notes(self) -> dict[str, str]:
        kept = {
            name: state for name, downstream in self._known.items() if (state := downstream.make_note()) is not None
        }
        text = _dump_note(kept)
        while len(text) > NOTE_CHARS_MAX:
            for name in list(kept)[: max(1, len(kept) // 10)]:
                del kept[name]
            text = _dump_note(kept)
        return {NOTE: text}

    def status(self) -> dict[str, dict[str, Any]]:
        return {name: downstream.status() for name, downstream in self._known.items()}

    def _get_downstream(self, name: str) -> Downstream:
        if name not in self._known:
            self._make_room()
            self._known[name] = self._make_downstream(name, None)
        self._known.move_to_end(name)
        return self._known[name]

    def _make_downstream(self, name: str, kept: Mapping[str, Any] | None) -> Downstream:
        return Downstream(name, self._settings[find_pattern(name, self._settings) or ANY], self._clock, kept)

    def _make_room(self) -> None:
        if len(self._known) < NAMES_MAX:
            return
        resting = (name for name, downstream in self._known.items() if downstream.make_note() is None)
        forgotten = next(resting, next(iter(self._known)))
        del self._known[forgotten]
        if self._states.pop(forgotten, None) is not None and self._on_forgotten is not None:
            self._on_forgotten(forgotten)


def _opens_before_retries_end(settings: DownstreamSettings, tries: int | None) -> DownstreamSettings:
    """Lets the breaker open before a lone event's own retries are spent: an outage mustn't kill the event."""
    if tries is None or settings.failures_to_open <= tries:
        return settings
    return settings.model_copy(update={"failures_to_open": max(1, tries)})


def _collect_failures(results: Mapping[int, Outcome | Failure]) -> tuple[Counter[str], dict[str, str]]:
    refused, texts = Counter[str](), dict[str, str]()
    for result in results.values():
        if isinstance(result, Failure):
            refused.update(name for name in result.called if name != result.downstream)
            text = f"{result.error_class}: {result.message}"[:FAILURE_CHARS_MAX]
            texts |= dict.fromkeys((*result.called, *filter(None, (result.downstream,))), text)
    return refused, texts


def _dump_note(kept: Mapping[str, Any]) -> str:
    return json.dumps(kept, separators=(",", ":"))


def _read_note(notes: Mapping[str, str]) -> dict[str, dict[str, Any]]:
    try:
        kept = json.loads(notes.get(NOTE, "{}"))
        return {str(name): dict(state) for name, state in kept.items()}
    except (ValueError, TypeError, AttributeError):
        log.warning("the journal's note of breakers can't be read; every breaker begins closed")
        return {}
