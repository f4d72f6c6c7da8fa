"""The invariant between the journal and the raw bodies, which only ``--deep`` asks for: it reads every byte of them."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from deltalake import DeltaTable

from core.location import Location
from ledger.redactions import Redactions
from ledger.verify.evidence import Evidence
from ledger.verify.invariant import Finding

EMPTY_SHA256 = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"


@dataclass
class BodiesWhole:
    """``bodies_days``: how long they are kept (`ledger.bodies_days`); 0: for ever."""

    bodies: Location
    redactions: Location
    bodies_days: int
    name: str = "bodies_whole"
    sentence: str = (
        "Every body that is kept is what its hash says; one that is missing was redacted, or had its time; one that "
        "was redacted is there only if another event brought it since."
    )

    def check(self, evidence: Evidence) -> Finding:
        if not DeltaTable.is_deltatable(str(self.bodies)):
            nowhere = ({"problem": f"there is no table of bodies at {self.bodies}"},) if evidence.seq else ()
            return Finding(self.name, self.sentence, nowhere, {"bodies": 0})
        self._register(evidence)
        offenders = evidence.sample(
            """
            SELECT 'a body isn''t what its hash says' AS problem, body_sha256, sha2(body, 256) AS computed
            FROM bodies WHERE sha2(body, 256) <> body_sha256
            """
        )
        offenders += evidence.sample(
            "SELECT 'a body is nowhere' AS problem, seq, body_sha256, decided_at FROM bodiless WHERE fate = 'gone'"
        )
        offenders += evidence.sample(
            """
            SELECT 'a redacted body is there again, as from a backup: redact it again' AS problem,
                   body_sha256, event_key
            FROM redacted LEFT SEMI JOIN bodies USING (body_sha256)
            WHERE done AND NOT EXISTS (
                SELECT 1 FROM whole
                WHERE first AND decision <> 'duplicate'
                      AND whole.body_sha256 = redacted.body_sha256 AND decided_at >= redacted.at)
            """
        )
        return Finding(self.name, self.sentence, tuple(offenders[: evidence.sample_max]), self._figures(evidence))

    def _register(self, evidence: Evidence) -> None:
        """The journal is pinned already, so every body that it refers to is there, or went by order or by time."""
        session = evidence.session
        version = DeltaTable(str(self.bodies)).version()
        held = session.read.format("delta").option("versionAsOf", version).load(str(self.bodies))
        held.createOrReplaceTempView("bodies")
        last = {act.body_sha256: (act, done is not None) for act, done in Redactions(self.redactions).orders()}
        ordered = [(act.body_sha256, act.event_key, act.at, done) for act, done in last.values()]
        columns = "body_sha256 string, event_key string, at timestamp, done boolean"
        session.createDataFrame(ordered, columns).createOrReplaceTempView("redacted")
        since = evidence.now - timedelta(days=self.bodies_days)
        had_its_time = f"decided_at < timestamp'{since.isoformat()}'" if self.bodies_days else "false"
        session.sql(
            f"""
            WITH missing AS (
                SELECT min(seq) AS seq, body_sha256, max(decided_at) AS decided_at
                FROM journal LEFT ANTI JOIN bodies USING (body_sha256)
                WHERE first AND body_sha256 <> '{EMPTY_SHA256}' AND decision <> 'duplicate'
                GROUP BY body_sha256)
            SELECT missing.*, CASE WHEN redacted.body_sha256 IS NOT NULL THEN 'redacted'
                                   WHEN {had_its_time} THEN 'dropped' ELSE 'gone' END AS fate
            FROM missing LEFT JOIN redacted ON redacted.body_sha256 = missing.body_sha256
            """  # noqa: S608 - a moment and words of our own making
        ).createOrReplaceTempView("bodiless")

    def _figures(self, evidence: Evidence) -> dict[str, Any]:
        [held] = evidence.rows("SELECT count(*) AS bodies, coalesce(sum(length(body)), 0) AS bytes FROM bodies")
        counted = evidence.rows("SELECT fate, count(*) AS count FROM bodiless GROUP BY fate")
        fates = {one["fate"]: one["count"] for one in counted}
        return {**held, "redacted": fates.get("redacted", 0), "dropped": fates.get("dropped", 0)}
