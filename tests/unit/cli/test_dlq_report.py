"""``payhook dlq report``: Markdown for people, JSON for tools, a file where one is named."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from cli.main import main
from core.decision import Decision
from core.layout import Layout
from tests.unit.dlq.report.weeks import WEEK, Journal


def run(folder: Path, *words: str) -> Result:
    return CliRunner().invoke(main, ["dlq", "report", "--data", str(folder), *words])


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    places = Layout(tmp_path).ledger()
    assert isinstance(places.journal, Path)
    places.journal.parent.mkdir(parents=True)
    journal = Journal(places.journal)
    journal.dies(1)
    facts = {"event_key": "stripe:evt_2:x", "fact_key": "stripe:ch_1", "received_at": WEEK.start}
    journal.new(2, Decision.APPLIED, **facts)
    journal.new(3, Decision.DUPLICATE_FACT, **facts | {"event_key": "stripe:evt_3:x"})
    return tmp_path


def test_a_week_is_printed_with_its_causes_and_providers_bugs(folder: Path) -> None:
    answer = run(folder, "--week", "2026-W05")
    assert answer.exit_code == 0, answer.output
    assert answer.output.startswith("# Dead letters of ledger, 2026-W05\n")
    assert "MerchantUnknown" in answer.output
    assert "| stripe | 1 | one movement of money under several event ids | stripe:evt\\_3:x |" in answer.output


def test_json_has_all_of_it(folder: Path) -> None:
    reported = json.loads(run(folder, "--week", "2026-W05", "--json").output)
    assert (reported["week"], reported["died"], reported["causes"][0]["error_class"]) == (
        "2026-W05",
        1,
        "MerchantUnknown",
    )
    assert reported["bugs"][0]["cases"] == 1 and reported["resolution"]["median"] is None


def test_it_goes_to_a_file(folder: Path) -> None:
    file = folder / "w05.md"
    answer = run(folder, "--week", "2026-W05", "--out", str(file))
    assert answer.output == f"{file}: 2026-W05, 1 died, 0 closed\n"
    assert file.read_text().startswith("# Dead letters")
    answer = run(folder, "--week", "2026-W05", "--out", str(folder / "none" / "w05.md"))
    assert answer.exit_code == 1 and "can't be written" in answer.output


def test_the_last_whole_week_is_reported_unless_one_is_named(folder: Path) -> None:
    answer = run(folder)
    assert answer.exit_code == 0 and "as far as" not in answer.output


def test_what_is_no_week_is_reported_in_one_sentence(folder: Path) -> None:
    answer = run(folder, "--week", "W5")
    assert answer.exit_code == 1 and answer.output == "payhook: 'W5' is no week: write 2026-W47\n"
