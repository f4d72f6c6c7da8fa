"""A `Case`: how valid requests of one provider are made, so that one suite can hold every adapter to the port.

What `adapter_cases.unlike` doesn't override is so for a provider that signs its whole JSON body, with a signature in a
header.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from typing import Any, ClassVar, TypeAlias

from load.samples import Sample, Samples, samples_of, sign
from load.samples.sender import NOW
from providers import Adapter, ProvidersSettings, Request, build_adapters

FLIPS_MAX = 6_000
"""Of one text, at most so many neighbours are tried, spread evenly over it."""

Path: TypeAlias = tuple[str | int, ...]
Headers: TypeAlias = Sequence[tuple[bytes, bytes]]
GONE = object()
"""Instead of a field's value: the field isn't there."""


SAMPLE = Sample()


class Case:
    """One provider's requests, made of its sample file."""

    fetched_from: ClassVar[str | None] = None
    """How the address begins that has to be asked about a valid request; None for an adapter that asks nobody."""
    taken_s: ClassVar[int | None] = None
    """For how long an old signature holds, where that is longer than a new one's."""

    def __init__(self, name: str, samples: Samples | None = None) -> None:
        self.name = name
        self.samples = samples_of(name) if samples is None else samples
        self.books, self.of_payment = self.samples.books, self.samples.of_payment
        self.tolerance_s = self.samples.tolerance_s
        self.body, self.others = self.samples.refund, self.samples.others

    @property
    def names_amounts(self) -> bool:
        """Whether its events name amounts. GoCardless's don't: what a sample writes beside an id counts nothing."""
        return self.name != "gocardless"

    @cached_property
    def secrets(self) -> tuple[str, str]:
        """Two secrets of the provider's form; either signs."""
        adapter = self.adapter()
        return self.samples.secrets() if self.samples.secrets else (adapter.new_secret(), adapter.new_secret())

    @cached_property
    def signature_headers(self) -> tuple[bytes, ...]:
        """The headers without which nothing is proven: those that signing adds, unless the sample file excepts them."""
        unproven = {b"content-type", *(name.encode() for name in self.samples.unsigned)}
        return tuple(name for name, _ in self.valid().headers if name not in unproven)

    def adapter(self, **settings: Any) -> Adapter:
        return build_adapters(ProvidersSettings(**{**self.samples.settings, **settings}))[self.name]

    def batch(self, samples: Sequence[Sample]) -> bytes | None:
        """One body with several events; None where a request is always one event."""
        return self.samples.batch(samples) if self.samples.batch else None

    def renderings(self) -> Sequence[tuple[bytes, bytes]]:
        """Bodies of one event in two versions of the provider's API, if both may arrive."""
        return ()

    def request(self, body: bytes, secret: str, sample: Sample = SAMPLE) -> Request:
        """The signed request as it is received; a signature that has an event's id beside it takes the sample's."""
        signed = sign(self.adapter(), body, secret, NOW, event_id=sample.event)
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
        return self.body(Sample(**changed)).replace(b"PLACEHOLDER", json.dumps(text)[1:-1].encode())

    def valid(self, sample: Sample = SAMPLE) -> Request:
        return self.request(self.body(sample), self.secrets[0], sample)

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
