"""Every adapter is to be had by its name, works in another process, and fails with words that help."""

from __future__ import annotations

import pickle

import pytest

from providers import (
    ContentVersionUnknown,
    ModeMismatch,
    ProvidersSettings,
    Request,
    SignatureInvalid,
    build_adapters,
)


def test_adapters_are_found_by_the_name_that_heads_their_keys() -> None:
    adapters = build_adapters(ProvidersSettings())
    assert sorted(adapters) == [
        "adyen",
        "adyenplatform",
        "braintree",
        "checkout",
        "gocardless",
        "mollie",
        "mollieclassic",
        "paddle",
        "paypal",
        "razorpay",
        "square",
        "standardwebhooks",
        "stripe",
    ]
    assert all(adapter.name == name for name, adapter in adapters.items())
    assert all(adapter.content_version >= 1 for adapter in adapters.values())


def test_settings_travel_to_a_worker_and_build_the_same_adapters_there() -> None:
    settings = pickle.loads(pickle.dumps(ProvidersSettings(tolerance_s=60)))
    assert settings == ProvidersSettings(tolerance_s=60)
    assert build_adapters(settings)


@pytest.mark.parametrize(
    "error",
    [
        SignatureInvalid("stale"),
        ModeMismatch("live", "test"),
        ModeMismatch("live", None),
        ContentVersionUnknown("adyen", 9),
    ],
)
def test_errors_travel_between_processes(error: Exception) -> None:
    back = pickle.loads(pickle.dumps(error))
    assert str(back) == str(error)
    assert vars(back) == vars(error)


def test_the_names_of_headers_are_matched_whole() -> None:
    request = Request(b"", [(b"x-id", b"1"), (b"id", b"2"), (b"idx", b"3")])
    assert request.one(b"id") == b"2"
    assert request.one(b"i") is None
    with pytest.raises(SignatureInvalid) as caught:
        Request(b"", [(b"id", b"2"), (b"id", b"2")]).one(b"id")
    assert caught.value.reason == "several"
