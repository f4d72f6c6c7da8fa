"""Paddle: the SDK as an oracle, and which of two secrets counts."""

from __future__ import annotations

import sys
from datetime import datetime, timedelta
from types import SimpleNamespace

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from paddle_billing.Notifications import Secret, Verifier

from core.http_fields import split_list
from core.money import MoneyInvalid, MovementUnknown
from load.samples import sign
from providers import Adapter, ProvidersSettings, Request, build_adapters
from tests.unit.providers.samples.paddle import H1, OLD, OLD_SECRET, SECRET, TS, UNREADABLE_FEES, transaction
from tests.unit.providers.shapes import NOW, NOW_S
from tests.unit.providers.shapes import refusal as refusal_of

ADAPTER = build_adapters(ProvidersSettings())["paddle"]


def signed(body: bytes, secret: str = SECRET, now: datetime = NOW) -> bytes:
    return sign(ADAPTER, body, secret, now).headers["Paddle-Signature"].encode()


def refusal(body: bytes, *headers: bytes, secrets: tuple[str, ...] = (SECRET,), now: datetime = NOW) -> str | None:
    return refusal_of(ADAPTER, Request(body, [(b"paddle-signature", header) for header in headers]), *secrets, now=now)


def test_of_two_secrets_that_signed_the_first_counts(adapter: Adapter) -> None:
    both_signed = TS + b";" + OLD + b";" + H1
    assert adapter.verify(Request(transaction(), [(b"paddle-signature", both_signed)]), [SECRET, OLD_SECRET], NOW) == 0


@pytest.mark.parametrize("body", UNREADABLE_FEES)
def test_a_kept_fee_that_cannot_be_read_is_unknown_while_the_rest_books(body: bytes) -> None:
    told, fee = ADAPTER.events(Request(body, []), "live")
    assert told.fact_key is not None
    assert (fee.event_key, fee.fact_key) == (f"{told.event_key}.fee", None)
    with pytest.raises((MoneyInvalid, MovementUnknown)):
        ADAPTER.money(fee.body, fee.event_type)


# The SDK as an oracle.


@pytest.fixture(autouse=True)
def the_sdks_clock_stands_still(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys.modules[Verifier.__module__], "time", lambda: float(NOW_S))
    monkeypatch.delenv("TEST_MODE", raising=False)


def both(body: bytes, header: bytes | None, secret: str = SECRET) -> tuple[str, str]:
    """What we say and what the SDK says: ``accepted``, ``refused`` or the name of what it crashes with.

    Blanks around a list's members, and empty ones, are no part of a header's value (RFC 9110, section 5.6.1).
    """
    header = None if header is None else b";".join(split_list(header, b";"))
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


@example(body="", junk=" ", at=81)
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
