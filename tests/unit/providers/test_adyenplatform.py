"""Adyen's platform webhooks: the signature."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from core.errors import SettingError
from load.samples import sign
from providers import Adapter, Request
from tests.unit.providers.adyenplatform_payouts import payout
from tests.unit.providers.shapes import NOW, flips, refusal

Source = Callable[[str], dict[str, str]]
KEY = "AB" * 32
OLD = "CD" * 32


@pytest.fixture
def adapter(adapters: dict[str, Adapter]) -> Adapter:
    return adapters["adyenplatform"]


def signed(adapter: Adapter, body: bytes, key: str = KEY) -> Request:
    headers = sign(adapter, body, key, NOW).headers
    return Request(body, [(name.lower().encode(), value.encode()) for name, value in headers.items()])


def vector(samples: Path, source_of: Source) -> tuple[bytes, bytes, str]:
    source = source_of("adyen/vector_php_banking_header.json")
    return (samples / source["file"]).read_bytes(), source["sig_value"].encode(), source["secret_or_key"]


def test_the_published_vector_proves_and_altered_by_one_bit_does_not(
    samples: Path, source_of: Source, adapter: Adapter
) -> None:
    body, signature, key = vector(samples, source_of)

    def holds(of: bytes, by: bytes) -> bool:
        return refusal(adapter, Request(of, [(b"hmacsignature", by)]), key) is None

    assert holds(body, signature)
    assert not any(holds(altered, signature) for altered in flips(body))
    assert not any(holds(body, altered) for altered in flips(signature))


def test_the_published_vector_does_not_prove_with_a_key_altered_by_one_bit(
    samples: Path, source_of: Source, adapter: Adapter
) -> None:
    body, signature, key = vector(samples, source_of)
    request = Request(body, [(b"hmacsignature", signature)])
    altered = [other.hex() for other in flips(bytes.fromhex(key))]
    assert refusal(adapter, request, *altered) == "mismatch"
    assert adapter.verify(request, [*altered, key.lower()], NOW) == len(altered)


def test_the_signature_made_for_the_published_vector_is_the_published_one(
    samples: Path, source_of: Source, adapter: Adapter
) -> None:
    body, signature, key = vector(samples, source_of)
    assert sign(adapter, body, key, NOW).headers["HmacSignature"] == signature.decode()


def test_the_old_key_proves_while_the_new_one_spreads_and_which_it_was_is_reported(adapter: Adapter) -> None:
    assert adapter.verify(signed(adapter, payout(), KEY), [KEY, OLD], NOW) == 0
    assert adapter.verify(signed(adapter, payout(), OLD), [KEY, OLD], NOW) == 1


@pytest.mark.parametrize(
    ("headers", "reason"),
    [
        ([], "missing"),
        ([b""], "mismatch"),
        ([b" "], "mismatch"),
        ([b"AAAA"], "mismatch"),
        (["é".encode()], "mismatch"),
        ([b"\xff\x00"], "mismatch"),
        ([b"AAAA", b"AAAA"], "several"),
    ],
)
def test_a_bad_header_is_refused(adapter: Adapter, headers: list[bytes], reason: str) -> None:
    assert refusal(adapter, Request(payout(), [(b"hmacsignature", value) for value in headers]), KEY) == reason


@pytest.mark.parametrize("key", ["", "ABC", "XY" * 32, "AB " * 32, "０１" * 32])
def test_a_key_that_is_not_hexadecimal_is_a_setting_error_never_a_refusal(adapter: Adapter, key: str) -> None:
    with pytest.raises(SettingError):
        adapter.check_secret(key)
    with pytest.raises(SettingError):
        adapter.verify(signed(adapter, payout()), [key], NOW)


def test_adyen_wants_its_own_acknowledgement(adapter: Adapter) -> None:
    assert (adapter.accepted().status, adapter.accepted().body) == (200, b"[accepted]")
