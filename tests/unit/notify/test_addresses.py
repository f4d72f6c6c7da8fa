"""Which URLs and addresses a request may go to."""

from __future__ import annotations

from ipaddress import IPv4Network, ip_address, ip_network

import pytest
from hypothesis import given
from hypothesis import strategies as st

from notify.addresses import UNREADABLE, SystemResolver, UrlRefused, find_refusal, place_of, shown_url
from notify.settings import Allowance

NONE = Allowance()


@pytest.mark.parametrize(
    "address",
    [
        *("10.0.0.1", "172.16.0.1", "172.31.255.255", "192.168.1.1", "100.64.0.1", "127.0.0.1", "127.255.255.254"),
        *("0.0.0.0", "0.1.2.3", "169.254.1.1", "169.254.169.254", "224.0.0.1", "239.255.255.255", "255.255.255.255"),
        *("240.0.0.1", "192.0.0.1", "192.0.2.1", "198.18.0.1", "198.51.100.1", "203.0.113.1", "192.88.99.1"),
        *("168.63.129.16", "100.100.100.200", "192.0.0.192", "169.254.170.2"),
        *("::1", "::", "fe80::1", "fe80::1%eth0", "fc00::1", "fd00:ec2::254", "ff02::1", "fec0::1", "2001:db8::1"),
        *("2001::1", "2001:10::1", "3fff::1", "5f00::1", "100::1", "4000::1"),
        *("::ffff:127.0.0.1", "::ffff:10.0.0.1", "::ffff:169.254.169.254", "::127.0.0.1", "::ffff:0:127.0.0.1"),
        *("64:ff9b::7f00:1", "64:ff9b::a9fe:a9fe", "64:ff9b:1::808:808", "2002:7f00:1::", "2002:a9fe:a9fe::1"),
        *("2606:4700::1%eth0", "localhost", "127.1", "0x7f000001", ""),
    ],
)
def test_what_isnt_public_is_refused(address: str) -> None:
    assert find_refusal(address, ()) is not None


@pytest.mark.parametrize(
    "address",
    [
        *("8.8.8.8", "1.1.1.1", "172.15.255.255", "172.32.0.0", "100.63.255.255", "100.128.0.0", "223.255.255.255"),
        *("2606:4700:4700::1111", "2a00:1450::1", "::ffff:8.8.8.8", "64:ff9b::808:808", "2002:808:808::1"),
    ],
)
def test_public_addresses_are_taken_in_every_form(address: str) -> None:
    assert find_refusal(address, ()) is None


@given(st.ip_addresses(v=4))
def test_no_form_of_an_ipv4_address_gets_around_its_check(address: object) -> None:
    number = int(address)  # type: ignore[call-overload]
    forms = [
        str(ip_address((0xFFFF << 32) | number)),
        str(ip_address((0x64FF9B << 96) | number)),
        str(ip_address((0x2002 << 112) | (number << 80))),
    ]
    assert {find_refusal(form, ()) is None for form in forms} == {find_refusal(str(address), ()) is None}


@given(st.ip_addresses(v=4))
def test_nothing_that_python_calls_private_is_taken(address: object) -> None:
    if not ip_address(str(address)).is_global:
        assert find_refusal(str(address), ()) is not None


def test_an_allowed_network_is_reached_in_its_ipv6_forms_too() -> None:
    allowed = (ip_network("10.1.0.0/16"),)
    assert find_refusal("10.1.2.3", allowed) is None
    assert find_refusal("::ffff:10.1.2.3", allowed) is None
    assert find_refusal("10.2.0.1", allowed) is not None
    assert find_refusal("::1", allowed) is not None


def test_where_clouds_hand_out_credentials_only_that_very_address_can_be_allowed() -> None:
    assert find_refusal("169.254.169.254", (IPv4Network("0.0.0.0/0"),)) is not None
    assert find_refusal("169.254.169.254", (IPv4Network("169.254.0.0/16"),)) is not None
    assert find_refusal("::ffff:169.254.169.254", (IPv4Network("0.0.0.0/0"),)) is not None
    assert find_refusal("169.254.169.254", (IPv4Network("169.254.169.254/32"),)) is None


