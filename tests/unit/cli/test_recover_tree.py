"""`payhook recover --json` keeps its names, whatever the code calls what it prints."""

from __future__ import annotations

import json
from pathlib import Path

from cli.recover_command import _as_tree
from core.layout import Layout
from journal.reader import JournalReader
from ledger.receipts import AnsweredEvent
from processor.history.losses import Findings, Parted, Parting
from stack.maintenance.recovery import StreamComparison
from tests.small_ledger import TOPIC, SmallLedger


def test_each_partition_says_what_is_lost_and_what_is_to_be_decided(tmp_path: Path) -> None:
    ledger = SmallLedger(tmp_path)
    ledger.add(None)
    ledger.commit()
    partings = (Parting(TOPIC, 0, until=10, low=0, high=30, begins=15), Parting(TOPIC, 1, 20, 0, 8, 4))
    findings = Findings("ledger", 1, 1, (), (Parted(TOPIC, "", partings),))
    state = JournalReader(ledger.journal).state()
    event = AnsweredEvent("stripe:evt_1:charge.succeeded", "stripe", None, None)
    compared = StreamComparison(Layout(tmp_path).ledger(), state, findings, 0, (event,), (b"\x01",))
    tree = json.loads(json.dumps(_as_tree(compared)))
    assert set(tree) == {
        *("stream", "seq", "agrees", "older", "disagreements", "partitions", "lost_events", "lost_claims"),
    }
    names = {"topic", "partition", "until", "low", "high", "begins", "decided_beyond", "to_decide", "lost"}
    assert [set(partition) for partition in tree["partitions"]] == [names, names]
    lost_and_kept = [(partition["lost"], partition["decided_beyond"]) for partition in tree["partitions"]]
    assert lost_and_kept == [([10, 15], 0), (None, 16)]
    assert (tree["lost_events"], tree["lost_claims"], tree["agrees"]) == ([event.event_key], ["01"], False)
