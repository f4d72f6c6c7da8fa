"""`payhook ledger`: what people see, what tools get, and the exit codes."""

from __future__ import annotations

import csv
import json
import re
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result
from deltalake import DeltaTable

from cli.main import main
from core.decision import Decision
from core.layout import Layout
from core.money import Movement
from journal.schema import JournalRow
from tests.answers import answered, receipt
from tests.small_ledger import SmallLedger

LONG = "merchant-" + "x" * 90


@pytest.fixture(scope="module")
def ledger(tmp_path_factory: pytest.TempPathFactory) -> SmallLedger:
    """One to read; who changes it takes `own_ledger`."""
    return made(tmp_path_factory.mktemp("ledger"))


@pytest.fixture
def own_ledger(tmp_path: Path) -> SmallLedger:
    return made(tmp_path)


def made(folder: Path) -> SmallLedger:
    """Three currencies, a very long merchant, a copy, and an event that died and was replayed."""
    reported = SmallLedger(folder / "data")
    first = reported.add(Movement.CAPTURE, 123_456, payment="pi_1")
    reported.add(Movement.CAPTURE, 1_234, "JPY", merchant="m-2")
    reported.add(Movement.CAPTURE, 1_234_567, "KWD", merchant=LONG, provider="adyen", payment="p" * 120)
    reported.again(first)
    refund = reported.add(Movement.REFUND, 5_000, payment="pi_1")
    booked, refund.postings, refund.decision = refund.postings, None, Decision.DEAD
    refund.error_class, refund.error_message = "MerchantUnknown", "no merchant [bold]for[/] acct_1"
    reported.commit()
    command = reported.add(None, decision=Decision.REPLAYED, event_key=None, actor="ada", reason="mended")
    reported.later(refund, Decision.REPLAYED, cause_seq=command.seq, actor="ada", reason="mended")
    reported.later(refund, Decision.APPLIED, postings=booked, error_class=None, error_message=None, out_of_order=True)
    reported.commit()
    return reported


def payhook(ledger: SmallLedger, *words: str, columns: int = 140) -> Result:
    command = ["ledger", *words, "--data", str(ledger.data)]
    return CliRunner(env={"COLUMNS": str(columns)}).invoke(main, command)


def test_balances_have_the_decimals_of_their_currency_and_a_total_that_is_in_balance(ledger: SmallLedger) -> None:
    said = payhook(ledger, "balances")
    assert said.exit_code == 0
    for text in ("-1,234.56", "1,184.56", " -1,234\n", "-1,234.567", "debits = credits in EUR, JPY, KWD"):
        assert text in said.output
    totals = [line for line in said.output.splitlines() if "all accounts" in line]
    assert [line.split()[2:] for line in totals] == [
        ["EUR", "1,284.56", "1,284.56", "0.00"],
        ["JPY", "1,234", "1,234", "0"],
        ["KWD", "1,234.567", "1,234.567", "0.000"],
    ]


def test_the_json_of_balances_is_in_minor_units_with_decimals(ledger: SmallLedger) -> None:
    reported = json.loads(payhook(ledger, "balances", "--json", "--currency", "KWD").output)
    assert [(one["debit_minor"], one["credit_minor"], one["balance_minor"], one["decimals"]) for one in reported] == [
        (0, 1_234_567, -1_234_567, 3),
        (1_234_567, 0, 1_234_567, 3),
    ]


@pytest.mark.parametrize(
    ("words", "accounts"),
    [
        (["--as-of", "2026-01-31T12:01:00Z"], 2),
        (["--as-of", "2026-01-31T12:00:59.999999Z"], 0),
        (["--as-of", "2026-01-30"], 0),
        (["--as-of", "2026-01-31"], 7),
        (["--seq", "2"], 4),
        (["--seq", "0"], 0),
        (["--merchant", "m-2"], 2),
    ],
)
def test_balances_as_of_a_moment_a_day_or_a_row(words: list[str], accounts: int, ledger: SmallLedger) -> None:
    assert len(json.loads(payhook(ledger, "balances", "--json", *words).output)) == accounts


