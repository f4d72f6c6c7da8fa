"""`payhook search`: the story of what is found, or a list to choose from."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from cli.main import main
from core.money import Movement
from tests.small_ledger import SmallLedger


@pytest.fixture
def ledger(tmp_path: Path) -> SmallLedger:
    made = SmallLedger(tmp_path / "data")
    made.add(Movement.CAPTURE, 123_456, payment="pi_1")
    made.add(Movement.REFUND, 5_000, payment="pi_1")
    made.add(Movement.CAPTURE, 5_000, "JPY", payment="pi_2", merchant="m-2")
    made.add(None, entity_key=None)
    made.commit()
    return made


def search(ledger: SmallLedger, *words: str) -> Result:
    return CliRunner(env={"COLUMNS": "140"}).invoke(main, ["search", *words, "--data", str(ledger.data)])


def test_one_payment_is_told_as_its_story(ledger: SmallLedger) -> None:
    said = search(ledger, "1,234.56")
    assert said.exit_code == 0, said.output
    assert "stripe:acct:pi_1" in said.output and "balances after these events" in said.output


def test_one_event_without_a_payment_is_told_as_its_story(ledger: SmallLedger) -> None:
    said = search(ledger, "evt_4")
    assert said.exit_code == 0 and "no postings" in said.output


def test_several_are_a_list(ledger: SmallLedger) -> None:
    said = search(ledger, "acct:pi_")
    assert said.exit_code == 0 and "payhook ledger entity KEY" in said.output
    assert "1,234.56 EUR" in said.output and "5,000 JPY" in said.output
    found = json.loads(search(ledger, "acct:pi_", "--json").output)
    assert [one["key"] for one in found["found"]] == ["stripe:acct:pi_2", "stripe:acct:pi_1"]
    assert found["found"][1]["amounts"] == {"EUR": 123_456}


def test_nothing_is_exit_1(ledger: SmallLedger) -> None:
    said = search(ledger, "pi_9")
    assert (said.exit_code, said.output) == (1, "no payments match\n")


def test_a_search_whose_time_is_up_says_how_to_look_further(
    ledger: SmallLedger, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The command that it names finds what is older."""
    monkeypatch.setattr("ledger.queries.payments.WINDOW_ROWS", 1)
    monkeypatch.setattr("cli.search_command.SEARCH_S_MAX", 0)
    said = search(ledger, "pi_1")
    assert said.exit_code == 1 and "Searched only decisions since" in said.stderr
    assert json.loads(search(ledger, "pi_1", "--json").stdout)["looked_since"] is not None
    words = ["ledger", "search", "--from", "2020-01-01", "--to", "2030-01-01", "--text-in-keys", "pi_1"]
    older = CliRunner(env={"COLUMNS": "140"}).invoke(main, [*words, "--data", str(ledger.data)])
    assert older.exit_code == 0 and "stripe:evt_1:capture" in older.output