@pytest.mark.parametrize(
    ("url", "allowance", "problem"),
    [
        ("http://hooks.example.com/", NONE, "only https"),
        ("ftp://hooks.example.com/", Allowance(http=True), "only https"),
        ("file:///etc/passwd", NONE, "only https"),
        ("hooks.example.com", NONE, "only https"),
        ("https://", NONE, "no host"),
        ("https://user@hooks.example.com/", NONE, "user or password"),
        ("https://:secret@hooks.example.com/", NONE, "user or password"),
        ("https://hooks.example.com:8443/", NONE, "port 8443"),
        ("https://hooks.example.com:80/", Allowance(http=True), "port 80"),
        ("https://hooks.example.com./", NONE, "ends in a dot"),
        ("https://hooks.example.com/#here", NONE, "fragment"),
        ("https://hooks.example.com:99999/", NONE, "port 99999"),
        ("https://[::1/", NONE, "isn't a URL"),
    ],
)
def test_a_url_is_refused_with_its_reason(url: str, allowance: Allowance, problem: str) -> None:
    with pytest.raises(UrlRefused, match=problem):
        place_of(url, allowance)


def test_what_is_allowed_is_taken() -> None:
    place = place_of("https://hooks.example.com:8443/in?x=1", Allowance(ports=(8443,)))
    assert (place.host, place.port, place.netloc) == ("hooks.example.com", 8443, "hooks.example.com:8443")
    assert place_of("http://hooks.example.com/", Allowance(http=True)).port == 80
    assert place_of("https://[2606:4700::1]/", NONE).netloc == "[2606:4700::1]"
    assert place_of("https://bücher.example/", NONE).host == "xn--bcher-kva.example"


def test_the_machines_resolver_gives_addresses_and_sees_through_odd_spellings() -> None:
    for spelling in ("127.0.0.1", "127.1", "2130706433", "0x7f.1"):
        assert list(SystemResolver().addresses(spelling, 443)) == ["127.0.0.1"]


@pytest.mark.parametrize("given", [{"networks": ("10.0.0.1/8",)}, {"ports": (0,)}, {"networks": ("here",)}])
def test_an_allowance_that_means_nothing_is_refused(given: dict[str, tuple[object, ...]]) -> None:
    with pytest.raises(ValueError, match="networks|ports"):
        Allowance(**given)


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("https://ann:hunter2@hooks.example.com/in?token=hunter2", "https://hooks.example.com/in"),
        ("https://[2606:4700::1]:8443/in#hunter2", "https://[2606:4700::1]:8443/in"),
        ("https://ann:hun@ter2@hooks.example.com/in", "https://hooks.example.com/in"),
        ("https://ann:1/hunter2@hooks.example.com/in", "https://ann:1/…"),
        ("https://ann:hunter2#x@hooks.example.com/in", UNREADABLE),
        ("https:/ann:hunter2@hooks.example.com/in", UNREADABLE),
        ("ann:hunter2@hooks.example.com/in", UNREADABLE),
    ],
)
def test_a_url_is_shown_without_what_may_be_secret(url: str, shown: str) -> None:
    assert shown_url(url) == shown


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("https://hooks.example.com/services/T0/B0/hunter2", "https://hooks.example.com/…"),
        ("https://hooks.example.com/?token=hunter2", "https://hooks.example.com/"),
        ("https://hooks.example.com:8443", "https://hooks.example.com:8443/"),
    ],
)
def test_a_path_that_is_a_secret_by_itself_is_left_out(url: str, shown: str) -> None:
    assert shown_url(url, path_is_secret=True) == shown


def test_a_url_that_cant_be_read_isnt_quoted_when_it_is_refused() -> None:
    with pytest.raises(UrlRefused) as refused:
        place_of("https://ann:hunter2#x@hooks.example.com/in", NONE)
    assert "hunter2" not in str(refused.value)
