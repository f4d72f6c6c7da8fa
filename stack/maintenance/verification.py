"""Verifies the streams of a data folder: one when it is asked for, all by schedule."""

from __future__ import annotations

import json
import logging
from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path

from core.clock import Clock, SystemClock, to_rfc3339
from core.errors import PayhookError
from core.event import Mode
from core.files import write_whole
from core.layout import LEDGER
from core.routing import base_of, mode_of, topics_of
from core.settings import KafkaSettings
from journal.lake import has_table
from ledger.verify import Options, Report, VerifyProgress, run
from ledger.verify.kafka_checks import Division
from ledger.verify.report import remember_report
from processor.streams import StreamConfig, list_enabled
from stack.jars import spark_jars
from stack.journals import journals_of
from stack.settings import Settings, streams_of

log = logging.getLogger("verification")


def streams_to_verify(settings: Settings, mode: Mode) -> list[str]:
    """Names the journals, the ledger's first; the ledger's also where it has no journal, so that this is said."""
    streams = _list_streams(settings, mode)
    return [stream for stream in streams if base_of(stream) == LEDGER or _has_journal(settings, stream)]


def verify_stream(
    settings: Settings, kafka: KafkaSettings, stream: str, options: Options, watch: VerifyProgress
) -> Report:
    """Verifies one of `streams_to_verify`, while everything may keep running.

    :raises PayhookError: it can't be verified; see `ledger.verify.run`
    :raises IncompleteJournals: the stream has journals that the settings don't name
    """
    config = streams_of(settings)[base_of(stream)]
    mode = mode_of(stream)
    journals = journals_of(settings, config, mode)
    journals.check_one(journals.find_place(stream))
    return run(
        settings.data_dir,
        kafka,
        Path(settings.processor.anchor_key_file),
        partial(spark_jars, settings.layout.lake),
        settings.ledger,
        stream=stream,
        dead_letters=config.dlq_topics(mode)[journals.streams.index(stream)],
        options=replace(options, division=division_of(streams_of(settings), config, mode)),
        watch=watch,
        lake=settings.layout.lake,
    )


def division_of(streams: Mapping[str, StreamConfig], config: StreamConfig, mode: Mode) -> Division | None:
    """Returns how several streams divide a stream's topic among them.

    None where one of them takes all of it, or is alone on another program's topic. On the receivers' topic a stream
    that is alone counts too: nobody else decides what it leaves out.
    """
    topic = config.events_topic(mode)
    of_topic = [stream for stream in list_enabled(streams, mode) if topic and stream.events_topic(mode) == topic]
    is_alone = len(of_topic) == 1 and topic != topics_of(mode).events
    if not of_topic or is_alone or not all(stream.where for stream in of_topic):
        return None
    return Division(topic, {stream.name: stream.names(mode) for stream in of_topic})


def run_round(settings: Settings) -> bool:
    """Verifies as `stack.rounds` runs it: true if every stream that decided something was verified and all of it holds.

    Each stream's result is in `Layout.verified_file`. `Layout.verification_file` says when the round ended, and whether
    every stream could be verified (``ok``). ``wrong`` counts the invariants that don't hold; ``problems`` say what kept
    a stream from being verified, or its result from being written. One stream's problem stops no other's verification.
    """
    clock = SystemClock()
    began_at, wrong, problems = clock.now(), 0, dict[str, str]()
    options = Options(providers=settings.providers)
    for stream in [stream for mode in settings.ingest.taken_modes for stream in _list_streams(settings, mode)]:
        try:
            if not _has_journal(settings, stream):
                continue
            report = verify_stream(settings, settings.kafka, stream, options, VerifyProgress())
            wrong += _log_findings(report)
            remember_report(settings.layout.verified_file, report, deep=False)
        except PayhookError as problem:
            problems[stream] = str(problem)
            log.error("%s couldn't be verified: %s", stream, problem)
        except Exception as failed:
            problems[stream] = repr(failed)
            log.exception("%s couldn't be verified", stream)
    _write_report(settings, began_at=to_rfc3339(began_at), clock=clock, wrong=wrong, problems=problems)
    return not problems and not wrong


def _list_streams(settings: Settings, mode: Mode) -> list[str]:
    names = {name: config.names(mode) for name, config in streams_of(settings).items()}
    return [*names[LEDGER], *(name for base, of_base in names.items() if base != LEDGER for name in of_base)]


def _has_journal(settings: Settings, stream: str) -> bool:
    return has_table(str(settings.layout.stream(stream).journal))


def _log_findings(report: Report) -> int:
    offended = [finding for finding in report.findings if finding.offenders]
    for finding in offended:
        log.error("%s: %s doesn't hold: %s", report.stream, finding.name, json.dumps(finding.offenders[0], default=str))
    for finding in report.findings:
        if finding.not_checked is not None:
            log.warning("%s: %s wasn't checked: %s", report.stream, finding.name, finding.not_checked)
    log.info(
        "%s: %d of %d invariants hold, rows 1 to %d, %.1f s",
        report.stream,
        sum(finding.ok for finding in report.findings),
        len(report.findings),
        report.seq,
        report.seconds,
    )
    return len(offended)


def _write_report(settings: Settings, *, began_at: str, clock: Clock, wrong: int, problems: dict[str, str]) -> None:
    report = {
        "ok": not problems,
        "began_at": began_at,
        "ended_at": to_rfc3339(clock.now()),
        "wrong": wrong,
        "problems": problems,
    }
    write_whole(settings.layout.verification_file, json.dumps(report, indent=1) + "\n")
