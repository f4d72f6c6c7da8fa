"""Signed webhooks of three providers, ready to be posted: what the demo, the load test, the benches and the tests send.

As requests of an HTTP client (`Traffic`), or whole, for bare sockets: of Stripe made before they are sent, of several
providers when they are asked for.
"""

from __future__ import annotations

import hashlib
import hmac
import itertools
import uuid
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from random import Random
from typing import overload

from core.clock import Clock
from load.samples import sign
from load.samples.adyen import AdyenItem, adyen_notification
from load.samples.standardwebhooks import standard_event
from load.samples.stripe import stripe_event
from providers.port import Adapter, Request
from providers.registry import build_adapters
from providers.settings import ProvidersSettings

PROVIDERS = ("stripe", "adyen", "standardwebhooks")
CURRENCIES = ("EUR", "USD", "GBP", "JPY")

PLACE = b"0123456789abcdef"
"""Stands in the template where each event has its own id; as long as one."""
_SYLLABLES_EACH = 1 << 12
_SYLLABLES = list(
    dict.fromkeys(
        hashlib.sha256(b"%d" % number).hexdigest()[:5].translate(str.maketrans("13579bdf", "kQwZxRtV"))
        for number in range(2 * _SYLLABLES_EACH)
    )
)[:_SYLLABLES_EACH]
"""Ids look like a provider's: letters and digits by chance."""


@dataclass(frozen=True, slots=True)
class Webhook:
    """One request to the receiver; ``event_keys`` are of the events in it, none if it can't be read."""

    provider: str
    body: bytes
    headers: dict[str, str]
    event_keys: tuple[str, ...]

    @property
    def path(self) -> str:
        return f"/webhooks/{self.provider}"


class Traffic:
    """Makes webhooks and signs them with the newest secret in ``secrets_dir``.

    ``prefix`` goes into every id, so that two runs never share one.
    """

    def __init__(self, secrets_dir: Path, clock: Clock, random: Random, prefix: str) -> None:
        self._secrets_dir = secrets_dir
        self._clock = clock
        self._random = random
        self._prefix = prefix
        self._adapters = build_adapters(ProvidersSettings())

    def next(self, turn: int) -> Webhook:
        """Webhook number ``turn`` of an endless mix: captures, refunds, some of types that move no money."""
        provider = PROVIDERS[turn % 3]
        amount = self._random.randint(100, 500_000)
        currency = self._random.choice(CURRENCIES)
        if provider == "adyen":
            return self.adyen([(f"{turn}-{number}", "CAPTURE", amount, currency) for number in range(1 + turn % 2)])
        if provider == "standardwebhooks":
            return self.standard(f"{turn}", "payment.captured", amount, currency)
        kind = "charge.succeeded" if turn % 5 else "customer.updated"
        return self.stripe(f"{turn}", kind, amount, currency)

    def single(self, turn: int) -> Webhook:
        """Like `next`, with one event a webhook: a capture of a payment of its own, of Stripe, Adyen or a sender."""
        if turn % 3 == 1:
            return self.adyen([(f"{turn}", "CAPTURE", 1_000 + turn % 500, "EUR")])
        return self.next(turn)

    def stripe(
        self,
        number: str,
        event_type: str,
        amount_minor: int,
        currency: str,
        account: str = "acct_main",
        payment: str = "",
    ) -> Webhook:
        """An event about payment ``payment``, its own one unless named."""
        of = payment or number
        body = stripe_event(
            f"evt_{self._prefix}{number}",
            event_type,
            payment=f"pi_{self._prefix}{of}",
            account=account,
            amount_minor=amount_minor,
            currency=currency.lower(),
            created=self._clock.now(),
            object_id=None,
        )
        return self.signed("stripe", body)

    def adyen(self, items: Sequence[tuple[str, str, int, str]], account: str = "MainMerchant") -> Webhook:
        """One notification with an item for each ``(number, eventCode, amount in minor units, currency)``."""
        made = [
            AdyenItem(
                psp_reference=f"{self._prefix}M{number}".upper(),
                original_reference=f"{self._prefix}P{number}".upper(),
                merchant_account=account,
                merchant_reference=f"order-{self._prefix}{number}",
                event_code=code,
                amount_minor=amount_minor,
                currency=currency,
                event_date=self._clock.now(),
            )
            for number, code, amount_minor, currency in items
        ]
        return self.signed("adyen", adyen_notification(made))

    def standard(self, number: str, event_type: str, amount_minor: int, currency: str) -> Webhook:
        """A Standard Webhooks event with its id in the header."""
        body = standard_event(
            event_type,
            payment=f"pay_{self._prefix}{number}",
            account="shop",
            amount_minor=amount_minor,
            currency=currency,
            occurred_at=self._clock.now(),
        )
        return self.signed("standardwebhooks", body, event_id=f"msg_{self._prefix}{number}")

    def signed(self, provider: str, body: bytes, event_id: str | None = None) -> Webhook:
        """Any bytes, signed as the provider signs."""
        adapter = self._adapters[provider]
        secret = (self._secrets_dir / provider).read_text("utf-8").split()[0]
        request = sign(adapter, body, secret, self._clock.now(), event_id)
        return Webhook(provider, request.body, request.headers, _event_keys(adapter, request.body, request.headers))


