"""Paddle: proven by its signature over the time and the raw body, for as long as is set."""

from __future__ import annotations

import sys
from datetime import datetime, timedelta
from types import SimpleNamespace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from paddle_billing.Notifications import Secret, Verifier

from load.samples import paddle as samples_of
from load.samples import sign
from providers import Adapter, ProvidersSettings, Request, build_adapters
from tests.unit.providers.shapes import NOW, NOW_S
from tests.unit.providers.shapes import refusal as refusal_of

SECRET, OLD_SECRET = "pdl_ntfset_new_of_the_tests", "pdl_ntfset_old_of_the_tests"
HEADER = b"paddle-signature"
ADAPTER = build_adapters(ProvidersSettings())["paddle"]


def signed(body: bytes, secret: str = SECRET, now: datetime = NOW) -> bytes:
    return sign(ADAPTER, body, secret, now).headers["Paddle-Signature"].encode()


def refusal(body: bytes, *headers: bytes, secrets: tuple[str, ...] = (SECRET,), now: datetime = NOW) -> str | None:
    return refusal_of(ADAPTER, Request(body, [(HEADER, header) for header in headers]), *secrets, now=now)


BODY = samples_of.transaction_event(
    "transaction.completed",
    event_id="evt_1",
    transaction="txn_1",
    amount_minor=1_250,
    currency="EUR",
    occurred_at=NOW,
)
GOOD = signed(BODY)
TS, H1 = GOOD.split(b";")
OTHER_H1 = b"h1=" + b"0" * 64


@pytest.mark.parametrize(
    ("headers", "reason"),
    [
        ([], "missing"),
        ([GOOD, GOOD], "several"),
        ([b""], "malformed"),
        ([b"="], "malformed"),
        ([b";;;"], "malformed"),
        ([H1], "malformed"),
        ([b"t=%d;" % NOW_S + H1], "malformed"),
        ([TS + b";" + GOOD], "malformed"),
        ([TS + b";ts=1;" + H1], "malformed"),
        ([b"ts=;" + H1], "malformed"),
        ([b"ts= %d;" % NOW_S + H1], "malformed"),
        ([b"ts=%d ;" % NOW_S + H1], "malformed"),
        ([b"ts=1_769860800;" + H1], "malformed"),
        ([b"ts=+769860800;" + H1], "malformed"),
        ([b"ts=%d.0;" % NOW_S + H1], "malformed"),
        (["ts=١٧٦٩٨٦٠٨٠٠;".encode() + H1], "malformed"),
        ([b"ts=nan;" + H1], "malformed"),
        ([b"ts=%d000;" % NOW_S + H1], "malformed"),
        ([TS], "missing"),
        ([TS + b";h2=" + H1[3:]], "missing"),
        ([TS + b"; " + H1], "missing"),
        ([TS + b"," + H1], "malformed"),
        ([TS + b";h1="], "mismatch"),
        ([TS + b";" + H1 + b"=x"], "mismatch"),
        ([TS + b";" + H1 + b" "], "mismatch"),
        ([TS + b";h1=" + H1[3:].upper()], "mismatch"),
        ([TS + b";h1=\xff"], "mismatch"),
        ([TS + b";h1=" + "é".encode()], "mismatch"),
        ([TS + b";" + b";".join([OTHER_H1] * 17)], "malformed"),
    ],
)
def test_any_other_header_is_refused(headers: list[bytes], reason: str) -> None:
    assert refusal(BODY, GOOD) is None
    assert refusal(BODY, *headers) == reason


@pytest.mark.parametrize(
    "header", [TS + b";" + OTHER_H1 + b";" + H1, TS + b";" + H1 + b";" + OTHER_H1, H1 + b";" + TS, GOOD + b";h2=new"]
)
def test_while_a_secret_is_rolled_any_of_several_signatures_proves(header: bytes) -> None:
    assert refusal(BODY, header) is None


