"""Turns observations into the rules' values. A value that can't be read now is None: no news is neither good nor
bad."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping
from datetime import datetime
from typing import Any

from alerts.engine import CLEAR_S
from alerts.observation import DeadSummary, Observation, Series, Window
from alerts.rules import (
    COUNTED_MIN,
    FAILING_S_MAX,
    HOUR_S,
    SIGNATURES_MIN,
    SLOW_MIN,
    SLOW_S,
    WINDOW_S,
    AlertReading,
)
from alerts.silence import Silence
from core.routing import base_of, mode_of, stream_of
from core.status_file import moment_of
from dead_letters.rates import sum_rates

WANTED = (
    *("payhook_decisions_total", "payhook_sli_events_total"),
    *("payhook_redis_claim_seconds_bucket", "payhook_redis_claim_seconds_count"),
    *("payhook_ingest_answers_total", "payhook_ingest_refusals_total", "payhook_ingest_not_there_total"),
    "payhook_ingest_verified_total",
    "payhook_memory_used_ratio",
)
"""The samples that are looked at."""

RECEIVER = "the receiver"
"""The subject of what isn't a stream."""

TRIES = ("applied", "ignored", "unknown", "retry", "dead")
"""Decisions by which a try can end."""

SUBSCRIBER = "subscriber:"
"""The prefix of a subscriber's name as a downstream."""

BY_DOWNSTREAM = frozenset({"breaker_open", "subscriber_failing"})
"""Rules whose subjects are streams and their downstreams, as ``notify subscriber:shop``."""
FORGOTTEN_S = 1.5 * CLEAR_S
"""An event type that isn't unknown any more is read for longer than its alert takes to be over, by whichever clock."""

BY_PROVIDER = frozenset({"signatures", "not_there"})
"""Rules whose subjects are providers."""


