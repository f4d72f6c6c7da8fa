"""The subscribers file: what it may say, and how it says what is wrong."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from core.decision import ErrorKind
from notify.errors import SubscribersUnreadable, SubscriberUnknown
from notify.subscribers import SUBSCRIBERS_MAX, SubscribersFile, parse_subscribers, shown_fields

URL = 'url = "https://hooks.example.com/in"\n'


def one(lines: str, name: str = "shop") -> str:
    return f"[{name}]\n{URL}{lines}\n"


def test_a_section_is_a_subscriber_with_defaults(tmp_path: Path) -> None:
    shop = parse_subscribers(one(""), tmp_path / "subscribers.toml")["shop"]
    assert (shop.types, shop.mode, shop.tenant, shop.enabled, shop.timeout_s) == (("*",), "live", None, True, None)
    assert shop.secrets_path == tmp_path / "secrets" / "notify.shop"


def test_every_field_can_be_set(tmp_path: Path) -> None:
    lines = (
        'secrets = "keys/shop"\ntypes = ["charge.*", "CAPTURE"]\nmode = "test"\ntenant = "shop-a"\nenabled = false\n'
        'timeout_s = 5\nheaders = {x-team = "payments", authorization = {file = "keys/token"}}'
    )
    shop = parse_subscribers(one(lines), tmp_path / "s.toml")["shop"]
    assert shop.secrets_path == tmp_path / "keys" / "shop"
    assert (shop.mode, shop.tenant, shop.enabled, shop.timeout_s) == ("test", "shop-a", False, 5.0)
    assert [shop.wants_type(kind) for kind in ("charge.captured", "CAPTURE", "capture", "charg")] == [
        True,
        True,
        False,
        False,
    ]


@pytest.mark.parametrize(
    ("tenant", "takes"), [("", {None}), ('tenant = "a"', {"a"}), ('tenant = "*"', {None, "a", "b"})]
)
def test_a_tenants_facts_are_for_those_who_name_it(tmp_path: Path, tenant: str, takes: set[str | None]) -> None:
    shop = parse_subscribers(one(tenant), tmp_path / "s.toml")["shop"]
    assert {whose for whose in (None, "a", "b") if shop.may_see(whose)} == takes


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("[shop", "end of a table"),
        ("[shop]\n\nurl = 1979-x", "line 3"),
        ("shop = 1", "shop isn't a section"),
        ("[shop]", r"\[shop\] url: Field required"),
        ("[Shop]\n" + URL, r"\[Shop\]: a name is"),
        ("[-shop]\n" + URL, "a name is"),
        (f"[{'s' * 41}]\n" + URL, "a name is"),
        (one("colour = 1"), r"\[shop\] colour: no such field"),
        (one('folder = "/"'), r"\[shop\] folder: no such field"),
        (one('name = "other"'), r"\[shop\] name: no such field"),
        (one("enabled = 1"), r"\[shop\] enabled: "),
        (one('mode = "both"'), r"\[shop\] mode: "),
        (one('tenant = ""'), r"\[shop\] tenant: "),
        (one("timeout_s = 31"), r"\[shop\] timeout_s: .*30"),
        (one("timeout_s = 0"), r"\[shop\] timeout_s: "),
        (one('types = ["*.created"]'), r"\[shop\] types: .*at the end"),
        (one('types = [""]'), r"\[shop\] types: "),
        (one('headers = {Host = "x"}'), "Host can't be set"),
        (one('headers = {Webhook-Id = "x"}'), "Webhook-Id can't be set"),
        (one('headers = {"x y" = "x"}'), "isn't a header's name"),
        (one('headers = {x = "a\\r\\nb: c"}'), "printable ASCII"),
        (one('headers = {x = ""}'), "printable ASCII"),
        (one('headers = {Authorization = "Bearer x"}'), "Authorization is a secret"),
        ("\n".join(one("", f"s{number}") for number in range(SUBSCRIBERS_MAX + 1)), "above the limit of 200"),
    ],
)
def test_what_is_wrong_is_named_with_its_place(tmp_path: Path, text: str, problem: str) -> None:
    with pytest.raises(SubscribersUnreadable, match=problem) as refused:
        parse_subscribers(text, tmp_path / "subscribers.toml")
    assert str(tmp_path / "subscribers.toml") in str(refused.value)
    assert refused.value.kind is ErrorKind.SBE


@pytest.mark.parametrize("lines", ['secrets = "whsec_{0}"', 'secrets = ["whsec_{0}"]', 'headers = {{x = "whsec_{0}"}}'])
def test_a_secret_in_the_file_is_refused_and_not_repeated(tmp_path: Path, lines: str) -> None:
    with pytest.raises(SubscribersUnreadable, match="holds a secret") as refused:
        parse_subscribers(one(lines.format("c2VjcmV0" * 4)), tmp_path / "s.toml")
    assert "c2VjcmV0" not in str(refused.value)


@pytest.mark.parametrize("url", ["https://ann:hunter2@hooks.example.com/in", "https://hunter2@hooks.example.com/in"])
def test_a_password_in_a_url_is_refused_and_not_repeated(tmp_path: Path, url: str) -> None:
    with pytest.raises(SubscribersUnreadable, match=r"\[shop\] url: .*is a secret") as refused:
        parse_subscribers(f'[shop]\nurl = "{url}"\n', tmp_path / "s.toml")
    assert "hunter2" not in str(refused.value)


def test_a_list_shows_where_a_subscriber_is_and_no_token_of_its_url(tmp_path: Path) -> None:
    text = '[shop]\nurl = "https://hooks.example.com:8443/in/%C3%A9?token=hunter2#x"\n'
    shown = shown_fields(parse_subscribers(text, tmp_path / "s.toml")["shop"])
    assert shown["url"] == "https://hooks.example.com:8443/in/%C3%A9"


def test_the_file_is_read_again_when_it_changes(tmp_path: Path) -> None:
    path = tmp_path / "s.toml"
    path.write_text(one(""))
    file = SubscribersFile(path)
    assert file.read_all() is file.read_all()
    path.write_text(one("") + one("", "bank"))
    os.utime(path, ns=(1, 1))
    assert list(file.read_all()) == ["shop", "bank"]
    with pytest.raises(SubscriberUnknown, match="choose one of shop, bank"):
        file.find_named("shp")


def test_a_file_that_went_away_stops_the_stream_rather_than_to_pass_over_events(tmp_path: Path) -> None:
    path = tmp_path / "s.toml"
    path.write_text(one(""))
    file = SubscribersFile(path)
    assert file.find("shop") is not None
    path.unlink()
    with pytest.raises(SubscribersUnreadable, match="No such file"):
        file.find("shop")


def test_a_wrong_file_stays_wrong_until_it_is_mended(tmp_path: Path) -> None:
    path = tmp_path / "s.toml"
    path.write_text("[shop")
    file = SubscribersFile(path)
    for _ in range(2):
        with pytest.raises(SubscribersUnreadable):
            file.read_all()
    path.write_bytes(b"\xff")
    with pytest.raises(SubscribersUnreadable, match="isn't UTF-8"):
        file.read_all()
    path.write_text(one(""))
    assert list(file.read_all()) == ["shop"]
