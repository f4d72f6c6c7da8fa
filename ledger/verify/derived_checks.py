"""Invariants between the journal and what is derived from it: postings and the key index."""

from __future__ import annotations

from collections.abc import Iterator

from journal.index import Entries
from ledger.verify.evidence import Evidence
from ledger.verify.index_digest import cleared, held
from ledger.verify.index_lookup import look_up
from ledger.verify.invariant import Finding
from ledger.verify.survey import Doubt


class PostingsEqualJournal:
    name = "postings_equal_journal"
    sentence = "The postings table holds exactly the lines that the journal booked, up to its mark."

    def check(self, evidence: Evidence) -> Finding:
        mark = evidence.postings_mark
        if mark is None:
            missing = "there is no table of postings; the processor makes it when it starts"
            return Finding(self.name, self.sentence, (), {"mark": None}, not_checked=missing)
        offenders = evidence.search(
            Doubt.POSTINGS,
            """
            SELECT line.*, sum(weight) AS journal_minus_postings FROM (
                SELECT struct(
                           seq, at AS line, event_key, fact_key, entity_key, provider,
                           split_part(get(filter(parsed, x -> x.account LIKE 'merchant:%'), 0).account, ':', 2)
                               AS merchant,
                           posting.account, posting.side, posting.amount_minor, posting.currency,
                           occurred_at, decided_at) AS line,
                       1 AS weight
                FROM booked LATERAL VIEW explode(array(lines)) AS parsed
                            LATERAL VIEW posexplode(parsed) AS at, posting
                WHERE books AND postings IS NOT NULL
                UNION ALL
                SELECT struct(
                           seq, line, event_key, fact_key, entity_key, provider, merchant,
                           account, side, amount_minor, currency, occurred_at, decided_at),
                       -1
                FROM postings)
            GROUP BY line HAVING sum(weight) <> 0
            """,
        )
        if mark > evidence.seq:
            ahead = {"problem": "postings are ahead of the journal", "mark": mark, "seq": evidence.seq}
            offenders = [ahead, *offenders][: evidence.sample_max]
        figures = {"mark": mark, "behind": max(0, evidence.seq - mark)}
        unknown = None if evidence.is_whole else "lines of rows before"
        return Finding(self.name, self.sentence, tuple(offenders), figures, unknown)


class IndexEqualsJournal:
    name = "index_equals_journal"
    sentence = "The key index knows exactly the event keys, facts and open items of the journal, up to its mark."

    def check(self, evidence: Evidence) -> Finding:
        index, root = evidence.index, evidence.index_root
        if index is None or root is None:
            missing = evidence.no_index or "there is no key index here; a start of the processor makes it"
            return Finding(self.name, self.sentence, (), {"seq": None}, not_checked=missing)
        figures = {"seq": index.seq, "behind": evidence.seq - index.seq}
        if index.seq > evidence.seq:
            ahead = {"problem": "the index is ahead of the journal", "index_seq": index.seq, "seq": evidence.seq}
            return Finding(self.name, self.sentence, (ahead,), figures)
        if not evidence.is_whole:
            found = look_up(evidence.session, root, evidence.sample_max, evidence.seq - evidence.base.seq)
            unknown = "keys of rows before, and keys that no row has"
            return Finding(self.name, self.sentence, tuple(found.offenders), figures, unknown)
        # Before the survey, which other threads wait for meanwhile.
        keys = held(index, evidence.salt)
        if (counts := cleared(index, keys, evidence)) is not None:
            return Finding(self.name, self.sentence, (), figures | counts)
        found = look_up(evidence.session, root, evidence.sample_max, evidence.seq)
        offenders = list(found.offenders)
        counted = {
            "event": _count(index.event_entries()),
            "open": index.open_count(),
            "dead": index.dead_count(),
        }
        for kind, count in (*counted.items(), ("fact", _count(index.fact_entries()))):
            if found.counts[kind] != count:
                problem = f"the index holds another number of {kind} keys or items"
                offenders.append({"problem": problem, "index": count, "journal": found.counts[kind]})
        return Finding(self.name, self.sentence, tuple(offenders[: evidence.sample_max]), figures | counted)


def _count(entries: Iterator[Entries]) -> int:
    return sum(len(keys) for keys, _ in entries)
