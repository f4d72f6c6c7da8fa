"""The views that the promises query: the journal and its tables, by an engine."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime

from core.clock import to_micros
from core.decision import NO_STEP_DECISIONS, OPEN_DECISIONS, Decision
from core.routing import WHOLE, Shard
from journal.anchors import AnchorInvalid, AnchorKeys
from journal.histories import is_given_up
from journal.open_item import CONFLICT_CLASS
from journal.schema import GENESIS, HASHED_COLUMNS, JOURNAL_SCHEMA, LATER_COLUMNS
from journal.state import JournalState
from ledger.postings import BOOKING_DECISIONS
from ledger.verify.engine import SqlEngine


def build_journal_sql(rows: str, shard: Shard = WHOLE) -> str:
    """Selects the rows of a journal's table with what follows from each by itself.

    ``life``: the topic's history (`journal.histories.life_of`).
    ``holds``: the row makes its event key known. ``waits``: while it is its item's last row, the item is open.
    ``mine``: the item is the shard's (`journal.journals.is_item_of`); one that isn't is open in another one's journal.
    ``releases``: nothing holds its event key after it. ``closes``: it is its item's last row.
    ``books``: its postings took effect. ``lines``: the postings, parsed.
    """
    names = [name for name in JOURNAL_SCHEMA.names if name != "offset"]
    open_ones = _quote_decisions(OPEN_DECISIONS)
    return f"""
        SELECT *, lines_of(postings) AS lines, {build_mine_sql(shard, "partition")} AS mine,
               coalesce(topic || '#' || CAST(history AS string), topic) AS life,
               first AND decision NOT IN ('{Decision.DUPLICATE.value}', '{Decision.LOST.value}')
                   AND NOT (decision = '{Decision.DEAD.value}' AND coalesce(error_class, '') = '{CONFLICT_CLASS}'
                            AND handler_version IS NULL) AS holds,
               decision = '{Decision.RELEASED.value}' AND NOT first AS releases,
               decision IN ({open_ones}) AND NOT (first AND decision = '{Decision.REPLAYED.value}') AS waits,
               decision NOT IN ({open_ones}, {_quote_decisions(NO_STEP_DECISIONS)}) AS closes,
               decision IN ({_quote_decisions(BOOKING_DECISIONS)}) AS books
        FROM (SELECT {", ".join(names)}, kafka_offset FROM {rows})
    """  # noqa: S608 - words of our own


def build_row_hash_sql() -> str:
    texts = [f"coalesce({_cast_to_text(name)}, chr(0))" for name in HASHED_COLUMNS]
    texts += [f"'{name}=' || CAST({name} AS string)" for name in LATER_COLUMNS]
    return f"sha256_of(concat_ws(chr(31), {', '.join(texts)}))"


def build_mine_sql(shard: Shard, instead: str = "NULL") -> str:
    """Computes `journal.journals.is_item_of` in SQL. ``instead``: the column with the partition; postings have none."""
    if shard.count == 1:
        return "true"
    return f"coalesce(crc32_of(entity_key), CAST({instead} AS bigint)) % {shard.count} = {shard.number}"


def _cast_to_text(name: str) -> str:
    if name == "offset":
        return "CAST(kafka_offset AS string)"
    if str(JOURNAL_SCHEMA.field(name).type).startswith("timestamp"):
        return f"CAST(unix_micros({name}) AS string)"
    return f"CAST({name} AS string)"


def _quote_decisions(decisions: Iterable[Decision]) -> str:
    return ", ".join(f"'{decision.value}'" for decision in sorted(decisions))


COMMITS = """
    SELECT batch_seq, count(*) AS rows, count(DISTINCT seq) AS distinct_seqs, min(seq) AS first_seq,
           max(seq) AS last_seq, min(epoch) AS epoch_first, max(epoch) AS epoch_last, max(decided_at) AS decided_at,
           sha2({joined}, 256) AS digest, count(*) FILTER (WHERE row_hash <> computed_hash) AS wrong_hashes,
           min(CASE WHEN row_hash <> computed_hash THEN seq END) AS wrong_seq
    FROM (SELECT *, {computed_hash} AS computed_hash FROM journal) AS hashed GROUP BY batch_seq
"""
"""Each commit by its rows (`journal.schema.commit_digest`). ``joined``: the engine's way to put texts one after the
other. ``computed_hash``: what ``row_hash`` must be."""

OPEN_ITEMS = """
    SELECT item_seq, last_seq, decision, mine, since
    FROM (SELECT item_seq, max(seq) AS last_seq, max_by(decision, seq) AS decision, max_by(waits, seq) AS waits,
                 max_by(mine, seq) AS mine,
                 min_by(CASE WHEN decision = 'replayed' THEN decided_at ELSE coalesce(received_at, decided_at) END, seq)
                     AS since
          FROM {rows}
          WHERE (NOT first OR waits) AND decision NOT IN ('reversed', 'lost', 'portion')
          GROUP BY item_seq)
    WHERE waits
