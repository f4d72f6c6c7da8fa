"""What the receiver says at its start of a deployment in which an event may be unknown later."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any

import pytest

from ingest.pan import FILE
from stack.services.receiver import check_settings
from stack.settings import Settings

HMAC_KEY = "44782DEF547AAA06C910C43932B1EB0C71FC68D9D0C057550C48EC2ACF6BA056"
WEBHOOK_ID = "1AB23456CD789012E"


def said(tmp_path: Path, caplog: pytest.LogCaptureFixture, shards: int, *names: str, merchant_id: str = "") -> str:
    folder = tmp_path / "secrets"
    folder.mkdir(mode=0o700)
    (folder / FILE).write_text("k" * 20 + "0123456789abcdef\n", "utf-8")
    for name in names:
        (folder / name).write_text((WEBHOOK_ID if name.startswith("paypal") else HMAC_KEY) + "\n", "utf-8")
    settings: dict[str, Any] = {"ingest": {"secrets_dir": str(folder)}, "processor": {"shards": shards}}
    settings["providers"] = {"paypal": {"merchant_id": merchant_id}}
    with caplog.at_level(logging.WARNING):
        check_settings(Settings.model_validate({**settings, "kafka": {"events_partitions": 4}}))
    return caplog.text


@pytest.mark.parametrize("name", ["adyen", "adyen.shop"])
def test_several_shards_and_adyen_need_the_reference_of_a_disputes_payment(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, name: str
) -> None:
    assert "Include the originalReference for CHARGEBACK_REVERSED events" in said(tmp_path, caplog, 2, name)


@pytest.mark.parametrize(("shards", "names"), [(1, ["adyen"]), (2, [])])
def test_one_shard_or_no_adyen_is_no_reason_for_words(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, shards: int, names: list[str]
) -> None:
    assert "originalReference" not in said(tmp_path, caplog, shards, *names)


@pytest.mark.parametrize("name", ["paypal", "paypal.shop"])
def test_paypal_without_its_merchant_has_two_accounts_where_both_its_versions_send(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, name: str
) -> None:
    text = said(tmp_path, caplog, 1, name)
    assert "set providers.paypal.merchant_id" in text
    assert "a clearing account of their own" in text


@pytest.mark.parametrize(("name", "merchant_id"), [("paypal", "M1234567890AB"), ("adyen", "")])
def test_paypal_with_its_merchant_or_no_paypal_is_no_reason_for_words(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, name: str, merchant_id: str
) -> None:
    assert "merchant_id" not in said(tmp_path, caplog, 1, name, merchant_id=merchant_id)
