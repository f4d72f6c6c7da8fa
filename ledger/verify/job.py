"""Pins the journal, reads everything else around that moment, and asks every invariant."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from datetime import datetime
from pathlib import Path

from deltalake import DeltaTable
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as fn

from core.clock import Clock, SystemClock
from core.decision import ErrorKind
from core.errors import PayhookError
from core.location import Location
from core.routing import base_of, dlq_topic, is_sparse, mode_of, source_of, stream_of, topics_of
from journal.anchors import AnchorKeys
from journal.entity_queue import open_beside_its_writer
from journal.errors import IndexUnreadable
from journal.index import Index
from journal.reader import JournalReader
from ledger.postings import mark_of
from ledger.settings import VerifySettings
from ledger.spark import open_read_session
from ledger.verify.acts_check import ActsChainWhole
from ledger.verify.anchor_check import AnchorsHold
from ledger.verify.bodies_check import BodiesWhole
from ledger.verify.body_check import BodyFacts, BookingsAreInBodies
from ledger.verify.booking_check import BookingsAreReported
from ledger.verify.derived_checks import IndexEqualsJournal, PostingsEqualJournal
from ledger.verify.dlq_check import DlqEqualsOpenDead
from ledger.verify.entry_check import EntriesHaveTwoPeople
from ledger.verify.evidence import Ends, Evidence, Kafka, anchored, journal_view
from ledger.verify.invariant import Finding, Invariant
from ledger.verify.journal_checks import (
    Balanced,
    ChainWhole,
    ItemsCloseOnce,
    OneEffectPerEventKey,
    OneEffectPerFactKey,
    OneMode,
    ReprocessedWereIgnored,
    ReversalsMirrorBookings,
    SeqWithoutGaps,
)
from ledger.verify.kafka import RealKafka
from ledger.verify.kafka_checks import InFlight, OffsetsAccounted
from ledger.verify.order_check import OrderKept
from ledger.verify.payment_check import OneMerchantAPayment, RefundsHaveCaptures, UndosHaveMovements
from ledger.verify.receipt_check import ReceiptsHaveDecisions
from ledger.verify.record_check import RecordsAreThoseDecided
from ledger.verify.report import Report
from ledger.verify.since import base_before
from ledger.verify.survey import Tables
from providers.settings import ProvidersSettings

INVARIANTS: tuple[Invariant, ...] = (
    OffsetsAccounted(),
    InFlight(),
    RecordsAreThoseDecided(),
    ReceiptsHaveDecisions(),
    OrderKept(),
    OneEffectPerEventKey(),
    OneEffectPerFactKey(),
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
    ActsChainWhole(),
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
        ActsChainWhole.name,
    }
)
"""Other streams have no bookings and no receipts; the record of what people did is one for all streams."""

LEDGER = "ledger"
ERROR_CHARS_MAX = 500
SECONDS_A_DAY = 86_400

AT_ONCE = 4
"""Invariants under way at the same time: planning one overlaps with running another."""


EARLY = {IndexEqualsJournal.name}
"""It reads on the driver for as long as the executors survey: it mustn't wait for that."""


class VerifyImpossible(PayhookError):
    """There is nothing to verify."""

    def __init__(self, problem: str) -> None:
        self.problem = problem
        super().__init__(f"can't verify: {problem}")


@dataclass(frozen=True, slots=True)
class Options:
    """``deep``: bodies are hashed too. ``since``: only rows from this seq on, or decided from this moment on, are
    looked at. ``bodies_days``: how long bodies are kept; 0: for ever. ``providers``: how adapters read them."""

    deep: bool = False
    since: int | datetime | None = None
    bodies_days: int = 0
    providers: ProvidersSettings = field(default_factory=ProvidersSettings)


class Watch:
    """Is told how far a verification is; this one keeps it to itself. Called from several threads."""

    def begins(self, invariants: int) -> None:
        """So many will be asked."""

    def surveyed(self, done: int, of: int) -> None:
        """Portions of the ledger that were looked through."""

    def found(self, finding: Finding) -> None:
        """One invariant has answered."""


