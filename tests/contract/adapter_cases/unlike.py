"""Cases of the providers that are unlike others: a signature in the body, no JSON, no signature at all."""

from __future__ import annotations

import copy
import hashlib
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any
from urllib.parse import parse_qsl, urlencode
from xml.etree.ElementTree import Element, ParseError, fromstring, tostring
from xml.sax.saxutils import escape

from core.clock import to_rfc3339
from load.samples.mollieclassic import DELIVERY, ORDER
from load.samples.sender import NOW, Sample
from load.samples.stripe import stripe_event
from providers import Request
from providers.port import Fetched
from tests.contract.adapter_cases.case import GONE, SAMPLE, Case, Path, flips
from tests.paypal_signer import LIVE_URL, delivery


class StripeCase(Case):
    """One event comes in several versions of the API."""

    def renderings(self) -> Sequence[tuple[bytes, bytes]]:
        """Before and since 2022-11-15 (https://docs.stripe.com/upgrades#2022-11-15), and 2025-03-31."""
        return [
            in_versions("charge.refunded", _lists_its_refunds, _lists_none, {"amount_refunded": 0}),
            in_versions("charge.succeeded", _lists_its_refunds, _lists_none),
            in_versions("payment_intent.succeeded", _lists_its_charges, _names_its_latest_charge),
            in_versions("invoice.paid", _names_its_intent, _lists_its_payments),
        ]


class AdyenCase(Case):
    """The signature is in the body, one an item, and covers eight fields of it."""

    SIGNED = (
        ("pspReference",),
        ("originalReference",),
        ("merchantAccountCode",),
        ("merchantReference",),
        ("eventCode",),
        ("success",),
        ("amount", "value"),
        ("amount", "currency"),
        ("additionalData", "hmacSignature"),
    )

    signature_headers = ()

    def altered(self, request: Request) -> Iterator[Request]:
        for number, wrapper in enumerate(json.loads(request.body)["notificationItems"]):
            for name in self.SIGNED:
                value: Any = wrapper["NotificationRequestItem"]
                for step in name:
                    value = value[step]
                at = _nth(request.body, f'"{name[-1]}":'.encode(), number)
                start = request.body.index(str(value).encode(), at + len(name[-1]) + 3)
                end = start + len(str(value).encode())
                for flipped in flips(request.body[start:end]):
                    yield replace(request, body=request.body[:start] + flipped + request.body[end:])

    def resigned(self, request: Request, values: Sequence[bytes]) -> Iterator[Request]:
        """Of one item a signature can't come several times: that would be a key twice in one object."""
        whole = json.loads(request.body)
        signature = whole["notificationItems"][0]["NotificationRequestItem"]["additionalData"]["hmacSignature"].encode()
        member = b'"hmacSignature":"' + signature + b'"'
        members = b",".join(b'"hmacSignature":"' + value + b'"' for value in values) or b'"other":""'
        yield replace(request, body=request.body.replace(member, members, 1))


class BraintreeCase(Case):
    """XML in base64 in a form, and the signature beside it."""

    signature_headers = ()

    def hostile(self, field: str, text: str) -> bytes:
        changed: dict[str, Any] = {field: "PLACEHOLDER"}
        return self.body(Sample(**changed)).replace(b"PLACEHOLDER", escape(text).encode("utf-8", "surrogatepass"))

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


class MollieClassicCase(Case):
    """A case's body is what is fetched: an order with its refunds. The delivery itself says only which order."""

    signature_headers = ()
    fetched_from = f"https://api.mollie.com/v2/orders/{ORDER}"

    def request(self, body: bytes, secret: str, sample: Sample = SAMPLE) -> Request:
        headers = [(b"content-type", b"application/x-www-form-urlencoded")]
        return self.asked_with(Request(DELIVERY, headers, fetched=Fetched(200, body)), secret, self.secrets)

    def forged(self) -> Request:
        """What Mollie answers is about another order than the delivery."""
        body = self.body(SAMPLE).replace(ORDER.encode(), ORDER.upper().encode())
        return self.request(body, self.secrets[0])

    def asked_with(self, request: Request, secret: str, listed: Sequence[str]) -> Request:
        """Mollie answers to the key that is ``secret``; where that isn't listed, to none."""
        if request.fetched is None or secret not in listed:
            return replace(request, fetched=None)
        return replace(request, fetched=replace(request.fetched, bearer=list(listed).index(secret)))

    def altered(self, request: Request) -> Iterator[Request]:
        for body in flips(request.body):
            yield replace(request, body=body)

    def resigned(self, request: Request, values: Sequence[bytes]) -> Iterator[Request]:
        """Mollie's answer is the proof: none, or something else."""
        yield replace(request, fetched=Fetched(200, values[0]) if values else None)


