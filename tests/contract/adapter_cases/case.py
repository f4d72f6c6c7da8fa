"""A `Case`: how valid requests of one provider are made, so that one suite can hold every adapter to the port.

What a case doesn't override is so for a provider that signs its whole JSON body, with a signature in a header.
"""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any, ClassVar, TypeAlias

from providers import Adapter, ProvidersSettings, Request, build_adapters

NOW = datetime(2026, 1, 31, 12, 0, tzinfo=UTC)
FLIPS_MAX = 6_000
"""Of one text, at most so many neighbours are tried, spread evenly over it."""

Path: TypeAlias = tuple[str | int, ...]
Headers: TypeAlias = Sequence[tuple[bytes, bytes]]
GONE = object()
"""Instead of a field's value: the field isn't there."""


@dataclass(frozen=True)
class Told:
    """What a sample event tells: a refund, where the provider tells of refunds.

    ``event`` and ``movement`` may be one id (Adyen). ``delivery`` numbers the deliveries of one event: whatever
    differs between them follows from it.
    """

    event: str = "e1"
    movement: str = "m1"
    payment: str = "p1"
    account: str = "a1"
    amount_minor: int = 1_250
    delivery: int = 1


SAMPLE = Told()


class Case(ABC):
    """One provider's requests."""

    name: ClassVar[str]
    secrets: ClassVar[tuple[str, str]]
    """Two secrets of the provider's form; either signs."""
    signature_headers: ClassVar[tuple[bytes, ...]]
    """The headers without which nothing is proven; empty where the signature is in the body."""
    settings: ClassVar[Mapping[str, Any]] = {}
    """Fields of `ProvidersSettings` that the samples need."""
    tolerance_s: ClassVar[int | None] = None
    """For how long a signature holds; None where no time is signed."""
    taken_s: ClassVar[int | None] = None
    """For how long an old one holds, where that is longer."""
    books: ClassVar[bool] = True
    """Whether the sample moves money; a provider whose events hold no amounts has none that does."""

    of_payment: ClassVar[bool] = True
    """Whether the sample's movements belong to a payment, whose order they share; a payout's don't."""

    label: ClassVar[str]
    """What the case is called: as the provider, unless that has several cases."""
    fetched_from: ClassVar[str | None] = None
    """How the address begins that has to be asked about a valid request; None for an adapter that asks nobody."""

    def __init_subclass__(cls) -> None:
        if "label" not in cls.__dict__:
            cls.label = cls.name

    def adapter(self, **settings: Any) -> Adapter:
        return build_adapters(ProvidersSettings(**{**self.settings, **settings}))[self.name]

    @abstractmethod
    def body(self, told: Told) -> bytes:
        """One event's request body, before it is signed."""

    def others(self) -> Sequence[bytes]:
        """Bodies of other kinds than `body`'s: payments, disputes, payouts. Each is one event, or one a movement."""
        return ()

    def renderings(self) -> Sequence[tuple[bytes, bytes]]:
        """Bodies of one event in two versions of the provider's API, if both may arrive."""
        return ()

    def batch(self, told: Sequence[Told]) -> bytes | None:
        """One body with several events; None where a request is always one event."""
        return None

    def request(self, body: bytes, secret: str, told: Told = SAMPLE) -> Request:
        """The signed request as it is received; a signature that has an event's id beside it takes ``told``'s."""
        signed = self.adapter().sign(body, secret, NOW, event_id=told.event)
        return Request(signed.body, raw_headers(signed.headers))

    def forged(self) -> Request:
        """A request like a valid one, by somebody who doesn't have the first secret."""
        return self.request(self.body(SAMPLE), self.secrets[1])

    def asked_with(self, request: Request, secret: str, listed: Sequence[str]) -> Request:
        """The request at an endpoint that has these secrets, where something is fetched with them and not signed."""
        return request

    def hostile(self, field: str, text: str) -> bytes:
        """A body in which an id is any text, as a sender could write it."""
        changed: dict[str, Any] = {field: "PLACEHOLDER"}
        return self.body(Told(**changed)).replace(b"PLACEHOLDER", json.dumps(text)[1:-1].encode())

    def valid(self, told: Told = SAMPLE) -> Request:
        return self.request(self.body(told), self.secrets[0], told)

    def altered(self, request: Request) -> Iterator[Request]:
        """Requests that differ from a valid one in one bit of what is signed, or of a signature."""
        for body in flips(request.body):
            yield replace(request, body=body)
        for name in self.signature_headers:
            value = request.one(name) or b""
            for flipped in flips(value):
                yield replace(request, headers=with_header(request.headers, name, flipped))

    def resigned(self, request: Request, values: Sequence[bytes]) -> Iterator[Request]:
        """The request with these instead of each signature in turn: none, one, or one header several times."""
        for name in self.signature_headers:
            yield replace(request, headers=with_header(request.headers, name, *values))

    def fields(self, body: bytes) -> list[Path]:
        """The places in a body at which `spoiled` can put something else."""
        return list(paths(json.loads(body)))

    def amounts(self) -> list[Path]:
        """Where a sample says its amount: the values that follow from it, and the objects of amounts around them."""
        some, others = (json.loads(self.body(replace(SAMPLE, amount_minor=amount))) for amount in (1_250, 1_251))
        found = [path for path in paths(some) if _is_leaf(some, path) and _at(some, path) != _at(others, path)]
        around = {path[:-1] for path in found if "amount" in str(path[-2:-1]) or "money" in str(path[-2:-1])}
        return [*found, *sorted(around, key=str)]

    def spoiled(self, body: bytes, path: Path, value: object) -> bytes:
        """The body with something else (or nothing: `GONE`) in one place."""
        return json.dumps(with_value(json.loads(body), path, value)).encode()


def number_in(text: str) -> int:
    """The number that an id such as ``e12`` ends in, 1 without: for providers that number what others name."""
    digits = text[len(text.rstrip("0123456789")) :]
    return int(digits or 1)


def raw_headers(headers: Mapping[str, str]) -> Headers:
    return [(name.lower().encode("latin-1"), value.encode("latin-1", "replace")) for name, value in headers.items()]


def with_header(headers: Headers, name: bytes, *values: bytes) -> Headers:
    """These values instead of what the header had."""
    return [pair for pair in headers if pair[0] != name] + [(name, value) for value in values]


def flips(raw: bytes) -> Iterator[bytes]:
    """Neighbours of ``raw`` that differ in one bit: all of them, or `FLIPS_MAX`."""
    bits = 8 * len(raw)
    step = max(1, bits // FLIPS_MAX)
    for at in range(0, bits, step | 1):  # odd, so that every bit of a byte has its turn
        yield raw[: at // 8] + bytes([raw[at // 8] ^ (1 << at % 8)]) + raw[at // 8 + 1 :]


def paths(document: object, at: Path = ()) -> Iterator[Path]:
    """Every place in a JSON document, containers before what they hold."""
    yield at
    if isinstance(document, dict):
        for name, value in document.items():
            yield from paths(value, (*at, name))
    elif isinstance(document, list):
        for index, value in enumerate(document):
            yield from paths(value, (*at, index))


def _at(document: Any, path: Path) -> Any:
    for step in path:
        document = document[step]
    return document


def _is_leaf(document: object, path: Path) -> bool:
    return not isinstance(_at(document, path), dict | list)


def with_value(document: Any, path: Path, value: object) -> Any:
    """The document with another value in one place."""
    if not path:
        return {} if value is GONE else value
    holder = document
    for step in path[:-1]:
        holder = holder[step]
    if value is GONE:
        del holder[path[-1]]
    else:
        holder[path[-1]] = value
    return document
