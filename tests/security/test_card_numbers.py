"""Card numbers in a webhook: ways to write one past the masker, and back from what is kept to the number."""

from __future__ import annotations

import asyncio
import hashlib
import json
import re
import time
from pathlib import Path
from typing import Any

import pytest

from core.event import WITHHELD_SHA256
from tests.unit.ingest.app_under_test import Bench
from tests.unit.ingest.masked_bodies import bodies_with_what_is_not_found, masked

CARD, HIDDEN = "4111111111111111", "411111******1111"
GROUPS = ("4111", "1111", "1111", "1111")
BETWEEN = [*"./_,-\t\n", "\r\n", " "]
WRITTEN = [
    CARD,
    *(one.join(GROUPS) for one in BETWEEN),
    f"card{CARD}x",
    f"tr_{CARD}",
    json.dumps({"id": CARD}),
    f"<card id='{CARD}'/>",
]
SECRETS = ["cvc", "cvv2", "cid", "cav2", "cvc_code", "discretionary_data", "track2"]


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    return Bench(tmp_path)


def published(bench: Bench, note: Any, written: str = '"@"') -> tuple[bytes, bytes, str]:
    """A webhook with something in its metadata: what was sent, what reached Kafka, and its headers and receipts.

    ``written``: what stands in the body for ``"@"``.
    """
    plain, _ = bench.stripe()
    document = json.loads(plain)
    document["data"]["object"]["metadata"] = note
    body, headers = bench.signed("stripe", json.dumps(document, ensure_ascii=False).replace('"@"', written).encode())
    assert asyncio.run(bench.post(body, headers)).status_code == 200
    [(key, value, sent)] = bench.publisher.records
    return body, value, repr((key, sent, bench.publisher.receipts))


def digits(body: bytes) -> str:
    """The body as somebody reads it who looks for cards: its texts, and nothing between their digits."""
    return re.sub(r"[^0-9*]", "", "\n".join(_texts(json.loads(body))))


def _texts(document: object) -> list[str]:
    if isinstance(document, dict):
        return [text for part in document.items() for text in _texts(list(part))]
    if isinstance(document, list):
        return [text for part in document for text in _texts(part)]
    return [str(document)]


@pytest.mark.parametrize("text", WRITTEN, ids=ascii)
def test_no_usual_way_of_writing_a_number_brings_it_past_the_receiver(bench: Bench, text: str) -> None:
    sent, kept, _ = published(bench, {"note": text})
    assert CARD in digits(sent), "the reader of this test finds it where it is"
    assert CARD not in digits(kept)


@pytest.mark.parametrize("written", [r'"\u0034111111111111111"', r'"4111\u00201111\u00201111\/1111"', CARD])
def test_a_number_in_jsons_own_escapes_or_as_a_number_is_hidden(bench: Bench, written: str) -> None:
    sent, kept, _ = published(bench, {"note": "@"}, written)
    assert CARD in digits(sent)
    assert CARD not in digits(kept)


def is_json(body: bytes) -> bool:
    try:
        json.loads(body)
    except ValueError:
        return False
    return True


NOT_FOUND = [body.decode() for _, body in bodies_with_what_is_not_found() if body[:1] == b"{" and is_json(body)]


@pytest.mark.parametrize("written", NOT_FOUND, ids=ascii)
def test_what_the_page_says_isnt_found_is_published_as_it_was_sent(bench: Bench, written: str) -> None:
    sent, kept, beside = published(bench, {"note": "@"}, written)
    assert kept == sent
    assert "original_sha256" not in beside


UNITS = [
    *("a ", "4111 ", "4111111111111111 ", "4", "-", "é", "\\", "\\u0034", '"', "[", '{"cvc":', '"cvc":"', "{}"),
    *("<", "<a ", "<a>", "<cvc>1", "</a>", "<a b='c' ", "<![CDATA[", "<a:", "&", "&a=", "a=1&", "a[b]=%34&", "%34"),
    *("411111111111111^", "4111111111111111^a", "4111111111111111=1", "abcdef01", "4111,", "1.5e1,", '"a",'),
]
SMALL, LARGE = 1 << 12, 1 << 15


@pytest.mark.parametrize("before", ["", '{"a":"', '{"cvc":"', "[", "<a>", "<a ", "a="])
def test_a_body_eight_times_as_large_takes_eight_times_as_long(before: str) -> None:
    """A body made to be slow would hold up the others. Looked through anew from each byte it takes 64 times as long."""
    slow = [unit for unit in UNITS if times_as_long(before, unit) > 24]
    assert [unit for unit in slow if min(times_as_long(before, unit) for _ in range(5)) > 24] == []


def times_as_long(before: str, unit: str) -> float:
    """Of CPU, the large body beside the small one."""
    taken = []
    for size in (SMALL, LARGE):
        body = (before + unit * (size // len(unit))).encode()
        began = time.process_time()
        masked(body)
        taken.append(time.process_time() - began)
    return taken[1] / taken[0]


@pytest.mark.parametrize(
    ("written", "shown"),
    [
        ("4111111111111112.0", "1000000000000112.0"),
        ("4.111111111111111e15", "1.000000000001111e15"),
        ("-4111111111111111.00", "-1000000000000011.00"),
        ('"4111111111111111.0"', '"*************111.0"'),
    ],
)
def test_a_card_field_hides_a_number_with_a_fraction_or_an_exponent(bench: Bench, written: str, shown: str) -> None:
    """As a spreadsheet, or a language without whole numbers, writes a card's."""
    sent, kept, _ = published(bench, {"card_number": "@"}, written)
    assert (written.encode() in sent, written.encode() in kept) == (True, False)
    assert shown.encode() in kept


@pytest.mark.parametrize("name", ["id", "order_id", "reference", "transaction_id", "pan_id"])
def test_a_fields_name_spares_no_number(bench: Bench, name: str) -> None:
    _, kept, _ = published(bench, {name: CARD, "more": [{name: {name: CARD}}]})
    assert CARD not in digits(kept)


def test_the_hash_beside_a_masked_number_cant_be_tried(bench: Bench) -> None:
    """Six digits are missing: who reads the lake hashes the body with each of a million."""
    sent, kept, beside = published(bench, {"note": f"paid with {CARD}"})
    assert HIDDEN.encode() in kept
    guessed = kept.replace(HIDDEN.encode(), CARD.encode())
    document = json.loads(guessed)
    for tried in (sent, guessed, json.dumps(document, separators=(",", ":"), sort_keys=True).encode()):
        assert hashlib.sha256(tried).hexdigest() not in beside
        assert hashlib.sha256(tried).digest() not in kept


@pytest.mark.parametrize("name", SECRETS)
def test_of_a_code_or_a_track_not_even_a_keyed_hash_is_kept(bench: Bench, name: str) -> None:
    """A thousand codes are tried in no time by who has the key too."""
    _, kept, beside = published(bench, {"number": CARD, name: "737"})
    assert b"737" not in kept
    assert f"'original_sha256': '{WITHHELD_SHA256}'" in beside
    assert "original_content_sha256" not in beside