class PayPalCase(Case):
    """Which certificate a request names isn't signed: another one of PayPal's would be another key."""

    signature_headers = (
        b"paypal-transmission-id",
        b"paypal-transmission-time",
        b"paypal-transmission-sig",
        b"paypal-auth-algo",
    )
    fetched_from = LIVE_URL
    taken_s = 4 * 86_400

    def request(self, body: bytes, secret: str, sample: Sample = SAMPLE) -> Request:
        transmission_id = hashlib.sha256(body).hexdigest()[:36]
        return delivery(body, secret, transmission_id=transmission_id, time=to_rfc3339(NOW))


Fields = Mapping[str, Any]


def in_versions(
    event_type: str,
    older: Callable[[Fields], Fields],
    newer: Callable[[Fields], Fields],
    previous: Fields | None = None,
) -> tuple[bytes, bytes]:
    """The bodies of one event to an endpoint of an older API version, and to one of a newer."""
    whole = json.loads(
        stripe_event(
            "evt_1", event_type, payment="pi_1", account="acct_1", amount_minor=1_250, currency="EUR", created=NOW
        )
    )
    found = [
        {
            **whole,
            "api_version": version,
            "data": {
                "object": render(whole["data"]["object"]),
                **({} if previous is None else {"previous_attributes": {**previous, **changed}}),
            },
            "pending_webhooks": pending,
        }
        for version, render, changed, pending in (
            ("2020-08-27", older, {"refunds": {"data": [], "total_count": 0}}, 2),
            ("2025-03-31.basil", newer, {}, 1),
        )
    ]
    first, second = (json.dumps(document).encode() for document in found)
    return first, second


def _lists_its_refunds(charge: Fields) -> Fields:
    return {**charge, "invoice": None, "refunds": {**charge["refunds"], "total_count": 1}}


def _lists_none(charge: Fields) -> Fields:
    return {name: value for name, value in charge.items() if name != "refunds"}


def _lists_its_charges(intent: Fields) -> Fields:
    rest = {name: value for name, value in intent.items() if name != "latest_charge"}
    charge = {"id": intent["latest_charge"], "object": "charge", "amount": intent["amount"], "captured": True}
    return {**rest, "charges": {"object": "list", "data": [charge], "has_more": False}}


def _names_its_latest_charge(intent: Fields) -> Fields:
    return intent


def _names_its_intent(invoice: Fields) -> Fields:
    return {**invoice, "paid": True, "payment_intent": "pi_1", "charge": "ch_1"}


def _lists_its_payments(invoice: Fields) -> Fields:
    rest = {name: value for name, value in invoice.items() if name not in ("payment_intent", "charge")}
    payment = {"payment": {"payment_intent": "pi_1", "type": "payment_intent"}, "status": "paid"}
    return {**rest, "payments": {"object": "list", "data": [payment], "has_more": False}}


def _nth(body: bytes, wanted: bytes, number: int) -> int:
    """Where the text stands for the ``number``th time, counted from 0."""
    at = -1
    for _ in range(number + 1):
        at = body.index(wanted, at + 1)
    return at


def _named(root: Element, path: Path) -> str:
    for step in path:
        root = root[int(step)]
    return root.tag


def _paths(element: Element, at: Path = ()) -> Iterator[Path]:
    yield at
    for index, inner in enumerate(element):
        yield from _paths(inner, (*at, index))
