"""Signatures as the reference library and the specification's example have them."""

from __future__ import annotations

import base64
from datetime import UTC, datetime

import pytest
from standardwebhooks import Webhook, WebhookVerificationError

from notify.signature import key_of, new_secret, signed_headers

BODY = '{"type":"charge.captured","name":"Zoë"}'.encode()


def test_the_reference_library_verifies_what_is_signed() -> None:
    secret, now = new_secret(), datetime.now(UTC)
    headers = signed_headers("msg_1", BODY, [key_of(secret)], now)
    assert Webhook(secret).verify(BODY, headers) == {"type": "charge.captured", "name": "Zoë"}
    assert headers["webhook-timestamp"] == str(int(now.timestamp()))


@pytest.mark.parametrize("part", ["webhook-id", "webhook-timestamp", "body"])
def test_id_time_and_body_are_all_signed(part: str) -> None:
    secret, now = new_secret(), datetime.now(UTC)
    headers, body = signed_headers("msg_1", BODY, [key_of(secret)], now), BODY
    if part == "body":
        body = BODY.replace(b"captured", b"Captured")
    elif part == "webhook-id":
        headers[part] = "msg_2"
    else:
        headers[part] = str(int(headers[part]) + 1)
    with pytest.raises(WebhookVerificationError):
        Webhook(secret).verify(body, headers)


def test_every_live_secret_signs_newest_first() -> None:
    newest, older = new_secret(), new_secret()
    headers = signed_headers("msg_1", BODY, [key_of(newest), key_of(older)], datetime.now(UTC))
    for secret in (newest, older):
        Webhook(secret).verify(BODY, headers)
    alone = Webhook(newest).sign("msg_1", datetime.fromtimestamp(int(headers["webhook-timestamp"]), UTC), BODY.decode())
    assert headers["webhook-signature"].split(" ")[0] == alone
    with pytest.raises(WebhookVerificationError):
        Webhook(new_secret()).verify(BODY, headers)


def test_a_secret_without_padding_is_taken() -> None:
    assert len(key_of("whsec_" + base64.b64encode(bytes(25)).decode().rstrip("="))) == 25


@pytest.mark.parametrize(
    ("secret", "problem"),
    [
        ("hunter2hunter2hunter2hunter2", "begins with whsec_"),
        ("whsec_!!!", "isn't base64"),
        ("whsec_", "of 0 bytes"),
        ("whsec_" + base64.b64encode(bytes(23)).decode(), "of 23 bytes"),
        ("whsec_" + base64.b64encode(bytes(65)).decode(), "of 65 bytes"),
    ],
)
def test_another_form_of_secret_is_refused_and_not_quoted(secret: str, problem: str) -> None:
    with pytest.raises(ValueError, match=problem) as refused:
        key_of(secret)
    after = secret.removeprefix("whsec_")
    assert not after or after not in str(refused.value)
