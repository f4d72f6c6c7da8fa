"""`payhook verify`: checks every invariant on what was gathered."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

from pyspark.sql import SparkSession

from core.clock import Clock, SystemClock
from core.decision import ErrorKind
from core.errors import PayhookError
from core.location import Location
from core.settings import KafkaSettings
from journal.anchors import AnchorKeys
from journal.entity_queue import open_beside_its_writer
from journal.errors import IndexUnreadable
from journal.index import Index
from ledger.settings import LedgerSettings
from ledger.spark import read_session
from ledger.verify.anchor_checks import AnchorsHold, AuditLogWhole
from ledger.verify.body_checks import BodiesWhole, BodyFacts, BookingsAreInBodies
from ledger.verify.booking_checks import (
    Balanced,
    BookingsAreReported,
    EntriesHaveTwoPeople,
    ReprocessedWereIgnored,
    ReversalsMirrorBookings,
)
from ledger.verify.derived_checks import DlqEqualsOpenDead, IndexEqualsJournal, PostingsEqualJournal
from ledger.verify.evidence import Evidence, Lake, Limits
from ledger.verify.gather import Options, gather, last_seq
from ledger.verify.journal_checks import (
    ChainWhole,
    ItemsCloseOnce,
    OneEffectInAllShards,
    OneEffectPerEventKey,
    OneEffectPerFactKey,
    OneMode,
    OrderKept,
    SeqWithoutGaps,
)
from ledger.verify.kafka import Kafka, RealKafka
from ledger.verify.kafka_checks import InFlight, OffsetsAccounted, ReceiptsHaveDecisions
from ledger.verify.payment_checks import OneMerchantAPayment, RefundsHaveCaptures, UndosHaveMovements
from ledger.verify.record_checks import RecordsAreThoseDecided
from ledger.verify.report import Finding, Invariant, Report

INVARIANTS: tuple[Invariant, ...] = (
    OffsetsAccounted(),
    InFlight(),
    RecordsAreThoseDecided(),
    ReceiptsHaveDecisions(),
    OrderKept(),
    OneEffectPerEventKey(),
    OneEffectPerFactKey(),
    OneEffectInAllShards(),
    OneMode(),
    ItemsCloseOnce(),
    Balanced(),
    BookingsAreReported(),
    ReversalsMirrorBookings(),
    EntriesHaveTwoPeople(),
    ReprocessedWereIgnored(),
    RefundsHaveCaptures(),
    UndosHaveMovements(),
    OneMerchantAPayment(),
    PostingsEqualJournal(),
    IndexEqualsJournal(),
    DlqEqualsOpenDead(),
    ChainWhole(),
    AnchorsHold(),
    AuditLogWhole(),
    SeqWithoutGaps(),
)

OF_THE_LEDGER = frozenset(
    {
        ReceiptsHaveDecisions.name,
        Balanced.name,
        BookingsAreReported.name,
        ReversalsMirrorBookings.name,
        EntriesHaveTwoPeople.name,
        ReprocessedWereIgnored.name,
        RefundsHaveCaptures.name,
        UndosHaveMovements.name,
        OneMerchantAPayment.name,
        PostingsEqualJournal.name,
        AuditLogWhole.name,
    }
)
"""Other streams have no bookings and no receipts; the record of what people did is one for all streams."""

OF_THE_FIRST_SHARD = frozenset({ReceiptsHaveDecisions.name, AuditLogWhole.name, OneEffectInAllShards.name})
"""What is one for all shards of a stream is checked once."""

ERROR_CHARS_MAX = 500

AT_ONCE = 4
"""Invariants under way at the same time: planning one overlaps with running another."""


EARLY = {IndexEqualsJournal.name}
"""It reads on the driver while the executors take the fast path: it mustn't wait for that."""


class Watch:
    """How far a verification is; this one shows nothing. Called from several threads."""

    def begins(self, invariants: int) -> None:
        """So many will be checked."""

    def looked_through(self, done: int, of: int) -> None:
        """Portions of the ledger on the fast path."""

    def found(self, finding: Finding) -> None:
        """One invariant has answered."""


