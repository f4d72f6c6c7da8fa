"""Errors of one cause have one fingerprint, errors of different causes have different ones."""

from __future__ import annotations

import hashlib
import json
import random
import re
import string
import time
import uuid
from itertools import combinations

import pytest

from dead_letters import fingerprint
from dead_letters.file import LAYOUT
from dead_letters.fingerprint import SHAPE_CHARS_MAX, cause_of, place_of, shape_of


def digest(number: int) -> str:
    return hashlib.sha256(b"%d" % number).hexdigest()


def letters(number: int, length: int = 14) -> str:
    """An id without a digit, as some providers make them."""
    chance = random.Random(number)
    return "".join(chance.choice(string.ascii_letters) for _ in range(length))


def stack(path: str, function: str, error: str, line: int = 10) -> str:
    return (
        "Traceback (most recent call last):\n"
        '  File "/opt/payhook/processor/workers/worker.py", line 88, in _call\n'
        "    return handle(item)\n"
        f'  File "{path}", line {line}, in {function}\n'
        "    raise it\n"
        '  File "/usr/lib/python3.11/json/decoder.py", line 355, in raw_decode\n'
        "    raise it\n"
        f"{error}\n"
    )


SAME = {
    "event keys": lambda n: f"stripe:evt_{digest(n)[:24]}:charge.captured was received before with other content.",
    "adyen's references": lambda n: f"psp {digest(n)[:16].upper()} has no capture",
    "a quoted value": lambda n: f"got 'Shop {letters(n)}' in place of a name",
    "a value in double quotes": lambda n: f'the reference "{letters(n)}" of adyen isn\'t known',
    "payments of one account": lambda n: f"account 'acct_1' has no payment 'pi_{letters(n)}'",
    "values of one field": lambda n: f"field 'amount' has the value '{n}.50', a number is expected",
    "a field's values by pydantic": lambda n: f"amount Input should be a valid integer [input_value='{n}', type=int]",
    "ports of one host": lambda n: f"HTTPConnectionPool(host='db.internal', port={n}): Max retries exceeded",
    "lines of files of each day": lambda n: f"file 'report-2026-01-{n % 28 + 1:02}.csv' has no line {n}",
    "requests by their type's number": lambda n: f"request of type {n} isn't known",
    "headers by uuid": lambda n: f"header 'x-{uuid.UUID(digest(n)[:32])}' is twice there",
    "uuids": lambda n: f"request {uuid.UUID(digest(n)[:32])} timed out after 3.0 s",
    "amounts": lambda n: f"amount {n * 7}.{n % 100:02} EUR is beyond {n} minor units",
    "negative amounts": lambda n: f"a balance of -{n}.50 isn't allowed",
    "grouped amounts": lambda n: f"the amount is 1,{n:03}.00",
    "times": lambda n: f"due at 2026-01-{n % 28 + 1:02}T12:{n % 60:02}:00.{n:06}Z, too late",
    "addresses": lambda n: f"<Merchant object at 0x7f{digest(n)[:10]}> can't be booked",
    "a host's ports": lambda n: f"connect to 10.0.7.9:{9000 + n} failed",
    "callers": lambda n: f"closed by 10.0.{n % 250}.{n % 99}:{9000 + n}",
    "URLs' ids": lambda n: f"GET https://directory.internal/v1/merchants/{letters(n)}?at={n} failed",
    "mail addresses": lambda n: f"no payout for {letters(n)}@shop-{n}.example",
    "ids of mixed letters": lambda n: f"customer cus_{letters(n)} is closed",
    "bare hashes": lambda n: f"content is {digest(n)}, not {digest(n + 1)}",
    "lists of ids": lambda n: "unknown: " + ", ".join(f"pi_{digest(k)[:12]}" for k in range(n % 4 + 1)),
    "times of day and durations": lambda n: f"no answer within {n} ms ({n / 1000:.3f}s)",
    "bytes": lambda n: f"invalid start of b'\\x{n % 256:02x}\\x00' at position {n}",
    "line and column": lambda n: f"Expecting value: line {n} column {n * 3} (char {n * 17})",
    "percentages": lambda n: f"{n}% of 100% is used",
    "base64": lambda n: f"signature {letters(n, 32)}== doesn't fit",
    "empty quotes": lambda n: f"got '' for item {n}",
    "entities of payments": lambda n: f"standardwebhooks:shop:{letters(n)} waits for its capture",
    "tenant keys": lambda n: f"shop-a~stripe:ch_{digest(n)[:20]}:capture was applied with another amount",
    "several spaces": lambda n: f"item   {n}\n  is\tbroken",
    "non-latin digits": lambda n: f"entry {chr(0x0661 + n % 8)}{chr(0x0661 + (n + 3) % 8)} is broken",
}


