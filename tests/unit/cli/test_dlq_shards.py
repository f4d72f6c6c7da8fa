"""``payhook dlq`` where the events are divided among two shards: one queue, and each item in its shard."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from cli import acting, dlq_watch
from cli.main import main
from core.decision import Decision
from core.routing import Shard
from operations.command import Command
from operations.commands import decode
from operations.selection import runs
from tests.dead_items import DeadItems
from tests.unit.dlq.publishing import Acknowledged


class SentCommands:
    """The control topic, as commands are put into it."""

    def __init__(self) -> None:
        self.commands: list[Command] = []

    def produce(self, topic: str, value: bytes, key: bytes, on_delivery: Callable[[Any, Any], None]) -> None:
        self.commands.append(decode(value))
        on_delivery(None, Acknowledged())

    def flush(self, timeout: float) -> int:
        return 0


@pytest.fixture
def shards(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, DeadItems]:
    """Twelve items died before the division; then one in each shard, under the same number."""
    monkeypatch.setenv("PAYHOOK_PROCESSOR__SHARDS", "2")
    monkeypatch.setenv("PAYHOOK_KAFKA__EVENTS_PARTITIONS", "4")
    items = DeadItems(tmp_path)
    items.deaths(12)
    items.commit(with_bodies=True)
    shards = {"ledger.1": items.divided(), "ledger": items}
    for one in shards.values():
        one.dead(entity_key=next(key for key in map("stripe:acct:new_{}".format, range(9)) if own(one).has_entity(key)))
        one.commit(with_bodies=True)
    return shards


@pytest.fixture
def items(shards: dict[str, DeadItems]) -> DeadItems:
    return shards["ledger"]


@pytest.fixture
def control(items: DeadItems, monkeypatch: pytest.MonkeyPatch) -> SentCommands:
    """Nothing decides what is put into it: it isn't waited for."""
    control = SentCommands()
    for module in (acting, dlq_watch):
        monkeypatch.setattr(module, "open_order_producer", lambda _: control)
    monkeypatch.setattr(runs, "DECIDED_S_MAX", 0.0)
    return control


def own(items: DeadItems) -> Shard:
    return Shard(items.shard, 2)


def payhook(items: DeadItems, *words: str) -> Result:
    return CliRunner(env={"COLUMNS": "200"}).invoke(main, ["dlq", *words, "--data", str(items.data)])


def reported(items: DeadItems, *words: str) -> Any:
    answer = payhook(items, *words, "--json")
    assert answer.exit_code == 0, answer.output
    return json.loads(answer.output)


def names(page: Any) -> list[str]:
    return [f"{item['stream']}:{item['item_seq']}" for item in page["items"]]


def whose(items: DeadItems) -> dict[int, str]:
    """By number, the shard of what died before the division."""
    rows = items.ledger.rows[:12]
    return {row.item_seq: "ledger" if Shard(0, 2).has_entity(row.entity_key or "") else "ledger.1" for row in rows}


def one_of(items: DeadItems, stream: str) -> int:
    return next(number for number, name in whose(items).items() if name == stream)


def test_the_list_is_of_all_shards_in_one_order(items: DeadItems) -> None:
    page = reported(items, "list")
    expected = [f"{name}:{number}" for number, name in sorted(whose(items).items())]
    assert names(page) == [*expected, "ledger:13", "ledger.1:13"]
    assert (page["total"], page["next"], page["seqs"]) == (14, None, {"ledger": 13, "ledger.1": 13})
    assert "ledger.1:13" in payhook(items, "list").output


@pytest.mark.parametrize(("sort", "limit"), [("oldest", "1"), ("newest", "3"), ("largest", "3"), ("newest", "14")])
def test_pages_follow_one_another_without_a_gap(items: DeadItems, sort: str, limit: str) -> None:
    found: list[str] = []
    cursor = None
    for _ in range(15):
        page = reported(items, "list", "--sort", sort, "--limit", limit, *(["--after", cursor] if cursor else []))
        found, cursor = found + names(page), page["next"]
        if cursor is None:
            break
    assert found == names(reported(items, "list", "--sort", sort))
    assert len(found) == len(set(found)) == 14


