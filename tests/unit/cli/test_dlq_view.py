"""``payhook dlq list``, ``show``, ``stats`` and ``groups``: what is printed, and that none of it steers a terminal."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from cli.main import main
from core.decision import Decision
from operations.audit_log import AuditLog
from operations.recorder import Recorder
from tests.damaged_lake import DAMAGES
from tests.dead_items import DeadItems

HOSTILE = "\x1b[2J\x1b]0;owned\x07\x9b31m\x85\u202eevil\u2066\x00\r\n\x1b[31mfaked line"
COMMANDS = (["list"], ["list", "--waiting"], ["groups"], ["stats"], ["show", "1"], ["show", "2"])


@pytest.fixture
def items(tmp_path: Path) -> DeadItems:
    """One that says hostile things wherever a stranger's text is shown, one that waits for it, one that was purged."""
    items = DeadItems(tmp_path)
    said = ("error_class", "error_message", "error_stack", "log_lines", "reason", "event_type", "provider", "account")
    items.dead(**dict.fromkeys(said, HOSTILE), headers=json.dumps({"x" + HOSTILE: HOSTILE}), entity_key="stripe:acct:p")
    items.dead(payment="pi_1", event_key="stripe:evt_" + "x" * 90)
    items.parked("pi_1")
    items.then(items.dead(), Decision.PURGED, actor="anna", reason="a test of ours", decided_at=datetime.now(UTC))
    items.commit(with_bodies=True)
    return items


def payhook(items: DeadItems, *words: str, columns: int = 80) -> Result:
    said = CliRunner(env={"COLUMNS": str(columns)}).invoke(main, ["dlq", *words, "--data", str(items.data)])
    assert said.exit_code == 0, said.output
    return said


def reported(items: DeadItems, *words: str) -> Any:
    return json.loads(payhook(items, *words, "--json").output)


@pytest.mark.parametrize("words", [*COMMANDS, *([*words, "--json"] for words in COMMANDS)], ids=" ".join)
def test_nothing_that_is_printed_steers_the_terminal(items: DeadItems, words: list[str]) -> None:
    output = payhook(items, *words).output
    steering = [char for char in output if char != "\n" and not char.isprintable()]
    assert steering == []


def test_what_steers_is_named_instead(items: DeadItems) -> None:
    assert "⟨U+001B⟩[2J" in payhook(items, "show", "1").output


def test_a_list_shows_id_age_event_and_error(items: DeadItems) -> None:
    output = payhook(items, "list", columns=200).output
    assert "MerchantUnknown (NRE): merchant 'acct_1' isn't in the directory" in output
    assert "x" * 90 in payhook(items, "list", columns=300).output
    assert "parked" not in output
    assert "parked" in payhook(items, "list", "--waiting").output


def test_options_narrow_a_list(items: DeadItems) -> None:
    def found(*words: str) -> list[int]:
        return [item["item_seq"] for item in reported(items, "list", *words)["items"]]

    assert found() == [1, 2]
    assert found("--state", "all") == [1, 2, 3, 4]
    assert found("--state", "purged", "--state", "waiting") == [3, 4]
    assert found("--class", "MerchantUnknown") == [2]
    assert found("--entity", "stripe:acct:pi_1", "--waiting") == [2, 3]
    assert found("--kind", "SLE") == []
    assert found("--since", "2026-01-31T12:02:00Z") == [2]
    assert found("--until", "2026-01-30") == []
    assert found("--sort", "newest") == [2, 1]
    [group] = [one for one in reported(items, "groups") if one["error_class"] == "MerchantUnknown"]
    assert found("--fingerprint", group["fingerprint"]) == [2]


def test_a_list_goes_on_where_a_page_ended(items: DeadItems) -> None:
    first = reported(items, "list", "--limit", "1")
    assert (first["total"], [item["item_seq"] for item in first["items"]]) == (2, [1])
    second = reported(items, "list", "--limit", "1", "--after", first["next"])
    assert (second["next"], [item["item_seq"] for item in second["items"]]) == (None, [2])
    assert f"--after {first['next']}" in payhook(items, "list", "--limit", "1").output


