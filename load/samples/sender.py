"""What a sample file is made of: bodies of a provider's webhooks, and how the provider signs them."""

from __future__ import annotations

import base64
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import lru_cache
from typing import Any

from cryptography.hazmat.primitives.asymmetric.padding import PKCS1v15
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPrivateKey, generate_private_key
from cryptography.hazmat.primitives.hashes import SHA256

from core.errors import PayhookError
from providers.port import DEFAULT_ENDPOINT, Adapter
from providers.signature import KEY_BITS_MIN, base64_mac, hex_mac, public_line

NOW = datetime(2026, 1, 31, 12, 0, tzinfo=UTC)


class CannotSign(PayhookError):
    """Only the provider can sign such a request: its key is private."""

    def __init__(self, provider: str, problem: str) -> None:
        self.provider = provider
        self.problem = problem
        super().__init__(f"{provider}: {problem}")


@dataclass(frozen=True)
class Sample:
    """Holds what a sample event says: a refund, where the provider reports refunds.

    ``event`` and ``movement`` may be one id (Adyen). ``delivery`` numbers the deliveries of one event: whatever
    differs between them follows from it.
    """

    event: str = "e1"
    movement: str = "m1"
    payment: str = "p1"
    account: str = "a1"
    amount_minor: int = 1_250
    currency: str = "EUR"
    delivery: int = 1
    at: datetime = NOW

    @property
    def amount(self) -> str:
        """Formats the amount such as ``12.50``."""
        return f"{self.amount_minor // 100}.{self.amount_minor % 100:02}"

    @property
    def money(self) -> dict[str, Any]:
        """Returns what most builders of bodies take: the amount in minor units, its currency, and when it moved."""
        return {"amount_minor": self.amount_minor, "currency": self.currency, "created": self.at}

    def json_id(self, name: str) -> int | str:
        """An id as a JSON number; one that ends in no digit stays a text, so that a test can write anything there."""
        text = str(getattr(self, name))
        return self.number(name) if text[-1:].isdigit() else text

    def number(self, name: str) -> int:
        """The number that an id such as ``e12`` ends in, 1 without: for providers that number what others name."""
        text = str(getattr(self, name))
        return int(text[len(text.rstrip("0123456789")) :] or 1)


@dataclass(frozen=True)
class SignedRequest:
    """What to post: the body (Adyen's is changed by signing) and the headers to add."""

    body: bytes
    headers: dict[str, str]


@dataclass(frozen=True)
class Sending:
    """A body that is to be signed. ``event_id``: where the provider puts it into a header; made up unless given."""

    adapter: Adapter
    body: bytes
    secret: str
    now: datetime
    event_id: str | None = None
    endpoint: str = DEFAULT_ENDPOINT

    @property
    def at_s(self) -> int:
        """When it is signed, in Unix seconds."""
        return int(self.now.timestamp())

    def hex_mac(self, message: bytes | None = None) -> str:
        """The HMAC-SHA256 of a message, unless given of the body, in hexadecimal digits; its key is the secret."""
        return hex_mac(self.secret.encode("utf-8"), self.body if message is None else message).decode("ascii")

    def base64_mac(self, message: bytes | None = None) -> str:
        """Does as `hex_mac`, in base64."""
        return base64_mac(self.secret.encode("utf-8"), self.body if message is None else message).decode("ascii")

    def rsa_signature(self, message: bytes | None = None) -> str:
        """RSA with SHA-256, in base64; ``secret`` is a public key of `own_public_key`.

        :raises CannotSign: it is any other public key
        """
        private = _PRIVATE_KEYS.get(self.secret)
        if private is None:
            raise CannotSign(self.adapter.name, "only the provider has this public key's private half")
        made = private.sign(self.body if message is None else message, PKCS1v15(), SHA256())
        return base64.b64encode(made).decode("ascii")

    def posted(self, headers: Mapping[str, str], body: bytes | None = None) -> SignedRequest:
        """The request: these headers, and the provider's media type."""
        content_type = {"Content-Type": self.adapter.media_type}
        return SignedRequest(self.body if body is None else body, {**content_type, **headers})


_PRIVATE_KEYS: dict[str, RSAPrivateKey] = {}


@lru_cache
def own_public_key(number: int) -> str:
    """A public key, in the one line that `providers.signature.public_key` reads, by which this process can sign.

    ``number`` tells keys apart.
    """
    private = generate_private_key(65537, KEY_BITS_MIN)
    line = public_line(private.public_key())
    _PRIVATE_KEYS[line] = private
    return line


@dataclass(frozen=True)
class Samples:
    """A provider's sample file. `tests.contract.adapter_cases` makes of it what every adapter is tested with.

    ``refund`` is the body of a `Sample`, ``others`` are bodies of other kinds, ``batch`` one body of several samples,
    where a request can hold them. ``settings``: of `ProvidersSettings`, as the bodies need them. ``unsigned``: headers
    that `sign` adds, in small letters, and that nothing proves. ``tolerance_s``: for how long a signature holds.
    ``books``: whether a sample's money is booked. ``of_payment``: whether its movements belong to a payment.
    ``by_type``: bodies for `payhook send --sample`, by the event's type as the provider names it.
    ``secrets``: two by which ``sign`` can sign, where the adapter's ``new_secret`` makes none.
    """

    refund: Callable[[Sample], bytes]
    sign: Callable[[Sending], SignedRequest]
    others: Callable[[], Sequence[bytes]] = tuple
    batch: Callable[[Sequence[Sample]], bytes] | None = None
    by_type: Mapping[str, Callable[[Sample], bytes]] = field(default_factory=dict)
    settings: Mapping[str, Any] = field(default_factory=dict)
    unsigned: frozenset[str] = frozenset()
    tolerance_s: int | None = None
    books: bool = True
    of_payment: bool = True
    secrets: Callable[[], tuple[str, str]] | None = None


def tail(identifier: str) -> str:
    """``pi_123`` without its prefix."""
    return identifier.split("_", 1)[-1]