@pytest.mark.parametrize(
    "words",
    [
        ["balances", "--as-of", "2026-01-31", "--seq", "1"],
        ["balances", "--as-of", "soon"],
        ["balances", "--seq", "-1"],
        ["search", "--amount", "5"],
        ["search", "--limit", "0"],
        ["search", "--limit", "10001"],
        ["search", "--decision", "perhaps"],
        ["search", "--from", "2026-13-01"],
        ["entity", "k", "--limit", "0"],
        ["export", "--out", "x.csv"],
        ["export", "--format", "xlsx", "--out", "x"],
        ["event"],
    ],
)
def test_wrong_arguments_are_exit_2(words: list[str], ledger: SmallLedger) -> None:
    assert payhook(ledger, *words).exit_code == 2


def test_a_ledger_out_of_balance_is_exit_1_and_says_so(own_ledger: SmallLedger) -> None:
    from ledger.postings import POSTINGS_SCHEMA, PostingsWriter
    from tests.small_ledger import lines_of

    half = lines_of(own_ledger.rows[:1])[:1]
    table = POSTINGS_SCHEMA.empty_table().from_pylist(half, schema=POSTINGS_SCHEMA)
    PostingsWriter.open(own_ledger.postings)._commit_lines(table, 99)
    said = payhook(own_ledger, "balances")
    assert said.exit_code == 1
    assert "debits and credits differ in EUR: run payhook verify" in said.output


def test_an_events_story_is_reported_whole(ledger: SmallLedger) -> None:
    said = payhook(ledger, "event", "stripe:evt_5:refund")
    assert said.exit_code == 0
    for text in (
        "payments.events, partition 0, offset 4",
        "/webhooks/stripe",
        "mode live",
        "row 5: dead",
        "MerchantUnknown: no merchant [bold]for[/] acct_1",
        "row 7: replayed",
        "row 6: replayed by ada",
        "row 8: applied",
        "later than its place in Kafka",
        f"version {DeltaTable(ledger.journal).version()} (batch ",
        "ledger-1",
        "(kept)",
        "50.00 EUR",
        ledger.rows[7].row_hash,
    ):
        assert text in said.output, text


def test_a_story_tells_what_was_answered(own_ledger: SmallLedger) -> None:
    key = "stripe:evt_1:capture"
    answered(own_ledger.data, receipt(key, 2), receipt(key, 9, "duplicate"), receipt("stripe:new:x", 9))
    said = payhook(own_ledger, "event", key).output
    assert said.index("answered") < said.index("received")
    for words in (r"12:00:02\.000000Z +200 +claimed", r"12:00:09\.000000Z +200 +duplicate +0/0, line 1"):
        assert re.search(words, said), said
    reported = json.loads(payhook(own_ledger, "event", key, "--json").output)[key]
    assert [one["outcome"] for one in reported["receipts"]] == ["claimed", "duplicate"]
    waits = payhook(own_ledger, "event", "stripe:new:x")
    assert waits.exit_code == 1
    assert "stripe:new:x: answered, not decided yet" in waits.output
    assert json.loads(payhook(own_ledger, "event", "seq:2", "--json").output)["seq:2"]["receipts"] == []


def test_a_commit_that_the_log_forgot_is_reported_as_such(own_ledger: SmallLedger) -> None:
    DeltaTable(own_ledger.journal).create_checkpoint()
    for entry in (Path(own_ledger.journal) / "_delta_log").glob("*.json"):
        entry.unlink()
    said = payhook(own_ledger, "event", "seq:1")
    assert said.exit_code == 0
    assert "log cleaned up" in said.output
    reported = json.loads(payhook(own_ledger, "event", "seq:1", "--json").output)
    assert reported["seq:1"]["rows"][0]["commit"] is None


def test_the_json_of_a_story_has_rows_postings_and_deliveries(ledger: SmallLedger) -> None:
    key = "stripe:evt_1:capture"
    reported = json.loads(payhook(ledger, "event", key, "--json").output)[key]
    assert [row["decision"] for row in reported["rows"]] == ["applied", "duplicate"]
    assert reported["rows"][1]["cause"] == {"seq": 1, "decision": "applied", "event_key": key, "actor": None}
    assert reported["rows"][0]["commit"]["version"] == DeltaTable(ledger.journal).version() - 1
    assert [(line["amount_minor"], line["decimals"]) for line in reported["postings"]] == [(123_456, 2)] * 2
    assert [delivery["body_kept"] for delivery in reported["deliveries"]] == [True, True]