@pytest.mark.row("E6")
def test_json_of_an_item_has_these_fields(items: DeadItems) -> None:
    """Others' tools read them: they are added to, never renamed."""
    item = reported(items, "list")["items"][1]
    expected = "item_seq seen_seq seen_hash state decision attempts times_died replays kind error_class error_code"
    expected += " message fingerprint mark provider account tenant event_type event_key entity_key topic partition"
    expected += " offset received_at since first_dead_at last_decided_at due_at closed_at cause_seq actor reason"
    expected += " amount_minor currency decimals"
    assert list(item) == expected.split()
    assert (item["state"], item["since"], item["times_died"]) == ("open", "2026-01-31T12:02:00.000000Z", 1)


@pytest.mark.row("E11")
def test_json_of_the_statistics_and_of_a_group_has_these_fields(items: DeadItems) -> None:
    expected = "at seq open waiting oldest over_24h over_48h next_over_24h by_kind by_class by_provider by_type hours"
    reported_stats = reported(items, "stats")
    assert list(reported_stats) == [*expected.split(), "rates", "age_h_max", "escalate_h"]
    assert [list(rate) for rate in reported_stats["rates"]] == [
        ["window_s", "inflow", "outflow", "time_to_clear_s"]
    ] * 3
    expected = "fingerprint error_class error_code shape place kinds providers count oldest newest sample advice"
    assert list(reported(items, "groups")[0]) == expected.split()


def test_statistics_name_depth_and_age(items: DeadItems) -> None:
    output = payhook(items, "stats").output
    assert re.search(r"dead +2; 1 more wait for a try", output)
    assert "MerchantUnknown" in output
    assert re.search(r"last 15 minutes +[\d,]+ in, [\d,]+ out; time to clear: ", output)
    assert "add the account that the error names" in " ".join(output.split())


def test_a_story_tells_who_did_what(items: DeadItems) -> None:
    output = payhook(items, "show", "4", columns=160).output
    assert "item 4: purged (purged)" in output
    assert "anna" in output
    assert "a test of ours" in output


def test_what_waits_because_of_it_is_shown(items: DeadItems) -> None:
    output = payhook(items, "show", "2", columns=160).output
    assert "held by it" in output
    assert "stripe:evt_3:refund" in output
    assert "body of stripe:evt_xxx" in output


@pytest.mark.parametrize("command", ["list", "groups", "stats"])
@pytest.mark.parametrize("option", ["--fingerprint", "--entity", "--class"])
def test_an_empty_value_of_a_filter_is_refused(items: DeadItems, command: str, option: str) -> None:
    words = ["dlq", command, "--state", "waiting", option, "", "--data", str(items.data)]
    said = CliRunner().invoke(main, words)
    assert (said.exit_code, "a value is empty" in said.output) == (2, True), said.output


@pytest.mark.parametrize("words", [["list", "--after", "x"], ["show", "99"]])
def test_what_can_not_be_is_one_sentence(items: DeadItems, words: list[str]) -> None:
    said = CliRunner().invoke(main, ["dlq", *words, "--data", str(items.data)])
    assert (said.exit_code, len(said.output.splitlines())) == (1, 1)


@pytest.mark.parametrize("words", [["list"], ["show", "1"], ["stats"], ["audit"]], ids=" ".join)
@pytest.mark.parametrize("damage", DAMAGES)
def test_a_damaged_table_is_one_sentence(items: DeadItems, words: list[str], damage: Callable[[Path], None]) -> None:
    lake = items.data / "lake"
    Recorder(AuditLog(lake / "acts"), items.clock, "page").record("ada", "sign_in", "")
    for table in ("journal/ledger", "acts"):
        damage(lake / table)
    said = CliRunner().invoke(main, ["dlq", *words, "--data", str(items.data)])
    assert (said.exit_code, said.stderr.startswith("payhook: "), said.stderr.count("\n")) == (1, True, 1), said


def test_a_number_beyond_every_item_is_refused(items: DeadItems) -> None:
    said = CliRunner().invoke(main, ["dlq", "show", "9" * 21, "--data", str(items.data)])
    assert (said.exit_code, "is not in the range" in said.stderr) == (2, True)