@pytest.mark.parametrize("name", sorted(SAME))
def test_three_thousand_of_one_cause_are_one_group(name: str) -> None:
    count = 3_000 if name == "event keys" else 60
    message = SAME[name]
    found = {cause_of("Wrong", None, message(n), None).fingerprint for n in range(1, count)}
    assert len(found) == 1, {shape_of(message(n)) for n in range(1, 20)}


@pytest.mark.parametrize("name", sorted(SAME))
def test_what_is_masked_leaves_the_words(name: str) -> None:
    """A message that is nothing but masks would put every error of its class into one group."""
    shape = shape_of(SAME[name](7))
    assert any(len(word) > 2 and word.strip(":,").isalpha() for word in shape.split())


def test_the_examples_are_causes_of_their_own() -> None:
    found = {cause_of("Wrong", None, message(7), None).fingerprint for message in SAME.values()}
    assert len(found) == len(SAME)


DIFFERENT = [
    ("MerchantUnknown", None, "merchant 'a' isn't in the directory", None),
    ("MerchantClosed", None, "merchant 'a' isn't in the directory", None),
    ("MerchantUnknown", None, "merchant 'a' is closed", None),
    ("HTTPStatusError", "503", "the directory doesn't answer", None),
    ("HTTPStatusError", "404", "the directory doesn't answer", None),
    ("HTTPStatusError", None, "the directory says HTTP 503", None),
    ("HTTPStatusError", None, "the directory says HTTP 404", None),
    ("HTTPStatusError", None, "the directory answered with status code: 429", None),
    ("OSError", None, "[Errno 111] connection refused", None),
    ("OSError", None, "[Errno 113] connection refused", None),
    ("ConnectError", None, "GET https://directory.internal/v1/m failed", None),
    ("ConnectError", None, "GET https://fraud.internal/v1/m failed", None),
    ("KeyError", None, "'amount'", None),
    ("KeyError", None, "'currency'", None),
    ("AttributeError", None, "'NoneType' object has no attribute 'money'", None),
    ("AttributeError", None, "'NoneType' object has no attribute 'account'", None),
    ("ValueError", None, "it is wrong", stack("/opt/payhook/ledger/handler.py", "book", "ValueError: it is wrong")),
    ("ValueError", None, "it is wrong", stack("/opt/payhook/ledger/handler.py", "read", "ValueError: it is wrong")),
    ("ValueError", None, "it is wrong", stack("/opt/payhook/notify/handler.py", "book", "ValueError: it is wrong")),
    ("ValueError", None, "it is wrong", None),
    ("ValueError", None, "", None),
    ("MerchantUnknown", None, "no merchant for the stripe account 'acct_1'", None),
    ("MerchantUnknown", None, "no merchant for the stripe account 'acct_2'", None),
    ("MerchantUnknown", None, "no merchant for the adyen account 'acct_1'", None),
    ("MerchantUnknown", None, "no merchant for the stripe account acct_3", None),
    ("MerchantUnknown", None, "no merchant for the stripe account 4711", None),
    ("MerchantUnknown", None, "no merchant for the stripe account 4712", None),
    ("MerchantUnknown", None, 'account "Shop A" of adyen isn\'t known', None),
    ("MerchantUnknown", None, 'account "Shop B" of adyen isn\'t known', None),
    ("ConnectError", None, "connection to db1.internal failed", None),
    ("ConnectError", None, "connection to db2.internal failed", None),
    ("ConnectError", None, "connect to 10.0.0.1:9000 failed", None),
    ("ConnectError", None, "connect to 10.0.0.2:9000 failed", None),
    ("ConnectError", None, "host 'db1' doesn't answer", None),
    ("ConnectError", None, "host 'db2' doesn't answer", None),
    ("ConnectError", None, "HTTPConnectionPool(host='a.internal', port=80): Max retries exceeded", None),
    ("ConnectError", None, "HTTPConnectionPool(host='b.internal', port=80): Max retries exceeded", None),
    ("ValueError", None, "the field 'amount' isn't a number", None),
    ("ValueError", None, "the field 'currency' isn't a number", None),
    ("ValidationError", None, "'amount' is a required property", None),
    ("ValidationError", None, "'currency' is a required property", None),
    ("NotNullViolation", None, 'null value in column "amount" of relation "postings"', None),
    ("NotNullViolation", None, 'null value in column "currency" of relation "postings"', None),
    ("Unknown", None, "the payment method 'klarna' isn't known", None),
    ("Unknown", None, "the payment method 'ideal' isn't known", None),
    ("Missing", None, "the header `x-signature` isn't there", None),
    ("Missing", None, "the header `x-request` isn't there", None),
    ("SettingError", None, "setting ledger.merchants_url2 is wrong", None),
    ("NotTaken", None, "subscriber 'shop' answered 500", None),
    ("NotTaken", None, "subscriber 'office' answered 500", None),
    ("MerchantDirectoryUnavailable", None, "MerchantDirectoryUnavailable was raised by a handler", None),
    ("MerchantDirectoryUnavailable", None, "MerchantDirectoryUnreadable was raised by a handler", None),
]