def test_one_shard_alone_is_looked_at_by_its_name(items: DeadItems) -> None:
    for stream, count in (("ledger.0", "ledger"), ("ledger.1", "ledger.1")):
        page = reported(items, "list", "--stream", stream)
        assert page["total"] == list(whose(items).values()).count(count) + 1
        assert "stream" not in page["items"][0]
    wrong = payhook(items, "list", "--stream", "ledger.2")
    assert wrong.exit_code == 2
    assert "there is no stream ledger.2: choose one of ledger, ledger.0, ledger.1, notify" in wrong.output


def test_figures_and_groups_are_of_all_shards(items: DeadItems) -> None:
    stats = reported(items, "stats")
    each = [reported(items, "stats", "--stream", one) for one in ("ledger.0", "ledger.1")]
    assert stats["open"] == 14 == sum(one["open"] for one in each)
    assert stats["by_class"] == [{"value": "MerchantUnknown", "items": 14}]
    assert stats["oldest"] == min(one["oldest"] for one in each)
    assert len(stats["hours"]) == len(each[0]["hours"])
    inflows = [[rate["inflow"] for rate in one["rates"]] for one in (stats, *each)]
    assert inflows[0] == [sum(of_one) for of_one in zip(*inflows[1:], strict=True)] and len(inflows[0]) == 3
    [group] = reported(items, "groups")
    assert (group["count"], group["stream"], group["sample"]) == (14, "ledger", 13)
    assert "ID ledger:13" in payhook(items, "groups").output


def test_an_item_is_found_by_its_number_where_one_shard_has_it(items: DeadItems) -> None:
    for number, stream in whose(items).items():
        assert reported(items, "show", str(number))["stream"] == stream
        assert f"item {stream}:{number}: open" in payhook(items, "show", f"{stream}:{number}").output


@pytest.mark.parametrize(
    ("words", "answer"),
    [
        (["show", "13"], "several shards have an item 13: name it ledger:13 or ledger.1:13"),
        (["show", "99"], "there is no item 99"),
        (["show", "ledger.2:13"], "there is no stream 'ledger.2:13' here"),
        (["show", "notify:13"], "there is no stream 'notify' here: choose one of ledger, ledger.1"),
        (["replay", "s1"], "each shard has selections of its own: name ledger:s1 or ledger.1:s1"),
        (["pause", "s1"], "each shard has selections of its own"),
        (["select", "--class", "Other"], "no events match the filter"),
    ],
)
def test_what_is_not_clear_is_refused(items: DeadItems, words: list[str], answer: str) -> None:
    refused = payhook(items, *words)
    assert refused.exit_code != 0
    assert answer.replace("'ledger.2:13'", "'ledger.2'") in refused.output


def test_an_item_that_another_shard_goes_on_with_is_not_in_the_old_one(items: DeadItems) -> None:
    number = one_of(items, "ledger.1")
    for words in (["show", f"ledger:{number}"], ["replay", f"ledger:{number}"]):
        answer = payhook(items, *words)
        assert answer.exit_code == 1
        assert f"there is no item {number}" in answer.output


def test_a_replay_goes_to_the_shard_of_each_item(items: DeadItems, control: SentCommands) -> None:
    first, second = one_of(items, "ledger"), one_of(items, "ledger.1")
    answer = payhook(items, "replay", str(first), str(second), "ledger.1:13")
    assert answer.exit_code == 0, answer.output
    found = {one.stream: [target.item_seq for target in one.targets] for one in control.commands}
    assert found == {"ledger": [first], "ledger.1": [second, 13]}
    assert len({one.lineage for one in control.commands}) == 2
    for shard in ("ledger.0", "ledger.1"):
        assert f"`payhook dlq show ID --stream {shard}` says" in answer.output


