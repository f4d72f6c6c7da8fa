"""What the receiver says at its start of a deployment in which an event may be unknown later."""

from __future__ import annotations

import logging
from pathlib import Path

import pytest

from ingest.pan import FILE
from stack.services.receiver import check
from stack.settings import Settings

HMAC_KEY = "44782DEF547AAA06C910C43932B1EB0C71FC68D9D0C057550C48EC2ACF6BA056"


def said(tmp_path: Path, caplog: pytest.LogCaptureFixture, shards: int, *names: str) -> str:
    folder = tmp_path / "secrets"
    folder.mkdir(mode=0o700)
    (folder / FILE).write_text("k" * 20 + "0123456789abcdef\n", "utf-8")
    for name in names:
        (folder / name).write_text(HMAC_KEY + "\n", "utf-8")
    settings = {"ingest": {"secrets_dir": str(folder)}, "processor": {"shards": shards}}
    with caplog.at_level(logging.WARNING):
        check(Settings.model_validate({**settings, "kafka": {"events_partitions": 4}}))
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