@pytest.mark.parametrize(("one", "other"), list(combinations(DIFFERENT, 2)))
def test_different_causes_are_different_groups(one: tuple[str, ...], other: tuple[str, ...]) -> None:
    assert cause_of(*one).fingerprint != cause_of(*other).fingerprint


def test_other_masks_are_another_layout_of_the_index_file() -> None:
    """The file keeps fingerprints. Whoever changes one of them counts `LAYOUT` up, so that every file is made again,
    and mends this: else what died before and after the change would stand in two groups.
    """
    rules = {name: one.pattern for name, one in vars(fingerprint).items() if isinstance(one, re.Pattern)}
    sizes = [fingerprint.SHAPE_CHARS_MAX, fingerprint.READ_CHARS_MAX, fingerprint.WORD_CHARS_MAX]
    made = [cause_of("Wrong", None, message(7), None).fingerprint for message in SAME.values()]
    made += [cause_of(*one).fingerprint for one in DIFFERENT]
    reported = json.dumps([rules, sizes, sorted(fingerprint.CODE_NAMING), made], sort_keys=True)
    assert (LAYOUT, hashlib.sha256(reported.encode()).hexdigest()[:16]) == (6, "f0e896a4df51f264")


def test_a_shape_names_what_a_person_must_mend() -> None:
    message = "no merchant for the stripe account 'acct_1'; payment 'pi_77' of 2026-01-31 waits for 3 of 12.50"
    assert shape_of(message) == (
        "no merchant for the stripe account 'acct_1'; payment <text> of <time> waits for <n> of <n>"
    )
    assert shape_of("connect to db1.internal:5432 timed out after 3.0 s") == (
        "connect to db1.internal:<n> timed out after <n> s"
    )


def test_a_key_error_of_data_is_one_cause() -> None:
    """The quoted name has a digit: it comes from a body, not from the code."""
    assert cause_of("KeyError", None, "'acct_17'", None) == cause_of("KeyError", None, "'acct_18'", None)


def test_the_line_number_is_no_part_of_the_place() -> None:
    at_10, at_99 = (stack("/a/ledger/handler.py", "book", "ValueError: x", line) for line in (10, 99))
    assert cause_of("ValueError", None, "x", at_10) == cause_of("ValueError", None, "x", at_99)


def test_the_place_is_the_innermost_frame_that_is_no_library_s() -> None:
    assert place_of(stack("/opt/payhook/ledger/handler.py", "book", "x")) == "ledger/handler.py:book"
    inside = stack("/venv/lib/python3.11/site-packages/httpx/_client.py", "send", "x")
    assert place_of(inside) == "workers/worker.py:_call"


def test_the_place_is_that_of_the_last_error_of_a_chain() -> None:
    chain = (
        stack("/opt/payhook/ledger/directory.py", "lookup", "KeyError: 1")
        + "\nDuring handling of the above exception, another exception occurred:\n\n"
        + stack("/opt/payhook/ledger/handler.py", "book", "ValueError: x")
    )
    assert place_of(chain) == "ledger/handler.py:book"


def test_a_stack_that_lost_its_beginning_still_has_its_place() -> None:
    whole = stack("/opt/payhook/ledger/handler.py", "book", "ValueError: x")
    assert place_of("…" + whole[60:]) == "ledger/handler.py:book"
    assert place_of("WorkerLost: no Python frames") is None


def test_a_shape_is_bounded_and_survives_any_text() -> None:
    assert len(shape_of("word " * 10_000)) == SHAPE_CHARS_MAX
    for text in (
        "",
        "'",
        '"',
        "`",
        "\x00",
        "\x1b[31m",
        "<id>",
        "it's 'x' isn't",
        "\ud800".encode("utf-8", "replace").decode(),
    ):
        assert cause_of("Wrong", None, text, text).fingerprint


def test_an_apostrophe_opens_no_quote() -> None:
    assert shape_of("it isn't there and can't be") == "it isn't there and can't be"


def test_hostile_text_takes_no_long_time() -> None:
    """Errors carry strangers' text, and every one is masked while the index follows. Time is this thread's own."""
    began = time.thread_time()
    for unit in ("a:", "'", "1", "aB", "a@", "http://", "[(", "1,", "a.", "a-", "<id>", "' ", "a'", "\x00", "+", "b'"):
        cause_of("Wrong", None, unit * 2_000, unit * 2_000)
    assert time.thread_time() - began < 1.0
