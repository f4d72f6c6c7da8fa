"""docs/notifications.md: each example of it runs and does what the page says."""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from click.testing import CliRunner

from cli.main import main
from core.clock import SystemClock
from notify.facts import notice_json
from notify.settings import NotifySettings
from notify.signature import key_of, new_secret, signed_headers
from notify.subscribers import parse_subscribers
from tests.unit.notify.place import SubscribersFolder, item, reversal, row
from tests.unit.notify.receiver import SubscriberServer

PAGE = (Path(__file__).parents[3] / "docs" / "notifications.md").read_text("utf-8")
BLOCKS = dict(re.findall(r"^\*\*`([^`\n]+)`\*\*\n```\w+\n(.*?)^```$", PAGE, re.M | re.S))
JSON, REVERSAL = re.findall(r"^```json\n(.*?)^```$", PAGE, re.M | re.S)
SHELL = next(iter(re.findall(r"^```sh\n(.*?)^```$", PAGE, re.M | re.S)))
HTTP = next(iter(re.findall(r"^```http\n(.*?)^```$", PAGE, re.M | re.S)))

Verify = Callable[[str, dict[str, str], bytes], dict[str, Any] | None]


def module(name: str) -> ModuleType:
    """A Python example of the page, run."""
    made = ModuleType(name)
    exec(compile(BLOCKS[name], name, "exec"), made.__dict__)
    return made


def test_every_named_block_of_the_page_is_run_here() -> None:
    assert list(BLOCKS) == ["with_library.py", "by_hand.py", "taken_once.py", "subscribers.toml", "payhook.toml"]
    assert PAGE.count("```") == 2 * (len(BLOCKS) + 4)


def test_the_envelope_of_the_page_is_what_goes_out() -> None:
    booked = row(tenant="shop-a")
    assert json.loads(JSON) == json.loads(notice_json(booked))
    assert json.loads(REVERSAL) == json.loads(notice_json(reversal(booked)))


def test_every_field_of_an_envelope_is_explained() -> None:
    envelope = json.loads(JSON)
    for field in [*envelope, *(f"fact.{name}" for name in envelope["fact"])]:
        assert field == "fact" or f"`{field}`" in PAGE, field
    for name in json.loads(REVERSAL)["reversal"].keys() - envelope["fact"].keys():
        assert f"`reversal.{name}`" in PAGE, name


def test_the_request_of_the_page_is_what_is_sent(place: SubscribersFolder, receiver: SubscriberServer) -> None:
    place.add("shop", receiver.port)
    place.handler()(item("shop"))
    (request,) = receiver.requests
    _, *lines = HTTP.strip().splitlines()
    reported = dict(line.split(": ", 1) for line in lines)
    assert reported.keys() <= request.headers.keys()
    for name in ("content-type", "user-agent", "webhook-id", "webhook-timestamp"):
        assert reported[name] == request.headers[name]


@pytest.mark.parametrize("name", ["with_library.py", "by_hand.py"])
def test_both_ways_to_verify_take_ours_and_nothing_else(name: str) -> None:
    verified: Verify = module(name).verified
    older, secret = new_secret(), new_secret()
    body, now = notice_json(row()), SystemClock().now()
    headers = signed_headers("msg_1", body, [key_of(older), key_of(secret)], now)
    assert verified(secret, headers, body) == json.loads(body)
    assert verified(older, headers, body) == json.loads(body)
    assert verified(new_secret(), headers, body) is None
    assert verified(secret, headers, body.replace(b"1250", b"9250")) is None
    assert verified(secret, {**headers, "webhook-id": "msg_2"}, body) is None
    assert verified(secret, {}, body) is None
    stale = now.replace(year=now.year - 1)
    assert verified(secret, signed_headers("msg_1", body, [key_of(secret)], stale), body) is None


def test_a_repeat_books_nothing(tmp_path: Path) -> None:
    page = module("taken_once.py")
    store, envelope = page.open_store(str(tmp_path / "store")), json.loads(JSON)
    assert [page.take(store, envelope) for _ in range(3)] == [True, False, False]
    assert page.take(store, {"version": 1, "id": "msg_2", "type": "payhook.test"}) is True
    again = page.open_store(str(tmp_path / "store"))
    assert page.take(again, envelope) is False
    assert again.execute("SELECT * FROM income").fetchall() == [("stripe:ch_evt_1:capture", 1250, "EUR")]
    store.close()
    again.close()


def test_a_reversal_takes_back_what_was_booked_whichever_comes_first(tmp_path: Path) -> None:
    page, fact, taken_back = module("taken_once.py"), json.loads(JSON), json.loads(REVERSAL)
    for number, order in enumerate([(fact, taken_back, taken_back, fact), (taken_back, fact)]):
        store = page.open_store(str(tmp_path / f"store-{number}"))
        for envelope in order:
            page.take(store, envelope)
        booked = [amount for (amount,) in store.execute("SELECT amount_minor FROM income")]
        assert sum(booked) == 0
        assert booked == ([1250, -1250] if number == 0 else [])
        store.close()


def test_the_files_of_the_page_are_taken(tmp_path: Path) -> None:
    reported = parse_subscribers(BLOCKS["subscribers.toml"], tmp_path / "subscribers.toml")
    assert (reported["shop"].wants_type("charge.captured"), reported["bank"].timeout_s) == (True, 20.0)
    settings = NotifySettings(**tomllib.loads(BLOCKS["payhook.toml"])["notify"])
    assert settings.allow["bank"].ports == (8443,)


def test_the_commands_of_the_page_are_there() -> None:
    commands = [line.split("#")[0].split()[1:] for line in SHELL.strip().splitlines()]
    assert [words[1] for words in commands] == ["new-secret", "test", "subscribers", "enable", "send"]
    for words in commands:
        assert CliRunner().invoke(main, [*words[:2], "--help"]).exit_code == 0