def run(
    data_dir: Path,
    kafka: KafkaSettings,
    anchor_key_file: Path,
    jars: Sequence[Path],
    settings: LedgerSettings,
    *,
    stream: str,
    dead_letters: str,
    options: Options,
    watch: Watch,
    lake: Location,
) -> Report:
    """Verifies one stream with a Spark session of its own, while everything may go on running.

    :param dead_letters: the topic of its dead letters; empty: the one that is named after the stream
    :param watch: shows how far it is
    :param lake: where the tables are
    :raises VerifyImpossible: there is no journal
    :raises SettingError: there are no keys of its anchors
    :raises KafkaUnreachable: Kafka doesn't answer
    """
    clock = SystemClock()
    started = clock.monotonic()
    places = Lake.under(data_dir, stream, lake, dead_letters)
    rows, anchor_keys = last_seq(places), AnchorKeys.read(anchor_key_file)
    limits, name = Limits(refund_awaits_days_max=settings.verify.refund_awaits_days_max), "payhook verify"
    with read_session(name, settings.master, settings.driver_memory, jars, data_dir, rows) as session:
        report = verify(session, places, RealKafka(kafka), anchor_keys, limits, clock, options=options, watch=watch)
        return replace(report, seconds=clock.monotonic() - started)


def verify(
    session: SparkSession,
    lake: Lake,
    kafka: Kafka,
    anchor_keys: AnchorKeys,
    limits: Limits,
    clock: Clock,
    options: Options | None = None,
    watch: Watch | None = None,
    names: Collection[str] = (),
) -> Report:
    """As `run`, in a session and with a Kafka that are passed in.

    :param names: the invariants to check; empty: all
    """
    started, options = clock.monotonic(), options or Options()
    last_seq(lake)
    index, no_index = _index(lake)
    try:
        evidence = gather(session, lake, kafka, anchor_keys, limits, clock, index, options)
        evidence.no_index = no_index
        watch = watch or Watch()
        evidence.progress = watch.looked_through
        deep = _deep_ones(lake, options)
        instead = {one.name for one in deep}
        left_out = instead | _left_out(evidence)
        made = [*(one for one in INVARIANTS if one.name not in left_out), *deep]
        asked = [one for one in made if not names or one.name in names]
        watch.begins(len(asked))
        with ThreadPoolExecutor(AT_ONCE) as pool:
            begun = {
                invariant.name: pool.submit(_check, invariant, evidence, watch)
                for invariant in sorted(asked, key=lambda one: one.name not in EARLY)
            }
            findings = [begun[invariant.name].result() for invariant in asked]
    finally:
        if index is not None:
            index.close()
    return Report(
        lake.stream,
        evidence.state.version,
        evidence.seq,
        evidence.now,
        clock.monotonic() - started,
        tuple(findings),
        evidence.since,
    )


def _left_out(evidence: Evidence) -> frozenset[str]:
    """Invariants that this stream isn't asked about."""
    shard = evidence.shard
    of_others = frozenset() if shard.number == 0 else OF_THE_FIRST_SHARD
    alone = frozenset({OneEffectInAllShards.name}) if shard.count == 1 else frozenset()
    return of_others | alone | (frozenset() if evidence.lake.is_ledger else OF_THE_LEDGER)


def _index(lake: Lake) -> tuple[Index | None, str]:
    """The key index beside its writer; where it can't be opened, why."""
    if not any(lake.index.glob("epoch-*")):
        return None, f"there is no key index in {lake.index}; verify where the processor runs, or start it there"
    try:
        return open_beside_its_writer(lake.index), ""
    except IndexUnreadable as unreadable:
        return None, str(unreadable)


def _deep_ones(lake: Lake, options: Options) -> list[Invariant]:
    if not options.deep:
        return []
    of_all: list[Invariant] = [
        BodiesWhole(lake.bodies, lake.redactions),
        RecordsAreThoseDecided(every=True),
    ]
    if not lake.is_ledger:
        return of_all
    facts = BodyFacts(lake.bodies, options.providers)
    by_body: list[Invariant] = [RefundsHaveCaptures(facts), UndosHaveMovements(facts), OneMerchantAPayment(facts)]
    return [*of_all, BookingsAreInBodies(facts), *by_body]


def _check(invariant: Invariant, evidence: Evidence, watch: Watch) -> Finding:
    """A check that can't be run has not been passed: what stopped it is its offender, or why it isn't made now."""
    try:
        finding = invariant.check(evidence)
    except Exception as failed:
        problem = {"problem": "the check could not be run", "error": str(failed)[:ERROR_CHARS_MAX]}
        finding = Finding(invariant.name, invariant.sentence, (problem,))
        if isinstance(failed, PayhookError) and getattr(failed, "kind", None) is ErrorKind.SBE:
            finding = Finding(invariant.name, invariant.sentence, not_checked=str(failed)[:ERROR_CHARS_MAX])
    watch.found(finding)
    return finding
