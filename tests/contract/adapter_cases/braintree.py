"""Requests of Braintree: XML in base64 in a form, and the signature beside it."""

from __future__ import annotations

import copy
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any
from urllib.parse import parse_qsl, urlencode
from xml.etree.ElementTree import Element, ParseError, fromstring, tostring
from xml.sax.saxutils import escape

from load.samples.braintree import transaction_event
from providers import Request
from tests.contract.adapter_cases.case import GONE, NOW, SAMPLE, Case, Path, Told, flips


class BraintreeCase(Case):
    """An event's id and its movement's are one: the transaction's."""

    name = "braintree"
    secrets = ("new5public1:new0private0of0the0suite", "old5public1:old0private0of0the0suite")
    signature_headers = ()

    def body(self, told: Told) -> bytes:
        return transaction_event(
            "transaction_settled",
            transaction=told.movement,
            merchant_account=told.account,
            amount=f"{told.amount_minor // 100}.{told.amount_minor % 100:02}",
            currency="EUR",
            triggered=NOW,
            refund_of=told.payment,
        )

    def others(self) -> Sequence[bytes]:
        told = self.body(Told())
        return [told.replace(b"transaction_settled", kind) for kind in (b"transaction_settlement_declined", b"check")]

    def hostile(self, field: str, text: str) -> bytes:
        changed: dict[str, Any] = {field: "PLACEHOLDER"}
        return self.body(Told(**changed)).replace(b"PLACEHOLDER", escape(text).encode("utf-8", "surrogatepass"))

    def altered(self, request: Request) -> Iterator[Request]:
        """An escape has two spellings, ``%2B`` and ``%2b``: what the form says is the same in both."""
        said = parse_qsl(request.body.decode())
        for body in flips(request.body):
            if parse_qsl(body.decode("latin-1")) != said:
                yield replace(request, body=body)

    def resigned(self, request: Request, values: Sequence[bytes]) -> Iterator[Request]:
        payload = dict(parse_qsl(request.body))[b"bt_payload"]
        pairs = [*((b"bt_signature", value) for value in values), (b"bt_payload", payload)]
        yield replace(request, body=urlencode(pairs).encode())

    def fields(self, body: bytes) -> list[Path]:
        """Elements by their positions within each other, the root left out."""
        try:
            return [path for path in _paths(fromstring(body)) if path]
        except ParseError:
            return [(0,)]

    def amounts(self) -> list[Path]:
        body = self.body(SAMPLE)
        root = fromstring(body)
        return [path for path in self.fields(body) if _named(root, path) == "amount"]

    def spoiled(self, body: bytes, path: Path, value: object) -> bytes:
        """An element gone, twice, or with another text; what is no XML any more stays as it is."""
        try:
            root = fromstring(body)
        except ParseError:
            return body
        holder = root
        for step in path[:-1]:
            holder = holder[int(step)]
        element = holder[int(path[-1])]
        if value is GONE:
            holder.remove(element)
        elif isinstance(value, list):
            holder.append(copy.deepcopy(element))
        else:
            element.text = str(value)
        return tostring(root)


def _named(root: Element, path: Path) -> str:
    for step in path:
        root = root[int(step)]
    return root.tag


def _paths(element: Element, at: Path = ()) -> Iterator[Path]:
    yield at
    for index, inner in enumerate(element):
        yield from _paths(inner, (*at, index))
