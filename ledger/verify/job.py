"""`payhook verify`: checks every invariant on what was gathered."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

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
from ledger.verify.body_checks import BodiesWhole, BodyFacts, BookingsAreInBodies
from ledger.verify.derived_checks import DlqEqualsOpenDead, IndexEqualsJournal, PostingsEqualJournal
from ledger.verify.duckdb_engine import duckdb_engine
from ledger.verify.engine import SqlEngine, list_promise_names, read_promise
from ledger.verify.evidence import Evidence, Lake, VerifyLimits
from ledger.verify.gather import Options, gather_evidence, read_last_seq
from ledger.verify.journal_checks import (
    AnchorsHold,
    AuditLogWhole,
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
from ledger.verify.kafka_checks import (
    OF_A_DEEP_LOOK,
    ElsewhereIsOthers,
    InFlight,
    OffsetsAccounted,
    ReceiptsHaveDecisions,
    TopicDivided,
)
from ledger.verify.payment_checks import (
    Balanced,
    BookingsAreReported,
    EntriesHaveTwoPeople,
    OneMerchantAPayment,
    RefundsHaveCaptures,
    ReleasesHaveTwoPeople,
    ReprocessedWereIgnored,
    ReversalsMirrorBookings,
    UndosFollowMovements,
    UndosHaveMovements,
)
from ledger.verify.record_checks import RecordsAreThoseDecided
from ledger.verify.report import Finding, Invariant, Report
from ledger.verify.report_checks import ListedAreDecided, ReportsAgree

INVARIANTS: tuple[Invariant, ...] = (
    OffsetsAccounted(),
    InFlight(),
    RecordsAreThoseDecided(),
    TopicDivided(),
    ElsewhereIsOthers(),
    ReceiptsHaveDecisions(),
    ListedAreDecided(),
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
    ReleasesHaveTwoPeople(),
    ReprocessedWereIgnored(),
    RefundsHaveCaptures(),
    UndosHaveMovements(),
    UndosFollowMovements(),
    OneMerchantAPayment(),
    ReportsAgree(),
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
        ListedAreDecided.name,
        Balanced.name,
        BookingsAreReported.name,
        ReversalsMirrorBookings.name,
        EntriesHaveTwoPeople.name,
        ReprocessedWereIgnored.name,
        RefundsHaveCaptures.name,
        UndosHaveMovements.name,
        UndosFollowMovements.name,
        OneMerchantAPayment.name,
        ReportsAgree.name,
        PostingsEqualJournal.name,
        AuditLogWhole.name,
        BookingsAreInBodies.name,
    }
)
"""Other streams have no bookings and no receipts; the record of what people did is one for all streams."""

OF_THE_FIRST_SHARD = frozenset(
    {ReceiptsHaveDecisions.name, AuditLogWhole.name, ReportsAgree.name, OneEffectInAllShards.name}
)
"""What is one for all shards of a stream is checked once."""

OF_DEEP_ALONE: tuple[type[Invariant], ...] = (BodiesWhole, BookingsAreInBodies)

ERROR_CHARS_MAX = 500


class VerifyProgress:
    """Shows how far a verification is. This base class shows nothing."""

    def show_start(self, invariants: int) -> None: ...

    def show_percent(self, percent: float) -> None: ...

    def show_finding(self, finding: Finding) -> None: ...


def run(
    data_dir: Path,
    kafka: KafkaSettings,
    anchor_key_file: Path,
    find_jars: Callable[[], Sequence[Path]],
    settings: LedgerSettings,
    *,
    stream: str,
    dead_letters: str,
    options: Options,
    watch: VerifyProgress,
    lake: Location,
) -> Report:
    """Verifies one stream, while everything may keep running.

    DuckDB does it in a process of its own, or Spark where the ledger's master is a cluster.

    :param find_jars: Spark's; DuckDB needs none
    :param dead_letters: the topic of its dead letters; empty: the one that is named after the stream
    :param watch: shows the progress
    :param lake: where the tables are
    :raises VerifyImpossible: there is no journal
    :raises SettingError: there are no keys of its anchors
    :raises KafkaUnreachable: Kafka doesn't answer
    """
    clock = SystemClock()
    started = clock.monotonic_s()
    places = Lake.from_data_dir(data_dir, stream, lake, dead_letters)
    rows, anchor_keys = read_last_seq(places), AnchorKeys.read(anchor_key_file)
    limits = VerifyLimits(refund_awaits_days_max=settings.verify.refund_awaits_days_max)
    with open_engine(settings, data_dir, find_jars, rows, watch) as engine:
        report = verify(engine, places, RealKafka(kafka), anchor_keys, limits, clock, options=options, watch=watch)
        return replace(report, seconds=clock.monotonic_s() - started)


@contextmanager
def open_engine(
    settings: LedgerSettings,
    data_dir: Path,
    find_jars: Callable[[], Sequence[Path]],
    rows: int,
    watch: VerifyProgress,
) -> Iterator[SqlEngine]:
    if settings.is_local:
        with duckdb_engine(data_dir, settings.verify.memory) as engine:
            engine.progress = watch.show_percent
            yield engine
        return
    # Spark's modules take a second to load.
    from ledger.spark import read_session
    from ledger.verify.spark_engine import SparkEngine

    name = "payhook verify"
    with read_session(name, settings.master, settings.driver_memory, find_jars(), data_dir, rows) as session:
        yield SparkEngine(session)


def verify(
    engine: SqlEngine,
    lake: Lake,
    kafka: Kafka,
    anchor_keys: AnchorKeys,
    limits: VerifyLimits,
    clock: Clock,
    options: Options | None = None,
    watch: VerifyProgress | None = None,
    names: Collection[str] = (),
) -> Report:
    """Verifies as `run` does, with an engine and a Kafka that are passed in.

    :param names: the invariants to check; empty: all
    """
    started, options = clock.monotonic_s(), options or Options()
    read_last_seq(lake)
    index, no_index = _open_index(lake)
    try:
        evidence = gather_evidence(engine, lake, kafka, anchor_keys, limits, clock, index, options)
        evidence.no_index = no_index
        watch = watch or VerifyProgress()
        deep = _build_deep_checks(lake, options)
        instead = {check.name for check in deep}
        left_out = instead | _find_left_out(evidence)
        checks = [*(check for check in INVARIANTS if check.name not in left_out), *deep]
        asked = [check for check in checks if not names or check.name in names]
        watch.show_start(len(asked))
        findings = [_check_invariant(invariant, evidence, watch) for invariant in asked]
    finally:
        if index is not None:
            index.close()
    return Report(
        lake.stream,
        evidence.state.version,
        evidence.seq,
        evidence.now,
        clock.monotonic_s() - started,
        tuple(findings),
        evidence.first_seq,
    )


def explain(name: str) -> str:
    """Returns an invariant's sentence, and the query that proves it; where none does, the file that does.

    :raises KeyError: no invariant has this name
    """
    if name in list_promise_names():
        return read_promise(name).text
    invariant = list_invariant_types()[name]
    return (
        f"-- {invariant.sentence}\n-- No query proves this by itself: see {invariant.__module__.replace('.', '/')}.py\n"
    )


def list_invariant_types() -> dict[str, type[Invariant]]:
    """Lists all invariants by name, in the order in which they are checked; those of ``--deep`` alone are the last."""
    of_every_look: dict[str, type[Invariant]] = {check.name: type(check) for check in INVARIANTS}
    return of_every_look | {check.name: check for check in OF_DEEP_ALONE}


def _find_left_out(evidence: Evidence) -> frozenset[str]:
    shard = evidence.shard
    of_others = frozenset() if shard.number == 0 else OF_THE_FIRST_SHARD
    alone = frozenset({OneEffectInAllShards.name}) if shard.count == 1 else frozenset()
    undivided = frozenset() if evidence.is_divided else frozenset({TopicDivided.name})
    return of_others | alone | undivided | (frozenset() if evidence.lake.is_ledger else OF_THE_LEDGER)


def _open_index(lake: Lake) -> tuple[Index | None, str]:
    if not any(lake.index.glob("epoch-*")):
        return None, f"there is no key index in {lake.index}; verify where the processor runs, or start it there"
    try:
        return open_beside_its_writer(lake.index), ""
    except IndexUnreadable as unreadable:
        return None, str(unreadable)


def _build_deep_checks(lake: Lake, options: Options) -> list[Invariant]:
    if not options.deep:
        return []
    of_all: list[Invariant] = [
        BodiesWhole(lake.bodies_table, lake.redactions_table),
        RecordsAreThoseDecided(every=True),
        ElsewhereIsOthers(OF_A_DEEP_LOOK),
    ]
    if not lake.is_ledger:
        return of_all
    facts = BodyFacts(lake.bodies_table, options.providers)
    by_body: list[Invariant] = [RefundsHaveCaptures(facts), UndosHaveMovements(facts), OneMerchantAPayment(facts)]
    return [*of_all, BookingsAreInBodies(facts), *by_body]


def _check_invariant(invariant: Invariant, evidence: Evidence, watch: VerifyProgress) -> Finding:
    """Checks an invariant. What stopped a check that can't run is its offender, or why it isn't made now."""
    try:
        finding = invariant.check(evidence)
    except Exception as failed:
        problem = {"problem": "the check could not be run", "error": str(failed)[:ERROR_CHARS_MAX]}
        finding = Finding(invariant.name, invariant.sentence, (problem,))
        if isinstance(failed, PayhookError) and getattr(failed, "kind", None) is ErrorKind.SBE:
            finding = Finding(invariant.name, invariant.sentence, not_checked=str(failed)[:ERROR_CHARS_MAX])
    watch.show_finding(finding)
    return finding
