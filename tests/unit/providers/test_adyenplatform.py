"""Adyen's platform webhooks: the signature."""

from __future__ import annotations

import pytest

from core.errors import SettingError
from load.samples import sign
from providers import Adapter, Request
from tests.unit.providers.adyenplatform_payouts import payout
from tests.unit.providers.shapes import NOW

KEY = "AB" * 32


def signed(adapter: Adapter, body: bytes, key: str = KEY) -> Request:
    headers = sign(adapter, body, key, NOW).headers
    return Request(body, [(name.lower().encode(), value.encode()) for name, value in headers.items()])


@pytest.mark.parametrize("key", ["", "ABC", "XY" * 32, "AB " * 32, "０１" * 32])
def test_a_key_that_is_not_hexadecimal_is_a_setting_error_never_a_refusal(adapter: Adapter, key: str) -> None:
    with pytest.raises(SettingError):
        adapter.check_secret(key)
    with pytest.raises(SettingError):
        adapter.verify(signed(adapter, payout()), [key], NOW)


def test_adyen_wants_its_own_acknowledgement(adapter: Adapter) -> None:
    assert (adapter.accepted().status, adapter.accepted().body) == (200, b"[accepted]")
