"""Receiver and processor of two versions: what the one names and the other refuses is booked once after the upgrade.

The other side is an older commit of this repository, run by this Python in a folder of its own. A clone without its
history passes these tests over.
"""

from __future__ import annotations

import io
import json
import subprocess
import sys
import tarfile
from collections.abc import Callable
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest

from core.decision import Decision, ErrorKind
from core.event import Dedupe, to_headers
from journal.schema import JournalRow
from ledger.handler import LedgerHandler
from providers import Request
from providers.registry import build_adapters
from providers.settings import ProvidersSettings
from tests.one_merchant import OneMerchant
from tests.unit.processor.harness import EVENTS, NOW, Engine
from tests.unit.processor.ordering import last, order

CHECKOUT = Path(__file__).parents[2]

VERSION_BEFORE = "c468cd6e904a2c19f30033df56f2f6b8f61fe223"

RULE = {"event_type": "payment.captured", "movement": "capture", "id": "/data/capture"}
OLDER: dict[str, Any] = {}
NEWER: dict[str, Any] = {"standardwebhooks": {"money": [RULE]}}
"""Adapters have named the same facts since `VERSION_BEFORE`: what differs is what they learn of a sender's types."""

RECEIVER = """
import json, sys
from datetime import UTC, datetime
from core.event import Dedupe, to_headers
from providers import Request
from providers.registry import build_adapters
from providers.settings import ProvidersSettings
asked = json.load(sys.stdin)
adapters = build_adapters(ProvidersSettings(**asked["settings"]))
records = []
for provider, headers, body in asked["requests"]:
    request = Request(body.encode(), tuple((name.encode(), value.encode()) for name, value in headers))
    for event in adapters[provider].events(request, "live"):
        named = to_headers(event, datetime(2026, 1, 31, 12, 0, tzinfo=UTC), Dedupe.CLAIMED)
        records.append([event.body.decode(), [[name, value.decode()] for name, value in named]])
print(json.dumps(records))
"""

PROCESSOR = """
import json, sys, tempfile
from dataclasses import asdict
from pathlib import Path
from ledger.directory import Merchant
from ledger.handler import LedgerHandler
from providers.registry import build_adapters
from providers.settings import ProvidersSettings
from tests.unit.processor.harness import EVENTS, Engine
from tests.unit.processor.ordering import order

class Directory:
    def lookup(self, provider, account, tenant=None):
        return Merchant("main")

asked = json.load(sys.stdin)
adapters = build_adapters(ProvidersSettings(**asked["settings"]))
with tempfile.TemporaryDirectory() as folder:
    engine = Engine(Path(folder))
    engine.adapters = adapters
    engine.handler = LedgerHandler(adapters, Directory(), "older")
    engine.start()
    for body, headers in asked["records"]:
        engine.send(EVENTS, body.encode(), [(name, value.encode()) for name, value in headers])
    engine.batch()
    for key in asked["replays"]:
        order(engine, "replay", key)
        engine.advance(0)
    engine.index.close()
bodies = {name: body.decode() for name, body in engine.bodies.by_hash.items()}
rows = [asdict(row) for row in engine.journal.rows]
print(json.dumps({"rows": rows, "bodies": bodies, "marks": engine.journal.marks}, default=str))
"""

Record = tuple[str, list[tuple[str, str]]]
"""A body and its headers."""
Delivery = tuple[str, list[tuple[str, str]], str]
"""A webhook: provider, headers, body."""


class OlderCommit:
    """A commit's code, run in processes of its own."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def receives(self, settings: dict[str, Any], *requests: Delivery) -> list[Record]:
        found: list[Record] = self._run(RECEIVER, {"settings": settings, "requests": requests})
        return found

    def decides(self, settings: dict[str, Any], *records: Record, replays: tuple[str, ...] = ()) -> dict[str, Any]:
        """Rows, bodies and marks of a journal that it began."""
        found: dict[str, Any] = self._run(PROCESSOR, {"settings": settings, "records": records, "replays": replays})
        return found

    def _run(self, program: str, asked: dict[str, Any]) -> Any:
        done = subprocess.run(
            [sys.executable, "-c", f"import core; assert core.__file__.startswith({str(self._folder)!r})\n{program}"],
            cwd=self._folder,
            input=json.dumps(asked),
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout)


@pytest.fixture(scope="module")
def older(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], OlderCommit]:
    """Lays a commit's files out, once each."""
    known: dict[str, OlderCommit] = {}

    def at(commit: str) -> OlderCommit:
        if commit not in known:
            known[commit] = OlderCommit(laid_out(commit, tmp_path_factory.mktemp("older").resolve()))
        return known[commit]

    return at


def laid_out(commit: str, folder: Path) -> Path:
    try:
        archive = subprocess.run(["git", "archive", commit], cwd=CHECKOUT, capture_output=True, check=True).stdout
    except (OSError, subprocess.CalledProcessError):
        pytest.skip(f"commit {commit[:12]} isn't in this clone: get it with `git fetch --unshallow`")
    with tarfile.open(fileobj=io.BytesIO(archive)) as files:
        files.extractall(folder, filter="data")
    return folder


