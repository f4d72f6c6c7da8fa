"""The API's orders where the events are divided between two shards: each goes to the shard that it names."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Any

import httpx2
import pytest
from fastapi import FastAPI

from console.api import mount_api
from console.dead_letters import Streams
from core.decision import Decision
from core.keys import join_key
from dead_letters.listing import Filter
from journal.target import ItemTarget
from journal.writer import JournalWriter
from operations.commands import decode
from operations.orders import DeltaView, OrderSender, OrderService
from operations.recorder import Recorder
from tests.dead_items import DeadItems
from tests.unit.console.api_bench import problem
from tests.unit.console.listening import BOB, Listener
from tests.unit.console.places import SentTo
from tests.unit.ingest.idempotency.guarded_app import BreakableAnswers
from tests.unit.processor.harness import CONTROL


class ShardsApi:
    """Two shards' services; what was sent."""

    def __init__(self, data: Path) -> None:
        self.first = DeadItems(data)
        self.first.deaths(9)
        self.first.commit()
        self.second = self.first.divided()
        self.sent, app = SentTo(), FastAPI(openapi_url=None)
        (data / "console").mkdir()
        self.listener = Listener(app, data, self.first.clock)
        orders = OrderSender(lambda: self.sent, CONTROL, Recorder(self.listener.audit_log, self.first.clock, "api"))
        services = {
            one.layout.stream: OrderService(
                one.layout.stream, DeltaView(one.layout.journal, CONTROL), orders, self.first.clock
            )
            for one in (self.first, self.second)
        }
        mount_api(app, services, {}, BreakableAnswers(self.first.clock), Streams({}))

    def replay(self, key: str, item: dict[str, Any], **more: Any) -> httpx2.Response:
        body = {"items": [item], "reason": "mended", **more}
        return self.listener.request("POST", "/api/dlq/replay", BOB, json=body, headers={"idempotency-key": f'"{key}"'})

    def item_of_second(self) -> dict[str, Any]:
        item = self.second.followed().page(Filter(), limit=1).items[0]
        return asdict(ItemTarget.of_row(self.second.row_at(item.item_seq)))


@pytest.fixture
def divided(tmp_path: Path) -> ShardsApi:
    return ShardsApi(tmp_path)


def test_an_order_goes_to_the_shard_that_it_names(divided: ShardsApi) -> None:
    item = divided.item_of_second()
    answer = divided.replay("a", item, stream="ledger.1")
    assert answer.status_code == 202, answer.text
    [command] = [decode(value) for value in divided.sent.values]
    assert (command.stream, command.targets[0].item_seq) == ("ledger.1", item["item_seq"])
    assert command.lineage == DeltaView(divided.second.layout.journal, CONTROL).lineage()


def test_nothing_is_sent_to_a_shard_that_does_not_go_on_with_the_item(divided: ShardsApi) -> None:
    item = divided.item_of_second()
    assert problem(divided.replay("a", item)) == "item-unknown"
    assert problem(divided.replay("b", item, stream="ledger.2")) == "stream-unknown"
    assert problem(divided.replay("c", item, stream="ledger.1", mode="test")) == "stream-unknown"
    assert problem(divided.replay("d", item, mode="test")) == "mode-unknown"
    assert divided.sent.values == []


def test_a_decision_is_found_in_whichever_shard_made_it(divided: ShardsApi) -> None:
    command_id = "0" * 31 + "7"
    path = f"/api/dlq/commands/{command_id}"
    assert divided.listener.request("GET", path, BOB).status_code == 404
    ledger = divided.second.ledger
    row = ledger.add(
        None, topic=CONTROL, offset=0, decision=Decision.REPLAYED, event_key=join_key("payhook", command_id, "replay")
    )
    row.partition = 0
    writer = JournalWriter.create_or_open(ledger.journal, "ledger")
    writer.begin_epoch({CONTROL: {0: 0}})
    writer.commit([row], {CONTROL: {0: 1}}, 0)
    answer = divided.listener.request("GET", path, BOB)
    assert (answer.status_code, answer.json()["decision"]) == (200, "replayed")
