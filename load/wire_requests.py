"""Whole HTTP requests with signed events: of Stripe made before they are sent, of several providers when they are."""

from __future__ import annotations

import hashlib
import hmac
import itertools
import uuid
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from typing import overload

from load.samples.stripe import stripe_event
from load.traffic import Traffic, Webhook

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


class StripeRequests:
    """Makes requests that are all new: each has an event, a payment and an object of its own.

    ``run``: six characters that all their ids begin with; by chance unless given.
    """

    def __init__(self, secret: str, now: Callable[[], float], run: str = "") -> None:
        self._key = secret.encode()
        self._now = now
        self._numbers = itertools.count()
        self._run = run or uuid.uuid4().hex[:6]
        assert len(self._run) == len(PLACE) - 2 * 5
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