def test_of_two_secrets_that_signed_the_first_counts(adapter: Adapter) -> None:
    both_signed = TS + b";" + signed(BODY, OLD_SECRET).split(b";")[1] + b";" + H1
    assert adapter.verify(Request(BODY, [(HEADER, both_signed)]), [SECRET, OLD_SECRET], NOW) == 0


# The SDK as an oracle.


@pytest.fixture(autouse=True)
def the_sdks_clock_stands_still(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys.modules[Verifier.__module__], "time", lambda: float(NOW_S))
    monkeypatch.delenv("TEST_MODE", raising=False)


def both(body: bytes, header: bytes | None, secret: str = SECRET) -> tuple[str, str]:
    """What we say and what the SDK says: ``accepted``, ``refused`` or the name of what it crashes with."""
    mine = refusal(body, *(() if header is None else (header,)), secrets=(secret,)) or "accepted"
    headers = {} if header is None else {"Paddle-Signature": header.decode("latin-1")}
    try:
        holds = Verifier().verify(SimpleNamespace(body=body, headers=headers), Secret(secret))
    except Exception as crash:
        return mine, type(crash).__name__
    return mine, "accepted" if holds else "refused"


_texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=60)


@given(body=_texts, secret=_texts.filter(bool), age_s=st.integers(-5, 5))
def test_what_one_signs_the_other_accepts(body: str, secret: str, age_s: int) -> None:
    header = signed(body.encode(), secret, NOW - timedelta(seconds=age_s))
    assert both(body.encode(), header, secret) == ("accepted", "accepted")
    assert both(body.encode() + b" ", header, secret) == ("mismatch", "refused")


@given(body=_texts, junk=st.text(st.sampled_from("ts=h1;9 abcdef"), max_size=12), at=st.integers(0, 81))
def test_what_the_sdk_refuses_in_a_spoilt_header_we_refuse(body: str, junk: str, at: int) -> None:
    good = signed(body.encode())
    mine, theirs = both(body.encode(), good[:at] + junk.encode() + good[at:])
    assert mine != "accepted" or theirs in ("accepted", "ValueError")


def at(age_s: int) -> bytes:
    return signed(b"{}", now=NOW - timedelta(seconds=age_s))


STAMP, SIGNATURE = at(0).split(b";")


@pytest.mark.parametrize(
    ("difference", "body", "header", "expected"),
    [
        ("no signature is missing", b"{}", None, ("missing", "refused")),
        ("six seconds are not too old behind proxies", b"{}", at(6), ("accepted", "refused")),
        ("six seconds ahead are not too far either", b"{}", at(-6), ("accepted", "refused")),
        (
            "a scheme that is yet to come is passed over, not a crash",
            b"{}",
            at(0) + b";h2=abc",
            ("accepted", "ValueError"),
        ),
        ("of two timestamps none is picked", b"{}", b"ts=1;" + at(0), ("malformed", "accepted")),
        (
            "a timestamp is ten digits, not what int() takes",
            b"{}",
            STAMP.replace(b"=", b"= ") + b";" + SIGNATURE,
            ("malformed", "accepted"),
        ),
        (
            "digits with underscores are no timestamp",
            b"{}",
            STAMP.replace(b"=17", b"=1_7") + b";" + SIGNATURE,
            ("malformed", "accepted"),
        ),
        ("text behind a second = is a mismatch, not a crash", b"{}", at(0) + b"=x", ("mismatch", "ValueError")),
        ("a signature beyond ASCII is a mismatch, not a crash", b"{}", STAMP + b";h1=\xe9", ("mismatch", "TypeError")),
        ("not a number is malformed, not a crash", b"{}", b"ts=nan;" + SIGNATURE, ("malformed", "ValueError")),
        (
            "a body that isn't UTF-8 is verified, not a crash",
            b"\xff",
            signed(b"\xff"),
            ("accepted", "UnicodeDecodeError"),
        ),
    ],
)
def test_paddle_is_read_otherwise_than_by_its_sdk(
    difference: str, body: bytes, header: bytes | None, expected: tuple[str, str]
) -> None:
    assert both(body, header) == expected, difference
