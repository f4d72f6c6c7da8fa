"""Several processes behind one name: each of their addresses is asked for itself."""

from __future__ import annotations

import socket
from collections.abc import Mapping
from urllib.parse import urlsplit


def each_address(urls: Mapping[str, str]) -> dict[str, str]:
    """URLs by the names of processes; where a URL's host has several addresses, one URL for each of them.

    ``{"ingest": "http://receivers:9101/metrics"}`` with two receivers is ``ingest-10.0.0.4`` and ``ingest-10.0.0.5``. A
    name that can't be looked up stays as it is: asking it will say so. It blocks as long as the look-up takes.
    """
    by_name: dict[str, str] = {}
    for name, url in urls.items():
        addresses = _find_addresses(urlsplit(url).hostname or "")
        if len(addresses) < 2:
            by_name[name] = url
            continue
        for address in addresses:
            parts = urlsplit(url)
            port = "" if parts.port is None else f":{parts.port}"
            by_name[f"{name}-{address}"] = parts._replace(netloc=f"{address}{port}").geturl()
    return by_name


def _find_addresses(host: str) -> list[str]:
    """Finds the IPv4 addresses of a host, since a name of one process may have one address of each kind."""
    try:
        answers = socket.getaddrinfo(host, None, socket.AF_INET, socket.SOCK_STREAM)
    except OSError:
        return []
    return sorted({str(address[0]) for *_, address in answers})
