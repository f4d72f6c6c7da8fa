"""What rounds of catch-up wrote down, as of an afternoon: one got through, two fail, one has no list."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from core.layout import Layout
from ingest.settings import IngestSettings
from ledger.catch_ups import LOST, TABLE, CatchUps, ListedSpan
from stack.catching_up import CatchUpOutcome, write_outcomes
from stack.settings import Settings

AT = datetime(2026, 1, 31, 12, 0, tzinfo=UTC)


def remember_catch_ups(layout: Layout) -> None:
    """Writes the report of the rounds."""
    secrets = layout.root / "secrets"
    secrets.mkdir(parents=True, exist_ok=True)
    settings = Settings(data_dir=layout.root, ingest=IngestSettings(secrets_dir=str(secrets)))
    (secrets / "adyen").touch()
    refused = "https://api-m.paypal.com/v1/notifications/webhooks-events: the provider refuses credential 1; replace it"
    outcomes = [
        CatchUpOutcome("paddle", AT - timedelta(minutes=2), 0, switched_off=True),
        CatchUpOutcome("stripe", AT - timedelta(minutes=2), 3, fetched_day=17),
        CatchUpOutcome("paypal", AT - timedelta(hours=5), 0, problem=refused, missing=None),
        CatchUpOutcome("square", AT - timedelta(minutes=9), 2, problem="Kafka didn't acknowledge an event", missing=40),
    ]
    write_outcomes(settings, outcomes, AT - timedelta(minutes=1), AT)


def lose(layout: Layout) -> None:
    """Writes down a time that no list has any more."""
    since = datetime(2025, 12, 1, tzinfo=UTC)
    span = ListedSpan(
        at=AT,
        source="paypal",
        provider="paypal",
        outcome=LOST,
        since=since,
        until=since + timedelta(days=1),
        reason="nothing was listed for longer than the 30 days that the provider lists",
    )
    CatchUps(layout.ledger("live").shared_table(TABLE)).append(span)