@pytest.mark.parametrize(
    "words", [["event", "stripe:evt_9:refund"], ["entity", "stripe:acct:pi_9"], ["event", "seq:99"]]
)
@pytest.mark.parametrize("as_json", [False, True])
def test_an_unknown_key_is_exit_1_with_what_to_try(words: list[str], as_json: bool, ledger: SmallLedger) -> None:
    said = payhook(ledger, *words, *(["--json"] if as_json else []))
    assert said.exit_code == 1
    for text in (f"{words[1]}: not in the live ledger", "--text-in-keys", "--test", "payhook status"):
        assert text in said.stderr
    assert not as_json or json.loads(said.stdout)


def test_one_unknown_key_among_others_is_exit_1_and_the_others_are_reported(ledger: SmallLedger) -> None:
    said = payhook(ledger, "event", "seq:1", "nobody:1:x")
    assert said.exit_code == 1
    assert "row 1: applied" in said.output


def test_an_entity_is_reported_in_kafkas_order_with_running_balances(ledger: SmallLedger) -> None:
    said = payhook(ledger, "entity", "stripe:acct:pi_1")
    assert said.exit_code == 0
    assert re.findall(r"^ +(\d) +2026-", said.output, re.MULTILINE) == ["1", "4", "5", "7", "8"]
    assert re.search(r"credit +50\.00 EUR +1,184\.56 EUR", said.output)
    reported = json.loads(payhook(ledger, "entity", "stripe:acct:pi_1", "--json").output)
    assert (reported["total"], [len(event["rows"]) for event in reported["events"]]) == (3, [1, 1, 3])
    assert reported["events"][2]["lines"][1]["balance_minor"] == 118_456


def test_fewer_events_than_there_are_is_said(ledger: SmallLedger) -> None:
    assert (
        "the first 1 of 3 events; --limit shows more"
        in payhook(ledger, "entity", "stripe:acct:pi_1", "--limit", "1").output
    )


def test_search_finds_by_amount_in_the_currencys_decimals(ledger: SmallLedger) -> None:
    reported = json.loads(payhook(ledger, "search", "--amount", "1234.567", "--currency", "KWD", "--json").output)
    assert [(one["seq"], one["amount_minor"], one["decimals"], one["merchant"]) for one in reported] == [
        (3, 1_234_567, 3, LONG)
    ]
    said = payhook(ledger, "search", "--amount", "1.5", "--currency", "JPY")
    assert (said.exit_code, said.output.count("JPY has no decimals")) == (1, 1)


def test_search_says_when_there_is_more_and_when_there_is_nothing(ledger: SmallLedger) -> None:
    assert "the newest 2; --limit shows more" in payhook(ledger, "search", "--limit", "2").output
    assert payhook(ledger, "search", "--provider", "nobody").output == "no events match\n"


def test_an_export_says_what_it_wrote_and_refuses_to_do_it_twice(ledger: SmallLedger, tmp_path: Path) -> None:
    out = str(tmp_path / "out.csv")
    said = payhook(ledger, "export", "--format", "csv", "--out", out)
    assert (said.exit_code, said.stdout) == (0, f"8 rows of the postings (version 2) are in {out}\n")
    with (tmp_path / "out.csv").open(newline="") as file:
        assert len(list(csv.reader(file))) == 9
    again = payhook(ledger, "export", "--format", "csv", "--out", out)
    assert (again.exit_code, "--overwrite" in again.stderr) == (1, True)
    assert payhook(ledger, "export", "--format", "parquet", "--out", out, "--overwrite").exit_code == 0


