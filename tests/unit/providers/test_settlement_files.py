"""A file that isn't the report, or not whole, is refused where it goes wrong."""

from __future__ import annotations

import hashlib
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from core.errors import PayhookError
from core.money import Money, MoneyFact, Movement
from providers.settings import ProvidersSettings
from providers.settlement import build_report
from providers.settlement.report import (
    LINE_BYTES_MAX,
    ReportLine,
    ReportUnreadable,
    RowUnreadable,
    SettlementLine,
    read_report,
)
from tests.settlement_reports import adyen_csv, stripe_csv, stripe_line

CHARGE = MoneyFact("stripe:ch_1:capture", Movement.CAPTURE, "", "pi_1", Money(1_234, "EUR"))
PLAIN = stripe_line(CHARGE, description="plain")


def read(folder: Path, body: bytes) -> list[ReportLine]:
    path = folder / "balance.csv"
    path.write_bytes(body)
    return list(read_report(path, build_report("stripe", ProvidersSettings()), hashlib.sha256()))


def facts(found: list[ReportLine]) -> list[MoneyFact]:
    return [one.fact for one in found if isinstance(one, SettlementLine)]


@pytest.mark.parametrize(
    "changed",
    [
        lambda body: b"\xef\xbb\xbf" + body,
        lambda body: body.replace(b"\n", b"\r\n"),
        lambda body: body + b"\n\n",
        lambda body: body.rstrip(b"\n"),
        lambda body: body.replace(b"gross", b'"Gross "'),
    ],
    ids=["byte order mark", "CRLF", "blank lines", "no newline at the end", "quoted header"],
)
def test_what_spreadsheets_and_downloads_add_changes_nothing(tmp_path: Path, changed) -> None:
    assert facts(read(tmp_path, changed(stripe_csv(PLAIN)))) == [CHARGE]


def test_the_digest_is_of_all_of_the_files_bytes(tmp_path: Path) -> None:
    path, digest = tmp_path / "balance.csv", hashlib.sha256()
    path.write_bytes(b"\xef\xbb\xbf" + stripe_csv(PLAIN, PLAIN) + b"\n")
    list(read_report(path, build_report("stripe", ProvidersSettings()), digest))
    assert digest.hexdigest() == hashlib.sha256(path.read_bytes()).hexdigest()


def test_lines_are_numbered_as_an_editor_numbers_them(tmp_path: Path) -> None:
    found = read(tmp_path, stripe_csv(stripe_line(CHARGE, description="a\nb\nc"), PLAIN))
    assert [one.line for one in found] == [2, 5]


@pytest.mark.parametrize(
    ("body", "problem"),
    [
        (b"", "it is empty"),
        (b"\n", "are missing"),
        (stripe_csv(PLAIN).replace(b",", b";"), "separated by semicolons"),
        (stripe_csv(PLAIN).replace(b",", b"\t"), "separated by tabs"),
        (adyen_csv(), "the columns 'balance_transaction_id'"),
        (stripe_csv(PLAIN).replace(b"source_id", b"sauce"), "the columns 'source_id' are missing"),
        (stripe_csv(PLAIN).replace(b"available_on_utc", b"gross"), "'gross' is there twice"),
        (b'{"data": []}', "are missing"),
    ],
)
def test_another_file_is_not_the_report(tmp_path: Path, body: bytes, problem: str) -> None:
    with pytest.raises(ReportUnreadable) as raised:
        read(tmp_path, body)
    assert problem in str(raised.value)
    assert "balance.csv isn't Stripe's itemised balance report" in str(raised.value)


@pytest.mark.parametrize(
    ("body", "line", "problem"),
    [
        (stripe_csv(PLAIN) + b"txn_2,2026-01-31\n", 3, "it has 2 columns, the header has 14"),
        (stripe_csv(PLAIN) + b'txn_2,"open', 3, "it isn't CSV"),
        (stripe_csv(PLAIN) + b'txn_2,"a"b,c\n', 3, "it isn't CSV"),
        (stripe_csv(PLAIN, stripe_line(CHARGE, description="é")).replace("é".encode(), b"\xe9"), 3, "isn't UTF-8"),
        (stripe_csv(PLAIN).decode().encode("utf-16"), 1, "UTF-16"),
        (stripe_csv(PLAIN).decode().encode("utf-16-le"), 1, "UTF-16"),
        (stripe_csv(PLAIN, stripe_line(CHARGE, description="x" * LINE_BYTES_MAX)), 3, "longer than"),
    ],
    ids=["short", "open quote", "quote within", "latin-1", "utf-16", "utf-16 without mark", "endless"],
)
def test_a_broken_line_is_named(tmp_path: Path, body: bytes, line: int, problem: str) -> None:
    with pytest.raises(RowUnreadable) as raised:
        read(tmp_path, body)
    assert raised.value.line == line
    assert problem in str(raised.value)


@given(
    body=st.one_of(
        st.binary(max_size=300), st.text(max_size=300).map(lambda tail: stripe_csv() + tail.encode("utf-8", "ignore"))
    )
)
def test_whatever_is_in_a_file_it_is_read_or_refused_with_a_reason(
    tmp_path_factory: pytest.TempPathFactory, body: bytes
) -> None:
    try:
        read(tmp_path_factory.mktemp("report"), body)
    except PayhookError as refused:
        assert str(refused)