"""

BOOKED_LINES = """
    SELECT seq, event_key, fact_key, entity_key, posting.account AS account, posting.side AS side,
           posting.amount_minor AS amount_minor, posting.currency AS currency, decided_at, mine
    FROM (SELECT *, explode(lines) AS posting FROM {rows} WHERE books AND postings IS NOT NULL)
"""
"""The bookings' lines by the journal itself, where not every shard has a table of postings."""

MOVED = """
    SELECT seq, entity_key, fact_key, account, currency, decided_at, mine,
           split_part(account, ':', 2) AS merchant, split_part(account, ':', 3) AS role,
           coalesce(fact_key LIKE '%:payout_failed', false) AS payout_failed,
           coalesce(fact_key LIKE '%:second_dispute_lost', false) AS lost_again,
           split_part(fact_key, ':', 1) || ':' || split_part(fact_key, ':', 2) AS fact_entity,
           CASE WHEN side = 'debit' THEN amount_minor ELSE -amount_minor END AS minor
    FROM {lines}
    WHERE account LIKE 'merchant:%' AND entity_key IS NOT NULL
"""
"""What each line moved of a merchant's account. The lines of all shards: a payment may have been another journal's
before its shard began. Only its shard judges it (``mine``)."""

NAMED = """
    SELECT seq, every_line.event_key AS event_key, fact_key, account, side, amount_minor, currency, decided_at, mine,
           CASE WHEN payment IS NULL OR entity_key LIKE '%:%:%' THEN entity_key ELSE entity_key || ':' || payment END
               AS entity_key
    FROM every_line LEFT JOIN (
        SELECT event_key, max(payment) AS payment
        FROM body_facts
        WHERE payment IS NOT NULL AND entity_key NOT IN (
            SELECT entity_key FROM body_facts
            WHERE entity_key IS NOT NULL AND (NOT is_read OR (payment IS NULL AND problem IS NOT NULL)))
        GROUP BY event_key) AS named
    ON named.event_key = every_line.event_key
"""
"""Where the entity is a merchant account as a whole, the payment that the body names is put after it. An account of
which one body is gone or can't be read stays whole: a refund would lack its capture by that alone."""


@dataclass(frozen=True, slots=True)
class Base:
    seq: int = 0
    chain: str | None = GENESIS


def find_base(
    engine: SqlEngine,
    state: JournalState,
    since: int | datetime | None,
    anchors: Iterable[tuple[int, bytes]],
    keys: AnchorKeys,
) -> Base:
    """Finds the row before the first one to look at: the last row before ``since`` that an anchor names.

    The chain is known from there on. Without such an anchor it is the end of a commit. For a ``since`` beyond the
    journal's last row it is that row.

    :param engine: with the view ``whole``
    :param since: a seq, or when a row was decided
    """
    if since is None:
        return Base()
    first = min(since, state.next_seq) if isinstance(since, int) else _find_first_since(engine, since)
    if first <= 1:
        return Base()
    known = [anchor for anchor in _read_known_anchors(anchors, keys, state) if anchor.seq < first]
    newest = max(known, key=lambda base: base.seq, default=None)
    if newest is not None:
        return newest
    [commit] = engine.ask(f"SELECT min_by(batch_seq, seq) AS begins FROM whole WHERE seq >= {first}")  # noqa: S608
    begins = commit["begins"] if commit["begins"] is not None else first
    return Base(begins - 1, None) if begins > 1 else Base()


def _find_first_since(engine: SqlEngine, since: datetime) -> int:
    [row] = engine.ask(
        f"SELECT min(CASE WHEN unix_micros(decided_at) >= {to_micros(since)} THEN seq END) AS first, "  # noqa: S608
        "max(seq) AS last FROM whole"
    )
    return int(row["first"] or (row["last"] or 0) + 1)


def _read_known_anchors(anchors: Iterable[tuple[int, bytes]], keys: AnchorKeys, state: JournalState) -> Iterable[Base]:
    """Reads the anchors of this journal's rows, without those that have no known signature: another invariant reports
    them.
    """
    for _, record in anchors:
        try:
            anchor = keys.decode(record)
        except AnchorInvalid:
            continue
        if not is_given_up(state.notes, anchor.lineage, anchor.seq):
            yield Base(anchor.seq, anchor.chain)