class Readings:
    """Makes each look's readings; shares are taken over the looks before it: ``window_s``, and an hour."""

    def __init__(
        self,
        window_s: float = WINDOW_S,
        providers: Iterable[str] = (),
        unknown: Iterable[str] = (),
        downstreams: Collection[str] = (),
        silence: Silence | None = None,
    ) -> None:
        """
        :param silence: knows the rhythms of endpoints; None: they aren't looked at
        :param providers: that the alerts are about which a state file remembers
        :param unknown: what wasn't known of events, that such alerts are about
        :param downstreams: subjects of `BY_DOWNSTREAM` that such alerts are about
        """
        self._downstreams: dict[str, set[str]] = {}
        """Downstreams by stream, as far as its status ever named them."""
        self._disabled = {subject for subject in downstreams if subject.startswith(SUBSCRIBER)}
        """Subscribers that may be disabled, whatever any stream says of them."""
        for subject in set(downstreams) - self._disabled:
            stream, _, name = subject.partition(" ")
            self._downstreams.setdefault(stream, set()).add(name)
        self._window_s = window_s
        self._providers = set(providers)
        """Providers that were ever seen; as many as the receivers have adapters."""
        self._gone_s: dict[str, float | None] = dict.fromkeys(unknown)
        """Maps what is unknown to the time since when no journal counts it; None where one does, or may. It is
        forgotten once its alert is over.
        """
        self._window = Window(max(HOUR_S, window_s))
        self._silence = silence

    def make_readings(self, seen: Observation, now: datetime, now_s: float) -> list[AlertReading]:
        lags = {_lag_of(name): lag for name, status in seen.statuses.items() if (lag := _read_lag(status)) is not None}
        self._window.read(now_s, {**seen.samples, **lags})
        events = [
            *_read_dead(seen, now),
            *self._read_unknown(seen, now_s),
            *self._read_readiness(seen),
            *self._read_streams(seen),
        ]
        events += [*self._read_downstreams(seen, now), *self._read_quiet(seen, now), *_read_catch_up(seen, now)]
        return [*events, self._read_redis(seen), *_read_machines(seen), *self._read_providers(seen)]

    def _read_unknown(self, seen: Observation, now_s: float) -> Iterator[AlertReading]:
        """Counts unknown events by what isn't known; None if an unreadable journal may count some, 0 if none does any
        more."""
        counts = Counter[str]()
        for dead in seen.dead.values():
            counts.update({} if dead is None else dead.unknown)
        is_all_read = None not in seen.dead.values()
        self._gone_s |= dict.fromkeys(counts)
        for what, gone_s in list(self._gone_s.items()):
            if what in counts:
                yield AlertReading("unknown", what, float(counts[what]), "see `payhook ledger unknown`", what)
            elif not is_all_read:
                self._gone_s[what] = None
                yield AlertReading("unknown", what, None)
            else:
                since_s = self._gone_s[what] = now_s if gone_s is None else gone_s
                if now_s - since_s >= FORGOTTEN_S:
                    del self._gone_s[what]
                yield AlertReading("unknown", what, 0.0)

    def _read_quiet(self, seen: Observation, now: datetime) -> Iterator[AlertReading]:
        if self._silence is None:
            return
        counters = _find_series(seen, "payhook_ingest_verified_total")
        if not _find_series(seen, "payhook_ingest_answers_total"):
            yield from (AlertReading("quiet", source, None) for source in self._silence.known_sources)
            return
        gained: dict[str, dict[object, float]] = {}
        for counter in counters:
            gained.setdefault(_find_label(counter, "endpoint") or "", {})[counter] = seen.samples[counter]
        for source, quiet in self._silence.find_quiet(gained, now).items():
            note = "" if quiet is None else f"{quiet.came:,} came, at least {quiet.expected:,.0f} are usual"
            yield AlertReading("quiet", source, float(quiet is not None), note)

    def _read_readiness(self, seen: Observation) -> Iterator[AlertReading]:
        if seen.receiver_ready is not None:
            yield AlertReading("not_ready", RECEIVER, float(not seen.receiver_ready))
        for stream, status in seen.statuses.items():
            well = status is not None and bool(status.get("ready")) and status.get("blocked") is None
            why = _why_not_ready(status)
            yield AlertReading("not_ready", stream, float(not well), cause=why)
            refused = None if status is None else float(status.get("state") == "refused")
            yield AlertReading("refused", stream, refused, cause=why)

    def _read_streams(self, seen: Observation) -> Iterator[AlertReading]:
        lags = {stream: self._growing_lag(stream, _read_lag(status)) for stream, status in seen.statuses.items()}
        for stream, lag in _by_stream(lags).items():
            yield AlertReading("lag", stream, lag)
        for stream, status in seen.statuses.items():
            waited_s = None if status is None else _read_number(status.get("unpublished_s", 0.0))
            yield AlertReading("dlq_publish", stream, waited_s)
            yield _head_of_line(stream, status)
            yield AlertReading("retry_rate", stream, self._retry_share(seen, stream))
            yield AlertReading("slo_burn", stream, self._missed_share(seen, stream))

    def _read_downstreams(self, seen: Observation, now: datetime) -> Iterator[AlertReading]:
        """Measures how long each stream's downstreams have been down and have failed; None while the stream doesn't
        say. A downstream that a status names no more is as usual again: a process that begins forgets those at rest."""
        for stream, status in seen.statuses.items():
            downstreams = None if status is None else status.get("downstreams")
            known = self._downstreams.setdefault(stream, set())
            known.update(downstreams or ())
            for name in sorted(known):
                for rule, since in (("breaker_open", "since"), ("subscriber_failing", "failing_since")):
                    if rule == "subscriber_failing" and not name.startswith(SUBSCRIBER):
                        continue
                    of_it = None if downstreams is None else downstreams.get(name, {})
                    yield AlertReading(rule, f"{stream} {name}", _lasted_s(of_it, since, now), _why_waits(of_it))
        if seen.subscribers is None:
            yield from (AlertReading("subscriber_failing", subject, None) for subject in sorted(self._disabled))
            return
        for name, at in seen.subscribers.items():
            self._disabled.add(f"{SUBSCRIBER}{name}")
            note = f"it answered 410 and is disabled; `payhook notify enable {name}` enables it"
            lasted_s = 0.0 if at is None else max(FAILING_S_MAX + 1, _measure_age(at, now))
            yield AlertReading("subscriber_failing", f"{SUBSCRIBER}{name}", lasted_s, "" if at is None else note)

    def _growing_lag(self, stream: str, lag: float | None) -> float | None:
        before = self._window.find_earlier(_lag_of(stream), self._window_s)
        if lag is None:
            return None
        return lag if before is None or lag >= before else 0.0

    def _retry_share(self, seen: Observation, stream: str) -> float | None:
        of_stream = _find_series(seen, "payhook_decisions_total", stream=stream)
        tries = [series for series in of_stream if _find_label(series, "decision") in TRIES]
        return self._compute_share([series for series in tries if _find_label(series, "decision") == "retry"], tries)

    def _missed_share(self, seen: Observation, stream: str) -> float | None:
        """Compares the missed shares of now and of the last hour, and returns the smaller: a short dip has no one
        called.

        The hour decides whether there are events enough, as in Prometheus' rule: few come in five minutes of a night.
        """
        of_stream = _find_series(seen, "payhook_sli_events_total", stream=stream)
        counted = [
            series for series in of_stream if _find_label(series, "outcome") in ("in_time", "late", "failed", "unknown")
        ]
        missed = [series for series in counted if _find_label(series, "outcome") != "in_time"]
        shares = [self._compute_share(missed, counted, counted_min=1), self._compute_share(missed, counted, HOUR_S)]
        return None if None in shares else min(share for share in shares if share is not None)

    def _read_redis(self, seen: Observation) -> AlertReading:
        """Measures the share of the claims that took longer than the bound, which is an edge of the histogram."""
        name = "payhook_redis_claim_seconds"
        claims = _find_series(seen, f"{name}_count")
        quick = [
            series
            for series in _find_series(seen, f"{name}_bucket")
            if float(_find_label(series, "le") or "nan") == SLOW_S
        ]
        if not (quick and claims):
            return AlertReading("redis_slow", "", None)
        counted = self._window.sum_gained(claims, claims, self._window_s)
        slow = counted - self._window.sum_gained(quick, claims, self._window_s)
        if slow >= SLOW_MIN:
            return AlertReading("redis_slow", "", slow / counted)
        is_known = counted >= COUNTED_MIN or self._window.spans(self._window_s)
        return AlertReading("redis_slow", "", 0.0 if is_known else None)

    def _read_providers(self, seen: Observation) -> Iterator[AlertReading]:
        """Measures for each provider the share of requests with a refused signature, and of those about what its own
        API doesn't know. It is 0 where they are few, and None while no receiver's page names providers."""
        answers = _find_series(seen, "payhook_ingest_answers_total")
        self._providers |= {name for series in answers if (name := _find_label(series, "provider")) is not None}
        for provider in sorted(self._providers):
            refusals = _find_series(seen, "payhook_ingest_refusals_total", provider=provider)
            forged = [series for series in refusals if (_find_label(series, "reason") or "").startswith("signature_")]
            absent = _find_series(seen, "payhook_ingest_not_there_total", provider=provider)
            for rule, some in (("signatures", forged), ("not_there", absent)):
                yield AlertReading(
                    rule, provider, self._compute_refused_share(some, answers, provider) if answers else None
                )

    def _compute_refused_share(self, some: list[Series], answers: list[Series], provider: str) -> float:
        every = [series for series in answers if _find_label(series, "provider") == provider]
        refused = self._window.sum_gained(some, answers, self._window_s)
        counted = self._window.sum_gained(every, answers, self._window_s)
        return refused / counted if counted and refused >= SIGNATURES_MIN else 0.0

    def _compute_share(
        self,
        some: list[Series],
        every: list[Series],
        seconds: float | None = None,
        *,
        counted_min: int = COUNTED_MIN,
    ) -> float | None:
        over_s = self._window_s if seconds is None else seconds
        if not every:
            return None
        counted = self._window.sum_gained(every, every, over_s)
        if counted < counted_min:
            return 0.0 if self._window.spans(self._window_s) else None
        return self._window.sum_gained(some, every, over_s) / counted


