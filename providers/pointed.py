"""Events that only point to what moved, kept together with what the provider's API said of it.

The body of such an event is ``{"event": …, "fetched": …}``, each with its exact bytes: whoever reads it again finds
what was found when it came. Without an answer of the API it is the event alone, as it was sent.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any
from urllib.parse import unquote, urlsplit

from core import strict_json
from core.errors import Unparseable
from providers.fields import an_object
from providers.port import Wanted

EVENT, FETCHED = "event", "fetched"
NOT_FETCHED = "not fetched"
"""Stands for the value that decides, where nobody asked the API."""


def join_bodies(event: bytes, fetched: bytes) -> bytes:
    return b'{"%b":%b,"%b":%b}' % (EVENT.encode(), event, FETCHED.encode(), fetched)


def find_event(document: Mapping[str, Any]) -> Mapping[str, Any]:
    return an_object(document[EVENT], "the event") if _is_joined(document) else document


def find_fetched(document: Mapping[str, Any]) -> dict[str, Any] | None:
    """Finds what the API said; None where it wasn't asked."""
    return an_object(document[FETCHED], "what was fetched") if _is_joined(document) else None


def read_answer(answer: bytes) -> dict[str, Any]:
    return an_object(strict_json.load_json(answer), "what was fetched")


def check_reference(wanted: Wanted, resource: Mapping[str, Any]) -> None:
    """
    :raises Unparseable: the resource isn't the one whose id ends the address that was asked
    """
    if resource.get("id") != unquote(urlsplit(wanted.url).path.rpartition("/")[2]):
        raise Unparseable("what was fetched is something else")


def _is_joined(document: Mapping[str, Any]) -> bool:
    return len(document) == 2 and EVENT in document and FETCHED in document