@dataclass(frozen=True, slots=True)
class Lake:
    """Where one stream's journal and what is derived from it are."""

    stream: str
    journal: Location
    bodies: Location
    postings: Location
    index: Path
    receipts: Location
    dead_letters: str = ""
    """The topic of its dead letters, where it isn't named after the stream."""
    redactions: Location | None = None
    """Where it is written down who had bodies removed; None: beside the bodies."""
    acts: Location | None = None
    """The record of what people did; of all streams."""

    @property
    def is_ledger(self) -> bool:
        """Whether its events are money; other streams have no bookings."""
        return base_of(self.stream) == LEDGER

    @classmethod
    def under(cls, data_dir: Path, stream: str = "ledger", lake: Location | None = None) -> Lake:
        """Of a data folder, whose tables are in its ``lake`` unless that is elsewhere."""
        lake, mode, base = lake or data_dir / "lake", mode_of(stream), base_of(stream)
        kept = ("bodies" if base == LEDGER else f"bodies-{base}", "postings", "receipts")
        bodies, postings, receipts = (lake / stream_of(table, mode) for table in kept)
        return cls(
            stream,
            lake / "journal" / stream,
            bodies,
            postings,
            data_dir / "index" / stream,
            receipts,
            acts=lake / "acts",
        )


def run(
    data_dir: Path,
    bootstrap: str,
    anchor_key_file: Path,
    jars: Sequence[Path],
    settings: VerifySettings | None = None,
    clock: Clock | None = None,
    stream: str = "ledger",
    dead_letters: str = "",
    options: Options | None = None,
    watch: Watch | None = None,
    lake: Location | None = None,
) -> Report:
    """Verifies one stream with a Spark session of its own, while everything may go on running.

    :param dead_letters: the topic of its dead letters; empty: the one that is named after the stream
    :param watch: is told how far it is
    :param lake: where the tables are; None: in the data folder
    :raises VerifyImpossible: there is no journal
    :raises SettingError: there are no keys of its anchors
    :raises KafkaUnreachable: Kafka doesn't answer
    """
    settings = settings or VerifySettings()
    clock = clock or SystemClock()
    started = clock.monotonic()
    places = replace(Lake.under(data_dir, stream, lake), dead_letters=dead_letters)
    rows, anchor_keys = _last_seq(places), AnchorKeys.read(anchor_key_file)
    session = open_read_session("payhook verify", settings.master, settings.driver_memory, jars, data_dir, rows)
    try:
        kafka, options = RealKafka(bootstrap), options or Options()
        report = verify(session, places, kafka, anchor_keys, settings, clock, options=options, watch=watch)
        return replace(report, seconds=clock.monotonic() - started)
    finally:
        session.stop()