def _head_of_line(stream: str, status: Mapping[str, Any] | None) -> AlertReading:
    heads = (status or {}).get("heads")
    if not isinstance(heads, Mapping):
        return AlertReading("head_of_line", stream, None)
    note = f"most wait behind {heads['held_by']}" if heads.get("held_by") else ""
    return AlertReading("head_of_line", stream, float(bool(heads.get("head_of_line"))), note)


def _why_not_ready(status: Mapping[str, Any] | None) -> str:
    if status is None:
        return "its processor reports no status"
    return next((str(status[name]) for name in ("blocked", "why", "last_failure") if status.get(name)), "")


def _read_dead(seen: Observation, now: datetime) -> Iterator[AlertReading]:
    depths = {stream: None if dead is None else float(dead.depth) for stream, dead in seen.dead.items()}
    for stream, depth in _by_stream(depths).items():
        yield AlertReading("dlq_depth", stream, depth, "" if depth is None else _rates_note(seen, stream, int(depth)))
    for stream, dead in seen.dead.items():
        age_s = None if dead is None else _age_s(dead, now)
        yield AlertReading("dlq_age", stream, age_s)
        yield AlertReading("dlq_escalation", stream, age_s)


def _read_catch_up(seen: Observation, now: datetime) -> Iterator[AlertReading]:
    for source, report in seen.caught_up.items():
        since = moment_of(report, "since") if report.get("problem") else None
        problem = str(report.get("problem") or "")
        yield AlertReading("catch_up", source, 0.0 if since is None else (now - since).total_seconds(), problem)
        yield AlertReading("switched_off", source, float(report.get("switched_off") is True))
        yield AlertReading("caught_up", source, _read_number(report.get("fetched_day", 0)))


