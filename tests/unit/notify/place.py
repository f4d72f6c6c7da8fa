"""A subscribers file with all that belongs to it, and events to send to those who are named there."""

from __future__ import annotations

import tomllib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from core.clock import ManualClock
from core.decision import Decision
from core.keys import join_key
from core.money import Money
from core.work import Posting, Receivers, WorkItem, postings_from_json, postings_to_json, reversed_postings
from journal.schema import JournalRow
from notify.facts import notice_json
from notify.handler import NotifyHandler, build
from notify.settings import Allowance, NotifySettings
from notify.signature import new_secret

NOW = datetime(2026, 1, 31, 12, 0, tzinfo=UTC)
HOST = "hooks.example.com"


class FixedResolver:
    """Answers with what it is given, the last answer for good; counts how often it was asked."""

    def __init__(self, *answers: Sequence[str]) -> None:
        self.answers = list(answers) or [["127.0.0.1"]]
        self.asked = 0

    def addresses(self, host: str, port: int) -> Sequence[str]:
        self.asked += 1
        return self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]


@dataclass
class SubscribersFolder:
    """A folder with ``subscribers.toml``; `add` names a subscriber and gives it a secret."""

    folder: Path
    settings: dict[str, Any] = field(default_factory=dict)
    resolver: FixedResolver = field(default_factory=FixedResolver)
    receivers: Receivers = field(default_factory=Receivers)
    clock: ManualClock = field(default_factory=lambda: ManualClock(NOW))
    handlers: list[NotifyHandler] = field(default_factory=list)

    @property
    def file(self) -> Path:
        return self.folder / "subscribers.toml"

    def add(self, name: str, port: int, lines: str = "", *, scheme: str = "http", host: str = HOST) -> str:
        """Returns the secret. The subscriber may be reached on the loopback address."""
        secret = new_secret()
        secrets = self.folder / "secrets"
        secrets.mkdir(exist_ok=True)
        (secrets / f"notify.{name}").write_text(secret + "\n")
        with self.file.open("a") as file:
            file.write(f'[{name}]\nurl = "{scheme}://{host}:{port}/hook?x=1"\n{lines}\n')
        allow = self.settings.setdefault("allow", {})
        allow[name] = Allowance(networks=("127.0.0.0/8",), ports=(port,), http=scheme == "http")
        return secret

    def section(self, name: str) -> dict[str, Any]:
        found: dict[str, Any] = tomllib.loads(self.file.read_text())[name]
        return found

    def notify_settings(self) -> NotifySettings:
        return NotifySettings(subscribers_file=str(self.file), **self.settings)

    def handler(self) -> NotifyHandler:
        """A new one, as another Python worker has it."""
        handler = build(self.notify_settings(), self.receivers, clock=self.clock, resolver=self.resolver)
        assert isinstance(handler, NotifyHandler)
        self.handlers.append(handler)
        return handler

    def close(self) -> None:
        for handler in self.handlers:
            handler.close()


def placed(folder: Path) -> Iterator[SubscribersFolder]:
    place = SubscribersFolder(folder)
    try:
        yield place
    finally:
        place.close()


def row(event_id: str = "evt_1", **fields: Any) -> JournalRow:
    """An applied row of the ledger's journal."""
    postings = (
        Posting("provider:stripe:clearing", "debit", Money(1_250, "EUR")),
        Posting("merchant:main:payable", "credit", Money(1_250, "EUR")),
    )
    given: dict[str, Any] = {
        "seq": 7,
        "item_seq": 7,
        "first": True,
        "topic": "payments.events",
        "partition": 0,
        "offset": 6,
        "decision": Decision.APPLIED,
        "decided_at": NOW,
        "event_key": f"stripe:{event_id}:charge.captured",
        "fact_key": f"stripe:ch_{event_id}:capture",
        "entity_key": "stripe:acct_1:pi_1",
        "provider": "stripe",
        "account": "acct_1",
        "event_type": "charge.captured",
        "mode": "live",
        "occurred_at": NOW,
        "postings": postings_to_json(postings),
        "headers": '{"authorization":"never"}',
        "log_lines": "4111111111111111",
    }
    return JournalRow(**{**given, **fields})


def reversal(of: JournalRow, **fields: Any) -> JournalRow:
    """The row that takes back what an applied row booked."""
    postings = postings_to_json(reversed_postings(postings_from_json(of.postings)))
    return replace(
        of,
        **{"seq": of.seq + 2, "first": False, "decision": Decision.REVERSED, "postings": postings, **fields},
    )


def item(subscriber: str, of: JournalRow | None = None) -> WorkItem:
    """An applied row on its way to one subscriber."""
    applied = of or row()
    assert applied.event_key is not None
    assert applied.entity_key is not None
    return WorkItem(
        item_seq=applied.seq,
        event_key=join_key("notify", subscriber, applied.event_key),
        entity_key=join_key("notify", subscriber, applied.entity_key),
        provider="payhook",
        account=applied.account or "",
        event_type=applied.event_type or "",
        body=notice_json(applied),
        fact_key=None,
        attempt=0,
    )
