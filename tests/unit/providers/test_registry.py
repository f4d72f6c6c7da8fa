"""Every adapter is to be had by its name, works in another process, and fails with words that help."""

from __future__ import annotations

import pickle
import re
from pathlib import Path

import pytest

import load.samples
import providers
from load.samples import NoSamples, samples_of
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
    assert all(adapter.name == name for name, adapter in adapters.items())
    assert all(type(adapter).__module__ == f"providers.{name}" for name, adapter in adapters.items())
    assert all(adapter.content_version >= 1 for adapter in adapters.values())


def test_every_adapter_in_the_folder_is_in_the_registry() -> None:
    files = {path.stem for path in Path(providers.__file__).parent.glob("*.py") if _has_an_adapter(path)}
    assert build_adapters(ProvidersSettings()).keys() == files


def _has_an_adapter(path: Path) -> bool:
    return (
        path.stem not in ("base", "port") and re.search(r"(?m)^class \w+Adapter\b", path.read_text("utf-8")) is not None
    )


def test_every_provider_has_a_sample_file_and_every_sample_file_a_provider() -> None:
    adapters = build_adapters(ProvidersSettings())
    files = {path.stem for path in Path(load.samples.__file__).parent.glob("*.py")} - {"__init__", "sender"}
    assert adapters.keys() == files
    assert all(samples_of(name) for name in adapters)


def test_a_provider_without_a_sample_file_is_reported_what_to_add() -> None:
    with pytest.raises(NoSamples, match=r"add load/samples/nobody\.py"):
        samples_of("nobody")


def test_settings_travel_to_a_worker_and_build_the_same_adapters_there() -> None:
    settings = pickle.loads(pickle.dumps(ProvidersSettings(entity="merchant")))
    assert settings == ProvidersSettings(entity="merchant")
    assert build_adapters(settings)


@pytest.mark.parametrize(
    "error",
    [
        SignatureInvalid("stale"),
        ModeMismatch("live", "test"),
        ModeMismatch("live", None),
        ContentVersionUnknown("adyen", 9),
        NoSamples("nobody"),
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
