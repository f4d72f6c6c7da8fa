"""Checks where requests may go: only to public addresses, unless the subscriber is allowed more (no SSRF).

The lists are IANA's special-purpose address registries (RFC 6890 and its updates), and the addresses under which
clouds hand out credentials.
"""

from __future__ import annotations

import socket
from collections.abc import Sequence
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address
from typing import NamedTuple, Protocol, TypeAlias

import httpx2

from notify.settings import Allowance, Network

Address: TypeAlias = IPv4Address | IPv6Address

ADDRESSES_MAX = 32
"""The most addresses behind one name: a receiver has fewer."""

_NOT_PUBLIC_V4 = tuple(
    IPv4Network(text)
    for text in (
        *("0.0.0.0/8", "10.0.0.0/8", "100.64.0.0/10", "127.0.0.0/8", "169.254.0.0/16", "172.16.0.0/12"),
        *("192.0.0.0/24", "192.0.2.0/24", "192.88.99.0/24", "192.168.0.0/16", "198.18.0.0/15", "198.51.100.0/24"),
        *("203.0.113.0/24", "224.0.0.0/4", "240.0.0.0/4"),
    )
)
_PUBLIC_V6 = IPv6Network("2000::/3")
_NOT_PUBLIC_V6 = tuple(IPv6Network(text) for text in ("2001::/23", "2001:db8::/32", "2620:4f:8000::/48", "3fff::/20"))
_NAT64 = IPv6Network("64:ff9b::/96")
_METADATA = frozenset(
    ip_address(text)
    for text in (
        *("169.254.169.254", "169.254.170.2", "169.254.170.23", "100.100.100.200", "168.63.129.16", "192.0.0.192"),
        *("fd00:ec2::254", "fd00:ec2::23", "fd20:ce::254"),
    )
)
"""Metadata addresses of AWS, Google, Azure, Alibaba and Oracle: reached only if allowed by themselves (/32, /128)."""

UNREADABLE = "(no readable url)"


class Resolver(Protocol):
    def addresses(self, host: str, port: int) -> Sequence[str]:
        """Returns all addresses of a name, the best first. It may block.

        :raises OSError: there are none, or no name server answers
        """


class SystemResolver:
    def addresses(self, host: str, port: int) -> Sequence[str]:
        infos = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
        return list(dict.fromkeys(str(address[0]) for *_, address in infos))


class UrlRefused(ValueError):
    pass


class UrlParts(NamedTuple):
    url: httpx2.URL
    host: str
    port: int
    netloc: str


def place_of(text: str, allowance: Allowance) -> UrlParts:
    """Checks all of a URL that can be checked without a look-up.

    :raises UrlRefused: another scheme than https, a user, a port that isn't allowed, or no URL at all
    """
    try:
        url = httpx2.URL(text)
    except httpx2.InvalidURL:
        # What the parser says of it may hold a piece of a password.
        raise UrlRefused("it isn't a URL") from None
    usual = {"https": 443, "http": 80}.get(url.scheme)
    if usual is None or (url.scheme == "http" and not allowance.http):
        raise UrlRefused("only https is allowed")
    if url.userinfo:
        raise UrlRefused("a user or password in a URL isn't allowed")
    host = url.raw_host.decode("ascii")
    if not host or host.endswith("."):
        raise UrlRefused("it has no host, or its host ends in a dot")
    if url.fragment:
        raise UrlRefused("a fragment isn't sent; leave it out")
    port = url.port or usual
    if port != usual and port not in allowance.ports:
        raise UrlRefused(f"port {port} isn't allowed")
    return UrlParts(url, host, port, url.netloc.decode("ascii"))


def shown_url(text: str, *, path_is_secret: bool = False) -> str:
    """Returns scheme, host, port and path of a URL for people to read. Users, passwords and queries may be secrets.

    The path is left out where it is a secret by itself, as with chat systems. So is one that may be the end of a
    password that holds a slash.
    """
    try:
        url = httpx2.URL(text)
    except httpx2.InvalidURL:
        return UNREADABLE
    if not url.host:
        return UNREADABLE
    port = "" if url.port is None else f":{url.port}"
    path = url.raw_path.partition(b"?")[0].decode("ascii")
    left_out = "@" in path or (path_is_secret and path != "/")
    return f"{url.scheme}://{in_url(url.raw_host.decode('ascii'))}{port}{'/…' if left_out else path}"


def holds_credentials(text: str) -> bool:
    try:
        return bool(httpx2.URL(text).userinfo)
    except httpx2.InvalidURL:
        return False


def find_refusal(text: str, allowed: Sequence[Network]) -> str | None:
    try:
        address = _unwrap_address(ip_address(text))
    except ValueError:
        return f"{text!r} isn't an address"
    if isinstance(address, IPv6Address) and address.scope_id:
        return f"{text} is of one link only"
    grants = [network for network in allowed if network.version == address.version and address in network]
    if address in _METADATA:
        is_granted = any(network.num_addresses == 1 for network in grants)
        return None if is_granted else f"{text} is where a cloud hands out credentials"
    if grants or _is_public(address):
        return None
    return f"{text} isn't a public address"


def is_literal(host: str) -> bool:
    try:
        ip_address(host)
    except ValueError:
        return False
    return True


def in_url(address: str) -> str:
    return f"[{address}]" if ":" in address else address


def _unwrap_address(address: Address) -> Address:
    """Returns the IPv4 address within an IPv6 one that only stands for it (mapped, NAT64, 6to4)."""
    if isinstance(address, IPv4Address):
        return address
    if address.ipv4_mapped is not None:
        return address.ipv4_mapped
    if address in _NAT64:
        return IPv4Address(int(address) & 0xFFFF_FFFF)
    if address.sixtofour is not None:
        return address.sixtofour
    return address


def _is_public(address: Address) -> bool:
    if isinstance(address, IPv4Address):
        return not any(address in network for network in _NOT_PUBLIC_V4)
    return address in _PUBLIC_V6 and not any(address in network for network in _NOT_PUBLIC_V6)