@pytest.fixture
def engine(tmp_path: Path) -> Engine:
    return Engine(tmp_path)


def begins(engine: Engine, settings: dict[str, Any]) -> None:
    """The processor of now, on the journal as it is."""
    adapters = build_adapters(ProvidersSettings(**settings))
    engine.adapters = dict(adapters)
    engine.handler = LedgerHandler(adapters, OneMerchant("main"))  # type: ignore[assignment]
    engine.start()


def receives(settings: dict[str, Any], *requests: Delivery) -> list[Record]:
    """The receiver of now."""
    adapters = build_adapters(ProvidersSettings(**settings))
    records: list[Record] = []
    for provider, headers, body in requests:
        request = Request(body.encode(), tuple((name.encode(), value.encode()) for name, value in headers))
        for event in adapters[provider].events(request, "live"):
            named = to_headers(event, NOW, Dedupe.CLAIMED)
            records.append((event.body.decode(), [(name, value.decode()) for name, value in named]))
    return records


def decide(engine: Engine, *records: Record) -> list[str]:
    """Event keys, in the records' order."""
    for body, headers in records:
        engine.send(EVENTS, body.encode(), [(name, value.encode()) for name, value in headers])
    engine.batch()
    return [dict(headers)["event_key"] for _, headers in records]


def takes_over(engine: Engine, journal: dict[str, Any]) -> None:
    """The rows that an older processor decided are this engine's from its next start on."""
    rows = [row_of(fields) for fields in journal["rows"]]
    marks = {topic: {int(number): until for number, until in of.items()} for topic, of in journal["marks"].items()}
    engine.take_over(rows, {name: body.encode() for name, body in journal["bodies"].items()}, marks)


def row_of(fields: dict[str, Any]) -> JournalRow:
    times = {name for name, value in fields.items() if name.endswith("_at") and value is not None}
    values: dict[str, Any] = {
        name: datetime.fromisoformat(value) if name in times else value for name, value in fields.items()
    }
    values["decision"] = Decision(values["decision"])
    if values["error_kind"] is not None:
        values["error_kind"] = ErrorKind(values["error_kind"])
    return JournalRow(**values)


def replayed(engine: Engine, key: str) -> JournalRow:
    order(engine, "replay", key)
    engine.advance(0)
    return last(engine, key)


def captured(message_id: str, capture: str = "cap_1") -> Delivery:
    """A sender's event that moves money, if its type is known."""
    subject = {"payment": "pay_1", "account": "acct_1", "capture": capture, "amount": 500, "currency": "EUR"}
    body = json.dumps({"type": "payment.captured", "timestamp": NOW.isoformat(), "data": subject})
    signed = [("webhook-timestamp", str(int(NOW.timestamp()))), ("webhook-signature", "v1,bm90IGNoZWNrZWQ=")]
    return "standardwebhooks", [("webhook-id", message_id), *signed], body


def test_an_older_receiver_that_names_no_fact(engine: Engine, older: Callable[[str], OlderCommit]) -> None:
    """The same money comes by the upgraded receiver before the replay: it isn't booked twice."""
    begins(engine, NEWER)
    (first,) = decide(engine, *older(VERSION_BEFORE).receives(OLDER, captured("msg_1")))
    assert last(engine, first).error_class == "FactMismatch"
    (other,) = decide(engine, *receives(NEWER, captured("msg_2")))
    (waiting,) = decide(engine, *receives(NEWER, captured("msg_3", "cap_3")))
    assert [last(engine, key).decision for key in (other, waiting)] == [Decision.PARKED] * 2
    assert replayed(engine, first).decision is Decision.APPLIED
    assert last(engine, other).decision is Decision.DUPLICATE_FACT
    assert last(engine, waiting).decision is Decision.APPLIED
    assert engine.index.open_count() == 0


@pytest.mark.row("B7")
def test_a_newer_receiver_before_an_older_processor(engine: Engine, older: Callable[[str], OlderCommit]) -> None:
    """What the older one decided stays, dies again while it is replayed there, and is booked once after the upgrade."""
    records = receives(NEWER, captured("msg_1"), captured("msg_2", "cap_2"), captured("msg_3"))
    first, second, same_fact = (dict(headers)["event_key"] for _, headers in records)
    journal = older(VERSION_BEFORE).decides(OLDER, *records, replays=(first,))
    assert [row["decision"] for row in journal["rows"] if row["event_key"] == first] == ["dead", "replayed", "dead"]
    takes_over(engine, journal)
    begins(engine, NEWER)
    assert replayed(engine, first).decision is Decision.APPLIED
    assert last(engine, second).decision is Decision.APPLIED, "it waited behind the first one"
    assert last(engine, same_fact).decision is Decision.DUPLICATE_FACT
    assert engine.index.open_count() == 0