def verify(
    session: SparkSession,
    lake: Lake,
    kafka: Kafka,
    anchor_keys: AnchorKeys,
    settings: VerifySettings,
    clock: Clock,
    invariants: Sequence[Invariant] = INVARIANTS,
    options: Options = Options(),
    watch: Watch | None = None,
) -> Report:
    """As `run`, in a session and with a Kafka that are passed in."""
    started = clock.monotonic()
    _last_seq(lake)
    index, no_index = _index(lake)
    try:
        evidence = _gather(session, lake, kafka, anchor_keys, settings, clock, index, options)
        evidence.no_index = no_index
        watch = watch or Watch()
        evidence.told = watch.surveyed
        deep = _deep_ones(lake, options)
        instead = {one.name for one in deep}
        left_out = instead if lake.is_ledger else instead | OF_THE_LEDGER
        asked = [*(one for one in invariants if one.name not in left_out), *deep]
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
    redactions = lake.redactions or lake.bodies.parent / "redactions"
    of_all: list[Invariant] = [
        BodiesWhole(lake.bodies, redactions, options.bodies_days),
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


def _gather(
    session: SparkSession,
    lake: Lake,
    kafka: Kafka,
    anchor_keys: AnchorKeys,
    settings: VerifySettings,
    clock: Clock,
    index: Index | None,
    options: Options,
) -> Evidence:
    """Derived things first, then the journal, then Kafka: so each may only be behind the one that comes after it."""
    has_postings = lake.is_ledger and DeltaTable.is_deltatable(str(lake.postings))
    postings = DeltaTable(str(lake.postings)) if has_postings else None
    has_receipts = lake.is_ledger and _register_receipts(session, lake, kafka)
    anchors = topics_of(mode_of(lake.stream)).anchors
    anchor_ends = kafka.ends([anchors]).get(anchors, {})
    state = JournalReader(str(lake.journal)).state()
    dead_letters = lake.dead_letters or dlq_topic(lake.stream)
    sources, ends = _sources(session, lake, [topic for topic in state.marks if is_sparse(topic)])
    ends |= kafka.ends([topic for topic in (*state.marks, dead_letters) if not is_sparse(topic)])
    whole = journal_view(_rows(session, lake.journal, state.version))
    whole.createOrReplaceTempView("whole")
    base = base_before(whole, options.since, anchored(kafka, session, lake.stream, anchor_ends), anchor_keys)
    looked_at = fn.col("seq") > base.seq
    journal = whole if base.seq == 0 else whole.where(looked_at)
    journal.createOrReplaceTempView("journal")
    if postings is not None:
        journal.where(fn.col("seq") <= mark_of(postings)).createOrReplaceTempView("booked")
        lines = _rows(session, lake.postings, postings.version())
        lines.createOrReplaceTempView("every_line")
        (lines if base.seq == 0 else lines.where(looked_at)).createOrReplaceTempView("postings")
    if index is not None:
        journal.where(fn.col("seq") <= index.seq).createOrReplaceTempView("indexed")
    return Evidence(
        session=session,
        state=state,
        stream=lake.stream,
        mode=mode_of(lake.stream),
        kafka=kafka,
        anchor_keys=anchor_keys,
        dlq_topic=dead_letters,
        ends=ends,
        dlq_ends=ends.get(dead_letters, {}),
        anchor_ends=anchor_ends,
        postings_mark=mark_of(postings) if postings is not None else None,
        has_receipts=has_receipts,
        index=index,
        index_root=lake.index if index is not None else None,
        now=clock.now(),
        sample_max=settings.sample_max,
        in_flight_age_s_max=settings.in_flight_age_s_max,
        anchor_age_s_max=settings.anchor_age_s_max,
        base=base,
        acts=lake.acts,
        sources=sources,
        refund_awaits_s_max=settings.refund_awaits_days_max * SECONDS_A_DAY,
        tables=Tables(
            journal=str(lake.journal),
            journal_version=state.version,
            last_seq=state.next_seq - 1,
            postings=str(lake.postings) if postings is not None else None,
            postings_version=postings.version() if postings is not None else 0,
            postings_mark=mark_of(postings) if postings is not None else 0,
            index_seq=index.seq if index is not None else 0,
            mode=str(mode_of(lake.stream)),
        ),
    )


def _register_receipts(session: SparkSession, lake: Lake, kafka: Kafka) -> bool:
    """The view ``receipts``: those that were collected; where none were yet, those on their topic."""
    if DeltaTable.is_deltatable(str(lake.receipts)):
        _rows(session, lake.receipts, DeltaTable(str(lake.receipts)).version()).createOrReplaceTempView("receipts")
        return True
    topic = topics_of(mode_of(lake.stream)).receipts
    if not any(high > low for low, high in kafka.ends([topic]).get(topic, {}).values()):
        return False
    lines = kafka.frame(session, topic).selectExpr("explode(split(CAST(value AS string), '\\n')) AS line")
    said = lines.selectExpr("from_json(line, 'at timestamp, event_key string, outcome string, status int') AS said")
    said.select("said.*").createOrReplaceTempView("receipts")
    return True


def _sources(session: SparkSession, lake: Lake, topics: Sequence[str]) -> tuple[dict[str, DataFrame], Ends]:
    """The journals that are read under these names, and what each topic holds; without those that aren't there."""
    sources: dict[str, DataFrame] = {}
    ends: Ends = {}
    for name in sorted({source_of(topic) for topic in topics}):
        path = lake.journal.parent / name
        if DeltaTable.is_deltatable(str(path)):
            reader = JournalReader(str(path))
            sources[name] = journal_view(_rows(session, path, reader.version))
            ends |= {topic: {0: (1, reader.last_seq + 1)} for topic in topics if source_of(topic) == name}
    return sources, ends


def _rows(session: SparkSession, path: Location, version: int) -> DataFrame:
    return session.read.format("delta").option("versionAsOf", version).load(str(path))


def _last_seq(lake: Lake) -> int:
    if not DeltaTable.is_deltatable(str(lake.journal)):
        raise VerifyImpossible(f"there is no journal at {lake.journal}")
    return JournalReader(str(lake.journal)).state().next_seq - 1