def _event_keys(adapter: Adapter, body: bytes, headers: dict[str, str]) -> tuple[str, ...]:
    raw = [(name.lower().encode(), value.encode()) for name, value in headers.items()]
    try:
        return tuple(event.event_key for event in adapter.events(Request(body, raw), "live"))
    except Exception:
        return ()


class StripeRequests:
    """Makes requests that are all new: each has an event, a payment and an object of its own."""

    def __init__(self, secret: str, now: Callable[[], float]) -> None:
        self._key = secret.encode()
        self._now = now
        self._numbers = itertools.count()
        self._run = uuid.uuid4().hex[: len(PLACE) - 2 * 5]
        place = PLACE.decode()
        body = stripe_event(
            f"evt_{place}",
            "charge.succeeded",
            payment=f"pi_{place}",
            account="acct_load",
            amount_minor=1_250,
            currency="EUR",
            created=datetime.fromtimestamp(now(), UTC),
        )
        self._parts = body.split(PLACE)
        self._head = (
            b"POST /webhooks/stripe HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json; charset=utf-8\r\n"
            b"User-Agent: load\r\nAccept: */*\r\nContent-Length: %d\r\nStripe-Signature: " % len(body)
        )

    def make(self, count: int) -> list[bytes]:
        """``count`` requests of about 1.4 KB, of which the body is 1.1 KB; signed now."""
        signed_at = b"%d" % int(self._now())
        start = signed_at + b"."
        made = []
        for _ in range(count):
            body = self._id(next(self._numbers)).join(self._parts)
            signature = hmac.digest(self._key, start + body, "sha256").hex().encode()
            made.append(b"%bt=%b,v1=%b\r\n\r\n%b" % (self._head, signed_at, signature, body))
        return made

    def _id(self, number: int) -> bytes:
        return f"{self._run}{_SYLLABLES[number // _SYLLABLES_EACH]}{_SYLLABLES[number % _SYLLABLES_EACH]}".encode()


class MixedRequests(Sequence[bytes]):
    """``count`` requests with one event each, of three providers in turns, each made and signed when it is asked for.

    A load may so last longer than a signature counts.
    """

    def __init__(self, traffic: Traffic, count: int) -> None:
        self._traffic = traffic
        self._count = count

    def __len__(self) -> int:
        return self._count

    @overload
    def __getitem__(self, number: int) -> bytes: ...
    @overload
    def __getitem__(self, number: slice) -> list[bytes]: ...
    def __getitem__(self, number: int | slice) -> bytes | list[bytes]:
        if isinstance(number, slice):
            return [self[one] for one in range(*number.indices(self._count))]
        return _request(self._traffic.single(range(self._count)[number]))


def _request(webhook: Webhook) -> bytes:
    head = f"POST {webhook.path} HTTP/1.1\r\nHost: localhost\r\nContent-Length: {len(webhook.body)}\r\n"
    headers = "".join(f"{name}: {value}\r\n" for name, value in webhook.headers.items())
    return f"{head}{headers}\r\n".encode() + webhook.body