def test_an_id_means_the_event_as_it_is_now_and_a_selection_as_it_was_frozen(
    items: DeadItems, control: SentCommands
) -> None:
    told = " ".join(payhook(items, "replay", "--help").output.split())
    assert "is refused. An ID means the event as it is now, whatever you saw before." in told
    before = items.ledger.rows[-1]
    selected = payhook(items, "select", "--stream", "ledger.0", "--entity", str(before.entity_key))
    assert selected.exit_code == 0, selected.output
    items.then(before, Decision.REPLAYED, Decision.DEAD)
    items.commit(with_bodies=True)
    now = items.ledger.rows[-1]
    assert payhook(items, "replay", "ledger.0:13").exit_code == 0
    assert [target.seen_seq for target in control.commands[-1].targets] == [now.seq]
    assert "1  moved" in payhook(items, "replay", "ledger.0:s1", "--dry-run").output


ACTS = [["replay"], ["replay", "--rate", "5"], ["purge", "--reason", "gone"], ["resolve", "--reason", "booked by hand"]]


@pytest.mark.parametrize("act", ACTS, ids=" ".join)
@pytest.mark.parametrize("moved", ["ledger", "ledger.1"])
def test_of_several_shards_nothing_is_sent_where_an_item_of_one_is_not_dead(
    shards: dict[str, DeadItems], control: SentCommands, act: list[str], moved: str
) -> None:
    shard = shards[moved]
    shard.then(shard.ledger.rows[-1], Decision.REPLAYED, Decision.APPLIED)
    shard.commit(with_bodies=True)
    answer = payhook(shards["ledger"], *act, "ledger:13", "ledger.1:13", "--no-wait")
    assert (answer.exit_code, control.commands) == (1, []), answer.output


def test_a_purge_is_a_run_of_the_item_s_shard(items: DeadItems, control: SentCommands) -> None:
    answer = payhook(items, "purge", "ledger.1:13", "--reason", "a test of ours", "--no-wait")
    assert answer.exit_code == 0, answer.output
    assert [one.stream for one in control.commands] == ["ledger.1"]


def test_a_selection_is_made_of_each_shard_that_has_something(items: DeadItems, control: SentCommands) -> None:
    answer = payhook(items, "select", "--note", "mended")
    assert answer.exit_code == 0, answer.output
    assert "frozen as s1 of ledger: " in answer.output
    assert "payhook dlq replay s1 --dry-run --stream ledger.1 " in answer.output
    listed = reported(items, "selections")["selections"]
    assert sorted(one["stream"] for one in listed) == ["ledger", "ledger.1"]
    assert sum(one["count"] for one in listed) == 14
    assert "ledger.1:s1" in payhook(items, "selections").output
    assert payhook(items, "replay", "s1", "--dry-run", "--stream", "ledger.1").exit_code == 0
    payhook(items, "replay", "ledger.1:s1", "--no-wait")
    assert [one.stream for one in control.commands] == ["ledger.1"]
    assert payhook(items, "selections", "ledger.1:s1").output.startswith("s1: ")


def test_a_proposal_is_approved_at_the_page_of_its_shard(items: DeadItems, control: SentCommands) -> None:
    """Each shard counts its own selections: the first one of the other shard is somebody else's."""
    page = "/dlq/selections/1{} on the management listener"
    other = payhook(items, "purge", "ledger.1:13", "--reason", "a test of ours", "--propose", "--no-wait")
    assert page.format("?stream=ledger.1") in other.output
    first = payhook(items, "purge", "ledger.0:13", "--reason", "a test of ours", "--propose", "--no-wait")
    assert page.format("") in first.output


def test_what_one_person_may_do_alone_is_divided_among_the_shards(
    items: DeadItems, control: SentCommands, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each shard counts by itself: four a day in all are two in each."""
    streams = items.data / "streams.toml"
    streams.write_text("[ledger.dlq]\nalone_items_max = 4\n", "utf-8")
    monkeypatch.setenv("PAYHOOK_PROCESSOR__STREAMS_FILE", str(streams))
    numbers = [f"ledger.1:{number}" for number, stream in whose(items).items() if stream == "ledger.1"]
    answer = payhook(items, "purge", *numbers[:3], "--reason", "a test of ours", "--no-wait")
    assert "(limit 2 a day)" in answer.output
    answer = payhook(items, "purge", *numbers[:2], "--reason", "a test of ours", "--no-wait")
    assert answer.exit_code == 0 and "a second person" not in answer.output
