"""The merchant directory: found, unknown yet, closed, or not readable at all."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from core.decision import ErrorKind
from ledger.directory import (
    MERCHANTS_BYTES_MAX,
    DirectoryUnreadable,
    FileDirectory,
    Merchant,
    MerchantClosed,
    MerchantUnknown,
)

TEXT = """
[stripe]
"acct_1" = "merchant-1"
"" = "platform"
"acct_3" = {account = "merchant-3", closed = true}
"acct_4" = {account = "merchant-4"}

[adyen]
"*" = "merchant-main"
"Other" = "merchant-other"
"""


@pytest.fixture
def path(tmp_path: Path) -> Path:
    file = tmp_path / "merchants.toml"
    file.write_text(TEXT, "utf-8")
    return file


def test_an_account_is_found_by_its_name_then_by_the_star(path: Path) -> None:
    directory = FileDirectory(path)
    assert directory.lookup("stripe", "acct_1") == Merchant("merchant-1")
    assert directory.lookup("stripe", "") == Merchant("platform")
    assert directory.lookup("stripe", "acct_4") == Merchant("merchant-4")
    assert directory.lookup("adyen", "Other") == Merchant("merchant-other")
    assert directory.lookup("adyen", "Whatever") == Merchant("merchant-main")


@pytest.mark.parametrize(("provider", "account"), [("stripe", "acct_9"), ("paypal", "x")])
def test_an_unknown_merchant_is_stuck_alone(path: Path, provider: str, account: str) -> None:
    with pytest.raises(MerchantUnknown) as raised:
        FileDirectory(path).lookup(provider, account)
    assert raised.value.kind is ErrorKind.SNBE


def test_a_tenant_with_a_section_of_its_own_has_only_what_stands_there(path: Path) -> None:
    with path.open("a") as file:
        file.write('["shop-a~stripe"]\n"acct_1" = "merchant-a"\n["shop-b~stripe"]\n')
    directory = FileDirectory(path)
    assert directory.lookup("stripe", "acct_1", "shop-a") == Merchant("merchant-a")
    assert directory.lookup("stripe", "acct_1") == Merchant("merchant-1")
    for tenant, account in (("shop-a", "acct_4"), ("shop-b", "acct_1")):
        with pytest.raises(MerchantUnknown, match=f"no merchant for the {tenant}~stripe account"):
            directory.lookup("stripe", account, tenant)


def test_a_tenant_without_one_has_its_providers(path: Path) -> None:
    assert FileDirectory(path).lookup("stripe", "acct_1", "shop-a") == Merchant("merchant-1")


def test_a_closed_merchant_needs_a_person(path: Path) -> None:
    with pytest.raises(MerchantClosed, match="merchant-3") as raised:
        FileDirectory(path).lookup("stripe", "acct_3")
    assert raised.value.kind is ErrorKind.NRE


def test_the_file_is_read_again_when_it_changes(path: Path) -> None:
    directory = FileDirectory(path)
    with pytest.raises(MerchantUnknown):
        directory.lookup("stripe", "acct_9")
    path.write_text(TEXT.replace("acct_1", "acct_9"), "utf-8")
    os.utime(path, ns=(1, 1))
    assert directory.lookup("stripe", "acct_9") == Merchant("merchant-1")
    with pytest.raises(MerchantUnknown):
        directory.lookup("stripe", "acct_1")


@pytest.mark.parametrize(
    "text",
    [
        "not toml",
        'stripe = "merchant-1"',
        '[stripe]\n"a" = ""',
        '[stripe]\n"a" = 7',
        '[stripe]\n"a" = {account = "m", close = true}',
        '[stripe]\n"a" = {account = "m", closed = "yes"}',
    ],
)
def test_a_broken_directory_stops_the_stream_and_names_the_file(path: Path, text: str) -> None:
    """Every event would fail: that is the stream's trouble, no event's, and it mends without a restart."""
    directory = FileDirectory(path)
    directory.lookup("stripe", "acct_1")
    path.write_text(text, "utf-8")
    for _ in range(2):
        with pytest.raises(DirectoryUnreadable, match="merchants.toml") as raised:
            directory.lookup("stripe", "acct_1")
        assert raised.value.kind is ErrorKind.SBE
    path.write_text(TEXT, "utf-8")
    assert directory.lookup("stripe", "acct_1") == Merchant("merchant-1")


def test_a_file_that_takes_longer_to_parse_than_a_call_may_is_refused(path: Path) -> None:
    text = TEXT + "# " + "x" * (MERCHANTS_BYTES_MAX - len(TEXT) - 3) + "\n"
    path.write_text(text, "utf-8")
    directory = FileDirectory(path)
    assert directory.lookup("stripe", "acct_1") == Merchant("merchant-1")
    path.write_text(text + "\n", "utf-8")
    with pytest.raises(DirectoryUnreadable, match=r"4194305 bytes, .*; ledger\.merchants_url takes a service instead"):
        directory.lookup("stripe", "acct_1")


def test_a_missing_directory_stops_the_stream(tmp_path: Path) -> None:
    with pytest.raises(DirectoryUnreadable, match="No such file"):
        FileDirectory(tmp_path / "merchants.toml").lookup("stripe", "acct_1")