def _read_machines(seen: Observation) -> Iterator[AlertReading]:
    for place, used in seen.disks.items():
        yield AlertReading("disk", place, used)
    everywhere = [value for (name, _), value in seen.samples.items() if name == "payhook_memory_used_ratio"]
    yield AlertReading("memory", "", max([*everywhere, *([] if seen.memory is None else [seen.memory])], default=None))
    for stream, broken in seen.broken.items():
        yield AlertReading("verify", stream, float(broken))
    for rule, left in seen.rounds.items():
        yield AlertReading(rule, "", left)
    replicas = seen.replicas
    yield AlertReading("isr", "", None if replicas is None else float(replicas.out_of_sync))
    yield AlertReading("min_isr", "", None if replicas is None else float(replicas.under_min))


def _by_stream(values: Mapping[str, float | None]) -> dict[str, float | None]:
    """Sums the values of each stream's journals, by the stream's name; None if one journal's isn't known.

    What people have to do, and what is waiting, doesn't depend on how many journals there are.
    """
    sums: dict[str, float | None] = {}
    for name, value in values.items():
        stream = _stream_of(name)
        before = sums.get(stream, 0.0)
        sums[stream] = None if before is None or value is None else before + value
    return sums


def _stream_of(name: str) -> str:
    return stream_of(base_of(name), mode_of(name))


def _rates_note(seen: Observation, stream: str, depth: int) -> str:
    rates = [dead.rates for name, dead in seen.dead.items() if dead is not None and _stream_of(name) == stream]
    return ", ".join(rate.full_sentence for rate in sum_rates(rates, depth))


def _age_s(dead: DeadSummary, now: datetime) -> float:
    return 0.0 if dead.oldest_at is None else (now - dead.oldest_at).total_seconds()


def _measure_age(at: datetime, now: datetime) -> float:
    return max(0.0, (now - at).total_seconds())


def _lasted_s(downstream: Mapping[str, Any] | None, since: str, now: datetime) -> float | None:
    if downstream is None:
        return None
    at = moment_of(downstream, since)
    return 0.0 if at is None else _measure_age(at, now)


def _why_waits(downstream: Mapping[str, Any] | None) -> str:
    why, next_try_at = ((downstream or {}).get(name) for name in ("why", "next_try_at"))
    return ", ".join(filter(None, (why, next_try_at and f"next try at {next_try_at}")))


def _read_lag(status: Mapping[str, Any] | None) -> float | None:
    catch_up = (status or {}).get("catch_up")
    return _read_number(catch_up.get("lag")) if isinstance(catch_up, Mapping) else None


def _read_number(value: object) -> float | None:
    return float(value) if isinstance(value, (int, float)) and not isinstance(value, bool) else None


def _lag_of(stream: str) -> Series:
    return "lag", (("stream", stream),)


def _find_series(seen: Observation, name: str, **labels: str) -> list[Series]:
    return [series for series in seen.samples if series[0] == name and labels.items() <= dict(series[1]).items()]


def _find_label(series: Series, name: str) -> str | None:
    return dict(series[1]).get(name)