def test_an_export_of_a_day_has_that_whole_day(ledger: SmallLedger, tmp_path: Path) -> None:
    def rows(name: str, *words: str) -> str:
        return payhook(ledger, "export", "--format", "csv", "--out", str(tmp_path / name), *words).stdout.split()[0]

    assert rows("a", "--from", "2026-01-31", "--to", "2026-01-31") == "8"
    assert rows("b", "--to", "2026-01-30") == "0"
    assert rows("c", "--from", "2026-01-31", "--to", "2026-01-31T12:02:00Z") == "2"
    assert rows("d", "--table", "journal") == "8"


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["balances"], "nothing has been booked yet"),
        (["search"], "no events match"),
        (["event", "k"], "k: not in the test ledger"),
        (["entity", "k"], "k: not in the test ledger"),
        (["export", "--format", "csv", "--out", "x.csv"], "there is no table at"),
    ],
)
def test_the_test_ledger_is_another_one(words: list[str], said: str, ledger: SmallLedger) -> None:
    assert said in payhook(ledger, *words, "--test").output


@pytest.mark.parametrize(
    "words",
    [["balances"], ["search"], ["event", "seq:1"], ["entity", "k"], ["export", "--format", "csv", "--out", "x"]],
)
def test_a_damaged_ledger_is_one_sentence_and_exit_1(words: list[str], own_ledger: SmallLedger) -> None:
    layout = Layout(own_ledger.data).ledger()
    for table in (layout.journal, layout.postings):
        for file in Path(table).glob("*.parquet"):
            file.write_bytes(b"no Parquet")
    said = payhook(own_ledger, *words)
    assert said.exit_code == 1
    assert said.stderr.startswith("payhook: ")
    assert "Traceback" not in said.output


def test_a_log_without_its_entries_is_one_sentence_and_exit_1(own_ledger: SmallLedger) -> None:
    last = DeltaTable(own_ledger.journal).version()
    (Path(own_ledger.journal) / "_delta_log" / f"{last:020}.json").write_bytes(b"{")
    said = payhook(own_ledger, "search")
    assert (said.exit_code, said.stderr.startswith("payhook: ")) == (1, True)


def test_rows_of_a_story_are_the_journals(ledger: SmallLedger) -> None:
    reported: dict[str, Any] = json.loads(payhook(ledger, "event", "seq:2", "--json").output)["seq:2"]["rows"][0]
    names = set(JournalRow.__dataclass_fields__)
    assert names <= reported.keys()


def test_postings_lead_from_a_balance_to_its_movements(ledger: SmallLedger) -> None:
    [balance] = json.loads(payhook(ledger, "balances", "--currency", "EUR", "--merchant", "m-1", "--json").output)[1:2]
    said = payhook(ledger, "postings", "--account", "provider:stripe:clearing", "--currency", "eur")
    assert said.exit_code == 0
    assert "1,184.56 EUR" in said.output and "-50.00" not in said.output
    page = json.loads(
        payhook(ledger, "postings", "--account", balance["account"], "--currency", "EUR", "--json").output
    )
    assert page["lines"][0]["balance_minor"] == balance["balance_minor"]
    assert page["count"] == len(page["lines"])


def test_postings_are_continued_by_what_the_page_before_printed(ledger: SmallLedger) -> None:
    words = ("postings", "--account", "provider:stripe:clearing", "--currency", "EUR", "--limit", "1")
    first = payhook(ledger, *words).output
    found = re.search(r"1 of 2; older ones: --cursor (\S+)", first)
    assert found is not None, first
    assert "1,234.56 EUR" in payhook(ledger, *words, "--cursor", found[1]).output
    wrong = payhook(ledger, *words, "--cursor", "x")
    assert wrong.exit_code == 1 and "begin without one" in wrong.output


def test_an_account_without_postings_is_exit_1_with_what_to_try(ledger: SmallLedger) -> None:
    said = payhook(ledger, "postings", "--account", "merchant:m-9:payable")
    assert said.exit_code == 1 and "`payhook ledger balances` lists the accounts" in said.output


def test_what_is_owed_to_each_merchant_is_one_row(ledger: SmallLedger) -> None:
    said = payhook(ledger, "owed").output
    assert re.search(r"m-1\s+EUR\s+1,234.56\s+-50.00\s+1,184.56", said), said
    [one] = json.loads(payhook(ledger, "owed", "--merchant", "m-2", "--json").output)
    assert (one["owed_minor"], one["decimals"], one["parts"]) == (1_234, 0, {"payable": 1_234})
