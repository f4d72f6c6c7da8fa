"""What commands print fits a narrow terminal, and no name in it is broken where it needn't be."""

from __future__ import annotations

import pytest
from rich.cells import cell_len

from cli.tables import PrintedTable, print_details, wrap_text

STRIPE = "tenant-a/stripe:evt_3NqYaB2eZvKYlo2C1a2b3c4d:payment_intent.payment_failed"
ADYEN = "adyen:8836183819713023:CAPTURE_FAILED"
ACCOUNT = "provider:tenant-a/stripe/acct_1032D82eZvKYlo2C:clearing"
WHY = "MerchantUnknown (NRE): merchant 'acct_1032D82eZvKYlo2C' isn't in the directory"


@pytest.fixture(autouse=True)
def narrow(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")


def printed(rows: PrintedTable, capsys: pytest.CaptureFixture[str]) -> list[str]:
    rows.print()
    return capsys.readouterr().out.splitlines()


def test_an_account_is_broken_between_its_names() -> None:
    assert wrap_text("provider:stripe/acct_1Nxyz:clearing", 24) == ["provider:stripe/", "acct_1Nxyz:clearing"]


def test_a_name_that_is_wider_than_its_cell_is_broken_at_its_separators_first() -> None:
    assert wrap_text("stripe:payment_intent.payment_failed", 18) == ["stripe:", "payment_intent.", "payment_failed"]
    assert wrap_text("abc:0123456789abcdef:x", 10) == ["abc:", "0123456789", "abcdef:x"]


def test_words_are_kept_whole_and_lines_stay_lines() -> None:
    assert wrap_text("no merchant is known\nadd it", 16) == ["no merchant is", "known", "add it"]
    assert wrap_text("a:b/c", 40) == ["a:b/c"]


def test_a_table_of_real_keys_fits_eighty_columns_and_breaks_no_name(capsys: pytest.CaptureFixture[str]) -> None:
    rows = PrintedTable("seq", "event", "account", "amount", "why", right=["seq", "amount"])
    rows.add(1_234_567, STRIPE, ACCOUNT, "1,234,567.50 EUR", WHY)
    rows.add(2, ADYEN, None, "-4 JPY", None)
    lines = printed(rows, capsys)
    assert max(map(cell_len, lines)) <= 80
    assert "1,234,567.50 EUR" in "\n".join(lines)
    for name in ("evt_3NqYaB2eZvKYlo2C1a2b3c4d:", "8836183819713023:", "acct_1032D82eZvKYlo2C"):
        assert name in "\n".join(lines), "a name was broken"


def test_a_column_that_needs_little_is_not_narrowed_for_one_that_needs_much(capsys: pytest.CaptureFixture[str]) -> None:
    rows = PrintedTable("when (UTC)", "why")
    rows.add("2026-01-31 12:00:00", "word " * 40)
    assert printed(rows, capsys)[1].startswith("2026-01-31 12:00:00  word")


def test_a_table_whose_names_are_too_long_is_printed_record_by_record(capsys: pytest.CaptureFixture[str]) -> None:
    rows = PrintedTable("seq", "sha256", "key", right=["seq"])
    rows.add(1, "a" * 64, "b" * 64)
    rows.add(2, "c" * 64, None)
    assert printed(rows, capsys) == [
        "seq     1",
        f"sha256  {'a' * 64}",
        f"key     {'b' * 64}",
        "",
        "seq     2",
        f"sha256  {'c' * 64}",
    ]


def test_of_no_rows_nothing_is_printed(capsys: pytest.CaptureFixture[str]) -> None:
    assert printed(PrintedTable("seq", "event", title="decisions"), capsys) == []


def test_facts_stand_below_each_other_and_what_is_not_known_is_left_out(capsys: pytest.CaptureFixture[str]) -> None:
    print_details([("event", STRIPE), ("due", None), ("type", "refund")], "item 1")
    assert capsys.readouterr().out.splitlines() == [
        "item 1",
        "  event  tenant-a/stripe:evt_3NqYaB2eZvKYlo2C1a2b3c4d:",
        "         payment_intent.payment_failed",
        "  type   refund",
    ]


@pytest.mark.parametrize("text", ["\x1b[31mred", "\u202ereversed", "[bold]x[/bold]"])
def test_what_steers_a_terminal_is_named_and_markup_is_text(text: str, capsys: pytest.CaptureFixture[str]) -> None:
    rows = PrintedTable("what")
    rows.add(text)
    [_, line] = printed(rows, capsys)
    assert text[1:] in line
    assert line.isprintable()
